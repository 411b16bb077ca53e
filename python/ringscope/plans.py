"""Who holds which positions, and what a run costs on a machine that may not be here."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Union

import numpy as np

from .arrays import Files
from .program import flags_of, run_json, to_dict


class Rows(NamedTuple):
    """What one rank feeds into a model, as int64 arrays or tensors.

    `positions` [rows]: the place of each of its rows in the sequence, -1 for padding.
    `cu_seqlens` [documents + 1]: how many of its rows come before each document.
    `labels` [rows]: the position whose token each row predicts, -100 for none.
    `rope_positions` [rows]: what its rotary angles are taken of.
    """

    positions: Any
    cu_seqlens: Any
    labels: Any
    rope_positions: Any


def positions(
    seqlen: Union[int, str],
    world_size: int,
    *,
    rank: Optional[int] = None,
    partition: Any = None,
    mask: Optional[str] = None,
    convention: Optional[str] = None,
    device: Any = None,
) -> Union[Rows, List[Rows]]:
    """Return the Rows of one rank, or of all ranks in their order.

    `partition`: a name such as "zigzag" ("contiguous"), or an array [seqlen] with the rank of each
    position.
    `convention`: whose: "ringscope", "ring-flash-attention", "ring-flash-attention-llama3",
    "transformer-engine" or "pytorch"; documents are parts of the mask ("causal+documents:5,11").
    `device`: of PyTorch, such as "cpu"; the result is tensors there and not NumPy arrays.

    Throws RingscopeError for what the program refuses.
    """
    with Files() as files:
        options = {
            "seqlen": seqlen,
            "world_size": world_size,
            "rank": rank,
            "partition": files.partition(partition),
            "mask": mask,
            "convention": convention,
        }
        ranks = run_json("positions", flags_of(options), _rows_of_ranks)
    if device is not None:
        import torch

        ranks = [Rows(*(torch.from_numpy(x).to(device) for x in rows)) for rows in ranks]
    return ranks if rank is None else ranks[0]


def _rows_of_ranks(answer: Any) -> List[Rows]:
    ranks = [
        Rows(*(np.array(one[name], dtype=np.int64) for name in Rows._fields))
        for one in answer["ranks"]
    ]
    if not ranks:
        raise ValueError("no ranks")
    return ranks


def simulate(*, partition: Any = None, **options: Any) -> Dict[str, Any]:
    """Simulate a run event by event, and return `ringscope simulate --json` as a dict: `wall_s` and
    the other times in seconds, `efficiency`, `peak_bytes`, `ranks`; or of `sweep={"seqlen": [...]}`
    the list `sweep`.

    Options are the flags of `ringscope simulate`: `seqlen`, `world_size`, `gpu`, `link`, `mask`,
    `scheme`, `trace="sim.json"`, `straggler={3: 0.5}`, ... Throws RingscopeError for what the
    program refuses.
    """
    with Files() as files:
        words = flags_of({"partition": files.partition(partition), **options})
        return run_json("simulate", words, to_dict)


def plan(*, partition: Any = None, **options: Any) -> Dict[str, Any]:
    """Plan a run by formula, and return `ringscope plan --json` as a dict: whether it is `feasible`
    and, if not, `why`; the `chosen` scheme with times in seconds and bytes; `memory` by part; the
    other `choices`.

    Options are the flags of `ringscope plan`: `seqlen`, `world_size`, `gpu`, `link`, `model`,
    `zero`, ... Throws RingscopeError for what the program refuses. A plan that does not fit is no
    error.
    """
    with Files() as files:
        words = flags_of({"partition": files.partition(partition), **options})
        return run_json("plan", words, to_dict)
