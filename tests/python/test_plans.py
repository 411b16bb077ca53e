"""Positions, simulations and plans as Python's objects."""

import html

import numpy as np
import pytest
import ringscope
from naive import zigzag

MACHINE = {"gpu": "H100", "link": "NVLink4"}


@pytest.mark.parametrize("convention", [None, "pytorch", "ring-flash-attention"])
def test_positions_of_a_zigzag_deal(convention):
    partition = "zigzag" if convention is None else None
    ranks = ringscope.positions(64, 4, partition=partition, convention=convention)
    for rank, expected in enumerate(zigzag(64, 4)):
        rows = ranks[rank]
        assert rows.positions.dtype == np.int64
        np.testing.assert_array_equal(rows.positions, expected)
        np.testing.assert_array_equal(rows.rope_positions, expected)
        np.testing.assert_array_equal(rows.labels, np.where(expected == 63, -100, expected + 1))
        one = ringscope.positions(64, 4, partition=partition, convention=convention, rank=rank)
        np.testing.assert_array_equal(one.positions, expected)


def test_positions_of_a_deal_of_ones_own():
    owners = np.array([1, 0, 0, 1, 2, 2])
    ranks = ringscope.positions(6, 3, partition=owners)
    assert [rows.positions.tolist() for rows in ranks] == [[1, 2], [0, 3], [4, 5]]


def test_documents_are_counted():
    rows = ringscope.positions(8, 2, mask="causal+documents:3,5", rank=1)
    assert rows.positions.tolist() == [4, 5, 6, 7]
    assert rows.cu_seqlens[-1] == 4


def test_gathered_keys_are_those_that_a_rank_attends():
    first, last = ringscope.positions(
        8, 2, mask="causal+documents:3,5", convention="ring-flash-attention-llama3"
    )
    assert [x.tolist() for x in (first.cu_seqlens_k, first.local_k_slice)] == [[0, 3, 4], [0, 4]]
    assert [x.tolist() for x in (last.cu_seqlens_k, last.local_k_slice)] == [[0, 5], [3, 8]]
    assert ringscope.positions(8, 2, rank=0).cu_seqlens_k is None


def test_a_simulation_is_a_dict(tmp_path):
    trace = tmp_path / "sim.json"
    answer = ringscope.simulate(world_size=4, seqlen=4096, trace=trace, **MACHINE)
    assert trace.exists()
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1, 2, 3]
    # Equal ranks in step: the longer of computing and sending, and the last step computes alone.
    rank = answer["ranks"][0]
    step, hop = rank["compute_s"] / 4, rank["bytes_sent"] / 3 / answer["machine"]["bytes_per_s"]
    assert answer["wall_s"] == pytest.approx(3 * max(step, hop) + step, rel=1e-12)


def test_a_sweep_is_a_list_of_all_combinations():
    sweep = {"seqlen": [1024, 2048], "world_size": [2, 4], "partition": ["zigzag"]}
    answer = ringscope.simulate(mask="causal", sweep=sweep, **MACHINE)["sweep"]
    found = {(one["shape"]["seqlen"], one["world_size"], one["partition"]) for one in answer}
    assert found == {(s, n, "zigzag") for s in (1024, 2048) for n in (2, 4)}


def test_a_plan_that_does_not_fit_says_why():
    fits = ringscope.plan(world_size=8, seqlen="128k", mask="causal", **MACHINE)
    assert fits["feasible"] and fits["chosen"]["total_s"] > 0 and fits["why"] is None
    fits_not = ringscope.plan(world_size=2, seqlen="4M", **MACHINE)
    assert not fits_not["feasible"] and "memory" in fits_not["why"]


def test_a_plan_is_a_table_in_a_notebook():
    fits = ringscope.plan(world_size=8, seqlen="128k", mask="causal", **MACHINE)
    shown = fits._repr_html_()
    assert shown.count("<tr>") == len(fits["choices"]) + len(fits["memory"]) + 2
    assert f"<td>{fits['chosen']['total_s']:.3g}</td>" in shown
    why_not = ringscope.plan(world_size=2, seqlen="4M", **MACHINE)
    assert html.escape(why_not["why"]) in why_not._repr_html_()
