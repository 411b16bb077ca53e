"""Collects the pages of the site: the project's Markdown as it is, with links that fit the site's folders, and a page of
its own for every source file that a page links to. Knows Markdown's links and our lessons' forms, but not the generator."""

import html
import json
import posixpath
import re
from pathlib import Path

PICTURES = (".png", ".svg", ".webp")
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".cu": "cuda", ".py": "python", ".json": "json", ".sh": "bash"}

# The pages of the reference, by what a reader looks for.
REFERENCE = {
    "README.md": "What Ringscope is, and how to get it",
    "commands.md": "Every command and its flags",
    "app/run/run.md": "Runs: inputs, masks, partitions, schemes, verification",
    "app/view/view.md": "The viewer, and why a run took so long",
    "app/check/check.md": "Is my own attention right?",
    "app/plan/plan.md": "What a run will cost",
    "app/simulate/simulate.md": "Machines that are not here",
    "app/train/train.md": "Training and generating",
    "python/README.md": "From Python",
    "core/README.md": "Semantics and sources",
    "cuda/README.md": "The kernels",
    "bench/README.md": "Measurements",
    "CONTRIBUTING.md": "How the code is made",
}
BESIDE_LESSONS = {
    "lessons/glossary.md": "Glossary",
    "lessons/zoo.md": "Bug zoo",
    "lessons/quiz.md": "Quiz",
    "lessons/capstone.md": "Capstone",
    "lessons/challenges.md": "Challenges",
    "lessons/cheat_sheet.md": "Cheat sheet",
    "lessons/checks.md": "Checks",
    "lessons/claims.md": "Claims, tested",
    "bench/published/scoreboard.md": "Scoreboard",
}
ALWAYS = ["viz/ring.webp", "viz/compare.png"]  # pictures of pages that lie in no file

# The figures that move, by the lesson that they stand in, before its exercise: a name of lessons/figures, and the values
# of its controls at first, where they differ from the figure's own.
FIGURES = {
    "online_softmax": [("merge", {})],
    "the_ring": [("ring", {})],
    "causal_masks": [("work", {})],
    "striped_and_zigzag": [("work", {"partition": "striped"}), ("race", {}), ("deal", {})],
    "backward": [("ring", {"pass": "backward"})],
    "other_masks": [("work", {"mask": "causal+window:1024", "partition": "contiguous", "ranks": 8})],
    "overlap": [("overlap", {})],
    "prefill_and_decode": [("decode", {})],
    "sixteen_bits": [("count", {"ones": 300})],
    "two_nodes": [("nodes", {})],
}

_CODE = r"^```.*?^```|^    .*?$|`[^`\n]*`"
_LINK_OR_CODE = re.compile(rf"(?P<code>{_CODE})|\]\((?P<target>[^)\s]+)\)", re.M | re.S)
_RECORDING = re.compile(r"The lesson records this run, with a story: `\./ringscope view runs/lessons/([^`]+)`\.")


def document_of(path):
    """Return where the page of a file lies among the documents, with .md."""
    if path == "README.md":
        return "about.md"
    folder, name = posixpath.split(path)
    if name == "README.md":
        return posixpath.join(folder, "index.md")
    return path if path.endswith(".md") else f"source/{path}.md"


def formulas_of(text):
    """Return the formulas of formulas.txt: TeX by listing. Raise ValueError for a listing without TeX."""
    formulas = {}
    for entry in re.split(r"\n\n+", text.strip())[1:]:
        lines = entry.splitlines()
        listing = [line for line in lines if line.startswith("    ")]
        tex = "\n".join(lines[len(listing) :])
        if not listing or not tex:
            raise ValueError(f"a listing and its TeX accepted: {entry}")
        formulas["\n".join(listing)] = tex
    return formulas


class Pages:
    """Writes the documents of the site from the folder `root` into `out`.

    `made` has the text of pages that lie in no file. `has_viewer` says whether figures and recordings are shown. What was
    linked to, but isn't there, is in `missing`; formulas that no page has are in `unused`."""

    def __init__(self, root, out, made, has_viewer):
        self.root, self.out, self.made, self.has_viewer = Path(root), Path(out), made, has_viewer
        self.formulas = formulas_of((Path(__file__).parent / "formulas.txt").read_text())
        self.unused = set(self.formulas)
        self.missing, self.recordings, self._known, self._wanted = [], [], set(), []

    def write(self):
        contents = (self.root / "lessons/README.md").read_text()
        lessons = re.findall(r"^\| (\d+) \| \[([^\]]+)\]\((\w+)/README\.md\) \| (.*) \| [\d +]+ \|$", contents, re.M)
        self.lessons = {f"lessons/{folder}/README.md": (number, title, summary) for number, title, folder, summary in lessons}
        self.want("lessons/README.md", *self.lessons, *BESIDE_LESSONS, *REFERENCE, *ALWAYS)
        self._write("reference.md", self._reference())
        self._write("index.md", self._front(contents, lessons))
        while self._wanted:  # pages ask for further pages
            self._write_file(self._wanted.pop(0))

    def want(self, *paths):
        for path in paths:
            if path not in self._known:
                self._known.add(path)
                self._wanted.append(path)

    def _write(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def _write_file(self, path):
        if path.endswith(PICTURES):
            self._write(path, (self.root / path).read_bytes())
        elif path in self.made or path.endswith(".md"):
            text = self.made.get(path) or (self.root / path).read_text()
            if path in self.lessons:
                text = self._lesson(path, text)
            self._write(document_of(path), self._linked(path, text, document_of(path)))
        elif (self.root / path).is_dir():
            names = sorted(each.name for each in (self.root / path).iterdir())
            self._write(document_of(path), f"---\nnosearch: true\n---\n# {path}\n\n" + "".join(f"- `{name}`\n" for name in names))
        else:
            text = (self.root / path).read_text()
            fence = "`" * (3 + max(map(len, re.findall("`+", text)), default=0))
            language = LANGUAGES.get(posixpath.splitext(path)[1], "text")
            self._write(document_of(path), f"---\nnosearch: true\n---\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n")

    # Return `text`, which is from the file `path`, with links that fit the document that it goes to.
    def _linked(self, path, text, document):
        def replaced(match):
            return match[0] if match["code"] else f"]({self._target(path, match['target'], document)})"

        return _LINK_OR_CODE.sub(replaced, text)

    def _target(self, path, target, document):
        if re.match(r"[a-z]+:|#", target):
            return target
        file, hash, anchor = target.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if (self.root / to / "README.md").is_file():
            to += "/README.md"
        if to.startswith("..") or not (to in self.made or (self.root / to).exists()):
            self.missing.append(f"{path}: {target}")
            return target
        self.want(to)
        place = to if to.endswith(PICTURES) else document_of(to)
        return posixpath.relpath(place, posixpath.dirname(document) or ".") + hash + anchor

    def _lesson(self, path, text):
        def formula(match):
            listing = match[0].rstrip("\n")
            if listing not in self.formulas:
                return match[0]
            self.unused.discard(listing)
            return f"$$\n{self.formulas[listing]}\n$$\n"

        text = re.sub(r"^(?:    .*\n)+", formula, text, flags=re.M)
        for file in _RECORDING.findall(text):
            number, title, summary = self.lessons[path]
            # Its name is the lesson's number, perhaps a word, and .json; pictures of its story have that word.
            picture = f"{posixpath.dirname(path)}/story{file.removesuffix('.json')[len(number):]}-1.svg"
            words = {"files": [file], "title": title, "text": f"Lesson {number}: {summary}"}
            self.recordings.append({**words, "picture": picture if (self.root / picture).is_file() else ""})
        text = _RECORDING.sub(self._recording, text)
        figures = "".join(map(self._figure, FIGURES.get(path.split("/")[1][3:], [])))
        ends = re.search(r"^## (Exercise|With the program|Three things to keep)$", text, re.M)
        return text[: ends.start()] + figures + text[ends.start() :]

    def _recording(self, match):
        file = html.escape(match[1])
        link = f'<a class="open" href="../../viewer/show.html?trace=../recordings/{file}">Open it in the viewer</a>. '
        return (
            f'<div class="recording" data-recording="{file}"><p>The lesson records this run, with a story. '
            f'{link if self.has_viewer else ""}<a href="../../recordings/{file}" download>The recording</a> opens with '
            f"<code>ringscope view {file}</code>.</p></div>"
        )

    def _figure(self, figure):
        name, values = figure
        if not self.has_viewer:
            return "<p>A figure that moves stands here in copies of the site that were made with emscripten.</p>\n\n"
        return (
            f'<section class="live" data-figure="{name}" data-values="{html.escape(json.dumps(values))}" aria-label="A figure '
            'that moves"><noscript><p>Here stands a figure that moves; it needs JavaScript.</p></noscript></section>\n\n'
        )

    # ---
    # Pages that lie in no file.

    def _reference(self):
        items = "".join(f"- [{what}]({document_of(path)})\n" for path, what in REFERENCE.items())
        return f"# Reference\n\nHow to use the program, what it computes, and how that is known.\n\n{items}"

    def _front(self, contents, lessons):
        cards = "".join(
            f'<li><a href="lessons/{folder}/index.html"><span class="label">{number}</span><strong>{title}</strong>'
            f"<span>{html.escape(summary)}</span></a></li>\n"
            for number, title, folder, summary in lessons
        )
        ways = re.search(r"^## Three ways through\n\n(.*?)^## ", contents, re.M | re.S)[1]
        trees = {
            "Lessons": ["lessons/README.md", *self.lessons],
            "Beside them": BESIDE_LESSONS,
            "Recordings": {"viewer/index.md": "Recordings, and the viewer"},
            "Reference": {"reference.md": "What is where", **REFERENCE},
        }
        text = (Path(__file__).parent / "front.md").read_text()
        text = text.replace("{{first}}", f"lessons/{lessons[0][2]}/index.md").replace("{{cards}}", cards)
        text = text.replace("{{ways}}", self._linked("lessons/README.md", ways, "index.md"))
        return text + "".join(map(_tree, trees, trees.values()))


def _tree(caption, pages):
    titles = pages if isinstance(pages, dict) else {}
    names = {path: document_of(path).removesuffix(".md") for path in pages}
    lines = [f"{titles[path]} <{names[path]}>" if path in titles else names[path] for path in pages]
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(lines) + "\n```\n"


def write_gallery(out, recordings, has_viewer):
    """Write the page of recordings, each with its files, a title, a text and, or "", the name of a picture beside the page."""
    items = ""
    for each in recordings:
        address = "&amp;".join(f"trace=../recordings/{file}" for file in each["files"])
        link = f"show.html?{address}" if has_viewer else f"../recordings/{each['files'][0]}"
        title = html.escape(each["title"])
        picture = html.escape(each["picture"])
        image = f'<img src="{picture}" alt="What the viewer shows of: {title}" loading="lazy">' if picture else ""
        items += f'<li><a href="{link}">{image}<strong>{title}</strong><span>{html.escape(each["text"])}</span></a></li>\n'
    text = (Path(__file__).parent / ("viewer.md" if has_viewer else "no_viewer.md")).read_text()
    (Path(out) / "viewer").mkdir()
    (Path(out) / "viewer/index.md").write_text(text.replace("{{recordings}}", items))
