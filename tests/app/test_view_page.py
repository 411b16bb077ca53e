"""A page of `view --html`, and what the program says of `site`, which its launcher makes."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

from program import PROGRAM

SOURCE = Path(__file__).parents[2]


def test_a_page_of_recordings_holds_them_and_its_own_scripts(program):
    """It has them byte for byte, and says that no script but its own may run. The program finds a viewer beside itself,
    here one of a line."""
    for place in ("bin", "share/ringscope"):
        program.path(place).mkdir(parents=True)
    shutil.copy(PROGRAM, program.path("bin/ringscope"))
    program.path("share/ringscope/ringscope_web.js").write_text("const shown = '</script>';")
    program.well("run --random --seqlen 16 --trace <b>.json")
    subprocess.run(["gzip", "-kn", "<b>.json"], cwd=program.folder, check=True)
    command = ["bin/ringscope", "view", "<b>.json", "<b>.json.gz", "--html", "p.html"]
    ended = subprocess.run(command, cwd=program.folder, capture_output=True, text=True)
    assert ended.stderr == ""
    text = program.path("p.html").read_text()
    (nonce,) = re.findall("default-src 'none'; script-src 'nonce-([0-9a-f]{32})' 'wasm-unsafe-eval';", text)
    # Of two recordings, the viewer and its page.
    assert text.count(f'<script nonce="{nonce}">') == text.count("<script") == text.count("</script") == 4
    for ending in (".json", ".json.gz"):
        recording = base64.b64encode(program.path("<b>" + ending).read_bytes()).decode()
        assert f'["\\u003cb>{ending}"] = "{recording}";' in text


def test_a_page_has_the_notes_on_its_recordings(program):
    """Those beside a recording and those of --note, as parameters of the viewer's address; others are refused."""
    for place in ("bin", "share/ringscope"):
        program.path(place).mkdir(parents=True)
    shutil.copy(PROGRAM, program.path("bin/ringscope"))
    program.path("share/ringscope/ringscope_web.js").write_text(";")
    for name in ("a", "b"):
        program.well(f"run --random --seqlen 16 --trace {name}.json")
    program.path("b.notes.json").write_text('{"notes": [{"rank": 1, "ns": 5, "text": "why?\\n</script>"}]}')

    def page(*more):
        command = ["bin/ringscope", "view", "a.json", "b.json", "--html", "p.html", *more]
        return subprocess.run(command, cwd=program.folder, capture_output=True, text=True)

    assert page("--note", "0@1us:late").returncode == 0
    (notes,) = re.findall("window.ringscopeNotes = (.*);", program.path("p.html").read_text())
    assert json.loads(notes) == ["2/1@5ns:why?\\n</script>", "1/0@1000ns:late"]
    assert "<" not in notes
    for note, part in (("4@1us:x", "ranks to 3"), ("3/0@1us:x", "1/ to 2/")):
        refused = page("--note", note)
        assert refused.returncode == 2 and part in refused.stderr, refused.stderr


def test_site_writes_the_recordings_that_its_pages_name(program):
    """They name those of lessons, which the program writes for them, with the examples."""
    program.well("site --recordings recordings")  # of which nothing is drawn where no terminal is
    pages = "".join(page.read_text() for page in SOURCE.glob("lessons/*/README.md"))
    named = re.findall("a story: `./ringscope view runs/lessons/([^`]+)`", pages)
    assert len(named) > 5
    for file in named:
        assert program.path("recordings/" + file).exists()
    examples = json.loads(program.path("recordings/examples.json").read_text())
    assert len(examples) == 5
    for file in (file for example in examples for file in example["files"]):
        assert program.run("explain", "recordings/" + file).returncode == 0, file
