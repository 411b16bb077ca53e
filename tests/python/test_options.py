"""The typed options are the program's flags."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ringscope import options

PACKAGE = Path(options.__file__).parent
TENSORS = {"q", "k", "v", "out", "lse", "dq", "dk", "dv", "dout"}
PICTURES = {"screenshot", "animate", "from", "to", "seconds", "fps", "csv", "html", "perfetto"}


@pytest.mark.parametrize(
    "command, typed, others",
    [
        ("check", options.CheckOptions, {"out", "q", "k", "v"}),
        ("run", options.RunOptions, TENSORS | {"sink_logits", "dsink"}),
        ("plan", options.PlanOptions, set()),
        ("simulate", options.SimulateOptions, set()),
        ("positions", options.PositionsOptions, {"seqlen", "world_size", "rank", "out"}),
        ("explain", options.ExplainOptions, set()),
        ("view", options.ShowOptions, PICTURES),
    ],
)
def test_options_are_the_programs_flags(command, typed, others):
    words = [os.environ["RINGSCOPE"], command, "--help"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    flags = {flag.replace("-", "_") for flag in re.findall(r"^ +(?:-h,)?--([a-z-]+)", said, re.M)}
    assert set(typed.__annotations__) == flags - {"help", "json"} - others
    assert others <= flags


CALLS = """
import ringscope
ringscope.check(1, 2, 3, 4, mask="causal", dtype="bf16", lse=5, world_size=4)
ringscope.simulate(world_size=4, seqlen="128k", straggler={3: 0.5}, gpu="H100", link="NVLink4")
ringscope.positions(16, 4, rank=1, device="cpu").positions
for rows in ringscope.positions(16, 4): rows.labels
ringscope.explain("a.json")["findings"]
"""
WRONG = """
ringscope.check(1, 2, 3, 4, dtype="f64")
ringscope.check_sharded(1, 2, 3, 4, world_size=4)
ringscope.testing.assert_attention(1, 2, 3, 4, maks="causal")
ringscope.plan(sequence_length=5)
ringscope.simulate(hops=1)
ringscope.show("a.json", axis="space")
"""


def test_types_are_clean_and_tell_wrong_options(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "calls.py").write_text(CALLS + WRONG)
    os.environ["MYPYPATH"] = str(PACKAGE.parent)
    try:
        words = ["--cache-dir", str(tmp_path / "cache"), "--python-executable", sys.executable]
        words += ["--strict"]
        said, _, status = api.run([*words, str(PACKAGE)])
        assert status == 0, said
        said, _, _ = api.run([*words, str(tmp_path / "calls.py")])
    finally:
        del os.environ["MYPYPATH"]
    lines = {int(line) for line in re.findall(r"calls\.py:(\d+): error", said)}
    first = CALLS.count("\n") + 2
    assert lines == set(range(first, first + WRONG.count("\n") - 1)), said
