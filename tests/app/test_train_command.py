"""`train` as people call it, with a thread or a process per rank: what it writes, how it goes on, what it refuses."""

import csv
import json
import math
from collections import Counter
from pathlib import Path

import pytest
from program import PROGRAM, expect_ended, expect_said_once, lines_of_ours, words_of
from pytest import approx

TEXT = "".join(f"round and round the ring they go, {i % 10}\n" for i in range(40))
# A model that takes a moment.
TINY = """train --text t.txt --layers 1 --width 16 --heads 2 --heads-kv 1 --head-dim 8 --hidden 24 --batch 2 --seqlen 30
    --lr 0.01 """
TINY_OF_TWO_KV_HEADS = TINY.replace("--heads-kv 1", "--heads-kv 2")
HEAD = "step,loss,version,commit,command,seed,machine,time"


@pytest.fixture
def trained(program):
    program.path("t.txt").write_text(TEXT)
    return program


@pytest.fixture
def mpi(trained):
    if why := trained.why_no_mpi():
        pytest.skip(why)
    return trained


def rows(program, name):
    """Return the rows of a table of losses: step, loss, and what it says of its run."""
    head, *lines = csv.reader(program.path(name).open())
    assert ",".join(head) == HEAD
    return [(int(step), float(loss), origin) for step, loss, *origin in lines]


def losses(program, name):
    found = rows(program, name)
    assert [step for step, _, _ in found] == list(range(1, len(found) + 1))
    return [loss for _, loss, _ in found]


def curve(program, name):
    return [(step, loss) for step, loss, _ in rows(program, name)]


def saved(program, name):
    return program.path(name).read_bytes()


def test_the_loss_of_every_step_is_written_and_what_it_cost_is_said(trained):
    said = trained.json(TINY, "--steps 12 --loss-csv l.csv --world-size 3")
    found = losses(trained, "l.csv")
    assert len(found) == 12 and found[-1] < found[0]
    assert [said["loss_first"], said["loss_last"]] == approx([found[0], found[-1]], rel=1e-8)  # nine digits
    assert said["loss_last_mean"] == approx(sum(found[-10:]) / 10, rel=1e-8)
    shares = [count / len(TEXT) for count in Counter(TEXT).values()]
    assert said["unigram_entropy"] == approx(-sum(share * math.log(share) for share in shares), rel=1e-12)
    assert (said["settings"]["heads_kv"], said["settings"]["lr"], said["partition"]) == (1, 0.01, "zigzag")
    assert said["step_s"] > 0 and said["tokens_per_s"] == approx(60 / said["step_s"], abs=1e-6)
    assert len(said["ranks"]) == 3
    for rank in said["ranks"]:
        assert rank["attention_forward_s"] > 0 and rank["attention_share"] < 1
        # K and V of a third of the positions, in f32, to each of two others.
        assert rank["attention_forward_bytes"] == 2 * (2 * 2 * 10 * 8 * 4)
    assert said["bytes_sent"] == sum(rank["bytes_sent"] for rank in said["ranks"])
    text = trained.well(TINY, "--steps 2")
    assert all(part in text for part in ("unigram entropy", "loss", "a step", "sent a step"))


def test_stopped_and_taken_up_again_is_as_if_it_had_not_stopped(trained):
    trained.well(TINY, "--steps 8 --checkpoint whole.ckpt --loss-csv whole.csv")
    trained.well(TINY, "--steps 5 --checkpoint half.ckpt --loss-csv half.csv")
    assert saved(trained, "half.ckpt") != saved(trained, "whole.ckpt") and len(losses(trained, "half.csv")) == 5
    # No setting is given: they are the checkpoint's.
    resume = "train --text t.txt --resume half.ckpt --steps 8"
    trained.well(resume, "--checkpoint half.ckpt --loss-csv rest.csv")
    assert saved(trained, "half.ckpt") == saved(trained, "whole.ckpt")
    assert curve(trained, "rest.csv") == curve(trained, "whole.csv")[5:]
    # The first row says where the rows come from.
    (_, _, origin), *others = rows(trained, "rest.csv")
    assert "--resume half.ckpt" in origin[2] and origin[2].endswith("--loss-csv rest.csv")
    assert origin[3] == "of the checkpoint" and all(set(origin) == {""} for _, _, origin in others)
    # Nothing is left to do.
    trained.well(resume, "--checkpoint same.ckpt")
    assert saved(trained, "same.ckpt") == saved(trained, "whole.ckpt")


def test_it_is_taken_up_by_other_ranks_and_with_other_settings(trained):
    trained.well(TINY, "--steps 3 --checkpoint c.ckpt")
    resume = "train --text t.txt --resume c.ckpt --steps 5 "
    other, same = trained.json(resume, "--world-size 5 --partition striped"), trained.json(resume)
    assert other["steps_before"] == 3 and other["loss_last"] == approx(same["loss_last"], rel=1e-4)
    # A size of the model may be said again; other settings may change.
    changed = trained.json(resume, "--layers 1 --lr 0.5 --batch 3")["settings"]
    assert (changed["lr"], changed["batch"], changed["width"]) == (0.5, 3, 16)
    trained.refused(resume + "--width 24", "--width", "24", "c.ckpt", "has 16")
    trained.refused(resume + "--heads-kv 2", "--heads-kv", "2", "has 1")
    trained.refused("train --text t.txt --resume c.ckpt --steps 2", "--steps", "2", "has done 3")


def test_heads_rows_and_batches_are_split_at_once(trained):
    trained.well(TINY_OF_TWO_KV_HEADS, "--steps 4 --loss-csv one.csv --world-size 1 --checkpoint one.ckpt")
    split = "--tensor 2 --data 2 --checkpoint all.ckpt --checkpoint-every 3 --trace t.json"
    said = trained.json(TINY_OF_TWO_KV_HEADS, "--steps 4 --loss-csv all.csv", split)
    assert losses(trained, "all.csv") == approx(losses(trained, "one.csv"), rel=1e-4)
    assert said["tensor"] * said["world_size"] * said["data"] == len(said["ranks"]) == 8
    for rank in said["ranks"]:
        # Rows of 15 positions of a sequence, twice by attention and twice by the MLP.
        assert rank["tensor_bytes"] == 4 * (15 * 16 * 4) and rank["peak_bytes"] == said["bill_bytes"]
    assert json.loads(trained.path("t.json").read_text())["distributedInfo"]["world_size"] == 2
    text = trained.well("train --text t.txt --resume all.ckpt --steps 5 --dtype bf16 --tensor 2")
    assert "4 ranks (2 tensor x 2 context x 1 data)" in text and "bf16" in text


# What a rank holds is what `plan` says of the same shape and what `train` says itself, to the byte.
def test_it_holds_what_plan_says(trained):
    model = "--layers 3 --width 16 --heads 2 --head-dim 8 --hidden 24 "
    last = math.inf
    for chunks in ("--chunks 1", "--chunks 4"):
        job = f"{model} --heads-kv 1 --seqlen 30 --batch 2 --world-size 2 {chunks}"
        run = trained.json("train --text t.txt --steps 3 --checkpoint some.ckpt", job)
        planned = "plan --gpu A100 --link NVLink3 --dtype f32 --vocab 256 --mask causal --backward --scheme ring"
        plan = trained.json(planned, "--partition zigzag", job)
        # Twice as many ranks, for the group of those that share a sequence.
        groups = trained.json(planned, "--partition zigzag", job, "--data 2")["groups"]["groups"]
        held = run["ranks"][0]["peak_bytes"]
        assert held == plan["chosen"]["peak_bytes"] == run["bill_bytes"] < last, chunks
        last = held
        sent = [rank["attention_forward_bytes"] + rank["attention_backward_bytes"] for rank in run["ranks"]]
        assert sent[0] == 3 * plan["chosen"]["bytes_sent"] and sum(sent) / 2 == groups[1]["bytes_a_step"]
        # Taken up by a run that keeps all.
        trained.well("train --text t.txt --resume some.ckpt --steps 4 --world-size 3")
    # Of unequal ranks the bill is the largest one's.
    odd = trained.json("train --text t.txt", model, "--batch 1 --seqlen 3 --steps 1 --world-size 2")
    assert odd["ranks"][0]["peak_bytes"] < odd["bill_bytes"] == odd["ranks"][1]["peak_bytes"]


# A disk that has room for the losses alone: they are kept.
def test_what_can_not_be_saved_ends_the_run(trained):
    saves = "--steps 6 --checkpoint c.ckpt --checkpoint-every 4 --loss-csv l.csv"
    expect_ended(trained.run(TINY, saves, after="ulimit -f 1"), 3, "--checkpoint")
    assert len(losses(trained, "l.csv")) == 4 and "c.ckpt" not in trained.files()


# A table that can't be written costs neither the model nor the recording.
def test_a_failing_output_costs_no_other(trained):
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full")
    ended = trained.run(TINY, "--steps 2 --loss-csv /dev/full --checkpoint c.ckpt --trace t.json")
    expect_ended(ended, 3, "--loss-csv", "/dev/full")
    assert "sent a step" in ended.stdout and "t.json" in trained.files()
    trained.refused("train --text t.txt --resume c.ckpt --steps 1", "has done 2")


def test_a_step_is_recorded(trained):
    trained.well(TINY, "--steps 4 --trace t.json --trace-step 3")
    recorded = json.loads(trained.path("t.json").read_text())
    assert recorded["distributedInfo"]["world_size"] == 2
    assert recorded["ring"]["train_step"] == 3
    assert {event["pid"] for event in recorded["traceEvents"] if event["ph"] == "X"} == {0, 1}


def test_memory_is_asked_for_before_it_is_taken(trained):
    large = trained.run("train --text t.txt --world-size 2000000000")
    expect_ended(large, 3, "memory")
    assert large.stdout == ""


# What was learned before is not lost, and nothing useless takes its place.
def test_it_ends_when_training_has_diverged(trained):
    trained.well(TINY, "--steps 3 --checkpoint m.ckpt")
    good = saved(trained, "m.ckpt")
    diverges = "train --text t.txt --resume m.ckpt --checkpoint m.ckpt --loss-csv l.csv --steps 40 --lr 1e9"
    expect_ended(trained.run(diverges), 3, "diverged: at step ")
    kept = curve(trained, "l.csv")
    assert saved(trained, "m.ckpt") == good and kept[0][0] == 4
    assert all(math.isfinite(loss) for _, loss in kept)


# ---
# With a process per rank: the same bits, one voice, and an end for all.


def on_ranks(mpi, ranks, *command):
    return mpi.mpirun(ranks, PROGRAM, *words_of([*command, "--backend mpi"]))


def test_processes_give_the_bits_of_the_threads(mpi):
    mpi.well(TINY, "--steps 3 --checkpoint 3.ckpt")
    then = "train --text t.txt --resume 3.ckpt --steps 6 "
    mpi.well(then, "--checkpoint cpu.ckpt --loss-csv cpu.csv")
    ended = on_ranks(mpi, 2, then, "--checkpoint mpi.ckpt --loss-csv mpi.csv --trace t.json --json")
    assert ended.returncode == 0 and lines_of_ours(ended) == [], ended
    assert saved(mpi, "mpi.ckpt") == saved(mpi, "cpu.ckpt")
    assert curve(mpi, "mpi.csv") == curve(mpi, "cpu.csv") and len(curve(mpi, "cpu.csv")) == 3
    said = json.loads(ended.stdout)
    assert said["backend"] == "mpi" and len(said["ranks"]) == 2
    events = json.loads(mpi.path("t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X"} == {0, 1}


def test_processes_have_the_same_groups(mpi):
    tiny = TINY_OF_TWO_KV_HEADS + "--steps 3 --tensor 2 --data 2 --dtype bf16 --checkpoint "
    mpi.well(tiny + "cpu.ckpt --world-size 1")
    ended = on_ranks(mpi, 4, tiny + "mpi.ckpt --trace t.json")
    assert ended.returncode == 0 and saved(mpi, "mpi.ckpt") == saved(mpi, "cpu.ckpt"), ended
    assert json.loads(mpi.path("t.json").read_text())["distributedInfo"]["world_size"] == 1
    expect_said_once(on_ranks(mpi, 3, tiny + "no.ckpt"), 2, "--tensor, --data", "3 processes")


# A rank that is killed after a second of work: the others end, and what there is of the curve is kept.
def test_the_death_of_a_rank_ends_all_and_loses_no_losses(mpi):
    # Its steps are work more than waiting, so that its second of a processor is soon over.
    job = "train --text t.txt --layers 1 --seqlen 512 --batch 8 --steps 100000000 --loss-csv l.csv --backend mpi"
    program = [PROGRAM, *words_of(job)]
    limited = ["/bin/sh", "-c", 'ulimit -t 1 && exec "$0" "$@"', *program]
    expect_said_once(mpi.mpirun_apart(2, program, limited), 3, "rank 1", "in training step ")
    assert losses(mpi, "l.csv")


def test_what_is_wrong_for_all_processes_is_said_once(mpi):
    expect_said_once(on_ranks(mpi, 2, TINY, "--loss-csv no/such.csv"), 2, "--loss-csv")
