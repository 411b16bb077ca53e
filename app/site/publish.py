"""Puts a finished site where a reader wants it, and touches no file there that isn't the site's.

The site's own files stand in a list, which lies among them. The list grows before files come and shrinks after files went,
so a site that was interrupted is finished by the next one."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

LIST = "ringscope-site.txt"
PART = "ringscope-site.part"  # of a file that is being written
HEAD = "The files of this site, which the next one replaces:"


class Refused(Exception):
    """The folder can't become a site; the text says why, and what is accepted."""


def own_files(folder):
    """Return the files of the site in `folder`. Raise Refused if something else is there."""
    folder = Path(folder)
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise Refused(f"site '{folder}': not a folder; accepted: a new or empty folder, or a site")
    if not (folder / LIST).is_file():
        if all(each.name == PART for each in folder.iterdir()):
            return set()
        raise Refused(f"site '{folder}': not empty, and not a site with its list of files; accepted: a new or empty folder, or a site")
    head, *names = (folder / LIST).read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    if head != HEAD or any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
        raise Refused(f"site '{folder}': {LIST} isn't a list of this program's; accepted: a new or empty folder, or a site")
    return set(names)


def publish(made, folder):
    """Make `folder` hold the files of the folder `made`. Return their number."""
    made, folder = Path(made), Path(folder)
    old = own_files(folder)
    new = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    for name in sorted(new - old):
        if (folder / name).exists():
            raise Refused(f"site '{folder}': {name} is there and isn't the site's; accepted: a folder without it")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _replace(made, folder, old, new)
    except OSError:  # the disk is full, or a folder can't be written to
        with suppress(OSError):
            os.unlink(folder / PART)
        raise
    return len(new)


def _replace(made, folder, old, new):
    _write_list(folder, old | new)
    for name in sorted(new):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / name, folder / PART)
        os.replace(folder / PART, folder / name)
    for name in sorted(old - new):
        (folder / name).unlink(missing_ok=True)
        _remove_empty(folder, (folder / name).parent)
    _write_list(folder, new)


def _write_list(folder, names):
    (folder / PART).write_text("\n".join([HEAD, *sorted(names)]) + "\n", encoding="utf-8")
    os.replace(folder / PART, folder / LIST)


def _remove_empty(top, folder):
    while folder != top and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
