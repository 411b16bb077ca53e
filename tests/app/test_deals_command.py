"""Partitions of files, of documents and of a search, masks in pieces, and `ringscope positions`, as the program takes them."""

import numpy as np
import pytest

MACHINE = "--gpu H100 --link NVLink4 "


@pytest.fixture
def dealt(program):
    """A partition of 200 positions, of which rank 3 gets none, and a mask in pieces."""
    positions = np.arange(200)
    np.save(program.path("ranks"), positions * positions % 7 % 3)
    slices = "0 100 0 100 causal\n100 200 0 30 full # a sink\n150 200 100 200 inverse\n"
    program.path("slices.txt").write_text(slices)
    return program


@pytest.mark.parametrize("mask", ["causal+window:20+sink:3", "ranges:slices.txt", "window:9+sink:80+documents:70,130"])
@pytest.mark.parametrize("partition", ["zigzag", "file:ranks.npy", "searched"])
def test_any_partition_runs_under_any_mask(dealt, mask, partition):
    problem = f"--seqlen 200 --heads 2 --head-dim 8 --backward --mask {mask} --partition {partition}"
    said = dealt.json("run --random --verify", problem)
    assert said["verify"]["pass"] and (said["partition"], said["mask"]) == (partition, mask)


def test_what_is_written_is_read_back(dealt):
    job = "--seqlen 200 --mask causal --world-size 4 "
    dealt.well("run --random", job, "--partition file:ranks.npy --write-partition again.npy")
    assert np.array_equal(np.load(dealt.path("again.npy")), np.load(dealt.path("ranks.npy")))
    simulate = "simulate --tile 8x8 " + job + MACHINE
    dealt.well(simulate, "--partition searched --write-partition s.npy")
    walls = [dealt.json(simulate, "--partition", partition)["wall_s"] for partition in ("searched", "file:s.npy")]
    assert walls[0] == walls[1]
    assert dealt.json("run --random --verify --partition file:s.npy", job)["verify"]["pass"]


def test_ranks_of_unequal_speed_get_unequal_deals(program):
    job = MACHINE + "--seqlen 4096 --world-size 3 --mask causal --dtype bf16"
    speeds = "--speeds 1,1,0.5"

    def at(partition, more=""):
        return program.json("simulate --tile 32x32", job, "--partition", partition, more)

    unequal = at("searched", speeds)
    others = [at("zigzag", speeds), at("searched", "--straggler 2:0.5")]
    assert at("searched")["wall_s"] < unequal["wall_s"] < min(other["wall_s"] for other in others)
    assert unequal["machine"]["speeds"][2] == 0.5 and unequal["searched"] == "greedy"
    ends = np.array([rank["compute_s"] for rank in unequal["ranks"]])
    np.testing.assert_allclose(ends / ends[0], 1, atol=0.1)

    plan = program.json("plan --partition searched", job, speeds)
    assert plan["chosen"]["partition"] == "searched"
    rings = [choice for choice in plan["choices"] if choice["scheme"] == "ring" and choice["partition"] != "searched"]
    assert all(plan["chosen"]["total_s"] < ring["total_s"] for ring in rings)
    run = program.json("run --random --verify --seqlen 600 --world-size 3 --partition searched --mask causal", speeds)
    assert run["verify"]["pass"] and run["speeds"][2] == 0.5
    assert run["ranks"][2]["pairs"] < 0.75 * run["ranks"][0]["pairs"]


def test_the_positions_of_a_rank_are_written(program):
    program.well(
        "positions --seqlen 11 --world-size 2 --mask documents:3,8 --rank 1 --out p.npy --convention transformer-engine"
    )
    assert np.load(program.path("p.npy")).tolist() == [1, 2, 5, 6, 7, 8]
