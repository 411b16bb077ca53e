"""The lessons in NumPy: what they print stands on the pages, and notebooks are made from them."""

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LESSONS = Path(__file__).parents[2] / "lessons"
SOURCES = LESSONS / "python"
sys.path.insert(0, str(SOURCES))

sys.path.insert(0, str(LESSONS / "figures"))
sys.path.insert(0, str(LESSONS / "capstone"))

import evidence  # noqa: E402
import exercises  # noqa: E402
import notebooks  # noqa: E402
import pictures  # noqa: E402
import quiz  # noqa: E402
import whole_ring  # noqa: E402

FOLDERS = {path.name[:2]: path.name for path in LESSONS.glob("[0-9][0-9]_*")}
NUMBERS = sorted(n for n, folder in FOLDERS.items() if (SOURCES / f"{folder[3:]}.py").exists())


def printed_by(run):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run()
    return printed.getvalue()


def test_the_first_book_is_there():
    assert NUMBERS == [f"{n:02}" for n in (*range(1, 13), 16, 17)]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_the_page(number):
    folder = FOLDERS[number]
    script = SOURCES / f"{folder[3:]}.py"
    page = (LESSONS / folder / "README.md").read_text(encoding="utf-8")
    page = page.replace(script.read_text(encoding="utf-8"), "")
    lines = printed_by(lambda: runpy.run_path(str(script), run_name="__main__")).splitlines()
    assert lines
    for line in lines:
        value = line.partition(": ")[2]
        assert value, line
        assert re.search(rf"(?<!\d)(?<!\d[.,]){re.escape(value)}(?!\d|[.,]\d)", page), line


@pytest.mark.parametrize("number", NUMBERS)
def test_a_notebook_is_made_from_its_source_and_runs_by_itself(number):
    text = (LESSONS / "notebooks" / f"{number}.ipynb").read_text(encoding="utf-8")
    assert text == notebooks.notebooks()[number], "run python3 lessons/python/notebooks.py"
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    names = {}

    def run():
        for cell in cells:
            exec("".join(cell["source"]), names)

    script = SOURCES / f"{FOLDERS[number][3:]}.py"
    assert printed_by(run) == printed_by(lambda: runpy.run_path(str(script), run_name="__main__"))


def test_quiz_and_pictures_are_made_from_their_sources():
    assert (LESSONS / "quiz.md").read_text(encoding="utf-8") == quiz.page(), "run python3 lessons/python/quiz.py"
    for file, draw in pictures.PICTURES.items():
        made = draw().svg()
        assert (LESSONS / file).read_text(encoding="utf-8") == made, "run python3 lessons/figures/pictures.py"
        page = LESSONS / ("README.md" if file.startswith("figures") else f"{file.partition('/')[0]}/README.md")
        assert f"]({file if file.startswith('figures') else file.partition('/')[2]})" in page.read_text(encoding="utf-8")


def test_the_capstone_finds_what_its_answers_say(tmp_path):
    program = os.environ["RINGSCOPE"]
    evidence.write(tmp_path / "runs/capstone", program)
    page = (LESSONS / "capstone.md").read_text(encoding="utf-8")
    cases = re.findall(r"^    ([^\n]+)\n\n```text\n(.*?)```", page, re.M | re.S)
    assert len(cases) == 4
    for command, findings in cases:
        command = command.replace("./ringscope", program).replace("python3", sys.executable)
        ended = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        for line in findings.splitlines():
            assert line in ended.stdout, ended


@pytest.mark.parametrize("number", exercises.CASES)
def test_a_short_exercise_fails_as_a_stub_and_passes_when_solved(number, capsys):
    folder = FOLDERS[f"{number:02}"]
    stub, solved = LESSONS / folder / "exercise.py", LESSONS / "solutions" / f"{folder}.py"
    assert not exercises.check(number, str(stub))
    assert "not yet: " in capsys.readouterr().out
    assert exercises.check(number, str(solved))
    asked = [re.findall(r"^ +return (?!struct).*", path.read_text(), re.M) for path in (stub, solved)]
    assert not set(asked[0]) & set(asked[1])
    assert f"lessons/{folder}/exercise.py" in (LESSONS / folder / "README.md").read_text(encoding="utf-8")


def gradients_at_once(q, k, v, dout):
    scores = q @ k.T / np.sqrt(q.shape[1])
    p = np.exp(np.where(np.tri(len(q), dtype=bool), scores, -np.inf))
    p /= p.sum(axis=1, keepdims=True)
    dp = dout @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) / np.sqrt(q.shape[1])
    return p @ v, ds @ k, ds.T @ q, p.T @ dout


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_the_whole_ring_is_exact_and_short(ranks):
    assert len((SOURCES / "whole_ring.py").read_text().splitlines()) <= 60
    assert len((SOURCES / "ring_over_gloo.py").read_text().splitlines()) <= 80
    tensors = np.random.default_rng(1).standard_normal((4, 23, 8))
    at = whole_ring.zigzag(23, ranks)
    q, k, v, dout = ([tensor[rows] for rows in at] for tensor in tensors)
    out, lse = whole_ring.ring_forward(q, k, v, at)
    found = (out, *whole_ring.ring_backward(q, k, v, at, out, lse, dout))
    for mine, right in zip(found, gradients_at_once(*tensors)):
        np.testing.assert_allclose(np.concatenate(mine), right[np.concatenate(at)], atol=1e-12)


def test_the_ring_over_gloo_has_the_gradients_of_one_process():
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    ended = subprocess.run(
        [*command, str(SOURCES / "ring_over_gloo.py")], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("right on rank") == 3
