"""`run --trace DIR/` gives each rank a file that Holistic Trace Analysis reads, all of them or none."""

import json
import re

import pytest
from program import expect_ended


def test_it_has_kernels_that_hta_knows(program):
    """What Holistic Trace Analysis 0.5.0 goes by: the file's first "rank", a stream in the arguments of what ran on a device,
    and names of kernels that begin with nccl and have Kernel in them for communication; all others with a stream count as
    computation."""
    program.well("run --random --seqlen 256 --backward --mask causal --trace tr/ --out o.npy")
    for rank in range(4):
        text = program.path(f"tr/rank{rank}.json").read_text()
        assert re.search(r'"rank":\s+(\d+)', text)[1] == str(rank)
        trace = json.loads(text)
        assert trace["provenance"]["seed"] == "0"
        assert {event["pid"] for event in trace["traceEvents"]} == {rank}
        slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        kernels = [event for event in slices if "stream" in event["args"]]
        moving = [event for event in kernels if re.match("nccl.*Kernel", event["name"])]
        for event in kernels:
            assert event["cat"] == ("kernel" if event in moving else "compute")
        assert len(kernels) > len(moving) > 0
        sent = sum(event["dur"] for event in slices if event["cat"] in ("send", "recv"))
        assert sent > 0 and sum(event["dur"] for event in moving) == pytest.approx(sent, rel=1e-9, abs=1e-6)
        assert program.run(f"explain tr/rank{rank}.json").returncode == 0
    program.refused("run --random --seqlen 32 --trace tr/", "--trace", "not empty")


def test_the_viewer_draws_it(program):
    if "view          yes" not in program.well("info"):
        pytest.skip("no viewer in this build")
    program.well("run --random --seqlen 256 --trace tr/")
    program.well("view tr/rank1.json --screenshot r.png --size 640x400")
    program.well("view tr --panel timeline --screenshot all.png --size 640x400")
    rows = program.well("view tr --csv -").splitlines()[1:]
    assert {row.split(",")[2] for row in rows} == {"0", "1", "2", "3"}


@pytest.mark.parametrize("place", ["full", "file", "not/there"])
def test_a_place_that_is_taken_or_not_there_is_refused(program, place):
    program.path("full").mkdir()
    for file in ("full/mine", "file"):
        program.path(file).write_text("kept")
    program.refused(f"run --random --seqlen 32 --trace {place}/", "--trace", place, "accepted:")


def test_it_is_whole_or_not_at_all(program):
    command = "run --random --seqlen 32 --trace"
    expect_ended(program.run(command, "d/", after="ulimit -f 1"), 3, "d/rank0.json: writing failed")
    assert program.files() == set()


def test_an_empty_folder_stays_as_it_is(program):
    program.path("d").mkdir(0o700)
    program.path("link").symlink_to("d")
    for place in ("d", "link"):
        program.well(f"run --random --seqlen 32 --trace {place}/")
        assert program.path("d/rank3.json").exists() and program.path("d").stat().st_mode & 0o777 == 0o700
        for file in program.path("d").iterdir():
            file.unlink()
