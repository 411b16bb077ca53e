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
        ("03", "factor * state.l", "state.l", "What l had before needs the factor exp(old m - new m)"),
        ("03", "return state  #", "pass  #", "NaN comes from -inf - -inf"),
        ("03", "p @ values)", "p @ values", "03_online_softmax.py, line 13: '(' was never closed"),
        ("04", "min(first + TILE, len(queries.q))", "first + TILE", "does not exist, or is too"),
        ("04", "len(block.k), TILE)", "8, TILE)", "Query 0 meets key 8 never"),
        ("06", "rank.start_hop(held)", "pass", "finish_hop() without start_hop()"),
        ("06", "held = rank", "rank", "Query 0 meets key 0 twice"),
        ("06", "return states", "return [State(s.m, s.l, s.out / s.l) for s in states]", "should stay sums"),
        ("07", "queries.positions[rows.stop - 1]", "queries.positions[first]", "last query sees: error: yours"),
        ("07", "= NONE\n", "*= 1\n", "Forbidden pairs of the tiles count, too"),
        ("08", "chunks[rank], chunks[-1 - rank]", "chunks[-1 - rank], chunks[rank]", "but they don't grow"),
        ("08", "chunks[-1 - rank]", "chunks[rank]", "every position once, but 0 is there 2 times"),
        ("09", "= scale * p", "= p", "error of dQ: yours 2.61811468, expected 0. All are sqrt(d) times"),
        ("09", " - dout @ state.out / state.l", "", "This comes out if delta is missing"),
        ("09", "state.out / state.l", "state.out", "if delta is made of an out that is not divided by l"),
        ("09", " - state.m) / state.l", " - state.m)", "This comes out if P is not divided by l"),
        ("09", "queries.positions[i]] = 0", "queries.positions[i]] *= 1", "Forbidden pairs of the tiles"),
        ("09", "return rank.finish_hop()", "return total", "Rank 0 has that of rank 1's block"),
        ("09", "total.dk + before.dk", "total.dk", "It is what one rank's queries add"),
        ("09", "gradient.dv[keys] +=", "gradient.dv[keys] =", "It is what the last query adds"),
        ("13", "rank.number % 2 == 0", "True", "waits for ever for rank"),
        ("13", "return arrived", "return out", "but rank 0 gets that of"),
        ("16", "of_a * a.l + of_b * b.l, of_a * a.out + of_b * b.out", "a.l + b.l, a.out + b.out", "without their factors"),
        ("16", "    distance = 1", "    return states[0]\n    distance = 1", "It is rank 0's part alone"),
    ],
)  # fmt: skip
def test_a_natural_mistake_is_named(steps, step, right, wrong, said):
    path = next(steps.glob(f"{step}_*.py"))
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))
    ended = checked(step, steps)
    assert ended.returncode == 1
    assert said in ended.stdout
