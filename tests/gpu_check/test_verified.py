"""Results files become the kernel table's `verified` when a build is configured; and the whole check with the real programs,
whose kernels run on the model of a GPU, down to that table."""

import json
import os
import shutil
import subprocess

import pytest
from fake_pack import ROOT, FakePack

NUMBERS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
FAULTY = {3: "hangs", 6: "wrong", 7: "waits", 9: "crashes"}


class Build:
    """A build that makes the table and nothing else."""

    def __init__(self, root):
        self.root, self.results = root, root / "bench/results"
        self.results.mkdir(parents=True)
        lines = ["cmake_minimum_required(VERSION 3.22)", "project(x NONE)", f"include({ROOT}/cuda/kernels/verified.cmake)"]
        (root / "CMakeLists.txt").write_text("\n".join(lines))

    def add(self, file, date, *kernels, gpu="NVIDIA H1"):
        device = {"name": gpu, "driver": "580.1"}
        report = {"commit": "abc123+changes", "date": date, "device": device, "kernels": kernels}
        (self.results / file).write_text(json.dumps(report))

    def configured(self):
        command = ["cmake", "-G", "Ninja", "-S", self.root, "-B", self.root / "b"]
        subprocess.run(command, check=True, capture_output=True)
        return (self.root / "b/verified.cpp").read_text()


@pytest.fixture
def build(tmp_path):
    return Build(tmp_path / "build")


def kernel(number, passes):
    return {"number": number, "pass": passes}


def test_the_newest_run_that_passed_counts_for_each_kernel(build):
    assert "580.1" not in build.configured()
    build.add("b-1.json", "2026-02-01", kernel(5, True), kernel(6, True))
    build.add("a-2.json", "2026-03-01", kernel(5, True), kernel(6, False))
    build.add("c-0.json", "2026-01-01", kernel(5, True), kernel(7, True))
    source = build.configured()
    for number, date in ((5, "2026-03-01"), (6, "2026-02-01"), (7, "2026-01-01")):
        assert f'{{{number}, "NVIDIA H1", "580.1", "abc123+changes", "{date}"}},' in source
    assert source.count('"2026-02-01"') == 1


def test_odd_files_count_for_nothing(build):
    (build.results / "no.json").write_text("{")
    build.add("gpu.json", "2026-02-01", kernel(5, True), gpu='x", 1}, {"')
    build.add("date.json", "yesterday", kernel(5, True))
    build.add("number.json", "2026-02-01", kernel("5;6", True), {"pass": True}, 3)
    assert "{5" not in build.configured()


@pytest.fixture
def rehearsal(tmp_path):
    """A pack of the real programs, with the folder that has them."""
    programs = os.environ.get("RINGSCOPE_REHEARSAL", "")
    if not os.path.exists(programs):
        pytest.skip("the programs on the model of a GPU are not built")
    pack = FakePack(tmp_path / "pack")
    for name in ("gpu_device", "gpu_forward", "gpu_backward", "gpu_carried_state", "gpu_ring_balance", "ringscope"):
        pack.program(f"bin/{name}", f"exec '{programs}/{name}' \"$@\"")
    tests = f"""case "$*" in *--gtest_list_tests*)
  set -- "$@" '--gtest_filter=Ladder/EveryKernel.*:KernelTable.*' ;; esac
exec '{os.environ["RINGSCOPE_MODEL_TESTS"]}' "$@\""""
    pack.program("bin/cuda_tests", tests)
    return pack, programs


def table_of_run(build, pack):
    """Return the numbers of kernels in the table that a build makes of a run, if it had been on a GPU."""
    report = (pack.root / "out/run.json").read_text()
    (build.results / "run.json").write_text(report)
    assert "host model" not in build.configured(), "a model verifies nothing"
    (build.results / "run.json").write_text(report.replace("host model", "NVIDIA H1", 1))
    source = build.configured()
    return [number for number in NUMBERS if f'{{{number}, "NVIDIA H1"' in source]


def test_a_rehearsal_on_the_model_of_a_gpu(rehearsal, build, tmp_path):
    pack, programs = rehearsal
    check = ["--small", "--seconds", "3600", "--out", "run.json"]
    ended = pack.run(*check, FAKE_TORCH="no")
    r = pack.results("run.json")
    assert ended.returncode == 0 and r["complete"], ended.stdout + ended.stderr
    assert {part["status"] for part in r["parts"]} <= {"passed", "not measured"}, ended.stdout
    assert table_of_run(build, pack) == NUMBERS
    seconds = 1 + r.part("smoke")["seconds"] + r.part("kernel tests")["seconds"]
    pack.remove_results()

    # 03 never ends, 06 is wrong, 07 ends by the watchdog of its waits, and 09 crashes. What the others measure takes long
    # on the model, and is made up.
    made_up = FakePack(tmp_path / "made up")
    for name in ("gpu_forward", "gpu_backward"):
        shutil.copy(made_up.root / "bin" / name, pack.root / f"bin/{name}.made_up")
        faulty = "*agreement/0[69]_*|*main/07*|*main/09*|*main/11*"
        either = f"case \"$*\" in {faulty}) exec '{programs}/{name}' \"$@\" ;; *) exec \"$0.made_up\" \"$@\" ;; esac"
        pack.program(f"bin/{name}", either)
    for name in ("gpu_carried_state", "gpu_ring_balance", "ringscope"):
        shutil.copy(made_up.root / "bin" / name, pack.root / "bin" / name)
    faults = " ".join(f"{how}={number}" for number, how in FAULTY.items())
    ended = pack.run(*check, "--hangs-after", str(3 * seconds), RINGSCOPE_FAULTS=faults)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    r = pack.results("run.json")
    assert r["complete"] and not r["passed"]
    assert (pack.root / "out/run.logs.tar.gz").exists()
    test = "Ladder/EveryKernel.IsRightOnEveryShapeClass/"
    hung = "07_hopper_overlap hung: block (3, 0), thread 128 waits at shared address 1024 for parity 1"
    of_tests = [f"{test}03 cut off after ", f"{test}06", f"{test}07: {hung}", f"{test}09 ended by signal 11"]
    wrong = "agreement/06_hopper/bf16/d128/8192/full/128x128: differs from kernel 5"
    for part, said in {
        "smoke": of_tests,
        "kernel tests": of_tests,
        "agreement": [wrong, "agreement/09_ ended by signal 11"],
        "best forward": [hung],
        "best backward": ["main/09 ended by signal 11"],
    }.items():
        assert r.status(part) == "failed"
        for words in said:
            assert words in r.detail(part), part
    assert [r.status(part) for part in ("ring", "carried state", "more backward")] == ["passed"] * 3
    # What 09 does is not told of 11.
    assert r.figure("backward bf16/d128/16384/full: TFLOP/s of 11_backward_one_pass 64x128") > 0
    assert table_of_run(build, pack) == [number for number in NUMBERS if number not in FAULTY]
