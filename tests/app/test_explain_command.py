"""`ringscope explain`: simulated and real runs with faults on purpose, as text and JSON."""

import json
import os
import pickle

import pytest
from pytest import approx

# Other programs may cost a run more than its fault does. Beside forty of them on two cores most runs are such, but not all.
MORE_RUNS = 60


def test_cause_rank_and_time_are_named(program):
    simulated = """simulate --gpu H100 --link NVLink4 --world-size 8 --seqlen 131072 --mask causal --partition zigzag
        --straggler 5:0.5 --trace trace.json"""
    summary = program.well(simulated)
    assert all(part in summary for part in ("largest loss", "Rank 5 is slow, which costs", "(50 % of the wall time)"))
    said = program.json("explain trace.json")
    (found,) = said["findings"]
    assert (found["cause"], found["rank"]) == ("slow-rank", 5)
    assert found["share"] == approx(0.5, abs=0.01)
    assert found["ms"] == approx(0.5 * said["wall_ms"], abs=0.5)
    assert found["confidence"] > 0.5 and "link" not in found
    text = program.well("explain trace.json")
    assert "1. Rank 5 is slow, which costs" in text and "2.00 times as long as most" in text
    # Cut off among the slices of the last rank.
    os.truncate(program.path("trace.json"), program.path("trace.json").stat().st_size // 5 * 4)
    text = program.well("explain trace.json")
    assert "is cut off" in text and "so long: slices lack." in text


# One gap between computations may hold the losses before several messages, as where all hops of an all-gather start at once;
# schemes with several hops a step are replayed by their own loops, and Ulysses message by message. No cause costs more than
# the run took.
@pytest.mark.parametrize(
    "scheme, inject, cause, rank, status, least_share",
    [
        ("ring", "straggler@1", "slow-rank", 1, 0, 0),
        ("ring", "slow-rank@2", "slow-rank", 2, 0, 0),
        ("ring", "jitter", "jitter", None, 0, 0),
        ("ring", "unposted-recv@1:1", "fault", 1, 3, 0),
        ("allgather", "slow-rank@2", "slow-rank", 2, 0, 0.7),
        ("ulysses", "slow-rank@2", "slow-rank", 2, 0, 0.7),
        ("bidirectional", "slow-rank@2", "slow-rank", 2, 0, 0.7),
        ("pass-q", "straggler@2", "slow-rank", 2, 0, 0),
        ("allgather:2", "jitter", "jitter", None, 0, 0),
        ("mesh:2x2", "straggler@2", "slow-rank", 2, 0, 0),
        ("mesh:2x2", "jitter", "jitter", None, 0, 0),
    ],
)
def test_the_fault_of_a_real_run_is_found_first(program, scheme, inject, cause, rank, status, least_share):
    run = "run --random --world-size 4 --seqlen 256 --heads 4 --head-dim 16 --timeout 1 --trace trace.json"
    for _ in range(1 + MORE_RUNS):
        ended = program.run(run, "--scheme", scheme, "--inject", inject)
        assert ended.returncode == status and (status != 0 or "largest loss" in ended.stdout), ended
        first, *_ = program.json("explain trace.json")["findings"] or [{"cause": "nothing", "share": 0}]
        assert first["share"] <= 1
        if first["cause"] == cause and rank in (None, first.get("rank")) and first["share"] >= least_share:
            return
    pytest.fail(f"found last: {first}")


# A ring that waits for each hop before it attends is told so, and one that does not is not.
@pytest.mark.parametrize("inject", ["--inject no-overlap", ""])
@pytest.mark.parametrize("size", ["--seqlen 256 --backward", "--seqlen 1024"])
def test_hops_that_do_not_overlap_are_named(program, size, inject):
    program.well("run --random --world-size 4 --heads 4 --head-dim 16 --trace trace.json", size, inject)
    causes = [found["cause"] for found in program.json("explain trace.json")["findings"]]
    assert causes.count("no-overlap") == (inject != "")


def test_the_rank_that_a_job_hangs_for_is_named(program):
    def dump(*entries):
        group = {"ranks": "[0, 1, 2]"}
        status = {"5": {"last_completed_collective": 6}}
        return pickle.dumps({"pg_config": {"0": group}, "pg_status": status, "entries": list(entries)}, protocol=2)

    waits = {"process_group": ("0", "GROUP"), "pg_id": 5, "collective_seq_id": 7, "is_p2p": False}
    waits.update(profiling_name="nccl:all_reduce", state="scheduled")
    program.path("dumps").mkdir()
    for rank, entries in enumerate(([waits], [], [waits])):
        program.path(f"dumps/_dump_{rank}").write_bytes(dump(*entries))
    program.path("dumps/fault.log").write_text("rank 1")
    for files in ("dumps", "dumps/_dump_0 dumps/_dump_1 dumps/_dump_2"):
        said = program.json("explain", files)
        (found,) = said["findings"]
        assert (found["cause"], found["rank"]) == ("fault", 1) and said["notes"]
        assert "1. Rank 1 failed. It has nothing pending" in program.well("explain", files)
    program.refused("explain dumps/_dump_0 dumps/_dump_0", "second dump")


# A folder with a file per rank is one run, whichever of its files is named.
def test_one_ranks_file_stands_for_its_run(program):
    for _ in range(1 + MORE_RUNS):
        program.well("run --random --world-size 4 --seqlen 256 --heads 1 --head-dim 16 --inject straggler@1 --trace ranks/")
        whole = program.json("explain ranks")
        if whole["findings"] and whole["findings"][0].get("rank") == 1:
            break
    assert (whole["findings"][0]["cause"], whole["findings"][0]["rank"]) == ("slow-rank", 1)
    for files in ("ranks/rank0.json", "ranks/rank2.json ranks/rank3.json"):
        said = program.json("explain", files)
        assert said["wall_ms"] == whole["wall_ms"]
        assert said["findings"][0]["ms"] == whole["findings"][0]["ms"]
    program.path("alone").mkdir()
    program.path("ranks/rank2.json").rename(program.path("alone/rank2.json"))
    program.refused("explain alone/rank2.json", "rank 2 of 4 alone", "folder")


# Profiles of something else have status 1, and say which names count.
@pytest.mark.parametrize(
    "flag, why",
    [("", "no attention was found by name (flash_fwd,"), ("--attention softmax_qk", "no sends and receives")],
)
def test_profiles_without_a_ring(program, flag, why):
    kernel = {"ph": "X", "cat": "kernel", "name": "my_softmax_qk", "ts": 1.0, "dur": 2.0, "args": {"correlation": 1}}
    for rank in (0, 1):
        head = {"backend": "nccl", "rank": rank, "world_size": 2}
        text = json.dumps({"distributedInfo": head, "traceEvents": [kernel]})
        program.path(f"rank{rank}.pt.trace.json").write_text(text)
    ended = program.run("explain --json rank0.pt.trace.json rank1.pt.trace.json", flag)
    assert ended.returncode == 1 and json.loads(ended.stdout)["ring"] is False, ended
    assert why in ended.stdout
