"""Documents are the project's pages with links that fit, formulas in place of their listings, recordings and figures."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "app/site"))
from pages import FIGURES, Pages, formulas_of, write_gallery

CONTENTS = """# Lessons

| | lesson | | minutes |
|---:|---|---|---:|
| 03 | [Online softmax](03_online_softmax/README.md) | Carry & merge. | 8 + 3 + 46 |

## Three ways through

- **The idea**: read [03](03_online_softmax/README.md).

## Later
"""
LESSON = """# 03 Online softmax

[All](../README.md), [the loop](../../core/loop.h), [out](https://example.org/x.md), `[no](link.md)` [`name`](#three-things-to-keep)

    exp(score - 5) = exp(score - 3) exp(3 - 5)

    no formula

```cpp
[no](link.md)
```

The lesson records this run, with a story: `./ringscope view runs/lessons/03-two.json`.

1. First.

## Three things to keep
"""


@pytest.fixture
def tree(tmp_path):
    """A project of one lesson."""
    files = {"lessons/README.md": CONTENTS, "lessons/03_online_softmax/README.md": LESSON, "core/loop.h": "int i;  // ```\n"}
    files["lessons/03_online_softmax/story-two-1.svg"] = "<svg/>"
    for path in ("lessons/glossary.md", "README.md", "viz/ring.webp"):
        files[path] = "# A page\n"
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def written(tree, has_viewer=True):
    pages = Pages(tree, tree / "out", {}, has_viewer)
    pages.write()
    return pages, lambda name: (tree / "out" / name).read_text()


@pytest.fixture(autouse=True)
def of_few_pages(monkeypatch):
    monkeypatch.setattr("pages.REFERENCE", {"README.md": "What it is"})
    monkeypatch.setattr("pages.BESIDE_LESSONS", {"lessons/glossary.md": "Glossary"})
    monkeypatch.setattr("pages.ALWAYS", ["viz/ring.webp"])


def test_links_lead_to_documents_and_code_stays(tree):
    pages, text_of = written(tree)
    text = text_of("lessons/03_online_softmax/index.md")
    assert "[All](../index.md), [the loop](../../source/core/loop.h.md), [out](https://example.org/x.md)" in text
    assert "`[no](link.md)` [`name`](#three-things-to-keep)" in text
    assert "```cpp\n[no](link.md)\n```" in text
    assert "````cpp\nint i;  // ```\n````" in text_of("source/core/loop.h.md")
    assert pages.missing == []
    assert "[03](lessons/03_online_softmax/index.md)" in text_of("index.md")
    assert "<span>Carry &amp; merge.</span>" in text_of("index.md")


def test_a_link_that_leads_nowhere_is_told(tree):
    (tree / "README.md").write_text("[a](core/none.h) [b](../outside.md)")
    assert written(tree)[0].missing == ["README.md: core/none.h", "README.md: ../outside.md"]


def test_formulas_take_the_place_of_their_listings(tree):
    text = written(tree)[1]("lessons/03_online_softmax/index.md")
    assert "$$\n\\exp(\\text{score} - 5) = \\exp(\\text{score} - 3)\\, \\exp(3 - 5)\n$$" in text
    assert "    no formula\n" in text
    with pytest.raises(ValueError):
        formulas_of("# Head\n\n    a listing alone\n")


@pytest.mark.parametrize("has_viewer", [True, False])
def test_recordings_and_figures(tree, has_viewer):
    pages, text_of = written(tree, has_viewer)
    text = text_of("lessons/03_online_softmax/index.md")
    assert text.index("A figure that moves") < text.index("## Three things to keep")
    assert ("viewer/show.html?trace=../recordings/03-two.json" in text) == has_viewer
    assert ("data-figure" in text) == has_viewer
    assert '<a href="../../recordings/03-two.json" download>' in text
    assert pages.recordings == [
        {
            "files": ["03-two.json"],
            "title": "Online softmax",
            "text": "Lesson 03: Carry & merge.",
            "picture": "lessons/03_online_softmax/story-two-1.svg",
        }
    ]
    write_gallery(tree / "out", [{"files": ["a.json", "b.json"], "title": "A < B", "text": "&", "picture": "a.png"}], has_viewer)
    card = text_of("viewer/index.md")
    assert ("show.html?trace=../recordings/a.json&amp;trace=../recordings/b.json" in card) == has_viewer
    assert 'alt="What the viewer shows of: A &lt; B"' in card and "<span>&amp;</span>" in card


def test_the_projects_own_pages(tmp_path, monkeypatch):
    monkeypatch.undo()
    pages = Pages(ROOT, tmp_path, {"commands.md": "# Commands\n"}, True)
    pages.write()
    assert pages.missing == []
    assert pages.unused == set(), "a listing of formulas.txt is in no lesson any more"
    assert len(pages.recordings) > 5 and all(each["picture"] for each in pages.recordings)
    lessons = {path.parent.name for path in ROOT.glob("lessons/[0-9]*/lesson.cpp")}
    assert {path.parent.name for path in (tmp_path / "lessons").glob("[0-9]*/index.md")} == lessons
    texts = [path.read_text() for path in tmp_path.rglob("*.md")]
    assert sum(text.count('class="live"') for text in texts) == sum(map(len, FIGURES.values())) == 12
