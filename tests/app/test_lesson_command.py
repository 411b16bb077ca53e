"""`ringscope lesson` as a user types it: its words and flags, recordings and pages, and a reader at a terminal."""

import os
import pty
import re
import select
import signal
from pathlib import Path

import pytest
from program import PROGRAM, expect_ended

LESSONS = Path(__file__).parents[2] / "lessons"


def test_the_lessons_are_listed(program):
    listed = program.well("lesson list")
    assert listed == program.well("lesson")
    sources = sorted(LESSONS.glob("[0-9]*/lesson.cpp"))
    assert len(sources) > 20
    for source in sources:
        title = re.search(r"^// # (.*)$", source.read_text(encoding="utf-8"), re.M)[1]
        assert title in listed


def test_one_is_told_without_pause_where_nobody_reads(program):
    told = program.well("lesson 1 --no-pause")
    assert "\033" not in told, "colours in a file"
    assert "checks hold." in told and "core/attention/naive.cpp, line " in told
    # The question comes before the code that answers it, and that before the answer.
    places = [told.index(part) for part in ("Predict. How much memory", "const double square", "16 GiB\n")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "words",
    """99; -1; first; 1 2; 1 --loud; list --check; 6 --no-pause --out /proc/x; --check; 1 --check --page -; 18 --check;
    1 --hint 1; 3 --hint 4; 3 --hint 1 --check; 3 --take mine; 3 --python; 1 --check --python; glossary no such word;
    challenge plan""".split(";"),
)
def test_what_is_accepted_is_said(program, words):
    expect_ended(program.run("lesson", words), 2, "accepted")


def test_it_ends_where_nobody_can_hear_it(program):
    ended = program.run("lesson 1 --no-pause", after="exec >/dev/full")
    expect_ended(ended, 3)


def test_pages_are_written(program):
    program.well("lesson 1 --page page.md")
    page = LESSONS / "01_naive_attention/README.md"
    assert program.path("page.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert program.well("lesson glossary --page -").startswith("<!-- Made from glossary")
    assert program.well("lesson --page -").startswith("<!-- Made by")
    assert program.files() == {"page.md", "softmax.svg"}, "a page records nothing"


@pytest.mark.parametrize(
    "lesson, parts",
    [
        (1, ["lessons/01_naive_attention/exercise.h", "WRONG two equal keys", "not yet: 1 of 4 hold"]),
        (5, ["lessons/05_many_ranks/exercise.py", "WRONG rows_of(1, 10, 4)", "not yet: 2 of 19 hold"]),
    ],
)
def test_the_learners_version_is_checked(program, lesson, parts):
    ended = program.run("lesson", lesson, "--check")
    assert ended.returncode == 1, ended
    for part in parts:
        assert part in ended.stdout


def test_hints_and_entries_of_the_glossary_are_shown(program):
    assert "Start the hop before" in program.well("lesson 6 --hint 2")
    assert "memory wall" in program.well("lesson glossary Memory Wall")


class Reader:
    """A reader of lesson 1 at a terminal of their own, who reads until the program asks for something."""

    def __init__(self, folder):
        self.all, self.unread = "", ""
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = "xterm"
            os.environ.pop("NO_COLOR", None)
            os.chdir(folder)
            os.execv(PROGRAM, [PROGRAM, "lesson", "1"])

    def read_more(self):
        """Return whether the program said something within half a minute."""
        try:
            part = os.read(self.terminal, 4096) if select.select([self.terminal], [], [], 30)[0] else b""
        except OSError:  # it has gone
            return False
        self.all += part.decode(errors="replace")
        self.unread += part.decode(errors="replace")
        return part != b""

    def says(self, what):
        """Read up to `what`. Return False if the program ended, or said nothing for long, without saying it."""
        while what not in self.unread:
            if not self.read_more():
                return False
        self.unread = self.unread.partition(what)[2]
        return True

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def exit_status(self):
        while self.read_more():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.fixture
def reader(program):
    readers = []

    def start():
        readers.append(Reader(program.folder))
        return readers[-1]

    yield start
    for one in readers:
        os.close(one.terminal)
        try:
            os.kill(one.child, signal.SIGKILL)
            os.waitpid(one.child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it has ended


STOP, AGAIN = "q: stop. ", "To begin again: ./ringscope lesson 1"


def test_a_reader_is_waited_for_and_their_predictions_are_shown(reader):
    one, guesses = reader(), 0
    while one.says(STOP):
        one.type(f"guess {guesses}\n")
        guesses += 1
    assert one.exit_status() == 0, one.all
    assert one.all.count("Enter: go on") >= 4
    assert one.all.count("Your prediction") == one.all.count("You predicted guess ") == 4
    assert one.all.index("Your prediction") < one.all.index("You predicted guess ")
    assert "\033[" in one.all, "no colours at a terminal"
    assert "checks hold." in one.all


@pytest.mark.parametrize("keys", ["q\n", "\x04"])  # the second is the end of a terminal's input
def test_it_ends_politely_when_the_reader_stops(reader, keys):
    at_pause = reader()
    assert at_pause.says("Enter: go on") and at_pause.says(STOP), at_pause.all
    at_pause.type(keys)
    assert at_pause.says(AGAIN) and at_pause.exit_status() == 0, at_pause.all


def test_it_ends_politely_before_there_is_anything_to_stop(reader):
    hasty = reader()
    hasty.type("\x04")
    assert hasty.says(AGAIN) and hasty.exit_status() == 0, hasty.all
