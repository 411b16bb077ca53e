"""Wrong attention fails tests, with words and a page that say why."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ringscope
from naive import attend, causal, inputs

TESTS = Path(__file__).parent


def not_causal():
    q, k, v = inputs()
    out, lse = (x.astype(np.float32) for x in attend(q, k, v))
    return out, q, k, v, lse


def test_a_verdict_is_true_if_outputs_are_right():
    out, q, k, v, _ = not_causal()
    right, wrong = ringscope.check(out, q, k, v), ringscope.check(out, q, k, v, mask="causal")
    assert right and right.ok and not wrong and not wrong.ok
    with pytest.raises(AssertionError):
        assert wrong
    assert repr(wrong) == f"<Verdict: {wrong}>" and dict(wrong)["verdict"] == "wrong"


def test_wrong_outputs_raise_with_mistake_row_and_error():
    out, q, k, v, lse = not_causal()
    assert ringscope.testing.assert_attention(out, q, k, v, lse=lse)["verdict"] == "exact"
    with pytest.raises(AssertionError) as error:
        ringscope.testing.assert_attention(out, q, k, v, lse=lse, mask="causal")
    right = attend(q, k, v, causal(64))
    lines = str(error.value).splitlines()
    assert "; wrong-mask, 100 % sure: " in lines[0]
    for name, mine, expected, line in zip(("out", "lse"), (out, lse), right, lines[1:]):
        found = re.match(
            rf"{name}: first wrong row (\d+); largest error (.*), accepted (.*); rms", line
        )
        assert found[1] == "0"
        assert float(found[2]) == pytest.approx(np.abs(mine - expected).max(), rel=0.005)
        assert 0 < float(found[3]) < 1e-4
    assert (
        len(lines) == 3
        and "non-finite" not in lines[1]
        and error.value.verdict.mistake == "wrong-mask"
    )


def test_only_wrong_tensors_are_listed():
    out, q, k, v, lse = not_causal()
    out[0, 1, 7, 3] = np.nan
    with pytest.raises(AssertionError) as error:
        ringscope.testing.assert_attention(out, q, k, v, lse=lse)
    said = str(error.value)
    assert "\nout: first wrong row 7; largest error –, accepted " in said and "\nlse" not in said
    assert said.endswith("; 1 non-finite values differ")


def test_a_verdict_is_a_table_in_a_notebook():
    out, q, k, v, lse = not_causal()
    wrong = ringscope.check(out, q, k, v, lse=lse, mask="causal")
    shown = wrong._repr_html_()
    assert shown.count("<table>") == 2
    assert all(f"<td>{name}</td>" in shown for name in ("out", "lse", "wrong-mask"))
    wrong["suspects"][0]["how"] = "<script>"
    assert "<script>" not in wrong._repr_html_() and "&lt;script&gt;" in wrong._repr_html_()
    assert ringscope.check(out, q, k, v)._repr_html_().count("<table>") == 1


FILE = """
import pytest, ringscope
from test_testing import not_causal

@pytest.mark.parametrize("mask", ["full", "causal"])
def test_mask(mask, assert_attention):
    assert_attention(*not_causal()[:4], mask=mask)

def test_assert():
    out, q, k, v, _ = not_causal()
    assert ringscope.check(out, q, k, v, mask="causal")
"""


def test_a_failed_test_has_a_page_beside_its_folder(tmp_path):
    (tmp_path / "test_mine.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "ringscope.pytest_plugin"]
    command += ["-p", "no:cacheprovider", "--basetemp", str(tmp_path / "made"), "test_mine.py"]
    paths = [str(TESTS), str(Path(ringscope.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "assert <Verdict: wrong: 63 rows of out (0 to 62); wrong-mask" in done.stdout
    pages = list((tmp_path / "made").glob("*.html"))
    assert [page.name for page in pages] == ["test_mask_causal_0.html"]
    assert f"page: {pages[0]}" in done.stdout
    assert pages[0].read_text().startswith("<!doctype html>")
    assert "<td>wrong-mask</td>" in pages[0].read_text()


def test_pytest_finds_the_plugin_of_both_packages():
    named = '[project.entry-points.pytest11]\nringscope = "ringscope.pytest_plugin"\n'
    folder = TESTS.parents[1] / "python"
    for file in (folder / "pyproject.toml", folder / "wheel" / "pyproject.toml"):
        assert named in file.read_text()


def test_an_odd_program_is_no_key_error(tmp_path, monkeypatch):
    odd = tmp_path / "odd"
    said = '{"verdict": "wrong", "suspects": [], "tensors": {"out": {"wrong_rows": 0, "pass": false}}}'
    odd.write_text(f"#!/bin/sh\necho '{said}'\n")
    odd.chmod(0o755)
    monkeypatch.setenv("RINGSCOPE", str(odd))
    with pytest.raises(ringscope.RingscopeError, match="JSON that can't be read: KeyError"):
        ringscope.testing.assert_attention(*not_causal()[:4])
