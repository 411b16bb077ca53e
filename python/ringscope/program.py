"""Finds the program, makes flags of keyword arguments, runs it and reads the JSON that it prints.

Nothing here knows a command: what a flag means, and what is wrong with it, is for the program to
say.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Collection, Dict, List, Mapping, Sequence, TypeVar, Union
from urllib.parse import unquote, urlsplit

import numpy as np

PathLike = Union[str, "os.PathLike[str]"]
Answer = TypeVar("Answer")

# Flags that are given once for each value. Values of all others are joined by commas.
REPEATED = ("attention", "sweep", "note")

HOW_TO_GET_IT = (
    "no program `ringscope` found; accepted: its path in the environment variable RINGSCOPE, or "
    "the program on PATH (`./ringscope package` makes a Debian package of it), a wheel that holds it "
    "(`./ringscope wheel`), or a build "
    "(`./ringscope info`) in the checkout that this package is from"
)


class RingscopeError(Exception):
    """The program refused or failed.

    `line` is what it said on stderr, without its name; `status` is its exit status: 2 for bad
    input, 3 for what failed while it ran, below 0 for a signal.
    """

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line, status)
        self.line = line
        self.status = status

    def __str__(self) -> str:
        return self.line


class RingscopeWarning(UserWarning):
    """The program did what was asked and has a remark, such as that axes look like another
    layout's.
    """


def program() -> Path:
    """Return the path of the program: what the environment variable RINGSCOPE names, else the one
    in the package if it came in a wheel, else `ringscope` on PATH, else the newest that is built in the checkout that this package lies
    in or came from.

    Throws RingscopeError with status 2 if there is none, or if RINGSCOPE names no program.
    """
    named = os.environ.get("RINGSCOPE")
    if named:
        found = shutil.which(named)
        if found is None:
            raise RingscopeError(
                f"RINGSCOPE: '{named}' is no program; accepted: the path of ringscope", 2
            )
        return Path(found)
    own = Path(__file__).resolve().parent / "bin" / "ringscope"
    if own.exists():
        return own
    found = shutil.which("ringscope")
    if found is not None:
        return Path(found)
    built = [
        path
        for checkout in _checkouts()
        for path in checkout.glob("build/*/app/ringscope")
        if os.access(path, os.X_OK)
    ]
    if not built:
        raise RingscopeError(HOW_TO_GET_IT, 2)
    return max(built, key=lambda path: path.stat().st_mtime)


def _checkouts() -> List[Path]:
    """Return the checkout that this package lies in, and the one that it was installed from."""
    folders = [Path(__file__).resolve().parents[2]]
    try:
        noted = importlib.metadata.distribution("ringscope").read_text("direct_url.json")
        url = urlsplit(json.loads(noted or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return folders
    if url.scheme == "file":
        folders.append(Path(unquote(url.path)).parent)
    return folders


def flags_of(options: Mapping[str, Any]) -> List[str]:
    """Return the command line's words for keyword arguments.

    True is the flag alone; None and False are no flag; a list is joined by commas or, for the flags
    in REPEATED, given value by value; a dict is `key:value,...`, and of `sweep` `key=value,...`, a
    word for each key.
    """
    words: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif name == "sweep" and isinstance(value, Mapping):
            for key, values in value.items():
                words += [flag, f"{key.replace('_', '-')}={_joined(values)}"]
        elif isinstance(value, Mapping):
            words += [flag, ",".join(f"{key}:{one}" for key, one in value.items())]
        else:
            is_repeated = name in REPEATED and not isinstance(value, str)
            for text in map(str, value) if is_repeated else [_joined(value)]:
                # What begins with a dash would be taken for a flag of its own.
                words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return words


def path_of(value: PathLike) -> str:
    """Return a path as a word that the program can't take for a flag."""
    path = os.fsdecode(value)
    return "./" + path if path.startswith("-") else path


def _joined(value: Any) -> str:
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return ",".join(str(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def run(command: str, words: Sequence[str], accepted: Collection[int] = (0,)) -> str:
    """Run a command and return what it prints. What it remarks becomes a RingscopeWarning a line.

    Throws RingscopeError if it ends with a status that is not accepted.
    """
    try:
        process = subprocess.Popen(
            [str(program()), command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, ValueError) as error:  # no program for this machine; a word with a null byte
        raise RingscopeError(f"the program can't be started: {error}", 2) from None
    prefix = "ringscope: "
    with process, ThreadPoolExecutor(1) as reader:
        assert process.stdout is not None and process.stderr is not None
        printed = reader.submit(process.stdout.read)
        lines: List[str] = []
        try:
            for line in process.stderr:
                # How far long work is, is said at once.
                if line.endswith(" left\n"):
                    print(line, end="", file=sys.stderr, flush=True)
                else:
                    lines.append(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode not in accepted:
        # The last message, which may go on over further lines.
        said = ("\n" + "".join(lines)).rpartition("\n" + prefix)[2].strip()
        raise RingscopeError(
            said or f"{command} ended with status {process.returncode}", process.returncode
        )
    for line in "".join(lines).splitlines():
        warnings.warn(line[len(prefix) :] if line.startswith(prefix) else line, RingscopeWarning, 3)
    return printed.result()


def run_json(
    command: str,
    words: Sequence[str],
    read: Callable[[Any], Answer],
    accepted: Collection[int] = (0,),
) -> Answer:
    """Run a command with --json and return what `read` makes of the objects that it prints.

    Throws as run() does, and RingscopeError if `read` finds other objects than it knows.
    """
    printed = run(command, [*words, "--json"], accepted)
    try:
        answer = json.loads(printed)
    except ValueError as error:
        raise RingscopeError(f"{command} printed no JSON: {error}", 3) from None
    try:
        return read(answer)
    except Exception as error:  # the program is of another version, or another program
        kind = type(error).__name__
        raise RingscopeError(
            f"{command} printed JSON that can't be read: {kind}: {error}", 3
        ) from None


def to_dict(answer: Any) -> Dict[str, Any]:
    """Return an answer that has to be an object."""
    if not isinstance(answer, dict):
        raise TypeError("no object")
    return answer
