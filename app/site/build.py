"""`./ringscope site DIR`: build.py PROGRAM DIR [WORK]. Writes the documents, lets the program record what they show, runs the
generator, and publishes what it made. All of that happens in WORK (build/site-work); DIR changes when the site is whole."""

import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from tempfile import mkdtemp

sys.path.insert(0, str(Path(__file__).parent))

from pages import Pages, write_gallery
from publish import Refused, own_files, publish

ROOT = Path(__file__).resolve().parents[2]


def write_documents(program, documents, recorded, has_viewer):
    """Write the documents, and return the pictures of recordings that lie beside the gallery's page."""
    commands = subprocess.run([program, "help", "markdown"], check=True, capture_output=True, text=True).stdout
    pages = Pages(ROOT, documents, {"commands.md": commands}, has_viewer)
    pages.write()
    if pages.missing:
        raise SystemExit("ringscope: site: links that lead nowhere: " + "; ".join(pages.missing))
    examples = json.loads((recorded / "examples.json").read_text())
    pictures = {each["picture"]: recorded / each["picture"] for each in examples if each["picture"]}
    for each in pages.recordings:
        if each["picture"]:
            name = each["files"][0] + ".svg"
            pictures[name], each["picture"] = ROOT / each["picture"], name
    write_gallery(documents, examples + pages.recordings, has_viewer)
    (documents / "static").mkdir()
    for name in ("site.js", "style.css"):
        shutil.copy(Path(__file__).parent / name, documents / "static")
    return pictures


def write_recordings(recorded, out):
    """Write each recording, and a script that hands it to a page: one that is read from a folder may load nothing else."""
    out.mkdir()
    for path in recorded.glob("*.json"):
        if path.name != "examples.json":
            shutil.copy(path, out)
            bytes_in_base64 = b64encode(path.read_bytes()).decode()
            script = f'(window.ringscopeRecordings ??= {{}})[{json.dumps(path.name)}] = "{bytes_in_base64}";\n'
            (out / f"{path.name}.js").write_text(script)


def write_viewer(script, out):
    """Write the viewer's page and its scripts."""
    page = (ROOT / "app/view/viewer.html").read_text()
    words = {
        "title": "The viewer · Ringscope",
        "allowed": "'self'",
        "back": '<nav><a href="index.html">← Recordings</a> <a href="../index.html">Ringscope</a></nav>',
        "scripts": '<script src="ringscope.js"></script>\n<script src="viewer.js"></script>\n',
    }
    for name, text in words.items():
        page = page.replace("{{" + name + "}}", text)
    (out / "show.html").write_text(page)
    shutil.copy(script, out / "ringscope.js")
    shutil.copy(ROOT / "app/view/viewer.js", out)
    shutil.copy(ROOT / "app/site/figures.js", out)


def print_cheat_sheet(page):
    """Print it beside its page, as a PDF, where there is a Chromium. Return whether it is there."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    pdf = page.with_suffix(".pdf")
    if not browser:
        return False
    profile = mkdtemp()
    command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={profile}", f"--print-to-pdf={pdf}"]
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses root
    try:
        subprocess.run([*command, *root, page.as_uri()], capture_output=True, timeout=120)
    except (subprocess.TimeoutExpired, OSError):
        pdf.unlink(missing_ok=True)  # the site is whole without it
    shutil.rmtree(profile, ignore_errors=True)  # Chromium's children may still write there
    return pdf.is_file()


def build(program, work):
    """Make the site in `work`/html. Return that folder, and what is left out of it."""
    shutil.rmtree(work, ignore_errors=True)
    documents, recorded, made = work / "documents", work / "recorded", work / "html"
    subprocess.run([program, "site", "--recordings", recorded], check=True)
    script = ROOT / "build/wasm/viz/browser/ringscope_web.js"
    pictures = write_documents(program, documents, recorded, script.is_file())
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "-j", "auto", "-d", work / "doctrees"]
    subprocess.run([*sphinx, "-c", Path(__file__).parent, "-D", f"html_static_path={documents / 'static'}", documents, made], check=True)
    shutil.rmtree(made / "_sources", ignore_errors=True)
    (made / ".buildinfo").unlink(missing_ok=True)
    for name, picture in pictures.items():
        shutil.copy(picture, made / "viewer" / name)
    write_recordings(recorded, made / "recordings")
    left_out = ""
    if script.is_file():
        write_viewer(script, made / "viewer")
    else:
        left_out += ", without emscripten: pictures in place of the viewer"
    if not print_cheat_sheet(made / "lessons/cheat_sheet.html"):
        left_out += ", without Chromium: no PDF of the cheat sheet"
    return made, left_out


def main(program, folder, work=ROOT / "build/site-work"):
    try:
        own_files(folder)  # refuse before work begins
        made, left_out = build(program, Path(work).resolve())
        count = publish(made, folder)
    except Refused as refused:
        print(f"ringscope: {refused}", file=sys.stderr)
        return 2
    except (subprocess.SubprocessError, OSError) as error:
        print(f"ringscope: site '{folder}': {error}", file=sys.stderr)
        return 3
    print(f"{count} files{left_out}. Open {Path(folder).resolve() / 'index.html'}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends this program without a word, as it does others
    sys.exit(main(*sys.argv[1:]))
