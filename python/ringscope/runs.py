"""Attention on a ring of ranks, here and now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

import numpy as np

from . import tables
from .arrays import Files, stored_dtype
from .program import RingscopeError, flags_of, run_json, to_dict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import RunOptions


class Run(Dict[str, Any]):
    """What `ringscope run --json` says, as a dict, and what was computed, as arrays of f32.

    `out` and the gradients, None without a backward pass, have the inputs' axes; `lse` is
    [batch, heads, seqlen].
    """

    out: np.ndarray
    lse: np.ndarray
    dq: Optional[np.ndarray] = None
    dk: Optional[np.ndarray] = None
    dv: Optional[np.ndarray] = None
    dsink: Optional[np.ndarray] = None

    def _repr_html_(self) -> str:
        keys = ("rank", "rows", "pairs", "compute_s", "wait_s", "bytes_sent", "hops", "peak_bytes")
        return tables.table(keys, self.get("ranks", ()))


def run(
    q: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    dout: Any = None,
    sink_logits: Any = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Run attention on a ring, whose ranks are threads by default, and return its Run.

    `q`, `k`, `v`, `dout`: as check() takes them; or none of them, with `text=FILE` or `random=True`
    and sizes. `dout`, or `backward=True` with a `dout` of ones, asks for gradients. `sink_logits`:
    learned sinks, [heads], whose gradient is `dsink`.
    Further options are the flags of `ringscope run`: `world_size` (4), `mask` ("full"),
    `partition`, `scheme`, `dtype` (a tensor's own, else "f32"), `trace="run.json"`, `verify`, ...

    Throws RingscopeError for what the program refuses, or if a rank fails. Where `verify` finds
    other numbers than naive attention has, `run["verify"]["pass"]` is false.
    """
    flags: Dict[str, Any] = {"q": q, "k": k, "v": v, "dout": dout, **options}
    flags["sink_logits"] = sink_logits
    if flags.get("dtype") is None:
        flags["dtype"] = stored_dtype(q)
    if dout is not None:
        flags["backward"] = True
    outputs = ["out", "lse"] + (["dq", "dk", "dv"] if flags.get("backward") else [])
    if flags.get("backward") and sink_logits is not None:
        outputs.append("dsink")
    with Files() as files:
        for name in ("q", "k", "v", "dout", "sink_logits"):
            flags[name] = files.path(name, flags[name])
        for name in ("partition", "partition_q"):
            flags[name] = files.partition(flags.get(name), name)
        paths = {name: files.folder / f"{name}.made.npy" for name in outputs}
        words = flags_of({**flags, **paths})
        answer = run_json("run", words, lambda answer: Run(to_dict(answer)), accepted=(0, 1))
        for name, path in paths.items():
            try:
                setattr(answer, name, np.load(path))
            except (OSError, ValueError) as error:
                raise RingscopeError(f"run wrote no array {name}: {error}", 3) from None
    return answer
