#!/usr/bin/env python3
"""Run random configurations of the program for a given time, and say what was found.

  soak.py PROGRAM [--minutes M] [--cases N] [--seed S] [--jobs J] [--only KIND,KIND]

Each case is drawn from its own seed, which a failure prints, so that `--seed S --cases 1` runs that case again:

  run    a problem of random sizes, scheme, partition, mask and storage type, --verify
  check  the outputs of such a run, which have to be exact or rounding
  train  steps in one go and with a stop between, which have to give the same checkpoint
  kill   the same, but ended by SIGKILL at a random moment; what is left behind has to go on to the same checkpoint
  mpi    ranks as processes, one killed at a random moment: all end with status 3 and one line, none stays behind
  ring   120 rings of random shapes, masks, deals and schemes in one process, compared with the oracle: a test of
         tests/core/ring, whose program, ring_tests, lies in ../tests beside the folder of PROGRAM; left out where it doesn't

A problem that the program refuses (status 2 and one line) counts as refused, not as failed. The totals come at the end,
which SIGTERM brings early, and every five minutes. It is not among the tests that ctest runs; bench/README.md has its
figures. The exit status is 1 when a case failed.
"""
import argparse, collections, json, os, pathlib, random, shutil, signal, subprocess, sys, tempfile, threading, time

LIMIT_S = 1200  # for a machine with much else to do; a ring that stands still ends itself after a minute


class Failed(Exception):
    pass


def run(folder, *words, status=(0,), kill_after=None):
    """Run a command in a folder. Return its status and output; raise Failed for a status that is not accepted."""
    # A file takes the output: a child that outlives the program would hold a pipe open.
    with open(folder / "out.txt", "w+") as out:
        process = subprocess.Popen([str(w) for w in words], cwd=folder, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            process.wait(kill_after or LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if kill_after is None:
                raise Failed(f"{' '.join(map(str, words))}: still running after {LIMIT_S} s")
        out.seek(0)
        text = out.read()
    if kill_after is None and process.returncode not in status:
        raise Failed(f"{' '.join(map(str, words))}: status {process.returncode}\n{text[-2000:]}")
    return process.returncode, text


def problem(draw):
    """Return flags of a random problem."""
    ranks = draw.choice([1, 2, 3, 4, 5, 8])
    kv = draw.choice([1, 2, 4])
    seqlen = round(ranks * (400 / ranks) ** draw.random())  # small ones are quick and have the odd shapes
    mask = draw.choice(["full", "causal", "causal", f"window:{draw.randint(1, seqlen)}",
                        f"window:{draw.randint(1, seqlen)}+sink:{draw.randint(1, 8)}", f"prefix:{draw.randint(1, seqlen)}"])
    return ["--world-size", ranks, "--seqlen", seqlen, "--heads", kv * draw.choice([1, 2, 4]), "--heads-kv", kv,
            "--head-dim", draw.choice([1, 7, 16, 32, 64]), "--batch", draw.choice([1, 1, 2]), "--mask", mask,
            "--partition", draw.choice(["contiguous", "striped", f"striped:{draw.randint(2, 9)}", "zigzag", "fold"]),
            "--dtype", draw.choice(["f32", "bf16", "f16"])]


def case_run(program, draw, folder):
    scheme = draw.choice(["ring", "ring", "allgather", "ulysses", "ulysses:2", "pass-q", "bidirectional", "multi-ring:2", "hybrid:2", "two-level:2"])
    more = ["--backward"] if draw.random() < 0.5 else []
    status, text = run(folder, program, "run", "--random", "--seed", draw.randrange(1 << 30), "--verify", "--scheme", scheme,
                       *problem(draw), *more, status=(0, 2))
    if status == 2 and text.count("\n") != 1:
        raise Failed("refused with more than one line: " + text)
    return "refused" if status else "good"


def case_check(program, draw, folder):
    flags = problem(draw)
    value = dict(zip(flags[::2], flags[1::2]))
    status, _ = run(folder, program, "run", "--random", "--seed", 0, *flags, "--out", "o.npy", "--lse", "l.npy", status=(0, 2))
    if status:
        return "refused"
    # The run's own inputs are not written, so a check takes a problem that both make of files.
    sizes = [value["--batch"], value["--heads"], value["--seqlen"], value["--head-dim"]]
    for name, heads in (("q", sizes[1]), ("k", value["--heads-kv"]), ("v", value["--heads-kv"])):
        shape = (sizes[0], heads, sizes[2], sizes[3])
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        numbers = memoryview(bytearray(4 * shape[0] * shape[1] * shape[2] * shape[3])).cast("f")
        for i in range(len(numbers)):
            numbers[i] = draw.gauss(0, 1)
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + numbers.tobytes())
    files = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]
    kept = [f for name in ("--world-size", "--mask", "--partition") for f in (name, value[name])]
    run(folder, program, "run", *files, *kept, "--dtype", value["--dtype"], "--out", "o.npy", "--lse", "l.npy")
    _, text = run(folder, program, "check", *files, *kept, "--dtype", value["--dtype"], "--out", "o.npy", "--lse", "l.npy",
                  "--json", status=(0, 1))
    verdict = json.loads(text[text.index("{"):])["verdict"]
    if verdict not in ("exact", "rounding"):
        raise Failed(f"a right run of {value} is called {verdict}: {text}")
    return "good"


def model(draw):
    heads = draw.choice([1, 2, 4])
    return ["--text", "t.txt", "--layers", draw.choice([1, 2]), "--width", 32, "--heads", heads, "--head-dim", 16,
            "--hidden", draw.choice([16, 48]), "--batch", draw.choice([1, 3]), "--seqlen", draw.choice([32, 50, 96]),
            "--seed", draw.randrange(1000)]


def case_train(program, draw, folder, kill=False):
    (folder / "t.txt").write_text("".join(draw.choice("abcde fgh\n") for _ in range(2000)))
    ranks = ["--world-size", draw.choice([1, 2, 3, 4]), "--partition", draw.choice(["contiguous", "striped", "zigzag"])]
    steps, flags = draw.randint(6, 40), model(draw)
    run(folder, program, "train", *flags, *ranks, "--steps", steps, "--checkpoint", "whole.ckpt")
    train = [program, "train", *flags, *ranks, "--steps", steps, "--checkpoint", "part.ckpt", "--checkpoint-every", 1]
    if not kill:
        run(folder, program, "train", *flags, *ranks, "--steps", draw.randint(1, steps - 1), "--checkpoint", "part.ckpt")
    else:
        for kills in range(1, 21):  # until there is something to go on from
            run(folder, *train, kill_after=draw.uniform(0.01, 0.4))
            if (folder / "part.ckpt").exists():
                break
        left = [p.name for p in folder.iterdir() if p.name not in ("t.txt", "whole.ckpt", "part.ckpt", "out.txt")]
        # Between naming a file and moving it to its place there is a moment for SIGKILL.
        if any(not name.startswith(".ringscope-") for name in left) or len(left) > kills:
            raise Failed(f"left behind by {kills} kills: {left}")
    if (folder / "part.ckpt").exists():
        run(folder, program, "train", "--text", "t.txt", "--resume", "part.ckpt", *ranks, "--steps", steps,
            "--checkpoint", "part.ckpt")
        if (folder / "part.ckpt").read_bytes() != (folder / "whole.ckpt").read_bytes():
            raise Failed("the resumed training ends with another checkpoint")
    return "good"


def case_kill(program, draw, folder):
    return case_train(program, draw, folder, kill=True)


def case_mpi(program, draw, folder):
    if shutil.which("mpirun") is None:
        return "refused"
    (folder / "t.txt").write_text("some text to learn from, over and over\n" * 50)
    ranks = draw.choice([2, 3, 4])
    struck, seconds = draw.randrange(ranks), draw.uniform(0.2, 3)
    environment = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    # A rank of its own name for each case, so that leftovers can be found.
    mark = f"{folder.name}.csv"
    # A rank is a process that works and one that waits for it, which mpirun knows. The first is killed.
    # It may not be there yet.
    killer = (f'if [ "$OMPI_COMM_WORLD_RANK" = {struck} ]; then '
              f'( ( sleep {seconds:.2f}; until pkill -9 -P $$ || ! kill -0 $$; do sleep 0.1; done ) & ); fi; '
              'exec "$@"')
    words = ["mpirun", "--map-by", ":OVERSUBSCRIBE", "-np", ranks, "sh", "-c", killer, "sh", program, "train", *model(draw), "--backend", "mpi",
             "--steps", 100000000, "--loss-csv", mark]
    _, text = run(folder, *environment, *words, status=(3, 137))
    ours = [line for line in text.splitlines() if line.startswith("ringscope: ")]
    if len(ours) != 1:
        raise Failed(f"{len(ours)} lines instead of one: {text[-2000:]}")
    for _ in range(100):
        if subprocess.run(["pgrep", "-f", mark], capture_output=True).returncode:
            return "good"
        time.sleep(0.1)
    raise Failed("processes stay behind")


RINGS_A_PROCESS = 120  # of RingRandom.AgreesWithTheOracle


def case_ring(program, draw, folder):
    tests = program.parent.parent / "tests" / "ring_tests"
    if not tests.exists():
        return "refused"
    run(folder, "env", f"RINGSCOPE_TEST_SEED={draw.randrange(1 << 30)}", f"TEST_TMPDIR={folder}/", tests,
        "--gtest_filter=RingRandom.*")
    return "good"


KINDS = {"ring": (case_ring, 60), "run": (case_run, 60), "check": (case_check, 20), "train": (case_train, 10), "kill": (case_kill, 8), "mpi": (case_mpi, 2)}


def one(program, seed, only):
    draw = random.Random(seed)
    kind = draw.choices(only, [KINDS[k][1] for k in only])[0]
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"soak-{seed}-"))
    try:
        return kind, KINDS[kind][0](program, draw, folder), None
    except Failed as failure:
        return kind, "FAILED", str(failure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("program")
    flags.add_argument("--minutes", type=float, default=5)
    flags.add_argument("--cases", type=int, default=1 << 40)
    flags.add_argument("--seed", type=int, default=int(time.time()), help="of the first case; the others follow it")
    flags.add_argument("--jobs", type=int, default=os.cpu_count())
    flags.add_argument("--only", default=",".join(KINDS), help="kinds of cases, separated by commas")
    given = flags.parse_args()
    only = given.only.split(",")
    if not set(only) <= set(KINDS):
        flags.error(f"--only takes {', '.join(KINDS)}")
    program = pathlib.Path(given.program).resolve()
    print(f"{subprocess.run([program, 'info'], capture_output=True, text=True).stdout.splitlines()[0]}; "
          f"seeds from {given.seed}, {given.jobs} at a time", flush=True)
    begin, counts, end = time.time(), collections.Counter(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    seeds = iter(range(given.seed, given.seed + given.cases))

    def worker():
        while not end.is_set():
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            kind, result, why = one(program, seed, only)
            with lock:
                counts[kind, result] += 1
            if why:
                print(f"seed {seed}, {kind}: {why}", flush=True)

    def totals():
        with lock:
            for (kind, result), count in sorted(counts.items()):
                print(f"{kind:6} {result:8} {count:8}")
            failures = sum(count for (_, result), count in counts.items() if result == "FAILED")
            cases = sum(count * (RINGS_A_PROCESS if (kind, result) == ("ring", "good") else 1)
                        for (kind, result), count in counts.items())
            print(f"{cases} cases in {(time.time() - begin) / 60:.1f} minutes, {failures} failed", flush=True)
            return failures

    lock = threading.Lock()
    workers = [threading.Thread(target=worker) for _ in range(given.jobs)]
    for thread in workers:
        thread.start()
    told = begin
    while any(thread.is_alive() for thread in workers):
        time.sleep(0.2)
        if time.time() - begin > 60 * given.minutes:
            end.set()
        if time.time() - told > 300:
            told = time.time()
            totals()
    return 1 if totals() else 0


if __name__ == "__main__":
    sys.exit(main())
