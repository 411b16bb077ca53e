"""The whole site, made by its generator: every page is there, every link leads somewhere, nothing is loaded from elsewhere, and
a page says which scripts may run in it. Skipped where `./ringscope site` has not installed the generator."""

import base64
import hashlib
import os
import posixpath
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "build/site-env/bin/python"
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """What a page has: elements as (tag, attributes), ids, and what was wrong with it."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.wrong, self.open = [], [], [], []
        self.feed(text)
        self.wrong += [f"<{tag}> isn't closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def of(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not GENERATOR.exists():
        pytest.skip("the site's generator is not installed: ./ringscope site DIR does it")
    folder = tmp_path_factory.mktemp("site")
    command = [GENERATOR, ROOT / "app/site/build.py", os.environ["RINGSCOPE"], folder / "out", folder / "work"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    return folder / "out"


@pytest.fixture(scope="module")
def pages(site):
    return {str(path.relative_to(site)): Page(path.read_text()) for path in site.rglob("*.html")}


def lessons():
    return sorted(path.parent.name for path in ROOT.glob("lessons/[0-9]*/README.md"))


def test_every_page_is_there_and_whole(pages):
    names = {"index", "about", "reference", "commands", "search", "viewer/index", "lessons/index", "app/run/run"}
    names |= {f"lessons/{name}" for name in ("glossary", "zoo", "challenges", "claims", *(f"{each}/index" for each in lessons()))}
    assert {f"{name}.html" for name in names} <= pages.keys()
    for name, page in pages.items():
        assert page.wrong == [], name
        assert len(page.ids) == len(set(page.ids)), name
        assert len(page.of("h1")) == 1 or name == "search.html", name
        assert page.of("html")[0]["lang"] == "en"
        assert any("icon" in each["rel"] for each in page.of("link")), f"{name} makes a browser ask for /favicon.ico"
        assert name == "viewer/show.html" or any("skip-to-content" in each.get("class", "") for each in page.of("a")), name


def test_headings_leave_out_no_level(pages):
    for name, page in pages.items():
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in zip(levels, levels[1:])), name


def test_every_link_leads_somewhere(site, pages):
    links = outside = 0
    for name, page in pages.items():
        for tag, attributes in page.elements:
            address = urlsplit(attributes.get("href" if tag != "img" and tag != "script" else "src") or "")
            if address.scheme in ("http", "https"):
                assert tag == "a", f"{name} loads {address.geturl()}"
                outside += 1
            elif tag != "use" and address.scheme == "" and (address.path or address.fragment):
                links += 1
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(address.path))) if address.path else name
                assert (site / to).is_file(), f"{name} leads to {address.geturl()}"
                if address.fragment and to in pages:
                    assert unquote(address.fragment) in pages[to].ids, f"{name} leads to {address.geturl()}"
    assert links > 5000 and outside > 100


def test_nothing_is_loaded_from_elsewhere(site):
    for path in [*site.rglob("*.css"), *site.rglob("*.html")]:
        assert re.findall(r"url\(\s*['\"]?(?:https?:)?//|@import", path.read_text()) == [], path


def test_pictures_are_described(pages):
    alts = [each.get("alt", "") for page in pages.values() for each in page.of("img")]
    assert len(alts) > 70 and min(map(len, alts)) >= 10
    assert len(set(alts)) > 0.5 * len(alts), "one text for all of them describes none"


def test_a_page_says_which_scripts_may_run(site, pages):
    for name, page in pages.items():
        policy = [each["content"] for each in page.of("meta") if each.get("http-equiv") == "Content-Security-Policy"]
        assert len(policy) == 1, name
        rules = dict(rule.strip().split(" ", 1) for rule in policy[0].split(";"))
        assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'"
        assert {each for each in " ".join(rules.values()).split() if ":" in each} <= {"data:"}, name
        assert "'unsafe-inline'" not in rules["script-src"] and "'unsafe-eval'" not in rules["script-src"]
        for text in re.findall(r"<script>(.*?)</script>", (site / name).read_text(), re.S):
            allowed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{allowed}'" in rules["script-src"], name
        handlers = [each for _, attributes in page.elements for each in attributes if each.startswith("on")]
        assert handlers == [], name


def test_a_lesson_is_light(site, pages):
    for lesson in lessons():
        name = f"lessons/{lesson}/index.html"
        page = pages[name]
        loaded = {name} | {each["href"] for each in page.of("link") if each.get("rel") == "stylesheet"}
        loaded |= {each["src"] for each in page.of("script") if "src" in each}
        paths = [site / posixpath.normpath(posixpath.join(posixpath.dirname(name), each.partition("?")[0])) for each in loaded - {name}]
        assert sum(path.stat().st_size for path in [site / name, *paths]) < 150_000, lesson


def test_lessons_have_mathematics_code_questions_and_contents(site, pages):
    text = (site / "lessons/02_safe_softmax/index.html").read_text()
    for part, least in {"<math ": 2, '<span class="k">': 1, '<blockquote class="predict">': 1, 'class="toc-tree"': 1}.items():
        assert text.count(part) >= least, part
    assert sum(len(page.of("math")) for page in pages.values()) >= 18
    for name in pages:
        for formula in re.findall(r"<math.*?</math>", (site / name).read_text(), re.S):
            assert "\\" not in formula, f"{name} shows TeX: {formula}"


def test_the_cheat_sheet_is_one_page_of_a4(site):
    if not shutil.which("chromium"):
        pytest.skip("no chromium here")
    pdf = (site / "lessons/cheat_sheet.pdf").read_bytes()
    assert re.findall(rb"/Count (\d+)", pdf) == [b"1"]
    width, height = re.search(rb"/MediaBox \[0 0 (\S+) (\S+)\]", pdf).groups()
    assert (round(float(width)), round(float(height))) == (595, 842)


def test_search_knows_the_text(site):
    index = (site / "searchindex.js").read_text()
    assert "zigzag" in index and "lessons/08_striped_and_zigzag/index" in index
