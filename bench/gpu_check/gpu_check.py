#!/usr/bin/env python3
"""Checks and measures everything on a GPU within ten minutes, with the programs of a pack. The most important
parts come first. The results are written anew after each group of tests and each part, so that an interrupted
check leaves them; the programs' output becomes one archive beside them.

Exit status: 0 all checks passed and nothing failed, 1 otherwise, 2 bad usage, 3 no GPU or nothing can be
written. Python 3.7 or later; nothing but the standard library.
"""
import argparse
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed

from reports import (SECTIONS, Counts, TestReport, figures_of, listed_tests, loads, print_table, read_benchmarks,
                     read_counters, read_library, read_ring, read_samples, text_in)

LEFT_FOR_THE_LAST = 10  # seconds, to write and to let programs end
TO_END, TO_BE_GONE = 2, 5  # seconds that a program has to end after SIGTERM, and to be gone after SIGKILL
LADDER_TESTS = "Ladder/EveryKernel."  # a test a kernel, on every shape class
NO_KERNEL_TESTS = "no kernel tests found"
SMALL = {"RINGSCOPE_SMALL_TESTS": "1"}
LIBC = ctypes.CDLL(None)


def text_of(path):
    """Return the whole file, or "" where there is none."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# --- Programs with a time limit each. Processes that they leave running are killed. ---


@dataclasses.dataclass
class Outcome:
    status: int = 127  # exit status; 128 + signal; 127 when it could not be started
    cut_off: bool = False
    left_behind: bool = False  # it does not end, even killed; a driver that hangs can hold it
    skipped: bool = False  # there was no time left to start it, so it is cut off, too
    seconds: float = 0

    def text(self):
        if self.left_behind:
            return f"does not end, left behind after {self.seconds:.0f} s"
        if self.cut_off:
            return f"cut off after {self.seconds:.0f} s"
        return f"ended by signal {self.status - 128}" if self.status > 128 else f"exit status {self.status}"


def become_a_child():
    """Lead a group of processes, and die with the thread that waits, because nobody else would enforce the limit."""
    os.setpgid(0, 0)
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_program(arguments, stem, limit, environment):
    """Run a program, whose files are stem.log for stderr and stem.out for stdout. Return its Outcome."""
    begin, outcome = time.monotonic(), Outcome()
    try:
        with open(stem + ".log", "wb") as log, open(stem + ".out", "wb") as out:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                       env={**os.environ, **environment}, preexec_fn=become_a_child)
    except (OSError, subprocess.SubprocessError):
        return outcome

    def kill(which):
        try:
            os.killpg(process.pid, which)
        except OSError:  # nothing is left of the group
            pass

    for patience, then in ((limit, signal.SIGTERM), (TO_END, signal.SIGKILL), (TO_BE_GONE, None)):
        try:
            status = process.wait(max(patience, 0))
            kill(signal.SIGKILL)  # what it started and left behind
            outcome.status = status if status >= 0 else 128 - status
            break
        except subprocess.TimeoutExpired:
            outcome.cut_off, outcome.left_behind = True, then is None
            kill(then or signal.SIGKILL)
    outcome.seconds = time.monotonic() - begin
    return outcome


class Check:
    """What the parts share: the programs, the results so far, and the time."""

    def __init__(self, options, now):
        self.bin = os.path.abspath(options.bin)
        self.logs = options.logs or tempfile.mkdtemp(prefix="gpu-check-")
        os.makedirs(self.logs, exist_ok=True)
        self.small = options.small
        self.hangs_after = options.hangs_after
        self.path = None  # of the results
        self.groups = []  # of tests (listed_groups)
        self.part_ends = math.inf
        self.results = {
            "format": 1, "commit": options.commit, "date": time.strftime("%Y-%m-%d", now),
            "time_utc": time.strftime("%H:%M:%S", now), "complete": False, "passed": False, "device": None,
            "parts": [], "kernels": [], "figures": [], "benchmarks": [], "library": [],
            "counters": []}
        self.parts, self.ours, self.library = (self.results[name] for name in ("parts", "benchmarks", "library"))
        self.kernels = {}  # the Counts by number

    def passed(self):
        """Return whether every check passed and no part failed. Parts that measure may lack the time to run."""
        return bool(self.parts) and all(
            part["status"] == "passed" if part["name"] in CHECKS else part["status"] != "failed"
            for part in self.parts)

    def failed(self, number):
        self.kernels.setdefault(number, Counts()).failed += 1

    def save(self):
        """Write the results so far, whole or not at all."""
        self.results["passed"] = self.passed()
        self.results["kernels"] = [
            {"number": number, "pass": tests.passes(), "tests_passed": tests.passed, "tests_failed": tests.failed,
             "tests_skipped": tests.skipped} for number, tests in sorted(self.kernels.items())]
        try:
            pathlib.Path(self.path + ".new").write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
            os.replace(self.path + ".new", self.path)
        except OSError as error:
            raise OSError(f"can't write {self.path}: {error.strerror}") from None

    def left(self):
        """Return the seconds that are left to the current part."""
        return self.part_ends - time.monotonic()

    def file(self, name):
        return os.path.join(self.logs, name)

    def fresh(self, name):
        """Return the path of a report that a program is to write, without one that is there."""
        path = self.file(name + ".json")
        if os.path.exists(path):
            os.remove(path)
        return path

    def run(self, log, arguments, limit=math.inf, environment=None):
        """Run a program, of the pack unless its name has a slash, within its limit and that of the part."""
        if self.left() < 0.5:
            return Outcome(cut_off=True, skipped=True)
        program = arguments[0] if "/" in arguments[0] else os.path.join(self.bin, arguments[0])
        return run_program([program, *arguments[1:]], self.file(log), min(limit, self.left()), environment or {})

    def run_all(self, programs, at_once):
        """Run programs, each the arguments of run(), `at_once` of them side by side. Yield (log, outcome) after each."""
        with ThreadPoolExecutor(at_once) as pool:
            logs = {pool.submit(self.run, *program): program[0] for program in programs}
            for ended in as_completed(logs):
                yield logs[ended], ended.result()
                self.save()


# --- The parts. Each returns how it ended ("passed", "failed", "cut off" or "not measured") and why. ---


def worst(a, b):
    return "failed" if "failed" in (a, b) else b if a == "passed" else a


def find_device(check):
    outcome = check.run("device", ["gpu_device"], 30)
    if outcome.status == 0:
        check.results["device"] = loads(text_of(check.file("device.out")))
        return ""
    said = text_of(check.file("device.log")).split("\n")[0]
    return said if outcome.status == 3 else f"{outcome.text()}: {said}"


# --- kernel tests ---


def kernel_of(group):
    """Return the number in "Ladder/EveryKernel.IsRightOnEveryShapeClass/05", or 0 for another group."""
    number = group.rpartition("/")[2]
    return int(number) if group.startswith(LADDER_TESTS) and number.isdigit() else 0


def listed_groups(check):
    """Return groups of tests that run as separate programs, because a device error breaks everything after it:
    first each kernel's test on every shape class, then the other suites. The list is made once."""
    if not check.groups:
        check.run("tests-list", ["cuda_tests", "--gtest_list_tests"], 20)
        tests = listed_tests(text_of(check.file("tests-list.out")))
        suites = [test.split(".")[0] + ".*" for test in tests if not test.startswith(LADDER_TESTS)]
        check.groups = [test for test in tests if test.startswith(LADDER_TESTS)] + list(dict.fromkeys(suites))
    return check.groups


def run_groups(check, stem, groups, at_once, limit, are_small):
    """Run groups of tests side by side. Where they are small, a kernel that fails is known to be wrong, but none
    counts as tested."""
    group_of = {f"{stem}-{i:03}": group for i, group in enumerate(groups)}
    programs = [(log, ["cuda_tests", "--gtest_filter=" + group, "--gtest_output=json:" + check.fresh(log)],
                 check.hangs_after or (math.inf if check.small else limit), SMALL if are_small or check.small else {})
                for log, group in group_of.items()]
    status, counts, bad = "passed", Counts(), []
    for log, outcome in check.run_all(programs, at_once):
        group = group_of[log]
        if outcome.skipped:
            status = worst(status, "cut off")
            bad.append("no time for " + group)
            continue
        report = TestReport(text_of(check.file(log + ".json")))
        counts.add(report.counts)
        for number, tests in report.kernels.items():
            check.kernels.setdefault(number, Counts()).add(Counts(failed=tests.failed) if are_small else tests)
        if outcome.status == 0 and report.readable:
            continue
        status = worst(status, "cut off" if outcome.cut_off else "failed")
        bad += report.failures
        if report.readable:
            continue
        # The group ended before its report, so no kernel that it may test has passed. A suite that only lacked
        # time says nothing against a kernel.
        counts.failed += not outcome.cut_off
        bad.append(f"{group} {outcome.text()}: {text_of(check.file(log + '.log'))[-300:]}")
        if kernel_of(group):
            check.failed(kernel_of(group))
        elif not outcome.cut_off:
            for number in check.kernels:
                check.failed(number)
    return status, counts.text(bad)


def smoke(check):
    """Run each kernel, and the rungs between them, on a few small problems, all at once: what hangs or crashes is known
    within seconds."""
    groups = [group for group in listed_groups(check) if kernel_of(group) or group == "Rungs.*"]
    if not any(map(kernel_of, groups)):
        return "failed", NO_KERNEL_TESTS
    return run_groups(check, "smoke", groups, len(groups), 15, True)


def kernel_tests(check):
    groups = listed_groups(check)
    status, detail = run_groups(check, "tests", groups, 8, 20, False)
    return (status, detail) if any(map(kernel_of, groups)) else ("failed", f"{detail}; {NO_KERNEL_TESTS}")


# --- benchmarks ---


def benchmarks(*names):
    """Return the part that runs these benchmarks in this order. A name is a program without gpu_ and the beginning of
    its benchmarks' names, as in "forward main/07". Each has a process of its own, because a device error breaks
    everything after it. Problems count as failures, also of the kernel that has them; shapes that a kernel does not
    take don't."""

    def part(check):
        status, measured, bad = "passed", 0, []
        for program, prefix in [("gpu_" + name).split() for name in names]:
            log = f"{program}-{prefix.replace('/', '-')}"
            report = check.fresh(log)
            outcome = check.run(log, [program, "--benchmark_out=" + report, "--benchmark_out_format=json",
                                      "--benchmark_filter=^" + prefix])
            measurements = read_benchmarks(text_of(report))
            check.ours.extend(measurements)
            measured += sum("problem" not in m for m in measurements)
            problems = [m for m in measurements if not m.get("problem", "skipped").startswith("skipped")]
            bad += [f"{m['name']}: {m['problem']}" for m in problems]
            for number in (m["name"].partition("/")[2][:2] for m in problems):
                if number.isdigit():
                    check.failed(int(number))
            if outcome.cut_off:
                status = worst(status, "cut off")
            elif outcome.status != 0 or problems or not measurements:
                status = "failed"
                bad.append(f"{prefix} {outcome.text()}, {len(measurements)} measurements")
        return status, "; ".join([f"{measured} measured", *bad])

    return part


def library(check):
    python = shutil.which("python3") or sys.executable
    report = check.fresh("sdpa")
    outcome = check.run("sdpa", [python, check.bin + "/sdpa.py", "--out", report], 70, {"PYTHONUNBUFFERED": "1"})
    measurements, versions, why_not = read_library(text_of(report))
    check.library.extend(measurements)
    if outcome.cut_off:
        return "cut off", outcome.text()
    if measurements:
        return "passed", versions
    return "not measured", why_not if outcome.status == 0 else text_of(check.file("sdpa.log"))[-300:]


# --- counters and clocks ---


def counters(check):
    """Profile one launch of the best forward and of the best backward kernel with ncu, where it is and may."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not os.path.exists(ncu):
        return "not measured", "there is no ncu"
    status, details = "not measured", []
    for program, prefix, kernel in (("gpu_forward", "main/07", "hopper_overlap"),
                                    ("gpu_backward", "main/11", "backward_one_pass")):
        log = f"counters-{prefix.replace('/', '-')}"
        outcome = check.run(log, [ncu, *"--clock-control none --csv --page raw -c 1 --kill yes -k".split(),
                                  "regex:" + kernel, *(f"--section={section}" for section in SECTIONS),
                                  os.path.join(check.bin, program), f"--benchmark_filter=^{prefix}.*/8192/full/"], 25)
        out = text_of(check.file(log + ".out"))
        measured = read_counters(out)
        if measured:
            status = "passed"
            check.results["counters"].append({"kernel": kernel, **measured})
        else:
            refused = next((line for line in out.splitlines() if "==ERROR==" in line), "")
            details.append(f"{kernel}: {refused or outcome.text()}")
    return status, "; ".join(details)


class Clocks:
    """Asks nvidia-smi for the clock and the power, twice a second, until stop(). Where it is not, nothing is said."""

    def __init__(self):
        asks = "-i 0 -lms 500 --format=csv,noheader,nounits --query-gpu=clocks.sm,power.draw,temperature.gpu"
        try:
            self.process = subprocess.Popen(["nvidia-smi", *asks.split()],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            universal_newlines=True, preexec_fn=become_a_child)
        except (OSError, subprocess.SubprocessError):
            self.process = None

    def stop(self):
        """Return {"sm_mhz", "watts", "celsius"}, each a median of the samples, or {}."""
        if not self.process:
            return {}
        self.process.kill()
        samples = read_samples(self.process.communicate()[0])
        return dict(zip(("sm_mhz", "watts", "celsius"), map(statistics.median, zip(*samples))))


# --- the ring ---

# Partition, mask, dtype, world_size, seqlen, head_dim, and which kernels, where it is not the best that take it.
RING_CASES = [("contiguous", "causal", "bf16", 4, 2048, 128, ""),
              ("zigzag", "causal", "bf16", 8, 2048, 128, ""),
              ("striped", "causal+window:300", "f16", 3, 1001, 64, ""),
              ("fold", "full", "bf16", 5, 777, 128, ""),
              ("zigzag", "causal", "f32", 4, 1000, 80, ""),
              ("striped", "documents:300,13,187", "bf16", 8, 500, 64, ""),
              ("zigzag", "causal", "bf16", 4, 2048, 128, "--kernel 5 --backward-kernel 9")]


def ring(check):
    status, bad = "passed", []
    # Small problems take every third case, whose masks take any length.
    cases = RING_CASES[::3] if check.small else RING_CASES
    for i, (partition, mask, dtype, world_size, seqlen, head_dim, kernels) in enumerate(cases):
        what = f"{partition} {mask} {dtype} x{world_size} {kernels}".rstrip()
        heads = "--heads 2 --heads-kv 1" if check.small else "--heads 4 --heads-kv 2"
        problem = (f"{heads} --seqlen {seqlen // 32 if check.small else seqlen} --head-dim {head_dim} "
                   f"--world-size {world_size} --partition {partition} --mask {mask} --dtype {dtype} --backward --json")

        def run(backend, log, more=""):
            outcome = check.run(log, f"ringscope run --random --backend {backend} {problem} {more}".split(),
                                math.inf if check.small else 30)
            return outcome, read_ring(text_of(check.file(log + ".out")))

        outcome, (is_verified, pairs) = run("cuda", f"ring-{i}", "--verify " + kernels)
        if outcome.status != 0 or not is_verified:
            status = worst(status, "cut off" if outcome.cut_off else "failed")
            bad.append(f"{what}: {outcome.text()}: {text_of(check.file(f'ring-{i}.log'))[-200:]}")
            continue
        outcome, (_, pairs_of_cpu) = run("cpu", f"ring-{i}-cpu")
        if outcome.cut_off:
            status = worst(status, "cut off")
            bad.append(f"{what}: the CPU's ring is {outcome.text()}")
        elif not pairs or pairs_of_cpu != pairs:
            status = "failed"
            bad.append(what + ": its pairs are not those of the CPU's ring")
    return status, "; ".join([f"{len(cases)} cases", *bad])


# --- the ring over NCCL ---


def nccl(check):
    """Run each test of the ring over NCCL by itself, on GPUs that ranks share where there are not enough of them.
    Nothing is measured where the pack or the machine has no NCCL."""
    if not os.path.exists(os.path.join(check.bin, "nccl_tests")):
        return "not measured", "the pack has no nccl_tests"
    check.run("nccl-list", ["nccl_tests", "--gtest_list_tests"], 20)
    tests = listed_tests(text_of(check.file("nccl-list.out")))
    status, counts, bad = "passed" if tests else "failed", Counts(), []
    for i, test in enumerate(tests):
        log = f"nccl-{i:02}"
        outcome = check.run(log, ["nccl_tests", "--gtest_filter=" + test, "--gtest_output=json:" + check.fresh(log)],
                            check.hangs_after or 25)
        report = TestReport(text_of(check.file(log + ".json")))
        counts.add(report.counts)
        if outcome.status != 0 or not report.readable:
            status = worst(status, "cut off" if outcome.cut_off else "failed")
            bad.append(f"{test} {outcome.text()}: {text_of(check.file(log + '.out'))[-300:]}")
        check.save()
    if status == "passed" and counts.passed == 0:
        return "not measured", counts.text(bad)
    return status, counts.text(bad)


# What may hang or be wrong comes first, with what the day is for; then what explains and compares it. Each part has its
# name, its limit in seconds, and what it does. The limits sum to less than a call.
PLAN = [("smoke", 40, smoke),
        ("agreement", 50, benchmarks("forward agreement/07_", "backward agreement/11_", "backward agreement/09_",
                                     "forward agreement/06_", "forward agreement/05_", "backward agreement/11[a-c]",
                                     "forward agreement/0[67][a-d]")),
        ("best forward", 30, benchmarks("forward main/07")),
        ("best backward", 35, benchmarks("backward main/11", "backward whole/11", "backward main/09")),
        ("kernel tests", 55, kernel_tests),
        ("ring", 35, ring),
        ("fused ring", 25, benchmarks("ring_balance fused")),
        ("nccl", 60, nccl),
        ("library", 45, library),
        ("counters", 35, counters),
        ("forward ladder", 30, benchmarks(*(f"forward main/0{n}" for n in range(6, 0, -1)))),
        ("backward ladder", 10, benchmarks("backward main/08")),
        ("forward variants", 25, benchmarks("forward variants")),
        ("backward variants", 20, benchmarks("backward variants")),
        ("carried state", 20, benchmarks("carried_state carried_state")),
        ("ring balance", 20, benchmarks("ring_balance ring_balance")),
        ("more forward", 15, benchmarks("forward more")),
        ("more backward", 15, benchmarks("backward more"))]
CHECKS = {"smoke", "agreement", "kernel tests", "ring"}  # must pass; the others measure, as far as time allows


# --- the whole check ---


def place_for(out, results):
    """Return `out`, or a new file <gpu>-<date>.json in it if it is a folder."""
    if not os.path.isdir(out):
        return out
    gpu = "".join(c if c.isascii() and c.isalnum() else "-" for c in text_in(results["device"], "name").lower())
    stem = os.path.join(out, f"{gpu or 'gpu'}-{results['date']}")
    names = (stem + (f"-{n}.json" if n > 1 else ".json") for n in range(1, 10**6))
    return next(name for name in names if not os.path.exists(name))


def run_check(options):
    begin = time.monotonic()
    check = Check(options, time.gmtime())
    ends = begin + options.seconds - min(LEFT_FOR_THE_LAST, options.seconds / 4)
    check.part_ends = min(begin + 30, ends)
    why_none = find_device(check)
    if why_none:
        print(f"gpu-check: no GPU: {why_none}", file=sys.stderr)
        return 3
    check.path = place_for(options.out, check.results)
    check.parts.extend({"name": name, "status": "not run", "seconds": 0,
                        "detail": "no time was left" if name in options.parts else "not asked for"}
                       for name, _, _ in PLAN)
    for result, (name, limit, part) in zip(check.parts, PLAN):
        if name not in options.parts:
            continue
        began = time.monotonic()
        if ends - began < 2:
            break
        check.part_ends = ends if options.small else min(began + limit, ends)
        print(f"gpu-check: {name}", file=sys.stderr, flush=True)
        result.update(status="cut off", detail="was running when the check ended")
        check.save()
        clocks = Clocks()
        try:
            status, detail = part(check)
        except Exception as error:  # the other parts go on, alone
            status, detail = "failed", f"{error!r}\n{traceback.format_exc()}"
        result.update(status=status, seconds=time.monotonic() - began, detail=detail, **clocks.stop())
        if not detail:
            del result["detail"]
        check.results["figures"] = figures_of(check.ours, check.library)
        check.results["complete"] = all(part["seconds"] > 0 for part in check.parts)
        check.save()
    check.save()
    print_table(check.results, check.kernels)
    archive = shutil.make_archive(os.path.abspath(os.path.splitext(check.path)[0]) + ".logs", "gztar", check.logs)
    print(f"{check.path} (logs: {archive})")
    return 0 if check.passed() else 1


def seconds(text):
    if not 1 <= float(text) <= 1e9:
        raise ValueError
    return float(text)


def names_of_parts(text):
    """Return the names in "smoke,best forward"."""
    names = text.split(",")
    if not {name for name, _, _ in PLAN}.issuperset(names):
        raise argparse.ArgumentTypeError(f"{text!r}: of {', '.join(name for name, _, _ in PLAN)}")
    return names


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.print_usage = lambda file: None  # an error is one line
    parser.add_argument("--bin", metavar="DIR", required=True, help="where the pack's programs are")
    parser.add_argument("--out", metavar="FILE-OR-FOLDER", default=".",
                        help="the results' file, or where to put <gpu>-<date>.json (.)")
    parser.add_argument("--logs", metavar="DIR", help="for the programs' output (a folder of its own)")
    parser.add_argument("--seconds", metavar="N", type=seconds, default=570, help="for everything (570)")
    parser.add_argument("--parts", metavar="NAME,...", type=names_of_parts, default=[name for name, _, _ in PLAN],
                        help="what to run, as the table names it (all)")
    parser.add_argument("--commit", metavar="ID", default="unknown", help="what the programs were built from")
    parser.add_argument("--small", action="store_true",
                        help="rehearse with the model of a GPU: small problems, and no limit but --seconds")
    parser.add_argument("--hangs-after", metavar="N", type=seconds,
                        help="for a group of tests (15 in smoke, then 20; with --small none)")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who ends the check ends its programs, at once
    try:
        return run_check(options)
    except OSError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
