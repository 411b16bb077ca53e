"""Whether the outputs of an attention are right, and which mistake was made if not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import tables
from .arrays import Files, stored_dtype, to_numpy
from .program import PathLike, RingscopeError, flags_of, run_json, to_dict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import CheckOptions, ShardsOptions


TELL_EVERY_S = 10.0

TENSORS = ("out", "lse", "dq", "dk", "dv", "q", "k", "v", "dout")


class Verdict(Dict[str, Any]):
    """What `ringscope check --json` says, as a dict, with its main points as properties.

    It is true if the outputs are right. Its text is one line, so `assert verdict, verdict` says all.
    """

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Whether the outputs are right: exact, or but for the rounding of 16 bits."""
        return bool(self["verdict"] != "wrong")

    @property
    def mistake(self) -> Optional[str]:
        """The name of the most likely mistake, or None if the outputs are right or none explains
        them.
        """
        return self["suspects"][0]["mistake"] if self["suspects"] else None

    @property
    def sure(self) -> bool:
        """Whether that mistake leaves nothing but rounding unexplained."""
        return bool(self["suspects"] and self["suspects"][0]["sure"])

    def complaints(self) -> List[str]:
        """Return a line for each tensor that is wrong: where, and by how much."""
        lines = []
        for name, one in self["tensors"].items():
            if one["pass"]:
                continue
            said = {key: tables.text(value) for key, value in one.items()}
            lines.append(
                f"{name}: first wrong row {said['first_wrong_row']}; "
                f"largest error {said['max_abs']}, accepted {said['tolerance']}; "
                f"rms error {said['rms']}, accepted {said['rms_tolerance']}"
            )
            if one["non_finite"]:
                lines[-1] += f"; {one['non_finite']} non-finite values differ"
        return lines

    def __str__(self) -> str:
        text = str(self["verdict"])
        if self["sampled"]:
            text += f" in a sample of {self['rows']} of {self['shape']['seqlen']} rows"
        if self.ok:
            return text
        wrong = [
            f"{one['wrong_rows']} rows of {name} "
            f"({one['first_wrong_row']} to {one['last_wrong_row']})"
            for name, one in self["tensors"].items()
            if one["wrong_rows"]
        ]
        if wrong:
            text += ": " + ", ".join(wrong)
        if self.mistake is None:
            return text + "; no known mistake explains it"
        first = self["suspects"][0]
        if not self.sure:
            return f"{text}; a guess, not sure: {self.mistake}: {first['how']}"
        rank = "" if first["rank"] is None else f" on rank {first['rank']}"
        return f"{text}; {self.mistake}{rank}, {100 * first['confidence']:.0f} % sure: {first['how']}"

    def __repr__(self) -> str:
        return f"<Verdict: {self}>"

    def _repr_html_(self) -> str:
        keys = ("max_abs", "tolerance", "rms", "rms_tolerance", "wrong_rows", "first_wrong_row")
        tensors = [{"tensor": name, **one} for name, one in self["tensors"].items()]
        of_mistakes = ("mistake", "rank", "confidence", "how", "verify")
        return (
            tables.paragraph(self)
            + tables.table(("tensor", *keys), tensors)
            + tables.table(of_mistakes, self["suspects"])
        )


def check(
    out: Any,
    q: Any,
    k: Any,
    v: Any,
    **options: Unpack[CheckOptions],
) -> Verdict:
    """Compare outputs with naive attention in f64, and name the mistake if they are wrong.

    `out`, `q`, `dq`, `dout`: [batch, heads, seqlen, head_dim]; `k`, `v`, `dk`, `dv`: the same with
    the heads of the keys; `lse`: [batch, heads, seqlen], natural logarithm. All in the order of the
    sequence, as NumPy arrays, tensors of PyTorch on any device, or paths of files
    (`"out.rank{r}.npy"` is a file per rank, with that rank's rows). f32, f64, f16 or bf16. `out`
    may be None beside a gradient or `lse`.
    `layout`: "bhsd" as above, "bshd", "sbhd", or "thd" without a batch.
    `mask`: "full", "causal", "causal+window:4096", "causal+documents:5,11", ...; `cu_seqlens`
    [documents + 1]: the ends of documents, from 0 on, as a part of it.
    `partition`, `world_size`: who held what (contiguous, 4 ranks), by which ranks are named; an
    array [seqlen] with the rank of each position is taken too.
    `dtype`: "f32", "bf16" or "f16", by whose rounding the outputs are judged. By default it is a
    tensor's own; values of a file, or of f32 in NumPy, are looked at.
    Further options are the flags of `ringscope check`: `scale`, `rows=1000`, ...

    Throws RingscopeError for what the program refuses. A wrong output is no error: its Verdict is false.
    """
    flags: Dict[str, Any] = {"out": out, "q": q, "k": k, "v": v, **options}
    _tell_dtype(flags)
    with Files() as files:
        for name in TENSORS:
            flags[name] = files.path(name, flags.get(name))
        for name in ("sink_logits", "dsink"):
            flags[name] = files.path(name, flags.get(name))
        flags["cu_seqlens"] = files.integers("cu_seqlens", flags.get("cu_seqlens"))
        for name in ("partition", "partition_q"):
            flags[name] = files.partition(flags.get(name), name)
        return run_json("check", flags_of(flags), _verdict, accepted=(0, 1))


def _tell_dtype(flags: Dict[str, Any]) -> None:
    if flags.get("dtype") is None and flags.get("reference") is None:
        flags["dtype"] = stored_dtype(*(flags.get(name) for name in ("out", "dq", "dk", "dv")))


def _verdict(answer: Any) -> Verdict:
    verdict = Verdict(to_dict(answer))
    str(verdict), verdict.complaints()  # throw if a part is missing
    return verdict


def check_sharded(
    out: Any,
    q: Any,
    k: Any,
    v: Any,
    *,
    lse: Any = None,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    dout: Any = None,
    group: Any = None,
    folder: Optional[PathLike] = None,
    **options: Unpack[ShardsOptions],
) -> Verdict:
    """Check what the ranks of a process group hold, each its own rows. All ranks call it, and all
    get the Verdict of the whole sequence.

    Shapes, and further options, are those of check(), with the rank's own rows for seqlen, in the
    order of its memory; `partition` says which positions they are. `world_size` is the group's.
    `folder`: a folder that all ranks see. They write their rows there, as `out.rank{r}.npy`, which
    stay for `ringscope check --out folder/out.rank{r}.npy`. Without it, rank 0 gathers them.

    Throws RingscopeError, on all ranks, for what the program refuses, and without a process group.
    """
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    if not dist.is_available() or not dist.is_initialized():
        raise RingscopeError(
            "check_sharded: no process group; accepted: init_process_group() before it", 2
        )
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    first = 0 if group is None else dist.get_global_rank(group, 0)
    given = dict(zip(TENSORS, (out, lse, dq, dk, dv, q, k, v, dout)))
    tensors = {name: value for name, value in given.items() if value is not None}
    flags: Dict[str, Any] = {**given, **options}
    _tell_dtype(flags)
    flags = {name: value for name, value in flags.items() if name not in TENSORS}

    def share() -> Dict[str, np.ndarray]:
        arrays = {name: to_numpy(name, value) for name, value in tensors.items()}
        if folder is None:
            return arrays
        _write(Path(folder), rank, arrays)
        return {}

    # A rank that fails says so instead of leaving the others waiting.
    shares: Optional[List[Any]] = [None] * world_size if rank == 0 else None
    dist.gather_object(_result_of(share), shares, dst=first, group=group)
    # While rank 0 checks, the others hear from it every few seconds, so no collective times out.
    answer: List[Any] = [None]
    with ThreadPoolExecutor(1) as helper:
        checking = None
        if shares is not None:
            checking = helper.submit(
                _result_of, lambda: _check_shares(shares, list(tensors), folder, flags)
            )
        while answer[0] is None:
            if checking is not None and wait([checking], timeout=TELL_EVERY_S).done:
                answer[0] = checking.result()
            dist.broadcast_object_list(answer, src=first, group=group)
    verdict, error = answer[0]
    if error is not None:
        raise RingscopeError(*error)
    assert isinstance(verdict, Verdict)
    return verdict


def _result_of(function: Callable[[], Any]) -> Tuple[Any, Optional[Tuple[str, int]]]:
    """Return what a function returns, or the line and status of its error, so that either can be
    sent.
    """
    try:
        return function(), None
    except RingscopeError as error:
        return None, (error.line, error.status)
    except Exception as error:
        return None, (f"check_sharded: {type(error).__name__}: {error}", 3)


def _write(folder: Path, rank: int, arrays: Dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.rank{rank}.npy", array)


def _check_shares(
    shares: List[Any], names: List[str], folder: Optional[PathLike], options: Dict[str, Any]
) -> Verdict:
    for rank, (_, error) in enumerate(shares):
        if error is not None:
            raise RingscopeError(f"rank {rank}: {error[0]}", error[1])
    with Files() as files:
        place = files.folder if folder is None else Path(folder)
        for rank, (arrays, _) in enumerate(shares):
            _write(place, rank, arrays)
        given: Dict[str, Any] = dict.fromkeys(("out", "q", "k", "v"))
        given.update((name, place / f"{name}.rank{{r}}.npy") for name in names)
        return check(**given, **options, world_size=len(shares))
