"""A site replaces its own files, touches no others, and is whole after any interruption and a second try."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "app/site"))
import publish as module
from publish import HEAD, LIST, PART, Refused, publish


def files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file() and path.name != LIST}


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


OLD = {"index.html": "old", "a/b/stale.html": "old", "a/kept.html": "old"}
NEW = {"index.html": "new", "a/kept.html": "new", "c/d.js": "new"}
MINE = {".git/HEAD": "mine", "CNAME": "mine", "a/b/notes.txt": "mine", "notes/x.html": "mine"}


def test_only_the_former_sites_files_are_replaced(tmp_path):
    out = tmp_path / "out"
    assert publish(write(tmp_path / "old", OLD), out) == 3
    assert files(out) == OLD
    write(out, MINE)
    assert publish(write(tmp_path / "new", NEW), out) == 3
    assert files(out) == NEW | MINE
    (out / "a/b/notes.txt").unlink()
    publish(write(tmp_path / "next", {"index.html": "next"}), out)
    assert files(out) == {"index.html": "next", **{name: "mine" for name in (".git/HEAD", "CNAME", "notes/x.html")}}
    assert not (out / "c").exists(), "folders that the site emptied go"


def test_after_an_interruption_at_any_moment_the_next_site_is_whole(tmp_path, monkeypatch):
    old, new = write(tmp_path / "old", OLD), write(tmp_path / "new", NEW)
    interrupted = 0
    for moment in range(100):
        out = tmp_path / str(moment)
        publish(old, out)
        write(out, MINE)
        left = [moment]

        def or_stop(call):
            def stopped(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return call(*arguments, **options)

            return stopped

        with monkeypatch.context() as patch:
            patch.setattr(module.os, "replace", or_stop(os.replace))
            patch.setattr(module.shutil, "copyfile", or_stop(shutil.copyfile))
            patch.setattr(module.Path, "unlink", or_stop(Path.unlink))
            try:
                publish(new, out)
                break
            except KeyboardInterrupt:
                interrupted += 1
        # Nothing is lost that isn't the site's, also not by the one that finishes what was begun.
        assert MINE.items() <= files(out).items()
        publish(new, out)
        assert files(out) == NEW | MINE
    assert interrupted == 9  # two lists, three files in two steps each, and one that goes


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.ENOSPC])
def test_what_the_system_refuses_leaves_no_part_and_can_be_tried_again(tmp_path, monkeypatch, error):
    old, new, out = write(tmp_path / "old", OLD), write(tmp_path / "new", NEW), tmp_path / "out"
    publish(old, out)
    write(out, MINE)

    def half_a_copy(_, to):
        to.write_text("n")
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "copyfile", half_a_copy)
        with pytest.raises(OSError, match=os.strerror(error)):
            publish(new, out)
    assert files(out) == OLD | MINE
    publish(new, out)
    assert files(out) == NEW | MINE


def test_a_list_of_other_bytes_is_refused(tmp_path):
    out = write(tmp_path / "out", {"index.html": "mine"})
    (out / LIST).write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="isn't a list"):
        publish(write(tmp_path / "new", NEW), out)


@pytest.mark.parametrize("name", [LIST, PART])
def test_a_first_site_that_was_interrupted_at_once_is_taken_up(tmp_path, name):
    out = write(tmp_path / "out", {name: HEAD + "\nindex.html\n" if name == LIST else "half a f"})
    publish(write(tmp_path / "new", NEW), out)
    assert files(out) == NEW


def test_what_is_no_site_is_refused_and_left_alone(tmp_path):
    new = write(tmp_path / "new", NEW)
    for name, texts in {
        "mine": {"letter.txt": "dear"},
        "older": {LIST: "Written by ringscope 0.1.0.\n", "index.html": "older"},
        "hostile": {LIST: HEAD + "\n../mine/letter.txt\n"},
        "absolute": {LIST: HEAD + "\n/etc/hostname\n"},
        "empty": {LIST: ""},
    }.items():
        out = write(tmp_path / name, texts)
        with pytest.raises(Refused, match="accepted:"):
            publish(new, out)
        assert {each: (out / each).read_text() for each in texts} == texts
        assert len(list(out.rglob("*"))) == len(texts)
    with pytest.raises(Refused, match="not a folder"):
        publish(new, tmp_path / "mine/letter.txt")


def test_a_file_that_is_in_the_way_is_refused(tmp_path):
    out = tmp_path / "out"
    publish(write(tmp_path / "old", OLD), out)
    write(out, {"c/d.js": "mine"})
    with pytest.raises(Refused, match="c/d.js is there"):
        publish(write(tmp_path / "new", NEW), out)
    assert files(out) == OLD | {"c/d.js": "mine"}


def test_an_interrupted_build_says_nothing(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nkill -INT $PPID\n")
    program.chmod(0o755)
    build = Path(module.__file__).with_name("build.py")
    ended = subprocess.run([sys.executable, build, program, tmp_path / "out", tmp_path / "work"], capture_output=True)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")
    assert not (tmp_path / "out").exists()
