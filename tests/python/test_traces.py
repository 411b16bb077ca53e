"""Recordings are explained and shown."""

import json
import sys
import types

import pytest
import ringscope

MACHINE = {"gpu": "H100", "link": "NVLink4", "world_size": 4, "seqlen": 16384}


@pytest.fixture
def traces(tmp_path):
    paths = [tmp_path / "even.json", tmp_path / "late.json"]
    ringscope.simulate(trace=paths[0], **MACHINE)
    ringscope.simulate(trace=paths[1], straggler={2: 0.5}, **MACHINE)
    return paths


def test_a_slow_rank_is_named(traces):
    finding = ringscope.explain(traces[1])["findings"][0]
    assert (finding["cause"], finding["rank"]) == ("slow-rank", 2)


def test_several_recordings_are_a_list(traces):
    even, late = ringscope.explain(traces)
    assert even["findings"] == []
    assert late["wall_ms"] > even["wall_ms"] > 0


def test_paths_may_begin_with_a_dash(traces, monkeypatch):
    monkeypatch.chdir(traces[0].parent)
    traces[0].rename("-even.json")
    assert ringscope.explain("-even.json")["findings"] == []
    with pytest.raises(ringscope.RingscopeError, match="--csv=out.csv"):
        ringscope.explain(["late.json", "--csv=out.csv"])
    with pytest.raises(ringscope.RingscopeError):
        ringscope.show(["late.json", "--csv=out.csv"])
    assert not (traces[0].parent / "out.csv").exists()


def test_profiles_without_a_ring_are_no_error(tmp_path):
    for rank in range(2):
        events = [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
        ]
        head = {"distributedInfo": {"rank": rank, "world_size": 2}, "schemaVersion": 1}
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(
            json.dumps({**head, "traceEvents": events})
        )
    answer = ringscope.explain(tmp_path)
    assert answer["ring"] is False and answer["notes"]


@pytest.fixture
def page_writer(tmp_path, monkeypatch):
    """A program whose page holds its command line."""
    program = tmp_path / "writer"
    program.write_text('#!/bin/sh\ncat > "$4" <<end\n<p title="x">$*</p>\nend\n')
    program.chmod(0o755)
    monkeypatch.setenv("RINGSCOPE", str(program))


def test_the_page_is_a_path_outside_of_notebooks(tmp_path, page_writer):
    page = ringscope.show(tmp_path / "ring.json", step=2)
    assert page == tmp_path / "ring.json.html"
    words = f"view {tmp_path}/ring.json --html {page} --step 2"
    assert page.read_text() == f'<p title="x">{words}</p>\n'
    other = tmp_path / "other.html"
    assert ringscope.show(str(tmp_path / "ring.json"), path=other) == other


def test_the_page_is_in_a_frame_in_a_notebook(tmp_path, page_writer, monkeypatch):
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.HTML = lambda text: ("HTML", text)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    kind, text = ringscope.show(tmp_path / "ring.json")
    assert kind == "HTML"
    assert 'srcdoc="&lt;p title=&quot;x&quot;&gt;view ' in text


def test_a_page_of_a_recording_or_why_there_is_none(traces, tmp_path):
    try:
        page = ringscope.show(traces[1])
    except ringscope.RingscopeError as error:
        assert "the viewer for browsers is not built" in str(error)
        return
    assert '"traceEvents"' in page.read_text() or "late.json" in page.read_text()


def test_no_recording_is_an_error(tmp_path):
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.explain(tmp_path / "none.json")
    assert "none.json" in str(error.value)
    assert error.value.status == 2
