"""What the linker wrote into every program that this tree builds: where it looks for libraries, and what makes attacks on its
memory harder. And what the launcher says where it can't build any."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def complaint_about(section):
    """Return what a program's dynamic section, which `readelf -d` prints, lacks or has too much, or nothing."""
    for kind, path in re.findall(r"\((RPATH|RUNPATH)\)[^\[]*\[([^\]]*)\]", section):
        if not re.fullmatch("(/[^:$]+(:/[^:$]+)*)?", path):
            return f"{kind} [{path}]; absolute folders alone accepted"
    flags = re.search(r"\(FLAGS_1\).*", section)
    if not flags:
        return "no FLAGS_1"
    return next((f"not {flag}" for flag in ("NOW", "PIE") if flag not in flags[0]), "")


FLAGS = " 0x000000006ffffffb (FLAGS_1)            Flags: NOW PIE\n"


def complaint_about_path(path):
    return complaint_about(f" 0x000000000000001d (RUNPATH)  Library runpath: [{path}]\n" + FLAGS)


@pytest.mark.parametrize("path", ["", "/usr/lib/openmpi/lib", "/opt/a:/opt/b"])
def test_absolute_folders_are_searched(path):
    assert complaint_about_path(path) == ""


@pytest.mark.parametrize("path", [":", "/opt/a:", ":/opt/a", "/opt/a::/opt/b", ".", "lib", "$ORIGIN"])
def test_no_others_are_searched(path):
    assert complaint_about_path(path) == f"RUNPATH [{path}]; absolute folders alone accepted"


@pytest.mark.parametrize(
    "section, complaint",
    [
        (FLAGS, ""),
        ("(FLAGS_1) Flags: PIE\n", "not NOW"),
        ("(FLAGS_1) Flags: NOW\n", "not PIE"),
        ("no dynamic section", "no FLAGS_1"),
    ],
)
def test_a_complaint_names_what_is_missing(section, complaint):
    assert complaint_about(section) == complaint


def test_programs_load_nothing_from_the_current_folder():
    """Of those that are built: some are for other tests alone."""
    programs = [path for path in Path(os.environ["RINGSCOPE_PROGRAMS"]).read_text().splitlines() if Path(path).exists()]
    assert programs
    for program in programs:
        section = subprocess.run(["readelf", "-dW", program], capture_output=True, text=True, check=True).stdout
        assert complaint_about(section) == "", program


@pytest.mark.parametrize("command", ["info", "package"])
def test_the_launcher_says_in_one_line_that_it_can_not_write(tmp_path, command):
    folder = tmp_path / "ring scope"
    folder.mkdir()
    shutil.copy(ROOT / "ringscope", folder)
    (folder / "build").write_text("a file")
    ended = subprocess.run([folder / "ringscope", command], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", f"ringscope: can't write to {folder}/build\n")


@pytest.mark.parametrize("files", range(6, 10))
def test_the_launcher_says_in_one_line_that_it_may_open_too_few_files_to_build(tmp_path, files):
    shutil.copy(ROOT / "ringscope", tmp_path)
    limited = ["bash", "-c", f'ulimit -n {files}; exec "$0" info', tmp_path / "ringscope"]
    ended = subprocess.run(limited, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (3, "", 1), ended
    assert ended.stderr.startswith("ringscope: ") and "ulimit -n" in ended.stderr


def test_a_launcher_that_cannot_tell_where_it_lies_writes_nothing():
    before = set(os.listdir("/"))
    ended = subprocess.run(["bash", "-c", "ulimit -n 5; exec ./ringscope info"], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (3, "") and ended.stderr.count("\n") == 1, ended
    assert set(os.listdir("/")) == before
