"""`generate` with a process per rank: it says what threads say, and what is wrong once."""

import json

import pytest
from program import PROGRAM, expect_said_once, lines_of_ours, words_of


@pytest.fixture
def mpi(program):
    """A program with a checkpoint that has learned next to nothing."""
    if why := program.why_no_mpi():
        pytest.skip(why)
    program.path("t.txt").write_text(20 * "round and round the ring they go\n")
    program.well("train --text t.txt --layers 1 --width 16 --heads 2 --head-dim 8 --seqlen 30 --steps 1 --checkpoint c")
    return program


def generate(mpi, common, of_0="", of_others=""):
    """Run rank 0 and the others, in another folder where its files are not, with arguments of their own beside common ones."""
    program = [PROGRAM, "generate", "--backend", "mpi", *words_of(common)]
    return mpi.mpirun_apart(3, program + words_of(of_0), program + words_of(of_others))


@pytest.mark.parametrize("partition", ["contiguous", "striped", "zigzag", "fold"])
def test_processes_say_what_threads_say(mpi, partition):
    mpi.path("p").write_text("the ring turns")
    common = f"--checkpoint c --prompt-file p --bytes 30 --partition {partition} "
    ended = generate(mpi, common)
    assert ended.returncode == 0 and lines_of_ours(ended) == [], ended
    on_threads = "generate --world-size 3 " + common
    assert ended.stdout == mpi.well(on_threads)
    there, here = json.loads(generate(mpi, common + "--json").stdout), mpi.json(on_threads)
    assert there["ranks"] == here["ranks"]
    for part in ("prefill", "decode"):
        for sent in ("messages_sent", "bytes_sent"):
            assert there[part][sent] == here[part][sent]


def test_what_is_wrong_is_said_once(mpi):
    expect_said_once(generate(mpi, "--checkpoint none"), 2, "--checkpoint none: No such file")
    expect_said_once(generate(mpi, "--checkpoint c", "", "--bytes 0"), 2, "--bytes: '0' given")
    differ = generate(mpi, "--checkpoint c", "--seed 0", "--seed 3")
    expect_said_once(differ, 3, " has --seed 3, rank 0 has --seed 0")
