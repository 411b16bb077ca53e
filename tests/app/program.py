"""The program in a folder of its own: what it is given, and what is expected of it."""

import json
import os
import shutil
import subprocess
import tempfile

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


def lines_of_ours(ended):
    """Return the lines that the program said, of whatever rank; a launcher says more."""
    return [line for line in ended.stderr.splitlines() if line.startswith("ringscope: ")]


def expect_said_once(ended, status, *parts):
    """Expect a job whose ranks say one line together, with all parts, and print nothing if they fail."""
    assert ended.returncode == status and (status < 2 or ended.stdout == ""), ended
    (line,) = lines_of_ours(ended)
    for part in parts:
        assert part in line


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

    def why_no_mpi(self):
        """Return why there can be no processes of ranks here, or nothing."""
        if "backend mpi   yes" not in self.well("info"):
            return "this build has no MPI"
        return "" if shutil.which("mpirun") else "no mpirun here"

    def mpirun(self, ranks, *words):
        """Run a program in so many processes. Ranks may outnumber the cores and are bound to none, root may start them, and
        what is left of a failed job is killed at once. (Open MPI 4 reads OMPI_MCA, Open MPI 5 and later PRTE_MCA.)"""
        with tempfile.TemporaryDirectory(prefix="ringscope-mpi-", dir="/tmp") as folder:
            settings = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            settings.update(OMPI_MCA_odls_base_sigkill_timeout="0", PRTE_MCA_odls_base_sigkill_timeout="0")
            settings.update(OMPI_MCA_orte_tmpdir_base=folder, PRTE_MCA_prte_tmpdir_base=folder)
            start = ["mpirun", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-np", str(ranks)]
            environment = {**os.environ, **settings}
            return subprocess.run([*start, *words], cwd=self.folder, env=environment, capture_output=True, text=True)

    def mpirun_apart(self, ranks, of_0, of_others):
        """Run rank 0 with its own words, and the others, in another folder, with theirs. (The mpirun of Open MPI 5.0.7
        crashes when it is itself given two programs.)"""
        choice = """if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ]; then exec "${@:1:$0}"; fi; cd / && exec "${@:$0+1}\""""
        return self.mpirun(ranks, "/bin/bash", "-c", choice, str(len(of_0)), *of_0, *of_others)
