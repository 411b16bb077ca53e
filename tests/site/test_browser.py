"""The site in Chromium, with the viewer and the figures compiled for browsers: pages say no error, text is there without
scripts, the viewer draws what the desktop's draws and takes keys, wheel and files, figures have the numbers of the native
code, and a story moves its recording. Skipped where Chromium or that build is missing.

The browser is driven through a pipe, by its DevTools protocol (a JSON text for each command, ended by a NUL), so that keys
and drops are those of a user. Nothing waits for a fixed time. browser.js has what runs in pages."""

import fcntl
import json
import math
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "build/site-env/bin/python"
HELP = (Path(__file__).parent / "browser.js").read_text(encoding="utf-8")
PROGRAM = os.environ.get("RINGSCOPE")
PATIENCE_S = 60  # for an answer that takes a second at most
FLAGS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe --allow-file-access-from-files
    --no-first-run""".split()
LEFT = dict(button="left", buttons=1, clickCount=1)


class Browser:
    """A page in a browser of its own, over a site."""

    def __init__(self, site, folder):
        self.site, self.folder = site, folder
        self.received, self.said, self.last, self.loaded, self.session = b"", [], 0, False, {}
        theirs_in, self.to = os.pipe()
        self.came, theirs_out = os.pipe()
        # The protocol expects its ends at 3 and 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        words = ["chromium", *FLAGS, f"--user-data-dir={folder}/profile"]
        script = 'exec "$@" 3<&{} 4>&{}'.format(*ends)
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", *words], pass_fds=ends, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", flatten=True, targetId=target)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.came)

    def call(self, method, **parameters):
        """Carry out a command, and return its result."""
        self.last += 1
        command = {"id": self.last, "method": method, "params": parameters, **self.session}
        text = json.dumps(command).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text) :]
        while True:
            message = self.next()
            if message.get("id") == self.last:
                assert "error" not in message, message
                return message["result"]

    def next(self):
        while b"\0" not in self.received:
            assert select.select([self.came], [], [], PATIENCE_S)[0], "the browser does not answer"
            piece = os.read(self.came, 65536)
            assert piece, "the browser has ended"
            self.received += piece
        text, _, self.received = self.received.partition(b"\0")
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        self.loaded |= method == "Page.loadEventFired"
        if (
            method == "Runtime.exceptionThrown"
            or (method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"))
            or (method == "Log.entryAdded" and parameters["entry"]["level"] == "error")
        ):
            self.said.append(message)
        return message

    def complaints(self):
        """Return what the page's console has said since the last call: errors and warnings."""
        said, self.said = self.said, []
        return said

    def open(self, page):
        """Open a page of the site, or an address."""
        self.loaded = False
        self.call("Page.navigate", url=page if page.startswith("file:") else f"file://{self.site}/{page}")
        while not self.loaded:
            self.next()

    def open_viewer(self, parameters):
        self.open("viewer/show.html" + parameters)
        self.evaluate("await until(() => document.body.dataset.drawn);")

    def evaluate(self, body):
        """Run the body of an asynchronous function in the page, and return the text that it returns."""
        expression = f"(async () => {{{HELP}{body}}})()"
        said = self.call("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression=expression)
        assert "exceptionDetails" not in said, (body, said["exceptionDetails"])
        value = said["result"].get("value")
        return value if isinstance(value, str) else ""

    def picture(self):
        """Return a text that is the same for the same picture in the viewer, when it rests."""
        return self.evaluate("return picture();")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", mobile=False, deviceScaleFactor=1, width=width, height=height)

    def prefer(self, scheme):
        wishes = {"prefers-reduced-motion": "reduce", "prefers-color-scheme": scheme}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def key(self, name):
        text = {"text": name} if len(name) == 1 else {}
        # Tab moves the focus by its number alone.
        number = {"windowsVirtualKeyCode": 9} if name == "Tab" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text, **number)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, **number)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, **LEFT)
        self.mouse("mouseReleased", x, y, **LEFT)

    def drop(self, file):
        data = {"items": [], "dragOperationsMask": 1, "files": [str(file)]}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=200, y=200, data=data)

    def run(self, *words):
        """Run the program in the test's folder."""
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium here")
    if not (ROOT / "build/wasm/viz/browser/ringscope_web.js").exists():
        pytest.skip("the viewer for browsers is not built: ./ringscope site DIR builds it, with emscripten")
    if not GENERATOR.exists():
        pytest.skip("the site's generator is not installed, as above")
    folder = tmp_path_factory.mktemp("browser")
    site = folder / "site"
    subprocess.run([GENERATOR, ROOT / "app/site/build.py", PROGRAM, site, folder / "work"], check=True)
    browser = Browser(site, folder)
    yield browser
    browser.close()


@pytest.fixture
def browser(started):
    """A wide window of a light theme, in which no page complains."""
    started.resize(1280, 720)
    started.prefer("light")
    yield started
    assert started.complaints() == []


def test_pages_fit_a_phone_and_have_the_contrast_of_wcag_2_in_both_themes(browser):
    browser.resize(390, 844)
    pages = [page for page in browser.site.rglob("*.html") if "source" != page.relative_to(browser.site).parts[0]]
    assert len(pages) > 40
    for page in pages:
        browser.open(page.as_uri())
        assert browser.evaluate("return tooWide();") == "false", page
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            assert browser.evaluate("return unreadable();") == "", (page, scheme)
        assert browser.complaints() == [], page


@pytest.mark.parametrize("page", ["index.html", "lessons/08_striped_and_zigzag/index.html", "lessons/claims.html"])
def test_text_is_there_without_scripts(browser, page):
    browser.open(page)
    text = browser.evaluate("return visibleText();")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("return visibleText();") == text and len(text) > 2000
    assert browser.evaluate("return String(document.querySelector('.guess'));") == "null"


@pytest.mark.parametrize("page", ["index.html", "lessons/03_online_softmax/index.html"])
def test_the_tab_key_goes_through_a_page_in_order_and_past_the_navigation_first(browser, page):
    browser.open(page)
    usable = int(browser.evaluate("return usable();"))
    assert usable > 20
    browser.key("Tab")
    assert "skip-to-content" in browser.evaluate("return document.activeElement.className;")
    for _ in range(usable - 1):
        browser.key("Tab")
    assert browser.evaluate("return focused();") == "0 wrong, 0 unlit"
    assert int(browser.evaluate("return String(new Set(order).size);")) >= usable - 1


def same(a, b):
    """Return whether values are the same: whole numbers to the bit, others to 1e-12 of their size."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if {type(a), type(b)} <= {int, float} and float in (type(a), type(b)):
        return math.isclose(a, b, rel_tol=1e-12)
    return type(a) is type(b) and a == b


def test_every_control_of_a_figure_changes_its_numbers_which_are_the_native_codes(browser):
    figures, states = set(), 0
    for lesson in sorted((browser.site / "lessons").glob("*/index.html")):
        if "data-figure=" not in lesson.read_text(encoding="utf-8"):
            continue
        browser.open(lesson.as_uri())
        found = json.loads(browser.evaluate("return figures();"))
        assert found["still"] == [], lesson
        for name, arguments, numbers in found["states"]:
            figures.add(name)
            states += 1
            words = ["work" if name == "race" else name, *arguments.split("\n")]
            native = subprocess.run([os.environ["RINGSCOPE_FIGURE_NUMBERS"], *words], capture_output=True, check=True)
            assert same(json.loads(numbers), json.loads(native.stdout)), (words, numbers, native.stdout)
    assert figures == set("count deal decode merge nodes overlap race ring work".split())
    assert states > 80


@pytest.mark.parametrize("width, height", [(390, 720), (1280, 1440)])
def test_scrolling_through_a_lesson_tells_its_story_to_the_recording_in_sight(browser, width, height):
    browser.resize(width, height)
    browser.open("lessons/07_causal_masks/index.html")
    assert browser.evaluate("return toldParagraphs();") == "1 2 3 4 of 4, half a window each: true"


# The viewer draws what `ringscope view --screenshot` draws, which tests/viz compares with golden pictures. Both have one
# code, and no GPU; but a compiler may round a position otherwise, and then the edge of a shape is another shade. So one
# pixel in 500 may differ by more than an eighth of the range of a colour, which text in another place exceeds.
@pytest.mark.parametrize(
    "traces, parameters, flags",
    [
        (["08-zigzag"], "&at=2&select=1", "--at 2 --select rank:1,kind:compute,step:2,pass:forward"),
        (["08-zigzag"], "&story=3", "--story 3"),
        (["09"], "&at=back:1", "--at back:1"),
        (["07", "08-zigzag"], "&at=1", "--at 1"),
    ],
)
def test_the_viewer_draws_the_desktops_pictures(browser, traces, parameters, flags):
    browser.prefer("dark")  # as the desktop's are
    browser.open_viewer("?" + "&".join(f"trace=../recordings/{name}.json" for name in traces) + parameters)
    size = browser.evaluate("const { width, height } = document.getElementById('viewer'); return `${width}x${height}`;")
    files = [f"site/recordings/{name}.json" for name in traces]
    assert browser.run("view", *files, *flags.split(), "--size", size, "--screenshot", "site/native.png").returncode == 0
    browser.picture()
    assert float(browser.evaluate("return differentPixels();")) <= 1 / 500


def test_the_viewer_takes_keys_and_wheel(browser):
    browser.open_viewer("?trace=../recordings/08-zigzag.json&at=1")
    browser.evaluate("document.getElementById('viewer').focus();")
    browser.key("ArrowRight")  # from the middle of a step to an edge
    begin = browser.picture()
    pictures = [begin]
    for key, undo in (("ArrowRight", "ArrowLeft"), ("?", "Escape")):
        browser.key(key)
        pictures.append(browser.picture())
        browser.key(undo)
        assert browser.picture() == begin, undo
    top = browser.evaluate("return String(document.getElementById('viewer').getBoundingClientRect().top);")
    top = int(float(top))
    browser.mouse("mouseMoved", 700, top + 200)
    pictures.append(browser.picture())
    browser.mouse("mouseWheel", 700, top + 200, deltaX=0, deltaY=-300)
    pictures.append(browser.picture())
    browser.click(700, top + 105)
    pictures.append(browser.picture())
    assert len(set(pictures)) == 6, pictures


def test_the_address_restores_the_view(browser):
    browser.open_viewer("?trace=../recordings/08-zigzag.json&at=1&select=1")
    browser.evaluate("document.getElementById('viewer').focus();")
    begin = browser.picture()
    for key in ("m", "ArrowRight"):  # pins rank 1
        browser.key(key)
    shown = browser.picture()
    assert shown != begin
    address = browser.evaluate("return location.search;")
    assert "&pin=1&" in address
    browser.open_viewer(address)
    assert browser.picture() == shown, address


def test_the_gallery_shows_all_recordings_and_each_opens(browser):
    recordings = len(list((browser.site / "recordings").glob("*.json")))
    assert recordings > 5
    browser.open("viewer/index.html")
    assert browser.evaluate("return gallery();") == f"{recordings}, pictures true"
    browser.open(browser.evaluate("return document.querySelector('.cards a').href;"))
    browser.evaluate("await until(() => document.body.dataset.drawn);")
    way_back = browser.evaluate("return document.querySelector('nav a').getAttribute('href');")
    assert way_back == "index.html"


def test_the_viewers_page_has_the_theme_that_was_chosen_in_the_others(browser):
    pictures = set()
    browser.open("viewer/index.html")
    for theme in ("dark", "light"):
        browser.evaluate(f"localStorage.setItem('theme', '{theme}');")
        browser.open_viewer("?trace=../recordings/08-zigzag.json")
        pictures.add(browser.picture())
        assert browser.evaluate("return getComputedStyle(document.body).colorScheme;") == theme
    assert len(pictures) == 2
    browser.evaluate("localStorage.removeItem('theme');")


def test_recordings_and_figures_of_a_page_load_one_script(browser):
    browser.open("lessons/08_striped_and_zigzag/index.html")
    assert browser.evaluate("return scriptsOfAll();") == "2 recordings, 3 figures, 1 script"


def test_the_wheel_scrolls_past_a_recording_until_a_click_has_caught_it(browser):
    browser.open("lessons/08_striped_and_zigzag/index.html")
    now = "await frames(); await pause(100); return `1 at ${scrollY}`;"
    begin = browser.evaluate("return showRecording();")
    assert begin.startswith("1 at ")  # one panel from the first frame
    browser.mouse("mouseMoved", 640, 360)
    browser.mouse("mouseWheel", 640, 360, deltaX=0, deltaY=100)
    assert browser.evaluate(now) != begin, "the page scrolls"
    browser.evaluate("return showRecording();")
    browser.click(640, 360)
    clicked = browser.evaluate(now)
    browser.mouse("mouseWheel", 640, 360, deltaX=0, deltaY=100)
    assert browser.evaluate(now) == clicked, "the wheel zooms"


def test_a_dropped_recording_is_opened(browser):
    browser.open_viewer("?trace=../recordings/08-zigzag.json")
    drawn = browser.picture()
    browser.open_viewer("")
    browser.drop(browser.site / "recordings/08-zigzag.json")
    browser.evaluate("await until(() => document.body.dataset.opened);")
    said = browser.evaluate("return document.body.dataset.opened + document.title;")
    assert said == "yes08-zigzag.json · Ringscope"
    assert browser.picture() == drawn


def test_a_hostile_file_is_refused_with_the_words_of_the_native_program(browser):
    good = (browser.site / "recordings/08-zigzag.json").read_text(encoding="utf-8")
    assert '"world_size": 4' in good and '"ts":' in good
    browser.open_viewer("")
    for text in (
        "",
        "no recording",
        good[:40],  # with whole slices it would open
        good.replace('"world_size": 4', '"world_size": 4000000000', 1),
        good.replace('"ts":', '"ts":1e999,"x":', 1),
        "[" * 100_000,
        '{"traceEvents": 7}',
    ):
        (browser.folder / "bad.json").write_text(text, encoding="utf-8")
        native = browser.run("view", "bad.json", "--screenshot", "bad.png")
        assert native.returncode == 2
        browser.evaluate("delete document.body.dataset.opened;")
        browser.drop(browser.folder / "bad.json")
        why = browser.evaluate("return until(() => document.body.dataset.opened);")
        assert f"ringscope: {why}\n" == native.stderr


def test_an_address_elsewhere_is_not_loaded(browser):
    evil = browser.site / "viewer/evil"
    Path(f"{evil}.js").write_text("document.body.dataset.evil = 'yes';")
    scripts = "data:text/javascript,document.body.dataset.evil='yes'//"
    for address in ("../recordings/none.json", f"file://{evil}", "http://localhost/a", "//localhost/a", scripts):
        browser.open(f"file://{browser.site}/viewer/show.html?trace={address}")
        refused = "await until(() => document.getElementById('message').textContent.includes(\"can't be loaded\"));"
        assert browser.evaluate(refused + "return document.body.dataset.evil;") == "", address
    browser.complaints()  # drop those about addresses that fail on purpose


def test_a_page_that_holds_a_recording_opens_it_and_runs_no_other_scripts(browser):
    shutil.copy(browser.site / "recordings/08-zigzag.json", browser.folder / "whole.json")
    subprocess.run(["gzip", "-kn", "whole.json"], cwd=browser.folder, check=True)
    for name in ("whole.json", "whole.json.gz"):
        assert browser.run("view", name, "--html", "page.html").returncode == 0
        browser.open(f"file://{browser.folder}/page.html")
        assert browser.evaluate("return until(() => document.body.dataset.opened);") == "yes", name
        assert browser.complaints() == []
    (browser.folder / "evil.js").write_text("document.body.dataset.evil = 'yes';")
    loads = """const script = document.createElement('script'); script.src = 'evil.js';
        const ended = new Promise((done) => { script.onload = script.onerror = done; });
        document.head.append(script); await ended; return document.body.dataset.evil;"""
    assert browser.evaluate(loads) == ""
    browser.complaints()  # drop the one about that script
