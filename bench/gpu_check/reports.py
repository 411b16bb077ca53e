"""Reads what the programs of a gpu-check write, and computes the figures that count. A measurement is
{"name", "ms", "TFLOPs" or other figures} or {"name", "problem"}, ours or a library's, as in the file of
results. Nothing that a program writes is trusted: what is not as it should be counts as not there."""
import csv
import dataclasses
import json
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


def numbers_in(value):
    return {name: one for name, one in sorted(value.items())
            if isinstance(one, (int, float)) and not isinstance(one, bool)}


# --- the tests ---


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
    property "kernel", one number or several), and `failures`, each a name with the watchdog's words, where a
    kernel hung."""

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
        for number in re.findall("[0-9]+", text_in(test, "kernel")):
            self.kernels.setdefault(int(number), Counts()).add(one)
        if said:
            hung = re.search(r'\w+ hung: [^\n"]*', "\n".join(said))
            name = text_in(test, "classname") + "." + text_in(test, "name")
            self.failures.append(name + (": " + hung.group() if hung else ""))


# --- what is measured ---

NOT_FIGURES = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
               "iterations", "real_time", "cpu_time"}


def read_benchmarks(text):
    """Return the measurements of a report of Google Benchmark in milliseconds; of an incomplete one, those of the
    complete benchmarks."""
    document = loads(text) or loads(text.rpartition("\n    }")[0] + "\n    }\n  ]\n}\n")  # the end is missing
    measurements = []
    for one in objects(document, "benchmarks"):
        name = text_in(one, "name").split("/iterations:")[0]  # Google Benchmark adds its own suffixes
        numbers = numbers_in(one)
        figures = {figure: value for figure, value in numbers.items() if figure not in NOT_FIGURES}
        problem = text_in(one, "error_message")
        measurements.append({"name": name, **({"problem": problem} if problem else
                                              {"ms": numbers.get("real_time", 0.0), **figures})})
    return measurements


def read_library(text):
    """Return the measurements of sdpa.py's report, the versions as in "PyTorch 2.11.0, cuDNN 91900", and why
    nothing was measured."""
    document = loads(text)
    if not isinstance(document, dict):
        return [], "", "it wrote no results"
    versions = f"PyTorch {text_in(document, 'torch')}, cuDNN {document.get('cudnn')}"
    measurements = [{"name": text_in(one, "name"), **({"problem": one["problem"]} if text_in(one, "problem") else
                                                      {"ms": 0.0, **numbers_in(one)})}
                    for one in objects(document, "measurements")]
    return measurements, versions, text_in(document, "not_measured")


# What ncu is asked for: sections that every version of it has, and what is kept of them.
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "Occupancy", "WarpStateStats")
COUNTERS = {"gpu__time_duration.sum", "gpc__cycles_elapsed.avg.per_second", "launch__registers_per_thread",
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
            "sm__issue_active.avg.pct_of_peak_sustained_elapsed", "l1tex__t_sector_hit_rate.pct",
            "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed",
            "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed", "lts__t_sector_hit_rate.pct",
            "lts__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}


def read_counters(text):
    """Return the COUNTERS of the first kernel in a report of `ncu --csv --page raw`: a head, units, values."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if len(rows) < 3:
        return {}
    metrics = {}
    for name, unit, value in zip(*rows[:3]):
        if name in COUNTERS:
            try:
                metrics[f"{name} [{unit}]" if unit else name] = float(value.replace(",", ""))
            except ValueError:
                continue  # "n/a"
    return metrics


def read_samples(text):
    """Return the complete lines of numbers, separated by commas, that nvidia-smi has written."""
    samples = []
    for line in text.splitlines():
        try:
            samples.append([float(word) for word in line.split(",")])
        except ValueError:
            continue
    return [sample for sample in samples if len(sample) == 3]


def read_ring(text):
    """Return whether the output of `ringscope run --json` says that it is verified, and the pairs by rank and
    step, or None without a report."""
    document = loads(text)
    if not isinstance(document, dict):
        return False, None
    verify = document.get("verify")
    pairs = [rank.get("pairs_by_step") for rank in objects(document, "ranks")]
    return isinstance(verify, dict) and verify.get("pass") is True, pairs


# --- the figures that count: ratios of two measurements of one run, and TFLOP/s of the fastest tile ---


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
    tflops, kernel, tile = max(of_pass)
    what = f"{'backward' if is_backward else 'forward'} {shape}"
    yield f"{what}: TFLOP/s of {kernel} {tile}", tflops, ""
    whole = dict(fastest_of_kernels(ours, shape, ("whole",))).get(kernel, (0, ""))[0]
    for name, text, its_goal in ((f"cudnn/{what.replace(' ', '/')}", "cudnn", goal),
                                 (f"flash/{what.replace(' ', '/')}", "flash", ""),
                                 ("matmul/bf16/8192", "the matrix product", "")):
        theirs = next((figure_in(m, "TFLOPs") for m in library if m["name"] == name), 0)
        if theirs > 0:
            if whole > 0 and text != "the matrix product":  # a library's time is that of a whole pass
                yield f"{what}: the whole pass over {text}", whole / theirs, its_goal
                its_goal = ""
            yield f"{what}: over {text}", tflops / theirs, its_goal


def figures_of(ours, library):
    """Return the figures of a run."""
    figures, costs = [], {}
    for is_backward in (False, True):
        for rows in (4096, 8192, 16384):
            goal = "" if rows == 4096 else ">= 0.9" if is_backward else ">= 1.0"
            for mask in ("full", "causal", "full-mha", "causal-mha"):
                figures += compare(ours, library, is_backward, f"bf16/d128/{rows}/{mask}", goal)
    for m in ours:
        words = m["name"].split("/")
        if words[0] == "variants":
            figures += [(f"variants, {'/'.join(words[2:])}: {name.split('_')[0]} over {words[1]}", m[name], "")
                        for name in sorted(m) if name.endswith("_over_base")]
        if len(words) == 7 and words[0] == "carried_state" and "carry_cost" in m:  # of a kernel's tiles the smallest
            what = f"carried state at {words[4]} rows {words[5]}, {words[1]}"
            costs[what] = min(m["carry_cost"], costs.get(what, m["carry_cost"]))
        if words[0] == "fused" and len(words) == 7 and "over_launches" in m:
            what = f"{words[6]} ranks, {words[4]} rows {words[5]}: one launch / its steps, {words[1]}"
            figures.append((what, figure_in(m, "over_launches"), "<= 1.1"))
        if words[0] == "ring_balance" and figure_in(m, "zigzag_ceiling") > 0:
            figures += [(f"8 ranks, causal: contiguous / zigzag, {words[1]}", figure_in(m, "contiguous_over_zigzag"),
                         ">= 1.8"),
                        (f"8 ranks, causal: zigzag's share of its ceiling, {words[1]}",
                         figure_in(m, "zigzag_balance") / m["zigzag_ceiling"], ">= 0.95")]
    figures += [(what, cost, "<= 0.04" if "at 16384 rows" in what else "") for what, cost in sorted(costs.items())]
    return [{"name": name, "value": value, **({"goal": goal} if goal else {})} for name, value, goal in figures]


def print_table(results, kernels):
    """Print what people read of the results."""
    for part in results["parts"]:
        detail = part.get("detail", "").split("\n")[0]
        print(f"{part['name']:<22} {part['status']:<13} {part['seconds']:6.1f} s  {detail}".rstrip())
    for number, tests in sorted(kernels.items()):
        verdict = "passed" if tests.passes() else "failed" if tests.failed else "not run"
        print(f"kernel {number:02}              {verdict:<13} {tests.text()}")
    for figure in results["figures"]:
        goal = "goal " + figure["goal"] if "goal" in figure else ""
        print(f"{figure['name']:<62} {figure['value']:9.4g}  {goal}".rstrip())
    print("all passed" if results["passed"] else "not all passed")
