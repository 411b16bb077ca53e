"""What --help says becomes a man page and completions: they know every command and flag, and shells accept them."""

import re
import subprocess
from pathlib import Path

import pytest
from program import PROGRAM

SOURCE = Path(__file__).parents[2]
HELP = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
COMMANDS = re.findall(r"\n  ([a-z]+) ", HELP[HELP.index("Subcommands:") :])


def test_there_are_commands():
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("command", COMMANDS)
def test_they_name_every_command_and_flag(program, command):
    man, bash, zsh = (program.well("help", form) for form in ("man", "bash", "zsh"))
    assert f'.SS "ringscope {command}"' in man
    bash_line = re.search(rf'    {command}\) words=".*', bash)[0]
    zsh_lines = re.search(rf"    {command}\)\n.*?;;", zsh, re.DOTALL)[0]
    for flag in re.findall(r"\n  (--[a-z0-9-]+)", program.well(command, "--help")):
        assert flag + " " in bash_line
        assert f"'{flag}[" in zsh_lines
        assert r"\fB" + flag.replace("-", r"\-") + r"\fR" in man


@pytest.mark.parametrize(
    "words, completed",
    [
        ("ringscope sim", "simulate"),
        ("ringscope run --parti", "--partition --partition-q"),
        ('ringscope run --partition ""', "contiguous striped zigzag fold searched"),
        ('ringscope run --seqlen ""', ""),
        ("ringscope run --dtype b", "bf16"),
    ],
)
def test_bash_completes_commands_flags_and_values(program, words, completed):
    program.path("completion").write_text(program.well("help bash"))
    script = f'. ./completion; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _ringscope; echo "${{COMPREPLY[*]}}"'
    ended = subprocess.run(["bash", "-c", script], cwd=program.folder, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == (completed + "\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_a_page_that_is_there(program, command):
    (page,) = set(re.findall(r"In full: ([A-Za-z/]+[.]md)", program.well(command, "--help")))
    assert (SOURCE / page).exists()
