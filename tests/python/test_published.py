"""bench/published.py as a program: its score on the project's own measurements, files that it does not know, and files
that are wrong.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (
    "source,hardware,link,world_size,seqlen,batch,heads,kv_heads,head_dim,dtype,mask,pass,scheme,"
    "metric,value,note\n"
)
ROW = "s,8xH100,,8,65536,1,32,8,128,bf16,causal,fwd,zigzag,ms,1,\n"


def run(*words):
    script = [sys.executable, ROOT / "bench/published.py", "--ringscope", os.environ["RINGSCOPE"]]
    return subprocess.run([*script, *words], capture_output=True, text=True)


def page_of(tmp_path, text):
    """Return the rows of the page of a file, cell by cell, and what was printed."""
    (tmp_path / "in.csv").write_text(text)
    done = run("--csv", tmp_path / "in.csv", "--page", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    return rows_in((tmp_path / "page.md").read_text()), done.stdout


def rows_in(page):
    lines = page.split("## Every row")[1].splitlines()[4:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def last_line(out):
    found = re.search(r"\nMAPE (.*) %, (\d+) of (\d+) pairs ranked as published\n$", out)
    return float(found[1]), int(found[2]), int(found[3])


def test_predicts_what_was_measured_without_the_rows_that_it_was_fitted_on(tmp_path):
    done = run("--page", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert (
        page == (ROOT / "bench/published/scoreboard.md").read_text()
    ), "write it with: bench/published.py --page bench/published/scoreboard.md"
    mape, right, pairs = last_line(done.stdout)
    assert 0 < mape <= 10 and pairs > 500 and right >= 0.95 * pairs
    errors = {"": [], "fitted": [], "kernel": []}
    for *_, published, predicted, _, use in rows_in(page):
        errors[use].append(abs(float(predicted) / float(published) - 1))
    assert len(errors[""]) > 300 and len(errors["fitted"]) > 20
    assert max(errors["fitted"]) <= 0.15
    # Four digits of each figure are printed, and one of the mean.
    assert mape == pytest.approx(100 * sum(errors[""]) / len(errors[""]), abs=0.06)


def test_a_ring_takes_what_its_slowest_rank_or_its_link_takes(tmp_path):
    def block_s(rows, keys, ranks, heads=32):
        """On the machine that nobody knows, merging included."""
        merge_s = (1 - 1 / ranks) * 34 * rows * heads * 128 / 1.6e12
        return rows * (keys + 400) * heads * 4 * 128 / 220e12 + 2e-4 + merge_s

    full, diagonal = block_s(8192, 8192, 8), block_s(8192, (4096 + 64) * 1.06, 8)
    hop_s = 4 * 4096 * 32 * 128 / 10e9  # between nodes, over half of a port
    expected = [8 * full, 7 * full + diagonal, 8 * diagonal, 15 * hop_s + block_s(4096, 4096, 16)]
    rows, _ = page_of(
        tmp_path,
        HEADER
        + "s,8xQ9,,8,65536,1,32,8,128,bf16,full,fwd,ring,s,1,\n"
        + "s,8xQ9,,8,65536,1,32,8,128,bf16,causal,fwd,contiguous ring,s,1,\n"
        + "s,8xQ9,,8,65536,1,32,8,128,bf16,causal,fwd,striped ring,s,1,\n"
        + "s,16xQ9,,16,65536,1,32,32,128,bf16,full,fwd,ring,s,1,\n",
    )
    assert [float(row[9]) for row in rows] == pytest.approx(expected, rel=5e-4)


def test_takes_what_it_does_not_know(tmp_path):
    rows, out = page_of(
        tmp_path,
        HEADER
        + '"a, ""b""",8xQ9,,8,65536,,32,,,,causal,fwd,new ring,ms,12,\r\n'
        + "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,zigzag ring,ms,10,\n"
        + "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,contiguous ring,ms,20,\n"
        + "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,ulysses 8,ms,,no value\n"
        + "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,allgather,parsecs,3,\n"
        + "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,sideways,ring,ms,3,\n"
        + "s,1024xQ9,?,1024,1048576,1,32,8,128,bf16,full,fwd+bwd,ulysses 8 x ring 128,s,1,\n"
        + "s,64xH100,?,64,524288,1,64,8,128,bf16,varlen_full,bwd,striped,TFLOP/s/GPU,100,\n"
        + "s,8xH100,,8,65536,1,32,8,128,bf16,causal,fwd,wormhole,ms,9,\n"
        + "s,4xH100,?,4,3,1,1,1,1,bf16,causal+documents (3 segments),fwd,zigzag,us,1,",
    )
    assert [row[0] for row in rows] == ["2", "3", "4", "8", "9", "10", "11"]
    assert all(float(row[9]) > 0 for row in rows)
    assert '| a, "b" | 1 |' in out
    assert "3 can't be predicted" in out and "line 5, no value." in out
    assert "Schemes of 1 rows are not known" in out  # wormhole
    assert last_line(out)[1:] == (1, 1)  # contiguous is slower


@pytest.mark.parametrize(
    "column, reason",
    [("pass", "no such pass: sideways."), ("metric", "no such metric: sideways.")],
)
def test_says_why_a_row_is_not_predicted(tmp_path, column, reason):
    cells = ROW.split(",")
    cells[HEADER.split(",").index(column)] = "sideways"
    _, out = page_of(tmp_path, HEADER + ",".join(cells))
    assert f"line 2, {reason}" in out


def test_says_that_a_ring_is_too_large(tmp_path):
    _, out = page_of(tmp_path, HEADER + ROW.replace(",8,65536", ",2000,65536"))
    assert "line 2, up to 1024 ranks are simulated, 2000 given." in out


@pytest.mark.parametrize(
    "text",
    ["", HEADER, "a,b\n1,2\n", HEADER + "1,2,3\n"]
    + [
        HEADER + ROW.replace(*change)
        for change in [
            (",8,65536", ",0,65536"),
            ("65536", "-3"),
            ("65536", ""),
            ("65536", "1e9"),
            ("ms,1", "ms,nan"),
            ("ms,1", "ms,-1"),
            ("ms,1", "ms,inf"),
            ("ms,1", "ms,0"),
            ("ms,1", "ms,fast"),
            ("zigzag", '"zigzag'),
        ]
    ],
)
def test_refuses_what_is_no_measurement(tmp_path, text):
    (tmp_path / "in.csv").write_text(text)
    done = run("--csv", tmp_path / "in.csv")
    assert done.returncode == 2 and done.stdout == ""
    assert str(tmp_path / "in.csv") in done.stderr
    assert run("--csv", tmp_path / "none.csv").returncode == 2
