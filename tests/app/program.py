"""The program in a folder of its own: what it is given, and what is expected of it."""

import json
import os
import subprocess

PROGRAM = os.environ["RINGSCOPE"]


def words_of(command):
    """Return the words of a command, which is a text or a list of texts."""
    return command.split() if isinstance(command, str) else [word for part in command for word in str(part).split()]


def expect_ended(ended, status, *parts):
    """Expect an exit status, and one line on stderr with all parts."""
    assert ended.returncode == status, ended
    assert ended.stderr.startswith("ringscope: ") and ended.stderr.count("\n") == 1, ended.stderr
    for part in parts:
        assert part in ended.stderr


class Program:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return self.folder / name

    def files(self):
        """Return the paths below the folder, to see what a run left behind."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def run(self, *command, after=None):
        """Run a command; with `after` in a shell that has executed that, such as "ulimit -f 8"."""
        words = [PROGRAM, *words_of(command)]
        if after is not None:
            words = ["/bin/sh", "-c", f'{after} && exec "$0" "$@"', *words]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True)

    def well(self, *command):
        """Run a command, expect success and silence on stderr, and return what stdout said."""
        ended = self.run(*command)
        assert (ended.returncode, ended.stderr) == (0, ""), ended
        return ended.stdout

    def json(self, *command):
        return json.loads(self.well(*command, "--json"))

    def refused(self, command, *parts, status=2):
        """Expect one line with all parts and, of bad input, what would be accepted; nothing on stdout, and no new file."""
        before = self.files()
        ended = self.run(command)
        expect_ended(ended, status, *parts, *(["accepted"] if status == 2 else []))
        assert ended.stdout == "" and self.files() == before
