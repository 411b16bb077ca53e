"""A gpu-check on a pack of fakes: what it runs and in which order, what it makes of each way to fail, and that it always
leaves a results file."""

import json
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from fake_pack import CHECK, ROOT, FakePack, benchmark


@pytest.fixture
def pack(tmp_path):
    return FakePack(tmp_path / "pack")


def test_when_all_is_well(pack):
    (pack.root / "logs/tests-list.out").write_text("OfAnOldPack.\n  Test\n")
    ended = pack.run("--out", "run.json")
    assert ended.returncode == 0, ended
    r = pack.results("run.json")
    assert r["passed"] and r["complete"] and r["commit"] == "123abc"
    assert (r["device"]["name"], r["device"]["driver"]) == ("NVIDIA Fake 1", "1.2")
    assert [r.passes(number) for number in (2, 5, 6)] == [True, True, False]  # the tests of 6 were skipped
    for name, value in {
        "forward bf16/d128/8192/full: over cudnn": 0.5,
        "forward bf16/d128/8192/full: TFLOP/s of 05_tensor_cores 128x64": 300,
        "backward bf16/d128/8192/full: over cudnn": 0.5,
        "carried state at 16384 rows full, 05_tensor_cores": 0.03,
        "8 ranks, causal: contiguous / zigzag, 05_tensor_cores": 1.81,
        "8 ranks, causal: zigzag's share of its ceiling, 05_tensor_cores": 0.9,
        "4 ranks, 16384 rows causal: one launch / its steps, 12_fused_ring": 1.05,
    }.items():
        assert r.figure(name) == value, name
    assert "all passed" in ended.stdout and "run.logs.tar.gz" in ended.stdout
    # Logs become one archive beside the results.
    with tarfile.open(pack.root / "out/run.logs.tar.gz") as logs:
        assert "./device.out" in logs.getnames()


def test_clocks_of_each_part_and_counters_of_the_best_kernels(pack):
    pack.program("path/nvidia-smi", "echo '1980, 600.5, 50'; echo '1755, 690.5, 60'; echo '17'; exec sleep 9")
    ncu = """echo '==PROF== Connected'; case "$*" in *one_pass*) exit 1 ;; esac
echo '"ID","Kernel Name","sm__throughput.avg.pct","gpu__time_duration.sum"'
echo '"","","%","us"'; echo '"0","hopper_overlap","81.5","1,234.5"'"""
    pack.program("path/ncu", ncu)
    pack.run("--parts", "smoke,counters")
    r = pack.results()
    assert (r["parts"][0]["sm_mhz"], r["parts"][0]["watts"]) == ((1980 + 1755) / 2, 645.5)
    (counters,) = r["counters"]
    assert counters["kernel"] == "hopper_overlap" and counters["gpu__time_duration.sum [us]"] == 1234.5
    assert r.detail("counters") == "backward_one_pass: exit status 1"


def test_only_the_parts_that_are_asked_for(pack):
    assert pack.run("--parts", "smoke,kernel tests").returncode == 1, "not all was checked"
    r = pack.results()
    assert r.status("smoke") == r.status("kernel tests") == "passed"
    assert (r.status("agreement"), r.detail("agreement")) == ("not run", "not asked for")
    assert not r["complete"] and not r["passed"]


def test_the_file_is_named_by_gpu_and_date_and_overwrites_none(pack):
    for _ in range(2):
        pack.run("--parts", "library")
    first, second = sorted(file.name for file in (pack.root / "out").glob("*.json"))
    assert first.startswith("nvidia-fake-1-2") and first.endswith("-2.json"), (first, second)


def test_without_a_gpu(pack):
    pack.program("bin/gpu_device", "echo 'no NVIDIA driver is there' >&2; exit 3")
    ended = pack.run()
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "gpu-check: no GPU: no NVIDIA driver is there\n"
    assert list((pack.root / "out").iterdir()) == []


@pytest.mark.parametrize("how", ["crashes", "fails"])
def test_a_failure_of_nobody_knows_which_kernel_leaves_none_verified(pack, how):
    pack.run("--parts", "smoke,kernel tests", FAKE_TESTS=f"{how}=Backward.*")
    assert [pack.results().passes(number) for number in (2, 5)] == [False, False]


def test_kernels_are_tried_side_by_side(pack):
    # A test that waits for the test before it would never end.
    (pack.root / "bin/cuda_tests").rename(pack.root / "bin/cuda_tests.of_before")
    waits = """case "$*" in *06*) touch "$0.met" ;; *02*) [ -e "$0.met" ] ||
for i in 1 2 3 4 5 6 7 8 9; do sleep 1; [ ! -e "$0.met" ] || break; done; [ -e "$0.met" ] || exit 1 ;; esac
exec "$0.of_before" "$@\""""
    pack.program("bin/cuda_tests", waits)
    pack.run("--parts", "smoke")
    assert pack.results().status("smoke") == "passed", pack.results()


def test_results_are_written_after_each_group_also_if_the_check_is_killed(pack):
    pack.run("--parts", "kernel tests", FAKE_TESTS="kills=Backward.*")
    r = pack.results()
    assert (r.status("kernel tests"), r.detail("kernel tests")) == ("cut off", "was running when the check ended")
    # Groups run side by side, and whichever ends first has been written, perhaps alone.
    assert r.passes(2) or r.passes(5)


def test_what_measures_may_lack_time(pack):
    begin = time.monotonic()
    assert pack.run().returncode == 0
    enough = 3 + 10 * (time.monotonic() - begin)
    pack.remove_results()
    pack.program("bin/gpu_carried_state", "sleep 10000")
    # Small problems have no other limit, which on a busy machine would end before this one.
    ended = pack.run("--small", "--seconds", str(enough + enough / 3))
    assert ended.returncode == 0, ended
    r = pack.results()
    assert r["passed"] and not r["complete"]
    found = [r.status(part) for part in ("ring", "carried state", "more backward")]
    assert found == ["passed", "cut off", "not run"]


def test_without_kernel_tests(pack):
    without = r"""for a; do
  case $a in
    --gtest_list_tests) printf 'Backward.\n  One\n'; exit 0 ;;
    --gtest_output=json:*)
      echo '{"testsuites": [{"name": "S", "testsuite": [
        {"name": "x", "classname": "S", "result": "COMPLETED"}]}]}' >"${a#*:}" ;;
  esac
done"""
    pack.program("bin/cuda_tests", without)
    assert pack.run("--parts", "smoke,kernel tests").returncode == 1
    r = pack.results()
    assert r.status("smoke") == r.status("kernel tests") == "failed"
    assert r.detail("kernel tests") == "1 passed, 0 failed, 0 skipped; no kernel tests found"


@pytest.mark.parametrize("how", ["wrong", "uneven"])
def test_a_ring_that_is_wrong(pack, how):
    pack.run("--parts", "ring", FAKE_RING=how)
    assert pack.results().status("ring") == "failed"


# Each test of the ring over NCCL has a program of its own. Where none runs, nothing is measured.
@pytest.mark.parametrize(
    "result, exit_status, status, detail",
    [
        (None, 0, "not measured", ""),
        ('"result": "COMPLETED"', 0, "passed", "2 passed, 0 failed, 0 skipped"),
        ('"result": "SKIPPED"', 0, "not measured", ""),
        ('"result": "COMPLETED", "failures": [{"failure": "wrong"}]', 1, "failed", "NcclRing.Four"),
        ('"result": "COMPLETED"', 3, "failed", ""),  # it ended badly after its report
    ],
)
def test_the_ring_over_nccl(pack, result, exit_status, status, detail):
    tests = f"""
case "$*" in *--gtest_list_tests*) echo 'NcclRing.'; echo '  Two'; echo '  Four'; exit 0 ;; esac
for a; do case $a in --gtest_output=json:*) out=${{a#*:}} ;; esac; done
echo '{{"testsuites": [{{"testsuite": [{{"name": "x", "classname": "c", {result}}}]}}]}}' >"$out"
exit {exit_status}"""
    if result is not None:
        pack.program("bin/nccl_tests", tests)
    pack.run("--parts", "nccl")
    assert pack.results().status("nccl") == status
    assert detail in pack.results().detail("nccl")


def test_without_pytorch_and_without_python(pack):
    assert pack.run("--out", "whole.json", FAKE_TORCH="no").returncode == 0
    r = pack.results("whole.json")
    assert (r.status("library"), r.detail("library")) == ("not measured", "no PyTorch")
    pack.program("path/python3", "exit 1")
    pack.run("--out", "r.json", "--parts", "library")
    assert pack.results("r.json").status("library") == "not measured"


def test_benchmarks_that_fail(pack):
    pack.benchmarks("gpu_backward", {"name": "main/09_x/iterations:1", "error_message": "NaN"})
    pack.benchmarks(
        "gpu_forward",
        benchmark("main/05_tensor_cores/bf16/d128/8192/full/64x64", TFLOPs=300),
        benchmark("variants/07_hopper_overlap/bf16/d128/8192/full", **{"07b_over_base": 0.9}),
        end=',\n    {\n "name": "main/cut',
    )
    (pack.root / "bin/gpu_ring_balance").unlink()
    pack.program("bin/gpu_carried_state", "exit 0")
    parts = "library,forward ladder,backward ladder,forward variants,carried state,ring balance"
    pack.run("--parts", parts)
    r = pack.results()
    assert r.status("forward ladder") == "passed", "what a cut-off report has is kept"
    assert r.figure("forward bf16/d128/8192/full: over cudnn") == 0.5
    assert r.figure("variants, bf16/d128/8192/full: 07b over 07_hopper_overlap") == 0.9
    # The last wrote no report.
    for part in ("backward ladder", "ring balance", "carried state"):
        assert r.status(part) == "failed", part


@pytest.mark.parametrize(
    "words", ["--what x", "--seconds", "--seconds zero", "--seconds -1", "--parts smoke,what", "--out /proc/nothing/here.json"]
)
def test_bad_usage(pack, words):
    ended = pack.run(*words.split())
    if words.startswith("--out"):
        assert ended.returncode == 3
    else:
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended


def last_h100():
    return sorted((ROOT / "bench/results").glob("nvidia-h100*"))[-1]


def test_tables_of_an_h100s_last_results_stand_in_the_page():
    command = ["python3", "-B", CHECK / "measured.py", last_h100()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "cuda/README.md").read_text(encoding="utf-8")
    assert page.partition("<!-- measured -->\n")[2].partition("<!-- /measured -->")[0] == printed


def test_the_lesson_about_them_has_the_same_figures():
    lesson = (ROOT / "lessons/26_gpu_measured/README.md").read_text(encoding="utf-8")
    found = 0
    for measured in json.loads(last_h100().read_text())["benchmarks"]:
        name = measured["name"]
        if not name.startswith("main/0") or "/d128/8192/full/" not in name or name >= "main/08":
            continue
        line = next(line for line in lesson.splitlines() if f"| `{name.split('/')[1]}` |" in line)
        assert f" | {round(measured['TFLOPs'])} | " in line, name
        found += 1
    assert found == 3


# ---
# A pack as the launcher makes it, of programs that are fakes.


@pytest.fixture
def launched(pack):
    """Return a function that runs a command in such a pack."""
    shutil.copy(CHECK / "gpu-check.sh", pack.root / "gpu-check")
    (pack.root / "commit").write_text("456def\n")
    return lambda command: subprocess.run(command, shell=True, cwd=pack.root, capture_output=True, text=True)


def test_a_pack_unpacks_its_programs_and_runs_them(pack, launched):
    (pack.root / "lib").mkdir()
    for script in ("gpu_check.py", "reports.py"):
        shutil.copy(CHECK / script, pack.root / "bin")
    packed = launched(f"bash -c 'progress() {{ :; }}; source {CHECK}/pack.sh; compress_pack .'")
    assert packed.returncode == 0 and not (pack.root / "bin").exists(), packed
    for _ in range(2):
        ended = launched("./gpu-check --out run.json --logs logs")
        assert ended.returncode == 0 and "456def" in (pack.root / "run.json").read_text(), ended
        (pack.root / "run.json").unlink()
        (pack.root / "programs.tar.xz").unlink(missing_ok=True)  # the second time all is there
    shutil.rmtree(pack.root / "bin")
    (pack.root / "programs.tar.xz").write_text("cut off")
    ended = launched("./gpu-check")
    assert ended.returncode == 3
    assert re.fullmatch("gpu-check: can't unpack .*\n", ended.stderr), ended


def test_a_pack_without_python(pack, launched):
    pack.program("path/python3", "exit 127")
    ended = launched('PATH="$PWD/path:/usr/bin:/bin" ./gpu-check')
    assert (ended.returncode, ended.stderr) == (2, "gpu-check: missing: python3, 3.7 or later\n")


def test_the_launcher_says_that_there_is_no_driver_before_it_builds_anything():
    if any(Path(file).exists() for file in ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")):
        pytest.skip("this machine has a driver")
    ended = subprocess.run([ROOT / "ringscope", "gpu-check"], capture_output=True, text=True)
    assert ended.returncode == 3
    assert re.fullmatch(".*no NVIDIA driver.*\n", ended.stderr), ended
