"""Who holds which positions, and what a run costs on a machine that may not be here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Union, overload

import numpy as np

from . import tables
from .arrays import Files
from .program import flags_of, run_json, to_dict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import PlanOptions, PositionsOptions, SimulateOptions, Size


class Rows(NamedTuple):
    """What one rank feeds into a model, as int64 arrays or tensors.

    `positions` [rows]: the place of each of its rows in the sequence, -1 for padding.
    `cu_seqlens` [documents + 1]: how many of its rows come before each document.
    `labels` [rows]: the position whose token each row predicts, -100 for none.
    `rope_positions` [rows]: what its rotary angles are taken of.
    `cu_seqlens_k` [its documents + 1] and `local_k_slice` [2]: of "ring-flash-attention-llama3", which
    gathers all keys: how many of those that the rank attends come before each document, and where they
    begin and end. None in the other conventions.
    """

    positions: Any
    cu_seqlens: Any
    labels: Any
    rope_positions: Any
    cu_seqlens_k: Any = None
    local_k_slice: Any = None


@overload
def positions(
    seqlen: Size,
    world_size: int,
    *,
    rank: int,
    device: Any = None,
    **options: Unpack[PositionsOptions],
) -> Rows: ...


@overload
def positions(
    seqlen: Size,
    world_size: int,
    *,
    rank: None = None,
    device: Any = None,
    **options: Unpack[PositionsOptions],
) -> List[Rows]: ...


def positions(
    seqlen: Size,
    world_size: int,
    *,
    rank: Optional[int] = None,
    device: Any = None,
    **options: Unpack[PositionsOptions],
) -> Union[Rows, List[Rows]]:
    """Return the Rows of one rank, or of all ranks in their order.

    `partition`: a name such as "zigzag" ("contiguous"), or an array [seqlen] with the rank of each
    position.
    `convention`: whose: "ringscope", "ring-flash-attention", "ring-flash-attention-llama3",
    "transformer-engine", "pytorch", "pytorch-ptrr", "megatron" or "megatron-contiguous"; documents are parts of the mask ("causal+documents:5,11").
    `device`: of PyTorch, such as "cpu"; the result is tensors there and not NumPy arrays.

    Throws RingscopeError for what the program refuses.
    """
    with Files() as files:
        flags: Dict[str, Any] = {"seqlen": seqlen, "world_size": world_size, "rank": rank}
        flags.update(options, partition=files.partition(options.get("partition")))
        ranks = run_json("positions", flags_of(flags), _rows_of_ranks)
    if device is not None:
        import torch  # type: ignore[import-not-found, unused-ignore]

        ranks = [
            Rows(*(x if x is None else torch.from_numpy(x).to(device) for x in rows))
            for rows in ranks
        ]
    return ranks if rank is None else ranks[0]


def _rows_of_ranks(answer: Any) -> List[Rows]:
    ranks = [
        Rows(**{name: np.array(one[name], dtype=np.int64) for name in Rows._fields if name in one})
        for one in answer["ranks"]
    ]
    if not ranks:
        raise ValueError("no ranks")
    return ranks


def simulate(**options: Unpack[SimulateOptions]) -> Dict[str, Any]:
    """Simulate a run event by event, and return `ringscope simulate --json` as a dict: `wall_s` and
    the other times in seconds, `efficiency`, `peak_bytes`, `ranks`; or of `sweep={"seqlen": [...]}`
    the list `sweep`.

    Options are the flags of `ringscope simulate`: `seqlen`, `world_size`, `gpu`, `link`, `mask`,
    `scheme`, `trace="sim.json"`, `straggler={3: 0.5}`, ... Throws RingscopeError for what the
    program refuses.
    """
    with Files() as files:
        words = flags_of({**options, "partition": files.partition(options.get("partition"))})
        return run_json("simulate", words, to_dict)


class Plan(Dict[str, Any]):
    """What `ringscope plan --json` says, as a dict."""

    def _repr_html_(self) -> str:
        times = ("total_s", "compute_s", "exposed_s")
        choices = ("scheme", "partition", *times, "peak_bytes", "why")
        return (
            tables.paragraph(self.get("why") or "It fits.")
            + tables.table(choices, self.get("choices", ()))
            + tables.table(("part", "bytes", "formula"), self.get("memory", ()))
        )


def plan(**options: Unpack[PlanOptions]) -> Plan:
    """Plan a run by formula, and return `ringscope plan --json` as a dict: whether it is `feasible`
    and, if not, `why`; the `chosen` scheme with times in seconds and bytes; `memory` by part; the
    other `choices`.

    Options are the flags of `ringscope plan`: `seqlen`, `world_size`, `gpu`, `link`, `model`,
    `zero`, ... Throws RingscopeError for what the program refuses. A plan that does not fit is no
    error.
    """
    with Files() as files:
        words = flags_of({**options, "partition": files.partition(options.get("partition"))})
        return run_json("plan", words, lambda answer: Plan(to_dict(answer)))
