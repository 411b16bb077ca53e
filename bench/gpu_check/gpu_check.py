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
import subprocess
import sys
import tempfile
import time
import traceback

from reports import (Counts, TestReport, figures_of, listed_tests, loads, print_table, read_benchmarks, read_library,
                     read_ring, rounded, text_in)

LEFT_FOR_THE_LAST = 10  # seconds, to write and to let programs end
TO_END, TO_BE_GONE = 2, 5  # seconds that a program has to end after SIGTERM, and to be gone after SIGKILL
SANITIZER_FOUND = 86  # compute-sanitizer's exit status for a finding
LADDER_TESTS = "Ladder/EveryKernel."  # a test a kernel, on every shape class
NO_KERNEL_TESTS = "no kernel tests found"
SMALL = {"RINGSCOPE_SMALL_TESTS": "1"}
LIBC = ctypes.CDLL(None)
OUR_PID = os.getpid()


def text_of(path):
    """Return the whole file, or "" where there is none."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def tail_of(path, characters):
    text = text_of(path)
    return text if len(text) <= characters else "... " + text[-characters:]


# ---
# Programs with a time limit each. Processes that they leave running are killed.


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


@dataclasses.dataclass
class Program:
    """A program of the pack, or of the machine if arguments[0] has a slash."""

    log: str  # names its files: log.log for stderr, log.out for stdout
    arguments: list
    limit: float = 60  # seconds
    environment: dict = dataclasses.field(default_factory=dict)  # added to our own


def become_a_child():
    """Lead a group of processes, and die with the parent, because nobody would enforce the limit after that."""
    os.setpgid(0, 0)
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != OUR_PID:
        os._exit(127)  # it had ended before


class Child:
    """A program that has been started."""

    def __init__(self, program, stem, limit):
        self.program, self.limit, self.begin = program, limit, time.monotonic()
        self.outcome = Outcome()
        try:
            with open(stem + ".log", "wb") as log, open(stem + ".out", "wb") as out:
                self.process = subprocess.Popen(
                    program.arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                    env={**os.environ, **program.environment}, preexec_fn=become_a_child)
        except (OSError, subprocess.SubprocessError):
            self.process = None

    def kill(self, which):
        try:
            os.killpg(self.process.pid, which)
        except (OSError, AttributeError):  # nothing is left of the group, or it was never there
            pass

    def has_ended(self):
        """Enforce the limit. Return True once the program has ended, or will not be waited for."""
        if self.process is None:
            return True
        status, outcome = self.process.poll(), self.outcome
        outcome.seconds = time.monotonic() - self.begin
        if status is not None:
            self.kill(signal.SIGKILL)  # what it started and left behind
            outcome.status = status if status >= 0 else 128 - status
            return True
        if outcome.seconds > self.limit and not outcome.cut_off:
            outcome.cut_off = True
            self.kill(signal.SIGTERM)
        if outcome.seconds > self.limit + TO_END:
            self.kill(signal.SIGKILL)
        outcome.left_behind = outcome.seconds > self.limit + TO_END + TO_BE_GONE
        return outcome.left_behind


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
        self.running = []  # Children
        self.part_ends = math.inf
        self.results = {
            "format": 1, "commit": options.commit, "date": time.strftime("%Y-%m-%d", now),
            "time_utc": time.strftime("%H:%M:%S", now), "complete": False, "passed": False, "device": None,
            "parts": [], "kernels": [], "figures": [], "benchmarks": [], "library": []}
        self.parts, self.ours, self.library = (self.results[name] for name in ("parts", "benchmarks", "library"))
        self.kernels = {}  # the Counts by number

    def passed(self):
        """Return whether every check passed and no part failed. Parts that measure may lack the time to run."""
        return bool(self.parts) and all(
            part["status"] == "passed" if name in CHECKS else part["status"] != "failed"
            for part in self.parts for name in [part["name"]])

    def failed(self, number):
        self.kernels.setdefault(number, Counts()).failed += 1

    def save(self):
        """Write the results so far, whole or not at all."""
        self.results["passed"] = self.passed()
        self.results["kernels"] = [
            {"number": number, "pass": tests.passes(), "tests_passed": tests.passed, "tests_failed": tests.failed,
             "tests_skipped": tests.skipped} for number, tests in sorted(self.kernels.items())]
        document = {name: value if name == "device" else rounded(value) for name, value in self.results.items()}
        try:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.write("\n")
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

    def run(self, log, arguments, limit=None, environment=None):
        """Run a program within its limit and those of the part and of the whole check. Return its Outcome."""
        limit = self.left() if limit is None else limit
        return next(iter(self.run_all([Program(log, arguments, limit, environment or {})], 1)))[1]

    def run_all(self, programs, at_once):
        """Run programs, `at_once` of them side by side. Yield (program, outcome) after each."""
        waiting, pause = list(programs), 0.002
        while waiting or self.running:
            if waiting and len(self.running) < at_once:
                program = waiting.pop(0)
                if self.left() < (1 if len(programs) > 1 else 0):
                    yield program, Outcome(cut_off=True, skipped=True)
                    continue
                if "/" not in program.arguments[0]:
                    program.arguments[0] = os.path.join(self.bin, program.arguments[0])
                self.running.append(Child(program, self.file(program.log), min(program.limit, self.left())))
                pause = 0.002
                continue
            ended = [child for child in self.running if child.has_ended()]
            self.running = [child for child in self.running if child not in ended]
            for child in ended:
                yield child.program, child.outcome
                if len(programs) > 1:
                    self.save()
            if not ended:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.05)


# ---
# The parts. Each returns how it ended ("passed", "failed", "cut off" or "not measured") and why.


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
    group_of, programs = {}, []
    for i, group in enumerate(groups):
        log = f"{stem}-{i:03}"
        group_of[log] = group
        programs.append(Program(log, ["cuda_tests", "--gtest_filter=" + group,
                                      "--gtest_output=json:" + check.fresh(log)],
                                check.hangs_after or limit, SMALL if are_small or check.small else {}))
    status, counts, bad = "passed", Counts(), []
    for program, outcome in check.run_all(programs, at_once):
        group = group_of[program.log]
        if outcome.skipped:
            status = worst(status, "cut off")
            bad.append("no time for " + group)
            continue
        report = TestReport(text_of(check.file(program.log + ".json")))
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
        bad.append(f"{group} {outcome.text()}: {tail_of(check.file(program.log + '.log'), 300)}")
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
    if not groups:
        return "failed", "cuda_tests lists no tests"
    status, detail = run_groups(check, "tests", groups, 8, 60 if check.small else 20, False)
    return (status, detail) if any(map(kernel_of, groups)) else ("failed", f"{detail}; {NO_KERNEL_TESTS}")


# --- benchmarks ---


def run_benchmarks(check, log, arguments, suffix="", environment=None):
    """Run a program of Google Benchmark, and add what its report holds to the results, with `suffix` on the
    names. Return its outcome, the measurements (None without a report), and the problems that they name."""
    report, (program, *more) = check.fresh(log), arguments
    outcome = check.run(log, [program, "--benchmark_out=" + report, "--benchmark_out_format=json", *more],
                        environment=environment)
    try:
        measurements = read_benchmarks(text_of(report))
    except ValueError as error:
        return outcome, None, [str(error)]
    for m in measurements:
        m["name"] += suffix
    check.ours.extend(measurements)
    return outcome, measurements, [f"{m['name']}: {m['problem']}" for m in measurements
                                   if not m.get("problem", "skipped").startswith("skipped")]


def run_each(check, program, prefixes):
    """Run a program for the benchmarks of each prefix, such as "main/07", as a process of its own, because a device
    error breaks everything after it. Programs that fail count as failures; shapes that a kernel does not take
    don't. Return how it ended, all measurements, and the problems."""
    status, all_measured, bad = "passed", [], []
    for prefix in prefixes:
        outcome, measurements, problems = run_benchmarks(
            check, f"{program}-{prefix.replace('/', '-')}", [program, "--benchmark_filter=^" + prefix])
        all_measured += measurements or []
        bad += problems
        if outcome.cut_off:
            status = worst(status, "cut off")
        elif outcome.status != 0 or problems:
            status = "failed"
            bad += [f"{prefix} {outcome.text()}"] if outcome.status != 0 else []
    return status, all_measured, bad


def agreement(check):
    """Compare the kernels with each other on the problems that the benchmarks time, which are too large for the
    tests' oracle."""
    status, compared, bad = "passed", 0, []
    for program, kernels in (("gpu_forward", ("07", "06", "05")), ("gpu_backward", ("11", "09"))):
        its_status, measurements, problems = run_each(check, program, [f"agreement/{kernel}" for kernel in kernels])
        status = worst(status, its_status)
        bad += problems
        for m in measurements:
            compared += not m.get("problem", "").startswith("skipped")
            number = m["name"].partition("agreement/")[2][:2]
            if "problem" in m and number.isdigit() and not m["problem"].startswith("skipped"):
                check.failed(int(number))
    return status, "; ".join([f"{compared} comparisons", *bad])


def benchmarks(program, *prefixes):
    """Return the part that runs these benchmarks."""

    def part(check):
        status, _, problems = run_each(check, program, prefixes)
        return status, "; ".join(problems)

    return part


def library(check):
    python = shutil.which("python3") or sys.executable
    report = check.fresh("sdpa")
    outcome = check.run("sdpa", [python, check.bin + "/sdpa.py", "--out", report], 90, {"PYTHONUNBUFFERED": "1"})
    measurements, versions, why_not = read_library(text_of(report))
    check.library.extend(measurements)
    if outcome.cut_off:
        return "cut off", outcome.text()
    if measurements:
        return "passed", versions
    return "not measured", why_not if outcome.status == 0 else tail_of(check.file("sdpa.log"), 300)


# --- the ring ---

# Partition, mask, dtype, world_size, seqlen, head_dim, and which kernels, where it is not the best that take it.
RING_CASES = [("contiguous", "causal", "bf16", 4, 2048, 128, ""),
              ("zigzag", "causal", "bf16", 8, 2048, 128, ""),
              ("contiguous", "causal", "bf16", 1, 4096, 128, ""),
              ("striped", "causal+window:300", "f16", 3, 1001, 64, ""),
              ("fold", "full", "bf16", 5, 777, 128, ""),
              ("zigzag", "causal", "f32", 4, 1000, 80, ""),
              ("contiguous", "prefix:100", "f32", 7, 500, 64, ""),
              ("striped", "documents:300,13,187", "bf16", 8, 500, 64, ""),
              ("zigzag", "causal", "bf16", 4, 2048, 128, "--kernel 5 --backward-kernel 9")]


def ring(check):
    status, bad = "passed", []
    # Small problems take every third case, whose masks take any length.
    cases = RING_CASES[::3] if check.small else RING_CASES
    for i, (partition, mask, dtype, world_size, seqlen, head_dim, kernels) in enumerate(cases):
        what = f"{partition} {mask} {dtype} x{world_size} {kernels}".rstrip()
        problem = (f"--heads 4 --heads-kv 2 --seqlen {seqlen // 32 if check.small else seqlen} --head-dim {head_dim} "
                   f"--world-size {world_size} --partition {partition} --mask {mask} --dtype {dtype} --backward --json")

        def run(backend, log, more=""):
            outcome = check.run(
                log, f"ringscope run --random --backend {backend} {problem} {more}".split(), 30)
            return outcome, read_ring(text_of(check.file(log + ".out")))

        outcome, (is_verified, pairs) = run("cuda", f"ring-{i}", "--verify " + kernels)
        if outcome.status != 0 or not is_verified:
            status = worst(status, "cut off" if outcome.cut_off else "failed")
            bad.append(f"{what}: {outcome.text()}: {tail_of(check.file(f'ring-{i}.log'), 200)}")
            continue
        outcome, (_, pairs_of_cpu) = run("cpu", f"ring-{i}-cpu")
        if outcome.cut_off:
            status = worst(status, "cut off")
            bad.append(f"{what}: the CPU's ring is {outcome.text()}")
        elif not pairs or pairs_of_cpu != pairs:
            status = "failed"
            bad.append(what + ": its pairs are not those of the CPU's ring")
    return status, "; ".join([f"{len(cases)} cases", *bad])


# --- compute-sanitizer ---


def find_sanitizer():
    usual = "/usr/local/cuda/bin/compute-sanitizer"
    return shutil.which("compute-sanitizer") or (usual if os.path.exists(usual) else None)


NO_SANITIZER = "not measured", "there is no compute-sanitizer"
NOT_SUPPORTED = "not measured", "compute-sanitizer does not support this machine"


def sanitizer(tool):
    """Return the part that runs each kernel separately under a tool, so that findings have a name. Among the
    ways to fail, only a finding counts against the kernel."""

    def part(check):
        program = find_sanitizer()
        if program is None:
            return NO_SANITIZER
        status, bad, done = "passed", [], 0
        for group in listed_groups(check):
            number = kernel_of(group)
            if not number:
                continue
            if check.left() < 1:
                status = worst(status, "cut off")
                bad.append(f"no time for kernel {number:02}")
                continue
            log = f"{tool}-{number:02}"
            outcome = check.run(log, [program, "--tool", tool, "--error-exitcode", str(SANITIZER_FOUND),
                                      check.bin + "/cuda_tests", "--gtest_filter=" + group], environment=SMALL)
            done += 1
            if outcome.status == 0 and not outcome.cut_off:
                continue
            said = tail_of(check.file(log + ".out"), 400)
            if "Device not supported" in said:
                return NOT_SUPPORTED
            # racecheck does not know shared memory that is written by the tensor memory accelerator, and waited
            # for at barriers in memory.
            advises = tool == "racecheck" and (number in (6, 7) or number >= 10)
            found = not outcome.cut_off and outcome.status == SANITIZER_FOUND
            failed_itself = "" if found or outcome.cut_off else "tool failed, "
            bad.append(f"kernel {number:02} {'(advice) ' if advises else ''}{failed_itself}{outcome.text()}: {said}")
            if not advises:
                status = worst(status, "cut off" if outcome.cut_off else "failed")
                if found:
                    check.failed(number)
        return (status, "; ".join([f"{done} kernels", *bad])) if done or bad else ("failed", NO_KERNEL_TESTS)

    return part


# --- the ring over the real NCCL: without NCCL, as on most machines, it is not measured, which is no failure ---


def with_nccl(program):
    """Make a part of a function that is called with the environment in which NCCL is found. Machines with PyTorch
    have NCCL among Python's packages, and often nowhere else."""

    def decorate(function):
        def part(check):
            if not os.path.exists(os.path.join(check.bin, program)):
                return "not measured", "the pack was built without NCCL"
            python, path = shutil.which("python3"), ""
            if "RINGSCOPE_NCCL_LIBRARY" not in os.environ and python:
                check.run("nccl-library", [python, "-c", (
                    "import importlib.util as u\n"
                    "s = u.find_spec('nvidia.nccl')\n"
                    "print(list(s.submodule_search_locations)[0] + '/lib/libnccl.so.2' if s else '')")], 10)
                path = text_of(check.file("nccl-library.out")).strip()
            return function(check, {"RINGSCOPE_NCCL_LIBRARY": path} if path and os.path.exists(path) else {})

        return part

    return decorate


def why_skipped(said):
    """Return why tests were skipped: the line after "Skipped" in their output."""
    return said.split("Skipped\n", 1)[1].split("\n")[0] if "Skipped\n" in said else "its tests were skipped"


@with_nccl("nccl_tests")
def nccl_tests(check, environment):
    path = check.fresh("nccl-tests")
    outcome = check.run("nccl-tests", ["nccl_tests", "--gtest_output=json:" + path], environment=environment)
    report = TestReport(text_of(path))
    if outcome.cut_off:
        return "cut off", outcome.text()
    if not report.readable:
        return "failed", f"{outcome.text()}: {tail_of(check.file('nccl-tests.log'), 300)}"
    if report.counts.passed + report.counts.failed == 0:
        return "not measured", why_skipped(text_of(check.file("nccl-tests.out")))
    passed = outcome.status == 0 and report.counts.failed == 0
    return "passed" if passed else "failed", report.counts.text(report.failures)


@with_nccl("nccl_tests")
def nccl_memcheck(check, environment):
    program = find_sanitizer()
    if program is None:
        return NO_SANITIZER
    outcome = check.run("nccl-memcheck", [
        program, "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", str(SANITIZER_FOUND),
        check.bin + "/nccl_tests", "--gtest_filter=NcclRing.OfTwoProcesses"], environment={**environment, **SMALL})
    said = text_of(check.file("nccl-memcheck.out"))
    if outcome.cut_off:
        return "cut off", outcome.text()
    if "Device not supported" in said:
        return NOT_SUPPORTED
    # Ranks are processes that the program forks, so findings in them appear only in the output.
    found = outcome.status == SANITIZER_FOUND or any(
        not summary.startswith("0 errors") for summary in said.split("ERROR SUMMARY: ")[1:])
    if found or outcome.status != 0:
        return "failed", "{}{}: {}".format("" if found else "tool failed, ", outcome.text(),
                                           tail_of(check.file("nccl-memcheck.out"), 400))
    return ("passed", "") if "  PASSED  ] 1 test" in said else ("not measured", why_skipped(said))


@with_nccl("nccl_ring")
def nccl_speed(check, environment):
    """Measure with one rank per GPU, and with two ranks, which share a GPU if there is only one."""
    status, remarks = "not measured", []
    for log, more, suffix in (("nccl-ring", [], ""),
                              ("nccl-ring-2", ["--world-size", "2", "--rows", "2048"], "/two_ranks")):
        outcome, measurements, problems = run_benchmarks(check, log, ["nccl_ring", *more], suffix, environment)
        if measurements is not None:  # otherwise it was skipped, or did not get so far
            remarks += problems
            status = "passed" if status == "not measured" else status
        if outcome.cut_off:
            return "cut off", outcome.text()
        if outcome.status != 0:
            status = "failed"
            remarks.append(f"{outcome.text()}: {tail_of(check.file(log + '.log'), 200)}")
        remarks += [line for line in text_of(check.file(log + ".out")).splitlines()
                    if line.startswith(("skipped: ", "not measured: "))]
    return status, "; ".join(remarks)


# What may hang or be wrong comes first, then what the day is for, then what takes long. Each part has its name, its
# limit in seconds, and what it does.
PLAN = [("smoke", 40, smoke),
        ("agreement", 90, agreement),
        ("best forward", 40, benchmarks("gpu_forward", "main/07")),
        ("best backward", 60, benchmarks("gpu_backward", "main/11", "main/10")),
        ("library", 90, library),
        ("forward ladder", 60, benchmarks("gpu_forward", *(f"main/0{n}" for n in range(6, 0, -1)))),
        ("backward ladder", 40, benchmarks("gpu_backward", "main/09", "main/08")),
        ("forward ideas", 40, benchmarks("gpu_forward", "idea/07", "idea/06")),
        ("backward ideas", 20, benchmarks("gpu_backward", "idea")),
        ("kernel tests", 120, kernel_tests),
        ("ring", 60, ring),
        ("memcheck", 45, sanitizer("memcheck")),
        ("racecheck", 45, sanitizer("racecheck")),
        ("NCCL ring", 90, nccl_tests),
        ("NCCL speed", 60, nccl_speed),
        ("carried state", 40, benchmarks("gpu_carried_state", "carried_state")),
        ("ring balance", 40, benchmarks("gpu_ring_balance", "ring_balance", "ring_launch")),
        ("NCCL memcheck", 60, nccl_memcheck),
        ("more forward", 40, benchmarks("gpu_forward", "more")),
        ("more backward", 40, benchmarks("gpu_backward", "more"))]
CHECKS = {"smoke", "agreement", "kernel tests", "ring"}  # must pass; the others measure, as far as time allows


# ---
# The whole check.


def place_for(out, results):
    """Return `out`, or a new file <gpu>-<date>.json in it if it is a folder."""
    if not os.path.isdir(out):
        return out
    gpu = "".join(c if c.isascii() and c.isalnum() else "-" for c in text_in(results["device"], "name").lower())
    stem = os.path.join(out, f"{gpu or 'gpu'}-{results['date']}")
    names = (stem + (f"-{n}.json" if n > 1 else ".json") for n in range(1, 10**6))
    return next(name for name in names if not os.path.exists(name))


def archive_logs(check):
    """Put the programs' output into FILE.logs.tar.gz beside FILE.json. Return its path, or the folder's where
    there is no tar."""
    archive = os.path.abspath(os.path.splitext(check.path)[0] + ".logs.tar.gz")
    tar = shutil.which("tar")
    check.part_ends = time.monotonic() + 20
    if tar and check.run("tar", [tar, "--exclude=./tar.*", "-czf", archive, "-C", check.logs, "."]).status == 0:
        return archive
    return check.logs


def run_part(part, check):
    try:
        return part(check)
    except Exception as error:  # the other parts go on, alone
        for child in check.running:
            child.kill(signal.SIGKILL)
        check.running = []
        return "failed", f"{error!r}\n{traceback.format_exc()}"


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
    check.parts.extend({"name": name, "status": "not run", "seconds": 0, "detail": "no time was left"}
                       for name, _, _ in PLAN)
    for result, (name, limit, part) in zip(check.parts, PLAN):
        began = time.monotonic()
        if ends - began < 2:
            break
        check.part_ends = min(began + limit, ends)
        print(f"gpu-check: {name}", file=sys.stderr, flush=True)
        result.update(status="cut off", detail="was running when the check ended")
        check.save()
        status, detail = run_part(part, check)
        result.update(status=status, seconds=time.monotonic() - began, detail=detail)
        if not detail:
            del result["detail"]
        check.results["figures"] = [
            {"name": what, "value": value, **({"goal": goal} if goal else {})}
            for what, value, goal in figures_of(check.ours, check.library)]
        check.results["complete"] = name == PLAN[-1][0]
        check.save()
    check.save()
    print_table(check.results, check.kernels)
    print(f"{check.path} (logs: {archive_logs(check)})")
    return 0 if check.passed() else 1


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"gpu-check: {message}", file=sys.stderr)
        sys.exit(2)


def seconds_in(text):
    try:
        if 1 <= float(text) <= 1e9:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' given; a number from 1 to 1e9 accepted")


def main():
    parser = Parser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                    allow_abbrev=False)
    parser.add_argument("--bin", metavar="DIR", required=True, help="where the pack's programs are")
    parser.add_argument("--out", metavar="FILE-OR-FOLDER", default=".",
                        help="the results' file, or where to put <gpu>-<date>.json (.)")
    parser.add_argument("--logs", metavar="DIR", help="for the programs' output (a folder of its own)")
    parser.add_argument("--seconds", metavar="N", type=seconds_in, default=570, help="for everything (570)")
    parser.add_argument("--commit", metavar="ID", default="unknown", help="what the programs were built from")
    parser.add_argument("--small", action="store_true", help="rehearse with the model of a GPU: small problems")
    parser.add_argument("--hangs-after", metavar="N", type=seconds_in,
                        help="for a group of tests (15 in smoke, then 20; with --small 60)")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who ends the check ends its programs, at once
    try:
        return run_check(options)
    except OSError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
