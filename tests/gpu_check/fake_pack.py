"""A pack whose programs are shell scripts, so that a gpu-check runs where there is no GPU, and what goes wrong in it can be
chosen."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "bench/gpu_check"

# FAKE_TESTS says what happens, in words: fails=TEST, crashes=TEST, hangs=TEST; kills=TEST kills the check, once its file
# says that a kernel passed.
TESTS = r"""
case "$*" in *--gtest_list_tests*)
  echo 'Running main() from somewhere'
  echo 'Backward.'
  echo '  One'
  echo '  Two'
  echo 'Ladder/EveryKernel.'
  echo '  IsRight/02  # GetParam() = 2'
  echo '  IsRight/05  # GetParam() = 5'
  echo '  IsRight/06  # GetParam() = 6'
  exit 0 ;;
esac
for a; do
  case $a in --gtest_filter=*) test=${a#*=} ;; --gtest_output=json:*) out=${a#*:} ;; esac
done
failures= result=COMPLETED kernel=
case $test in */0*) kernel=", \"kernel\": \"${test##*/0}\"" ;;
  Backward*) kernel=', "kernel": "2 5"' ;; esac
case $test in */06) result=SKIPPED ;; esac
case " $FAKE_TESTS " in
  *" fails=$test "*) failures=', "failures": [{"failure": "wrong"}]' ;;
  *" crashes=$test "*) kill -SEGV $$ ;;
  *" hangs=$test "*) sleep 1000 ;;
  *" kills=$test "*) until grep -q '"pass": true' *.json; do sleep 0.1; done; kill -KILL $PPID ;;
esac
[ -z "$out" ] || cat >"$out" <<END
{"testsuites": [{"name": "S", "testsuite": [
 {"name": "x", "classname": "$test", "result": "$result"$kernel$failures},
 {"name": "off", "result": "SUPPRESSED"}]}]}
END
[ -z "$failures" ]"""

# FAKE_RING=wrong: not verified; uneven: other pairs than the CPU's.
RING = r"""
pairs=7
case "$FAKE_RING $*" in
  "wrong "*"backend cuda"*) echo '{"verify": {"pass": false}, "ranks": []}'; exit 1 ;;
  "uneven "*"backend cuda"*) pairs=8 ;;
esac
echo "{\"verify\": {\"pass\": true}, \"ranks\": [{\"pairs_by_step\": [1, $pairs]}]}" """

LIBRARY = r"""
while [ $# -gt 1 ]; do [ "$1" != --out ] || out=$2; shift; done
[ "$FAKE_TORCH" != no ] || { echo '{"not_measured": "no PyTorch"}' >"$out"; exit 0; }
cat >"$out" <<END
{"torch": "2.0", "cudnn": 9, "measurements": [
 {"name": "cudnn/forward/bf16/d128/8192/full", "ms": 2.0, "TFLOPs": 600.0},
 {"name": "cudnn/backward/bf16/d128/8192/full", "ms": 2.0, "TFLOPs": 400.0},
 {"name": "flash/bf16/d128/8192/full", "problem": "not there"}]}
END"""

SKIPPED = {"name": "main/06_hopper/x/iterations:1/manual_time", "error_occurred": True}
SKIPPED["error_message"] = "skipped: needs another device"


def benchmark(name, **figures):
    """Return what a report says of a benchmark."""
    return {"name": name + "/iterations:1/manual_time", "iterations": 1, "real_time": 1.5, "time_unit": "ms", **figures}


class FakePack:
    def __init__(self, root):
        self.root = root
        for folder in ("bin", "path", "out", "logs"):
            (root / folder).mkdir(parents=True)
        self.program("bin/gpu_device", """echo '{"name": "NVIDIA Fake 1", "architecture": 90, "driver": "1.2"}'""")
        self.program("bin/cuda_tests", TESTS)
        self.program("bin/ringscope", RING)
        self.program("path/python3", LIBRARY)
        self.benchmarks(
            "gpu_forward",
            benchmark("main/05_tensor_cores/bf16/d128/8192/full/64x64", TFLOPs=100),
            benchmark("main/05_tensor_cores/bf16/d128/8192/full/128x64", TFLOPs=300),
            benchmark("main/02_online_softmax/f32/d128/4096/full/1x1", TFLOPs=3),
            SKIPPED,
        )
        self.benchmarks("gpu_backward", benchmark("main/09_backward_tensor_cores/bf16/d128/8192/full/64x64", TFLOPs=200))
        carried = "carried_state/05_tensor_cores/bf16/d128/16384/full/"
        carried = [benchmark(carried + tile, carry_cost=cost) for tile, cost in (("64x64", 0.08), ("128x64", 0.03))]
        self.benchmarks("gpu_carried_state", *carried)
        balance = dict(contiguous_over_zigzag=1.81, zigzag_balance=0.9, zigzag_ceiling=1.0)
        fused = benchmark("fused/12_fused_ring/bf16/d128/16384/causal/4", over_launches=1.05)
        self.benchmarks("gpu_ring_balance", benchmark("ring_balance/05_tensor_cores", **balance), fused)

    def program(self, name, script):
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def benchmarks(self, name, *benchmarks, end="\n]}"):
        """Make a benchmark program that writes a report of these, in Google Benchmark's lines."""
        objects = ",\n".join(f"    {{\n{json.dumps(one)[1:-1]}\n    }}" for one in benchmarks)
        report = f'{{"context": {{}}, "benchmarks": [\n{objects}{end}'
        find = "for a; do case $a in --benchmark_out=*) out=${a#*=} ;; esac; done"
        self.program("bin/" + name, f"{find}\ncat >\"$out\" <<'END'\n{report}\nEND")

    def run(self, *words, **environment):
        """Run the check."""
        environment = {**os.environ, "PATH": f"{self.root}/path:/usr/bin:/bin", **environment}
        command = [sys.executable, "-B", CHECK / "gpu_check.py", "--bin", self.root / "bin", "--logs", self.root / "logs"]
        command += ["--commit", "123abc", *words]
        return subprocess.run(command, cwd=self.root / "out", env=environment, capture_output=True, text=True)

    def results(self, name="*.json"):
        """Return the results file of this name, or the only one."""
        (file,) = (self.root / "out").glob(name)
        return Results(json.loads(file.read_text()))

    def remove_results(self):
        for file in (self.root / "out").iterdir():
            file.unlink()


class Results(dict):
    def part(self, name):
        (part,) = (part for part in self["parts"] if part["name"] == name)
        return part

    def status(self, name):
        return self.part(name)["status"]

    def detail(self, name):
        return self.part(name).get("detail", "")

    def figure(self, name):
        """Return a figure's value; two parts may report the same figure."""
        return next(one["value"] for one in self["figures"] if one["name"] == name)

    def passes(self, number):
        """Return whether a kernel passed; None if nothing is said of it."""
        return {kernel["number"]: kernel["pass"] for kernel in self["kernels"]}.get(number)
