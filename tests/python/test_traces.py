"""Recordings are explained and shown."""

import base64
import json
import os
import warnings

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


def test_the_page_is_in_a_frame_in_a_notebook(tmp_path, page_writer):
    page = ringscope.show(tmp_path / "ring.json")
    assert 'srcdoc="&lt;p title=&quot;x&quot;&gt;view ' in page._repr_html_()
    page.unlink()
    assert page._repr_html_() is None


def test_a_page_or_a_picture_of_a_recording(traces):
    with warnings.catch_warnings(record=True) as remarks:
        page = ringscope.show(traces[1], axis="steps")
    if page.suffix == ".html":
        assert '"traceEvents"' in page.read_text() or "late.json" in page.read_text()
    else:
        assert page == traces[1].with_suffix(".json.png")
        assert page.read_bytes().startswith(b"\x89PNG")
        assert "the viewer for browsers is not built" in str(remarks[0].message)


@pytest.fixture
def picture_writer(tmp_path, monkeypatch):
    """A program without the viewer for browsers, whose picture holds its command line."""
    program = tmp_path / "writer"
    program.write_text(
        '#!/bin/sh\nif [ "$3" = --html ]; then\n'
        "  echo 'ringscope: --html: the viewer for browsers is not built; accepted: x' >&2; exit 2\n"
        'fi\n[ "$3" = --screenshot ] && printf %s "$*" > "$4"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("RINGSCOPE", str(program))


def test_without_the_viewer_for_browsers_it_is_a_picture(tmp_path, picture_writer):
    trace = tmp_path / "ring.json"
    with pytest.warns(
        ringscope.RingscopeWarning, match="is not built; .*ring.json.png is a picture"
    ):
        picture = ringscope.show(trace, step=2)
    assert picture == tmp_path / "ring.json.png"
    assert picture.read_text() == f"view {trace} --screenshot {picture} --step 2"
    data = picture._repr_html_().split("base64,")[1].split('"')[0]
    assert base64.b64decode(data) == picture.read_bytes()


def test_a_path_of_a_picture_asks_for_one(traces, tmp_path):
    picture = ringscope.show(traces[0], path=tmp_path / "ring.svg")
    assert picture == tmp_path / "ring.svg" and os.fspath(picture) == str(picture)
    assert "<svg" in picture.read_text() and picture._repr_html_().startswith('<img src="data:')


def test_another_reason_for_no_page_is_an_error(tmp_path):
    with pytest.raises(ringscope.RingscopeError):
        ringscope.show(tmp_path / "none.json")
    assert list(tmp_path.iterdir()) == []


def test_an_explanation_is_a_table_in_a_notebook(traces):
    late = ringscope.explain(traces[1])
    assert f"<td>{late['findings'][0]['evidence']}</td>" in late._repr_html_()
    even = ringscope.explain(traces[0])._repr_html_()
    assert "nothing costs 1 %" in even and "<table>" not in even
    assert f"{ringscope.explain(traces[0])['wall_ms']:.3g} ms" in even


def test_no_recording_is_an_error(tmp_path):
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.explain(tmp_path / "none.json")
    assert "none.json" in str(error.value)
    assert error.value.status == 2
