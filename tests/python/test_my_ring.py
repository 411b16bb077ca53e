"""The exercises of my ring in Python: stubs fail, our steps pass, by the same claims as in C++."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = Path(__file__).parents[2] / "lessons"
GIVEN = LESSONS / "my_ring" / "python"
STEPS = sorted(path.name for path in GIVEN.glob("[0-9][0-9]_*.py"))


def checked(step, folder):
    command = [sys.executable, str(GIVEN / "check.py"), str(int(step[:2])), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def steps(tmp_path):
    """Return a folder with our version of all steps."""
    for step in STEPS:
        shutil.copy(LESSONS / "solutions" / step, tmp_path)
    return tmp_path


def test_there_is_a_stub_for_each_of_the_stubs_in_cpp():
    in_cpp = sorted(path.stem for path in (LESSONS / "my_ring").glob("[0-9][0-9]_*.h"))
    assert [Path(step).stem for step in STEPS] == in_cpp


@pytest.mark.parametrize("step", STEPS)
def test_our_steps_pass_by_the_claims_and_scores_of_cpp(step):
    ended = checked(step, LESSONS / "solutions")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1].startswith("solved: all ")
    in_cpp = Path(os.environ["RINGSCOPE"]).parents[1] / f"lessons/exercise_{step[:2]}_solution"
    if not in_cpp.exists():
        pytest.skip("the exercises in C++ are not built")
    assert ended.stdout == subprocess.run([in_cpp], capture_output=True, text=True).stdout


@pytest.mark.parametrize("step", STEPS)
def test_a_stub_after_our_steps_fails(steps, step):
    shutil.copy(GIVEN / step, steps)
    ended = checked(step, steps)
    assert ended.returncode == 1
    assert "not yet: " in ended.stdout


@pytest.mark.parametrize(
    "step, right, wrong, said",
    [
        ("04", "min(first + TILE, len(queries.q))", "first + TILE", "does not exist, or is too"),
        ("06", "rank.start_hop(held)", "pass", "finish_hop() without start_hop()"),
        ("06", "held = rank", "rank", "error of the output"),
        ("07", "queries.positions[rows.stop - 1]", "queries.positions[first]", "last query sees"),
        ("13", "rank.number % 2 == 0", "True", "waits for ever for rank"),
    ],
)
def test_a_natural_mistake_is_named(steps, step, right, wrong, said):
    path = next(steps.glob(f"{step}_*.py"))
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))
    ended = checked(step, steps)
    assert ended.returncode == 1
    assert said in ended.stdout
