"""`--backend mpi` as people start it, with mpirun: the answer is that of the threads, what is wrong is said once, and every
failure ends all ranks. And `--backend cuda` and `nccl`, in builds without them, on machines without a GPU, and on those with
one."""

import json

import numpy as np
import pytest
from program import PROGRAM, expect_ended, expect_said_once, lines_of_ours, words_of

SMALL = "--random --seqlen 96 --head-dim 8 "
OUTPUTS = ("out", "lse", "dq", "dk", "dv")


@pytest.fixture
def mpi(program):
    if why := program.why_no_mpi():
        pytest.skip(why)
    return program


def run_ranks(mpi, ranks, *command):
    return mpi.mpirun(ranks, PROGRAM, *words_of(["run --backend mpi", *command]))


def run_two(mpi, common, of_0, of_1):
    """Run ranks 0 and 1, which is in another folder, with arguments of their own beside common ones."""
    return mpi.mpirun_apart(2, *([PROGRAM, *words_of(["run --backend mpi", common, of_rank])] for of_rank in (of_0, of_1)))


def expect_same_files(mpi, ranks, command):
    """Run on threads and on processes, and expect the same files and a recording of the latter."""

    def files_of(backend):
        return " ".join(f"--{name} {backend}-{name}.npy" for name in OUTPUTS)

    mpi.well("run --world-size", ranks, command, files_of("cpu"))
    ended = run_ranks(mpi, ranks, command, files_of("mpi"), "--trace t.json")
    assert ended.returncode == 0 and lines_of_ours(ended) == [], ended
    for name in OUTPUTS:
        assert mpi.path(f"cpu-{name}.npy").read_bytes() == mpi.path(f"mpi-{name}.npy").read_bytes(), name
    recorded = json.loads(mpi.path("t.json").read_text())
    assert recorded["distributedInfo"]["backend"] == "mpi" and recorded["distributedInfo"]["world_size"] == ranks
    assert {event["pid"] for event in recorded["traceEvents"]} == set(range(ranks))
    assert "failure" not in recorded["ring"]
    return ended


def test_without_mpi_the_backend_is_refused(program):
    if "this build has no MPI" not in program.well("info"):
        pytest.skip("this build has MPI")
    program.refused("run --random --backend mpi --out o.npy", "--backend: 'mpi' is not in this build; accepted: cpu")


def test_it_gives_the_bits_of_the_threads(mpi):
    problem = "--random --seqlen 131 --heads-kv 2 --head-dim 8 --mask causal --partition zigzag --backward --verify --json"
    said = json.loads(expect_same_files(mpi, 3, problem).stdout)
    assert said["backend"] == "mpi" and said["world_size"] == len(said["ranks"]) == 3 and said["verify"]["pass"]
    for rank in said["ranks"]:
        assert rank["pairs"] == rank["predicted_pairs"] and rank["hops"] == 2 + 3
        assert rank["peak_bytes"] <= rank["predicted_peak_bytes"]


def test_files_are_read_on_rank_0(mpi):
    for name, heads in (("q", 4), ("do", 4), ("k", 2), ("v", 2)):
        np.save(mpi.path(name), 0.1 * (np.arange(2 * heads * 33 * 5.0) % 37 - 18).reshape(2, heads, 33, 5))
    files = "--q q.npy --k k.npy --v v.npy --dout do.npy"
    expect_same_files(mpi, 2, files + " --backward --partition fold --dtype bf16")
    assert np.load(mpi.path("mpi-out.npy")).dtype == np.float64


def test_one_process_alone_is_a_ring_of_one(mpi):
    assert mpi.json("run --backend mpi --verify", SMALL)["world_size"] == 1
    expect_ended(mpi.run("run --backend mpi --world-size 4", SMALL), 2, "mpirun -np 4")


@pytest.mark.parametrize(
    "ranks, arguments, parts",
    [
        (3, "--mask diagonal", "--mask|'diagonal'|accepted"),
        (2, "--world-size 3", "--world-size|3|2 processes|mpirun -np 3"),
        (2, "--out no/such/folder.npy", "--out|no/such/folder.npy"),
        (2, "--inject slow-rank@2", "--inject|ranks 0 to 1"),
    ],
)
def test_what_is_wrong_for_all_is_said_once(mpi, ranks, arguments, parts):
    expect_said_once(run_ranks(mpi, ranks, SMALL, arguments), 2, *parts.split("|"))
    assert mpi.files() == set()


def test_help_is_printed_once(mpi):
    ended = run_ranks(mpi, 2, "--help")
    assert ended.returncode == 0 and ended.stdout.count("--partition ") == 1, ended


def test_forgetting_the_backend_is_remarked_on(mpi):
    ended = mpi.mpirun(2, PROGRAM, *words_of(["run --json", SMALL]))
    expect_said_once(ended, 0, "each of 2 processes", "--backend mpi")


@pytest.mark.parametrize(
    "of_0, of_1, status, parts",
    [
        ("", "--dtype f64", 2, ["--dtype", "'f64'"]),
        ("--mask full", "--mask causal --out o.npy", 3, ["rank 1 has --mask causal", "rank 0 has --mask full"]),
        ("--seed 1", "", 3, ["rank 1 has nothing", "rank 0 has --seed 1"]),
    ],
)
def test_what_is_wrong_for_one_rank_or_differs_ends_all(mpi, of_0, of_1, status, parts):
    expect_said_once(run_two(mpi, SMALL, of_0, of_1), status, *parts)
    assert mpi.files() == set()


# ---
# GPUs.


@pytest.fixture
def gpu(program):
    """A program that knows GPUs, with what it says of this machine."""
    program.info = program.well("info")
    if "this build has no CUDA" in program.info:
        pytest.skip("no CUDA in this build")
    return program


def test_without_cuda_the_backend_is_refused(program):
    if "this build has no CUDA" not in program.well("info"):
        pytest.skip("this build has CUDA")
    program.refused("run --random --backend cuda --out o.npy", "--backend: 'cuda' is not in this build; accepted: cpu")


def test_without_a_device_it_is_said_what_is_needed(gpu):
    if "backend cuda  yes" in gpu.info:
        pytest.skip("there is a device")
    assert "backend cuda  no: " in gpu.info and "07 hopper_overlap" in gpu.info
    gpu.refused("run --random --backend cuda --out o.npy", "--backend cpu", status=3)


def test_nccl_says_why_it_can_not_be(program):
    info = program.well("info")
    if "backend nccl  yes" in info:
        pytest.skip("it can be here")
    assert "backend nccl  no: " in info
    if "this build has no NCCL" in info:
        program.refused("run --random --backend nccl --out o.npy", "--backend: 'nccl' is not in this build")
    else:
        program.refused("run --random --backend nccl --out o.npy", status=3)


@pytest.mark.parametrize(
    "arguments, parts",
    [
        *((f"--kernel {kernel}", ["--kernel"]) for kernel in ("0", "100", "7bb", "b7", "7B")),
        ("--backward-kernel 9", ["--backward"]),
        ("--scheme pass-q", ["--scheme", "'pass-q'", "ring, bidirectional, allgather and two-level:M"]),
    ],
)
def test_kernels_and_schemes_that_a_gpu_does_not_have(gpu, arguments, parts):
    gpu.refused("run --random --backend cuda " + arguments, *parts)


# On a GPU: the ring of every kind of kernel, verified through the program.
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("partition", ["contiguous", "striped", "zigzag", "fold"])
def test_a_device_is_verified(gpu, dtype, partition):
    if "backend cuda  yes" not in gpu.info:
        pytest.skip("no device")
    problem = "--mask causal --world-size 4 --seqlen 777 --backward --verify"
    said = gpu.json("run --random --backend cuda", problem, "--dtype", dtype, "--partition", partition)
    assert said["backend"] == "cuda" and said["verify"]["pass"]
