"""Every output says where it comes from, and can be made again from that."""

import csv
import json
import subprocess

import pytest
from program import PROGRAM

PIN = "export SOURCE_DATE_EPOCH=1700000000"
PINNED_TIME = "2023-11-14T22:13:20Z"


def run_pinned(program, *command):
    ended = program.run(*command, after=PIN)
    assert ended.returncode == 0, ended
    return ended.stdout


@pytest.mark.parametrize(
    "call",
    [
        "run --random --seqlen 64 --seed 7 --json",
        "simulate --seqlen 8192 --world-size 4 --gpu H100 --link NVLink4 --json",
        "plan --seqlen 8192 --world-size 4 --gpu H100 --link NVLink4 --json",
        "positions --seqlen 16 --world-size 2 --json",
        "info --json",
    ],
)
def test_of_json_names_the_call_and_the_pinned_time(program, call):
    origin = json.loads(run_pinned(program, call))["provenance"]
    assert origin["command"] == "ringscope " + call
    assert origin["time"] == PINNED_TIME
    assert origin["seed"] == ("7" if "--seed 7" in call else "0")
    assert origin["version"] and origin["commit"] and origin["machine"]


def test_of_a_recording_and_of_what_explains_it(program):
    run_pinned(program, "run --random --seqlen 64 --seed 7 --trace t.json")
    origin = json.loads(program.path("t.json").read_text())["provenance"]
    assert (origin["seed"], origin["time"]) == ("7", PINNED_TIME)
    explained = json.loads(run_pinned(program, "explain t.json --json"))["provenance"]
    assert (explained["command"], explained["seed"]) == ("ringscope explain t.json --json", "0")


@pytest.mark.parametrize(
    "name, shown", [(b"a\xff\x01 'b'.npy", r"$'a\xff\x01 \'b\'.npy'"), ("é.npy".encode(), r"$'\xc3\xa9.npy'")]
)
def test_of_any_bytes_is_text_that_json_takes_and_a_shell_reads_back(program, name, shown):
    command = "run --random --seqlen 16 --json --out"
    ended = subprocess.run([PROGRAM, *command.split(), name], cwd=program.folder, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout)["provenance"]["command"] == f"ringscope {command} {shown}"


def test_of_a_sweep_makes_it_again_to_the_byte(program):
    """What a researcher does: one sweep and its table; then the table's own command gives it again."""
    run_pinned(
        program,
        "simulate --gpu H100 --link NVLink4 --mask causal --csv s.csv --seed 5 --nodes 2 --between 50,10",
        "--sweep seqlen=8192:32768:*2 world-size=4,8 jitter=0,0.3",
    )
    table = program.path("s.csv").read_bytes()
    row = next(csv.DictReader(table.decode().splitlines()))
    assert (row["gpu"], row["link"], row["seed"], row["time"]) == ("H100", "NVLink4", "5", PINNED_TIME)
    program.path("s.csv").unlink()
    name, words = row["command"].split(" ", 1)
    assert name == "ringscope"
    subprocess.run(["/bin/sh", "-c", f'{PIN} && "$0" {words}', PROGRAM], cwd=program.folder, check=True)
    assert program.path("s.csv").read_bytes() == table


def comment_of(picture):
    """Return the text of a PNG's chunk tEXt that has the keyword Comment, or the metadata of an SVG."""
    if picture.startswith(b"<"):
        return picture[picture.index(b"<metadata>") : picture.index(b"</metadata>")]
    at = picture.index(b"tEXtComment\0")
    length = int.from_bytes(picture[at - 4 : at], "big")
    return picture[at + 4 : at + 4 + length]


@pytest.mark.parametrize("picture", ["s.png", "s.svg"])
def test_of_pictures(program, picture):
    if "view          yes" not in program.well("info"):
        pytest.skip("no viewer in this build")
    program.well("run --random --seqlen 64 --trace t.json")
    run_pinned(program, "view t.json --screenshot", picture)
    comment = comment_of(program.path(picture).read_bytes())
    assert b"command: ringscope view t.json" in comment and PINNED_TIME.encode() in comment
