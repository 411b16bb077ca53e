"""Reads what the programs of a gpu-check write, and computes the figures that count. A measurement is
{"name", "ms", "TFLOPs" or other figures} or {"name", "problem"}, ours or a library's, as in the file of
results. Nothing that a program writes is trusted: what is not as it should be counts as not there."""
import dataclasses
import json
import math
import re


def loads(text):
    """Return what JSON says, or None where it is none. NaN and Infinity are not JSON."""

    def refuse(constant):
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        return None


def objects(value, name):
    """Return the objects of an object's array, none when there is no such array."""
    array = value.get(name) if isinstance(value, dict) else None
    return [one for one in array if isinstance(one, dict)] if isinstance(array, list) else []


def text_in(value, name):
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---
# The tests.


@dataclasses.dataclass
class Counts:
    """The tests of one kernel, or of a report. A kernel passes if a test passed and none failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def passes(self):
        return self.passed > 0 and self.failed == 0

    def add(self, more):
        self.passed += more.passed
        self.failed += more.failed
        self.skipped += more.skipped

    def text(self, failures=()):
        return "; ".join([f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", *failures])


def listed_tests(text):
    """Return "Suite.Test" and "Suite.Test/7" of --gtest_list_tests, in order."""
    tests, suite = [], ""
    for line in text.splitlines():
        name = re.split("[ #]", line.strip(), maxsplit=1)[0]
        if not line.startswith("  "):
            suite = name if name.endswith(".") else ""  # other lines may come before the list
        elif suite:
            tests.append(suite + name)
    return tests


class TestReport:
    """A report of --gtest_output=json: all `counts`, those of `kernels` by number (of tests that recorded the
    property "kernel"), and `failures`, each a name with the watchdog's words, where a kernel hung."""

    def __init__(self, text):
        document = loads(text)
        self.readable = isinstance(document, dict) and "testsuites" in document
        self.counts, self.kernels, self.failures = Counts(), {}, []
        for suite in objects(document, "testsuites"):
            for test in objects(suite, "testsuite"):
                self.add(test)

    def add(self, test):
        said = [text_in(one, "failure") for one in objects(test, "failures")]
        result = "FAILED" if said else text_in(test, "result")
        if result not in ("FAILED", "SKIPPED", "COMPLETED"):
            return  # switched off, or filtered out
        one = Counts(int(result == "COMPLETED"), int(result == "FAILED"), int(result == "SKIPPED"))
        self.counts.add(one)
        if text_in(test, "kernel").isdigit():
            self.kernels.setdefault(int(test["kernel"]), Counts()).add(one)
        if said:
            hung = re.search(r'\w+ hung: [^\n"]*', "\n".join(said))
            name = text_in(test, "classname") + "." + text_in(test, "name")
            self.failures.append(name + (": " + hung.group() if hung else ""))


# ---
# What is measured.

NOT_FIGURES = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
               "iterations", "real_time", "cpu_time"}
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "s": 1e3}


def read_benchmarks(text):
    """Return the measurements of a report of Google Benchmark; of an incomplete one, those of the complete
    benchmarks. Raise ValueError when nothing of it can be read."""
    document = loads(text)
    if document is None:
        whole, end, _ = text.rpartition("\n    }")  # the end is missing
        if not end:
            raise ValueError("no benchmark came to its end")
        document = loads(whole + "\n    }\n  ]\n}\n")
        if document is None:
            raise ValueError("the benchmarks' report is no JSON")
    measurements = []
    for one in objects(document, "benchmarks"):
        m = {"name": text_in(one, "name").split("/iterations:")[0]}  # Google Benchmark adds its own suffixes
        if text_in(one, "error_message"):
            m["problem"] = one["error_message"]
        else:
            time = one.get("real_time")
            m["ms"] = time * MILLISECONDS.get(one.get("time_unit"), 1.0) if is_number(time) else 0.0
            m.update((name, one[name]) for name in sorted(one) if is_number(one[name]) and name not in NOT_FIGURES)
        measurements.append(m)
    return measurements


def read_library(text):
    """Return the measurements of sdpa.py's report, the versions as in "PyTorch 2.11.0, cuDNN 91900", and why
    nothing was measured."""
    document = loads(text)
    if not isinstance(document, dict):
        return [], "", "it wrote no results"
    versions = "PyTorch " + text_in(document, "torch")
    if isinstance(document.get("cudnn"), int):
        versions += f", cuDNN {document['cudnn']}"
    measurements = []
    for one in objects(document, "measurements"):
        m = {"name": text_in(one, "name")}
        if text_in(one, "problem"):
            m["problem"] = one["problem"]
        else:
            m["ms"] = one["ms"] if is_number(one.get("ms")) else 0.0
            m.update((name, one[name]) for name in sorted(one) if is_number(one[name]))
        measurements.append(m)
    return measurements, versions, text_in(document, "not_measured")


def read_ring(text):
    """Return whether the output of `ringscope run --json` says that it is verified, and the pairs by rank and
    step, or None without a report."""
    document = loads(text)
    if not isinstance(document, dict):
        return False, None
    verify = document.get("verify")
    pairs = [rank.get("pairs_by_step") for rank in objects(document, "ranks")]
    return isinstance(verify, dict) and verify.get("pass") is True, pairs


# ---
# The figures that count: ratios of two measurements of one run, and TFLOP/s of the fastest tile.


def figure_in(measurement, name):
    return 0 if "problem" in measurement else measurement.get(name, 0)


def fastest_of_kernels(ours, shape, lists=("main", "more")):
    """Return {kernel: (TFLOP/s, tile)} of each kernel's fastest tile on a shape such as
    "bf16/d128/8192/causal", among the benchmarks of these lists."""
    fastest = {}
    for m in ours:
        words = m["name"].split("/")
        if len(words) == 7 and words[0] in lists and "/".join(words[2:6]) == shape:
            tflops = figure_in(m, "TFLOPs")
            if tflops > fastest.get(words[1], (0, ""))[0]:
                fastest[words[1]] = tflops, words[6]
    return sorted(fastest.items())


def compare(ours, library, is_backward, shape, goal):
    """Yield the figures of a pass on a shape: the best kernel's speed, and what it is of the library's."""
    of_pass = [(tflops, kernel, tile) for kernel, (tflops, tile) in fastest_of_kernels(ours, shape)
               if (kernel >= "08") == is_backward]
    if not of_pass:
        return
    tflops, kernel, tile = max(of_pass, key=lambda one: one[0])
    the_pass = "backward" if is_backward else "forward"
    what = f"{the_pass} {shape}"
    yield f"{what}: TFLOP/s of {kernel} {tile}", tflops, ""
    for name, text, its_goal in ((f"cudnn/{what.replace(' ', '/')}", "cudnn", goal),
                                 (f"flash/{what.replace(' ', '/')}", "flash", ""),
                                 ("matmul/bf16/8192", "the matrix product", "")):
        theirs = next((figure_in(m, "TFLOPs") for m in library if m["name"] == name), 0)
        if theirs > 0:
            yield f"{what}: over {text}", tflops / theirs, its_goal


def figures_of(ours, library):
    """Return the figures of a run, each its name, value and goal ("" without one)."""
    figures = []
    for is_backward in (False, True):
        for rows in (4096, 8192, 16384):
            goal = "" if rows == 4096 else ">= 0.9" if is_backward else ">= 1.0"
            for mask in ("full", "causal", "full-mha", "causal-mha"):
                figures += compare(ours, library, is_backward, f"bf16/d128/{rows}/{mask}", goal)
    for name, lists, shapes in (
            ("ladder", ("main", "more"), ("f32/d128/4096/full", "bf16/d128/8192/full")),
            ("ideas", ("idea",), ("bf16/d128/8192/full", "bf16/d128/8192/causal", "bf16/d128/16384/full-mha",
                                  "bf16/d128/16384/causal-mha"))):
        for shape in shapes:
            for kernel, (tflops, tile) in fastest_of_kernels(ours, shape, lists):
                figures.append((f"{name}, {shape}: TFLOP/s of {kernel} {tile}", tflops, ""))
    costs = {}  # of a kernel's tiles the smallest
    for m in ours:
        words = m["name"].split("/")
        if len(words) == 7 and words[0] == "carried_state" and is_number(m.get("carry_cost")):
            what = f"carried state at {words[4]} rows {words[5]}, {words[1]}"
            costs[what] = min(m["carry_cost"], costs.get(what, m["carry_cost"]))
    figures += [(what, cost, "<= 0.04" if "at 16384 rows" in what else "") for what, cost in sorted(costs.items())]
    for m in ours:
        words = m["name"].split("/")
        if len(words) == 2 and words[0] == "ring_balance" and "problem" not in m:
            figures.append((f"8 ranks, causal: contiguous / zigzag, {words[1]}",
                            figure_in(m, "contiguous_over_zigzag"), ">= 1.8"))
            ceiling = figure_in(m, "zigzag_ceiling")
            if ceiling > 0:
                figures.append((f"8 ranks, causal: zigzag's share of its ceiling, {words[1]}",
                                figure_in(m, "zigzag_balance") / ceiling, ">= 0.95"))
    return figures


# ---
# The results, for their file and for people.


def rounded(value):
    """Return JSON with five digits, which are more than a measurement has, and null for what is no number."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def print_table(results, kernels):
    """Print what people read."""
    for part in results["parts"]:
        detail = part.get("detail", "").split("\n")[0]
        print(f"{part['name']:<22} {part['status']:<13} {part['seconds']:6.1f} s{'  ' if detail else ''}{detail}")
    for number, tests in sorted(kernels.items()):
        verdict = "passed" if tests.passes() else "failed" if tests.failed else "not run"
        print(f"kernel {number:02}              {verdict:<13} {tests.passed + tests.failed} tests, "
              f"{tests.failed} failed, {tests.skipped} skipped")
    for figure in results["figures"]:
        goal = "goal " + figure["goal"] if "goal" in figure else ""
        print(f"{figure['name']:<62} {figure['value']:9.4g}  {goal}")
    print("all passed" if results["passed"] else "not all passed")
