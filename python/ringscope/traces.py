"""Recordings: made with PyTorch's profiler, explained, shown."""

from __future__ import annotations

import base64
import html
import os
import re
import warnings
import webbrowser
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Union, overload

from . import tables
from .program import (
    PathLike,
    RingscopeError,
    RingscopeWarning,
    flags_of,
    path_of,
    run,
    run_json,
    to_dict,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ExplainOptions, ShowOptions

# How attention() names what it wraps. Explaining and viewing know both by their ends, as of Triton.
FORWARD, BACKWARD = "ringscope_attn_fwd", "ringscope_attn_bwd"
SUFFIX = ".pt.trace.json"

IMAGES = {".png": "image/png", ".svg": "image/svg+xml", ".pdf": "application/pdf"}
NO_VIEWER = "the viewer for browsers is not built"  # how the program says it


@contextmanager
def record(folder: PathLike = "profile", **options: Any) -> Iterator[Any]:
    """Profile what runs inside with torch.profiler, and write `folder/rank{r}.pt.trace.json`, a
    file per rank.

    Shapes are on, so that explain() knows lengths and bytes; GPUs are recorded where there are any.
    Record two layers or more: ranks begin the first when their profilers do. Attention of PyTorch,
    FlashAttention, cuDNN and Triton is known by its name; wrap your own in attention(). Use it
    after init_process_group().

    The value is the torch.profiler.profile; options go to it. Throws OSError if the file can't be
    written.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    rank, world_size = 0, 1
    if dist.is_available() and dist.is_initialized():
        rank, world_size = dist.get_rank(), dist.get_world_size()
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if rank == 0:
        _remove_others(place, world_size)
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU] + ([kinds.CUDA] if torch.cuda.is_available() else [])
    with torch.profiler.profile(
        **{"activities": activities, "record_shapes": True, **options}
    ) as profile:
        yield profile
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    profile.export_chrome_trace(str(place / f"rank{rank}{SUFFIX}"))


def _remove_others(folder: Path, world_size: int) -> None:
    """Remove what ranks of a larger group left, which is not of this job."""
    for file in folder.glob(f"rank*{SUFFIX}"):
        number = re.fullmatch(r"rank(\d+)", file.name[: -len(SUFFIX)])
        if number and int(number[1]) >= world_size:
            file.unlink()


def attention(backward: bool = False) -> Any:
    """Return a context, or decorator, that names the attention of one block in a recording. It is
    for code of your own, whose kernels have no known name.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    return torch.profiler.record_function(BACKWARD if backward else FORWARD)


class Explanation(Dict[str, Any]):
    """What `ringscope explain --json` says of a recording, as a dict."""

    def _repr_html_(self) -> str:
        findings = self.get("findings", ())
        keys = ("cause", "rank", "link", "ms", "share", "evidence")
        found = "" if findings else "; nothing costs 1 % of it"
        return (
            (tables.paragraph(f"{self['wall_ms']:.3g} ms{found}") if "wall_ms" in self else "")
            + tables.table(keys, findings)
            + "".join(map(tables.paragraph, self.get("notes", ())))
        )


@overload
def explain(trace: PathLike, **options: Unpack[ExplainOptions]) -> Explanation: ...


@overload
def explain(
    trace: Sequence[PathLike], **options: Unpack[ExplainOptions]
) -> Union[Explanation, List[Explanation]]: ...


def explain(
    trace: Union[PathLike, Sequence[PathLike]], **options: Unpack[ExplainOptions]
) -> Union[Explanation, List[Explanation]]:
    """Return why a recorded run took as long as it did: `findings`, the most important first, each
    with `cause`, `rank` or `link`, `ms`, `share` of the time, `confidence` and `evidence`;
    `wall_ms`; `notes`.

    `trace`: a recording, a folder, or a list; a list gives a list unless it is one job. If no ring
    is seen in profiles, the dict has `"ring": False`. Options are the flags of `ringscope explain`;
    `attention=[...]` are parts of the names of further kernels. Throws RingscopeError for files
    that can't be read.
    """
    words = [*_paths(trace), *flags_of(options)]
    return run_json("explain", words, _explanations, accepted=(0, 1))


def _explanations(answer: Any) -> Union[Explanation, List[Explanation]]:
    if isinstance(answer, list):
        return [Explanation(to_dict(one)) for one in answer]
    return Explanation(to_dict(answer))


def show(
    trace: Union[PathLike, Sequence[PathLike]],
    path: Optional[PathLike] = None,
    browser: bool = False,
    **options: Unpack[ShowOptions],
) -> Page:
    """Write a page that holds recordings and the viewer, and return its path, which a notebook
    shows as the page itself.

    `path`: of the page (`TRACE.html`); one that ends in .png, .svg or .pdf asks for a picture
    instead. A program that was built without the viewer for browsers writes a picture, too,
    `TRACE.png`, and a RingscopeWarning says so. `browser` opens either. Options are the flags of
    `ringscope view`: `step=2`, `select="rank:3,wait"`, ... Throws RingscopeError if a recording
    can't be read.
    """
    paths = _paths(trace)
    page = Page(path if path is not None else "".join(paths[:1]).rstrip("/") + ".html")
    flags = flags_of(options)
    if page.suffix in IMAGES:
        run("view", [*paths, *flags_of({"screenshot": page}), *flags])
    else:
        try:
            run("view", [*paths, *flags_of({"html": page}), *flags])
        except RingscopeError as error:
            if NO_VIEWER not in error.line:
                raise
            page = Page(page.with_suffix(".png"))
            run("view", [*paths, *flags_of({"screenshot": page}), *flags])
            warnings.warn(f"{NO_VIEWER}; {page} is a picture", RingscopeWarning, 2)
    if browser:
        webbrowser.open(page.resolve().as_uri())
    return page


class Page(PosixPath):
    """The path of a page or picture, which notebooks show."""

    def _repr_html_(self) -> Optional[str]:
        if not self.is_file():
            return None
        if self.suffix in IMAGES:
            data = base64.b64encode(self.read_bytes()).decode()
            tag = "embed" if self.suffix == ".pdf" else "img"
            return f'<{tag} src="data:{IMAGES[self.suffix]};base64,{data}">'
        source = html.escape(self.read_text(encoding="utf-8"))
        frame = f'<iframe srcdoc="{source}" width="100%" height="720" frameborder="0"></iframe>'
        return f"<div>{frame}</div>"


def _paths(trace: Union[PathLike, Sequence[PathLike]]) -> List[str]:
    if isinstance(trace, (str, os.PathLike)):
        return [path_of(trace)]
    return [path_of(one) for one in trace]
