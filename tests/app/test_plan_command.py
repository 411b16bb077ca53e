"""`ringscope plan`: what it answers, by formulas written out here and beside what others measured. (How bad input is refused:
refusals.txt.)"""

import re
from pathlib import Path

import pytest
from pytest import approx

BENCH = (Path(__file__).parents[2] / "bench/README.md").read_text(encoding="utf-8")
PLAN = "plan --gpu H100 --link NVLink4 --world-size 8 --seqlen 131072 "


def near(value, within):
    return approx(value, rel=0, abs=within)


# Every number from the formulas.
def test_json_holds_the_numbers(program):
    said = program.json(PLAN, "--mask causal --heads-kv 8")
    chosen = said["chosen"]
    assert said["feasible"] and (chosen["partition"], chosen["scheme"]) == ("zigzag", "ring")
    flops = said["machine"]["forward_flops"]
    assert flops == approx(989.4e12 * 0.65, rel=1e-15)
    pairs = 131072 * 131073 / 2
    assert chosen["forward"]["compute_s"] == near(4 * 32 * 128 * pairs / 8 / flops, 1e-9)
    assert said["overlap_forward"]["threshold_rows"] == near(flops / 450e9 * 8 / 32 / 0.5, 0.1)
    assert chosen["bytes_sent"] == 2 * 7 * 16384 * 8 * 128 * 2 and chosen["hops"] == 7
    assert sum(part["bytes"] for part in said["memory"]) == approx(chosen["peak_bytes"], rel=1e-15)
    assert len(said["choices"]) == 9 and sum(choice["best"] for choice in said["choices"]) == 1


# Rings that leave the same node share its links to others: 4 rings with 2 ranks on a node and a quarter of the heads each.
def test_rings_share_the_links_of_their_nodes(program):
    job = "plan --gpu H100 --link 400,0 --seqlen 65536 --mask causal --scheme ring --partition zigzag --backward"

    def exposed(more):
        return program.json(job, more)["chosen"]["exposed_s"]

    rings = "--heads 32 --world-size 4 --tensor 4 --between 50,0 --nics "
    alone = "--heads 8 --world-size 4 --nodes 2 --between "
    assert exposed(rings + "1") > 0
    assert exposed(rings + "1") == near(exposed(alone + "12.5,0"), 1e-9)
    assert exposed(rings + "4") == near(exposed(alone + "50,0"), 1e-9)
    # Two ranks a ring stay on their node.
    assert exposed("--heads 32 --world-size 2 --tensor 4 --between 50,0") == exposed("--heads 8 --world-size 2")


def test_context_groups_of_all_sizes_are_compared(program):
    plan = """plan --model llama3-8b --gpu H100 --link NVLink4 --seqlen 131072 --mask causal --backward --recompute layer
        --zero 3 --world-size 16 --sequences 4 --context"""
    said = program.json(plan, "all")
    for row in said["contexts"]:
        one = program.json(plan, row["context"])
        assert row["data"] == 16 // row["context"]
        assert row["total_s"] == one["model"]["total_s"] >= said["model"]["total_s"]
        assert row["peak_bytes"] == one["chosen"]["peak_bytes"]
    # 4 sequences do not suffice for 8 replicas.
    assert [row["context"] for row in said["contexts"]] == [4, 8, 16]
    text = program.well(plan, "all")
    assert all(part in text for part in ("context   data", "The best of these", "limited by"))


# What it took to train Llama 3, as published: bench/README.md's table, each line of which has its flags.
PUBLISHED_STEPS = re.findall(r"^.*\| `(--model [^`]*)` \| ([0-9.]+).*$", BENCH, re.M)


def test_published_steps_are_nine():
    assert len(PUBLISHED_STEPS) == 9


@pytest.mark.parametrize("flags, published", PUBLISHED_STEPS)
def test_a_published_step_of_a_large_model(program, flags, published):
    line = next(line for line in BENCH.splitlines() if f"`{flags}`" in line)
    machine = "plan --gpu H100 --link NVLink4 --between InfiniBand-NDR --nics 8"
    said = program.json(machine, "--mask causal --backward --sequence-parallel --zero 1", flags)["model"]
    is_share = "% MFU" in line
    ours = 100 * said["mfu"] if is_share else said["total_s"]
    ratio = ours / float(published)
    assert abs(ratio - 1) <= 0.15
    assert (f"| {ours:.1f} % MFU | {ratio:.2f} |" if is_share else f"| {ours:.2f} s | {ratio:.2f} |") in line


# What others measured beside the plan of the same run, by bench/README.md's table. A figure is within 20 %, or its row says
# why not.
MEASURED_RUNS = [line for line in BENCH.splitlines() if "| `plan --model " in line]


def test_measured_runs_are_eighteen():
    assert len(MEASURED_RUNS) == 18


@pytest.mark.parametrize("line", MEASURED_RUNS)
def test_a_plan_beside_a_measured_run(program, line):
    run, command, *figures, why_not = [cell.strip() for cell in line.strip("|").split("|")]
    said = program.json(command.strip("`"))
    ranks = said["groups"]["ranks"] if "groups" in said else said["world_size"]
    tokens, memory = said["model"]["tokens_per_s"] / ranks, said["chosen"]["peak_bytes"] / 2**30
    is_near = True
    for ours, (published, *shown), form in (
        (tokens, figures[:3], "{:.0f}" if tokens > 1000 else "{:.1f}"),
        (memory, figures[3:], "{:.1f}"),
    ):
        if published == "":
            continue
        ratio = ours / float(published)
        is_near = is_near and abs(ratio - 1) <= 0.2
        assert shown == [form.format(ours), f"{ratio:.2f}"]
    assert (why_not == "") == is_near


# One rank alone holds all of the scores, or none of them.
def test_there_are_baselines_of_one_rank(program):
    said = program.json(PLAN)
    alone = program.json("plan --gpu H100 --link NVLink4 --world-size 1 --seqlen 131072")
    flash, naive = said["alone"]
    assert flash["bytes"] == alone["chosen"]["peak_bytes"]
    assert flash["largest_seqlen"] == alone["largest_seqlen"]
    assert naive["bytes"] - flash["bytes"] == 32 * 131072 * 131072 * 2
    assert naive["largest_seqlen"] == near((said["machine"]["memory_limit_bytes"] / 64) ** 0.5, 600)


@pytest.mark.parametrize("nics", [1, 4])
@pytest.mark.parametrize("scheme", ["ring", "allgather", "ulysses", "hybrid:4", "two-level:2"])
def test_plan_and_simulate_agree_on_nodes(program, scheme, nics):
    machine = f"--gpu H100 --link NVLink4 --nodes 2 --between 50,10 --world-size 8 --nics {nics}"
    job = f"--seqlen 4096 --backward --mask causal --heads 8 --heads-kv 4 --partition zigzag --scheme {scheme}"
    planned = program.json("plan", machine, job)["chosen"]["total_s"]
    assert planned == near(program.json("simulate", machine, job)["wall_s"], 1e-15)


# Calls and merging, in a ring that hides its hops: a call a step, and all blocks' results but the first are merged. An
# all-to-all has one call, and a gather as many.
def test_calls_and_merging_count_when_calibrated(program):
    sizes = "--gpu H100 --link NVLink4 --world-size 8 --seqlen 131072"
    ring = "--mask causal --scheme ring --partition zigzag --backward"
    plain = program.json("simulate", sizes, ring)
    counted = program.json("simulate", sizes, ring, "--calibrated")
    step = 200e-6 + 7 / 8 * 10.4e-12 * 131072 / 8 * 32 * 128
    assert counted["forward_s"] - plain["forward_s"] == near(8 * step, 1e-9)
    assert counted["compute_s"] - plain["compute_s"] == near(8 * 2.3 * step, 1e-9)
    assert counted["efficiency"] == near(plain["compute_s"] / counted["wall_s"], 1e-9)
    assert counted["efficiency"] < 0.97 * plain["efficiency"]
    planned = program.json("plan --calibrated", sizes, ring)["chosen"]["total_s"]
    assert planned == approx(counted["wall_s"], rel=1e-15)
    for scheme in ("--scheme ulysses", "--scheme allgather"):
        walls = [program.json("simulate", sizes, scheme, more)["wall_s"] for more in ("", "--calibrated")]
        assert walls[1] - walls[0] == near(200e-6, 1e-9), scheme


# Sums of gradients take all links of a node, up to what a link inside carries; hops of a ring take one. A ring whose work is
# even waits for its links alone.
def test_several_links_carry_gradients(program):
    plan = """plan --model llama3-8b --gpu H100 --link 4,0 --nodes 2 --between 0.5,0 --world-size 16 --seqlen 131072
        --mask causal --backward --scheme ring --partition zigzag"""
    seconds = {nics: program.json(plan, "--nics", nics)["model"]["reduction_s"] for nics in (1, 4, 8, 16)}
    assert seconds[1] == near(4 * seconds[4], 1e-12) and seconds[8] == near(seconds[16], 1e-12)
    forward = program.json(plan)["chosen"]["forward"]
    assert forward["exposed_s"] > 0 and forward["imbalance_s"] < 1e-3 * forward["total_s"]


# What does not fit is told with a change that was tried.
def test_what_limits_is_named_and_what_to_change(program):
    plan = "plan --model llama3-8b --gpu H100 --link NVLink4 --seqlen 131072 --backward --world-size 16"
    said = program.json(plan)
    assert not said["feasible"] and said["limited_by"].startswith("memory, ")
    change, _, _ = said["change_first"].partition(":")
    assert "still too much" not in said["change_first"]
    assert program.json(plan, change.split()[0], *change.split()[1:])["feasible"]


MACHINE = "--gpu H100 --link NVLink4"
ANY_HEADS = "--world-size 4 --seqlen 104 --head-dim 8 --dtype bf16 --backward --mask causal"
SCHEMES = """ring bidirectional multi-ring:2 pass-q allgather allgather:2 ulysses ulysses:2 hybrid:2 two-level:2 mesh:2x2
    mesh:4x1""".split()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_plan_simulate_and_run_say_the_same(program, scheme):
    job = f"{ANY_HEADS} --partition zigzag --heads 8 --heads-kv 4 --scheme {scheme}"
    chosen = program.json("plan", MACHINE, job)["chosen"]
    simulated = program.json("simulate", MACHINE, job)
    assert chosen["scheme"] == scheme
    assert chosen["total_s"] == near(simulated["wall_s"], 1e-15)
    for name, value in (("bytes_sent", simulated["ranks"][0]["bytes_sent"]), ("peak_bytes", simulated["peak_bytes"])):
        assert chosen[name] == value, name
    assert chosen["balance_ceiling"] == simulated["balance_ceiling"]
    if scheme == "ulysses":
        return  # its closed form rounds results
    ran = program.json("run --random", job)
    assert chosen["bytes_sent"] == ran["ranks"][0]["bytes_sent"]
    assert chosen["peak_bytes"] == max(rank["peak_bytes"] for rank in ran["ranks"])
    if scheme == "ring":
        assert simulated["closed_form_s"] == chosen["total_s"]
        assert simulated["compute_s"] / simulated["closed_form_s"] == near(simulated["efficiency"], 1e-9)
        assert chosen["hops"] == ran["ranks"][0]["hops"]
        assert chosen["balance_ceiling"] == approx(ran["predicted_balance_ceiling"], rel=1e-15)
        groups = program.json("plan", MACHINE, job, "--data 2")["groups"]["groups"]
        assert groups[1]["bytes_a_step"] == near(sum(rank["bytes_sent"] for rank in ran["ranks"]) / 4, 1e-6)


# Where heads don't divide, the loop of Ulysses is followed.
def test_ulysses_of_heads_that_do_not_divide(program):
    job = ANY_HEADS + " --heads 6 --heads-kv 2 --scheme ulysses"
    chosen = program.json("plan", MACHINE, job)["chosen"]
    assert chosen["total_s"] == near(program.json("simulate", MACHINE, job)["wall_s"], 1e-15)
    assert chosen["bytes_sent"] == program.json("run --random", job)["ranks"][0]["bytes_sent"]
    # 2, 1, 2 and 1 of the 6 heads: no ranks wait but for the slowest.
    assert chosen["balance_ceiling"] == near(0.75, 1e-12)


# tests/core/tools/cost has the formulas; here flags ask for them, over the links that they take.
DENSE = """plan --model llama3-8b --gpu H100 --link 400,0 --between 40,0 --seqlen 8192 --backward --world-size 16 --context 1
    --zero 3"""


def test_shards_are_dealt_out(program):
    everything, shards = program.json(DENSE), program.json(DENSE, "--shard 8")
    # 7/8 of the weights over the links inside a node, in place of 15/16 over a card that 8 ranks share.
    gathering = [said["model"]["gathering_s"] for said in (shards, everything)]
    assert gathering[0] / gathering[1] == near(7 / 8 / (15 / 16) * 0.1, 1e-9)
    weights = everything["model"]["weights"]
    assert shards["model"]["reduction_s"] == near((7 / 8 / 400e9 + 2 * 0.5 / 8 / 40e9) * 4 * (weights + 1), 1e-6)
    held = [said["chosen"]["peak_bytes"] for said in (shards, everything)]
    assert held[0] - held[1] == near(16 * weights * (1 / 8 - 1 / 16), 0.001 * 16 * weights)


def test_experts_are_dealt_out(program):
    mixture = """plan --model qwen3-30b-a3b --gpu H100 --link 400,0 --between 40,0 --seqlen 8192 --backward --world-size 16
        --context 1 --expert"""
    rows = 2 * 2 * 48 * 8 * 8192 * 2048 * 2  # there and back, in both passes
    for ranks, seconds in ((8, rows * 7 / 8 / 400e9), (16, rows * 15 / 16 / 40e9), (1, 0)):
        assert program.json(mixture, ranks)["model"]["experts_s"] == near(seconds, 1e-6), ranks


def test_activations_move_to_the_host(program):
    kept, moved = (program.json(DENSE, "--recompute layer", more) for more in ("", "--offload activations"))
    host = moved["model"]["host_bytes"]
    assert host == 30 * 8192 * 4096 * 2
    assert kept["chosen"]["peak_bytes"] - moved["chosen"]["peak_bytes"] == approx(host, rel=1e-15)
    assert "and on the host" in program.well(DENSE, "--recompute layer --offload activations")


# Every second layer of gpt-oss attends a window.
def test_the_mean_of_two_kinds_of_layers_is_taken(program):
    plan = "plan --gpu H100 --link NVLink4 --seqlen 65536 --world-size 4 --scheme ring --partition zigzag"
    said = program.json(plan, "--mask causal --model gpt-oss-20b")
    windowed = program.json(plan, "--mask causal+window:128 --heads 64 --heads-kv 8 --head-dim 64")
    both = said["chosen"]["total_s"] + windowed["chosen"]["total_s"]
    assert said["model"]["attention_s"] == near(12 * both, 1e-12)


# tests/core/tools/cost has the bill's parts. Here flags ask for them, and what it says would fit does.
def test_a_whole_models_memory_is_counted(program):
    llama = """plan --gpu H100 --link NVLink4 --world-size 16 --seqlen 1048576 --layers 32 --width 4096 --hidden 14336
        --vocab 128256 --heads-kv 8 --mask causal --backward"""

    def bytes_of(said, *parts):
        return sum(part["bytes"] for part in said["memory"] if part["part"].startswith(parts))

    said = program.json(llama)
    assert not said["feasible"] and "memory" in said["why"]
    assert bytes_of(said, "") == approx(said["chosen"]["peak_bytes"], rel=1e-15)
    text = program.well(llama)
    assert all(part in text for part in ("feasible", "no: ", "would fit", "MLP", "optimizer"))
    weights = 128256 * 4096 + 4096 + 32 * (4096 * 128 * (64 + 16) + 3 * 4096 * 14336 + 2 * 4096)
    for stage, whole in enumerate((16, 4, 2, 0)):  # bytes a weight that every rank has
        dealt = bytes_of(program.json(llama, "--zero", stage), "weights", "gradients of weights", "optimizer")
        assert dealt == near((whole + (16 - whole) / 16) * weights, 16), stage
    fits = program.json(llama, "--zero 3 --recompute layer --memory-fraction 0.9")
    assert bytes_of(fits, "MLP") == 3 * 14336 * 65536 * 2  # of one layer
    assert fits["largest_seqlen"] > 100000
    assert 0.1 < fits["model"]["mfu"] < 0.65
