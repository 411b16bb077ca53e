"""Faults on purpose with a thread per rank, as the program offers them: how the run ends, what it says, and the recording that
it leaves."""

import json

import pytest
from program import expect_ended

COMMAND = "run --random --seqlen 64 --head-dim 4 --world-size 3 --timeout 0.5 --inject"


@pytest.mark.parametrize("fault", ["killed-rank@1:1", "wrong-count@1", "unposted-recv@1:1"])
def test_it_ends_the_run_and_leaves_its_recording(program, fault):
    ended = program.run(COMMAND, fault, "--trace t.json --out o.npy")
    assert ended.stdout == "" and program.files() == {"t.json"}
    failure = json.loads(program.path("t.json").read_text())["ring"]["failure"]
    assert failure["rank"] == 1
    expect_ended(ended, 3, "rank 1", failure["message"])


def test_a_stack_that_is_too_small_is_named(program):
    # With much less, the loader of some systems ends by SIGSEGV before the program begins.
    words = "memory: 256.0 KiB needed, 200.0 KiB of stack"
    for command in ("info", COMMAND + " jitter"):
        expect_ended(program.run(command, after="ulimit -s 200"), 3, words)
    program.well("info")


def test_without_a_room_for_its_recording_the_failure_is_still_said(program):
    ended = program.run(COMMAND, "killed-rank@1:1 --trace /dev/full")
    expect_ended(ended, 3, "no trace of it: --trace /dev/full", "rank 1, step 1")
