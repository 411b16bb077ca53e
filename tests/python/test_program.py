"""The program is found, its flags are made, and what it says on stderr arrives."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ringscope
from ringscope.program import flags_of


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, []),
        ({"world_size": 8}, ["--world-size", "8"]),
        ({"world_size": np.int64(8), "jitter": 0.25}, ["--world-size", "8", "--jitter", "0.25"]),
        ({"backward": True, "verify": False, "mask": None}, ["--backward"]),
        ({"seqlen": "128k"}, ["--seqlen", "128k"]),
        ({"speeds": [1, 0.5]}, ["--speeds", "1,0.5"]),
        ({"speeds": np.array([1.0, 0.5])}, ["--speeds", "1.0,0.5"]),
        ({"straggler": {3: 0.5, 1: 2}}, ["--straggler", "3:0.5,1:2"]),
        ({"attention": ["my", "own"]}, ["--attention", "my", "--attention", "own"]),
        ({"attention": "my"}, ["--attention", "my"]),
        ({"note": ["0@1ms:a, b", "1@2ms:c"]}, ["--note", "0@1ms:a, b", "--note", "1@2ms:c"]),
        (
            {"sweep": {"seqlen": [8, 16], "world_size": 2}},
            ["--sweep", "seqlen=8,16", "--sweep", "world-size=2"],
        ),
        ({"sweep": ["seqlen=8:32:*2"]}, ["--sweep", "seqlen=8:32:*2"]),
        ({"trace": Path("a") / "b.json"}, ["--trace", "a/b.json"]),
        # What begins with a dash would be taken for another flag.
        ({"trace": "-b.json", "jitter": -1}, ["--trace=-b.json", "--jitter=-1"]),
        ({"attention": ["-my", "own"]}, ["--attention=-my", "--attention", "own"]),
    ],
)
def test_flags_are_made_of_keyword_arguments(options, words):
    assert flags_of(options) == words


def script(path, body):
    """Write a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


def found(**variables):
    """Return what a Python with these variables takes for the program, or its last words."""
    code = "import ringscope, sys; sys.stdout.write(str(ringscope.program()))"
    environment = {"PATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment["PYTHONPATH"] += ":" + ":".join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    return Path(done.stdout) if done.returncode == 0 else done.stderr.splitlines()[-1]


def test_the_program_is_the_named_one_then_that_of_path_then_the_checkouts(tmp_path):
    package = Path(ringscope.__file__).parent
    shutil.copytree(package, tmp_path / "python" / "ringscope")

    package_path = {"PYTHONPATH": str(tmp_path / "python")}
    named = script(tmp_path / "named" / "mine", "")
    assert "./ringscope package" in found(**package_path)
    built = script(tmp_path / "build" / "release" / "app" / "ringscope", "")
    assert found(**package_path) == built
    on_path = script(tmp_path / "bin" / "ringscope", "")
    package_path["PATH"] = str(on_path.parent)
    assert found(**package_path) == on_path
    assert found(RINGSCOPE=str(named), **package_path) == named
    assert "RINGSCOPE: '/no/such' is no program" in found(RINGSCOPE="/no/such", **package_path)


def test_an_installed_package_finds_the_checkout_that_it_came_from(tmp_path):
    site, checkout = tmp_path / "site-packages", tmp_path / "a checkout"
    shutil.copytree(Path(ringscope.__file__).parent, site / "ringscope")
    noted = site / "ringscope-0.1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: ringscope\nVersion: 0.1.0\n")
    url = (checkout / "python").as_uri()
    (noted / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{}}}}')
    older = script(checkout / "build" / "debug" / "app" / "ringscope", "")
    newer = script(checkout / "build" / "release" / "app" / "ringscope", "")
    for path, age in ((older, 1), (newer, 2)):
        os.utime(path, (age, age))
    assert found(PYTHONPATH=str(site)) == newer


@pytest.mark.parametrize(
    "body, line, status",
    [
        ("echo 'ringscope: --seqlen: 5x given' >&2; exit 2", "--seqlen: 5x given", 2),
        ("echo 'a note\nringscope: rank 2: lost' >&2; exit 3", "rank 2: lost", 3),
        (
            "printf 'ringscope: a note\nringscope: a.pt: given\n  x\n' >&2; exit 2",
            "a.pt: given\n  x",
            2,
        ),
        ("kill -9 $$", "plan ended with status -9", -9),
        ("exit 1", "plan ended with status 1", 1),
        ("echo no", "plan printed no JSON: Expecting value: line 1 column 1 (char 0)", 3),
        ("echo '[1]'", "plan printed JSON that can't be read: TypeError: no object", 3),
    ],
)
def test_an_error_carries_line_and_status(tmp_path, monkeypatch, body, line, status):
    monkeypatch.setenv("RINGSCOPE", str(script(tmp_path / "failing", body)))
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.plan(seqlen=5)
    assert (error.value.line, error.value.status, str(error.value)) == (line, status, line)


def test_a_remark_is_a_warning(tmp_path, monkeypatch):
    body = "echo 'ringscope: this looks like bshd' >&2; echo '{}'"
    monkeypatch.setenv("RINGSCOPE", str(script(tmp_path / "remarking", body)))
    with pytest.warns(ringscope.RingscopeWarning, match="^this looks like bshd$"):
        assert ringscope.plan(seqlen=5) == {}


@pytest.mark.parametrize(
    "options, named",
    [
        ({"seqlen": "5x", "world_size": 2}, "--seqlen: '5x' given"),
        ({"seqlen": 8}, "no --world-size given"),
        ({"seqlen": 8, "world_size": 2, "sequence": 5}, "--sequence"),
    ],
)
def test_the_programs_own_words_arrive(options, named):
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.plan(gpu="H100", link="NVLink4", **options)
    assert named in str(error.value)
    assert error.value.status == 2


@pytest.mark.parametrize(
    "ask, printed, reason",
    [
        (lambda: ringscope.check(*[np.zeros((1, 1, 2, 2))] * 4), "{}", "check .* KeyError: 'ver"),
        (lambda: ringscope.check(*[np.zeros((1, 1, 2, 2))] * 4), "[5]", "check .* TypeError"),
        (
            lambda: ringscope.positions(4, 2),
            '{"ranks": [{}]}',
            "positions .* TypeError",
        ),
        (
            lambda: ringscope.positions(4, 2, rank=0),
            '{"ranks": []}',
            "positions .* ValueError: no ranks",
        ),
        (lambda: ringscope.simulate(), "null", "simulate .* TypeError"),
        (lambda: ringscope.explain("a.json"), '"x"', "explain .* TypeError"),
    ],
)
def test_json_of_another_shape_is_an_error(tmp_path, monkeypatch, ask, printed, reason):
    monkeypatch.setenv("RINGSCOPE", str(script(tmp_path / "odd", f"echo '{printed}'")))
    with pytest.raises(ringscope.RingscopeError, match=reason) as error:
        ask()
    assert error.value.status == 3


def test_a_program_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    program = script(tmp_path / "odd", "")
    program.write_bytes(b"\x7fELF but no more")
    monkeypatch.setenv("RINGSCOPE", str(program))
    with pytest.raises(ringscope.RingscopeError, match="the program can't be started: .*odd"):
        ringscope.plan(seqlen=5)


def test_a_word_with_a_null_byte_is_an_error():
    with pytest.raises(ringscope.RingscopeError, match="null byte"):
        ringscope.plan(seqlen="5\0")
