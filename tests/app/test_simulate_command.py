"""`ringscope simulate`: that it agrees with `run`, and what faults do to it."""

from pytest import approx

MACHINE = "--gpu H100 --link NVLink4"


def test_json_has_the_keys_of_a_run_and_means_the_same(program):
    problem = """--world-size 3 --seqlen 101 --heads 4 --heads-kv 2 --head-dim 8 --dtype f32 --mask causal --backward
        --partition contiguous --hops all"""
    seed = "12345678901234567891"  # more than a double holds
    simulated = program.json("simulate", MACHINE, problem, "--seed", seed)
    real = program.json("run --random", problem)
    assert simulated["backend"] == "sim" and simulated["machine"]["seed"] == seed
    for key in "world_size partition mask scheme dtype shape backward imbalance balance_ceiling".split():
        assert simulated[key] == real[key], key
    own = "wall_s exposed_s closed_form_s forward_s backward_s critical_path steps simulated_in_s machine".split()
    assert set(own) <= simulated.keys() and simulated["kv_buffers"] is None
    assert len(simulated["ranks"]) == 3
    for ours, theirs in zip(simulated["ranks"], real["ranks"]):
        for key in "rank rows pairs bytes_sent hops peak_bytes pairs_by_step".split():
            assert ours[key] == theirs[key], (key, ours)
        for key in "compute_s wait_s exposed_s end_s".split():
            assert isinstance(ours[key], (int, float)), key


def test_faults_make_it_slower_and_buffers_hide_jitter(program):
    def wall(more=""):
        job = "--world-size 8 --seqlen 131072 --mask causal --partition striped"
        return program.json("simulate", MACHINE, job, more)["wall_s"]

    even, jittery = wall(), wall("--jitter 0.3 --seed 5")
    assert jittery > 1.1 * even
    assert even < wall("--jitter 0.3 --seed 5 --kv-buffers 4") < jittery
    assert wall("--straggler 3:0.5") == approx(2 * even, abs=0.01 * even)
    assert wall("--straggler 3:0.5,5:0.25") == approx(4 * even, abs=0.01 * even)
    assert wall("--slow-link 3:0.001") > 2 * even
    assert wall("--hop-jitter 300") > even
    assert wall("--step-us 1000") == approx(even + 8e-3, abs=1e-6)
    assert wall("--tile 128x128") > even
    assert wall("--jitter 0.3 --seed 6") != jittery == wall("--jitter 0.3 --seed 5")


def test_of_many_ranks_an_even_sample_is_told(program):
    told = [rank["rank"] for rank in program.json("simulate", MACHINE, "--world-size 511 --seqlen 4096")["ranks"]]
    assert told == list(range(0, 511, 2))


def test_no_flag_is_named_that_is_far_from_a_mistyped_one(program):
    assert "or see" not in program.run("simulate --nothing-like-it 4").stderr
