#!/usr/bin/env python3
"""Sets what runs on this machine beside what `ringscope simulate` and `plan` say of it, or processes beside
threads. What is compared runs in turn, and the fastest of each counts, because other work on the machine only
adds time; so the machine must be otherwise idle. Every figure is from `--json`.

    bench/compare.py [--ringscope FILE] [--repeats N] simulated [--backends cpu,mpi] [--world-sizes 2,3,4]
        [--seqlens 4096,8192] [--partitions zigzag,fold] [--schemes ring,ulysses] [--heads 8] [--csv FILE]
    bench/compare.py ... late
    bench/compare.py ... processes
    bench/compare.py ... training [--world-sizes 2] [--partitions zigzag,fold] [--text FILE]
    bench/compare.py ... equality [--text FILE]

simulated  rings on threads and processes over `simulate --measure`. wall: predicted / measured wall time. attend:
           the same of processor time in compute slices; if this is off, the costs of tiles are (or the machine was
           busy), and if only wall is, the schedule is. Hops between processes are predicted as between threads.
late       8 ranks that sleep before their blocks: wall time with K KV buffers over that with 2, beside the
           simulation with the same draws, the ring in step, and the rank that sleeps most
processes  a ring of two processes over one of two threads, its exposed communication, and what starting MPI takes
training   training steps on several ranks over those on one, attention's share, and that of `plan --measure`
equality   the losses of training on 1, 2 and 4 ranks in all partitions, beside those on one
"""
import argparse
import csv
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time

ALL_PARTITIONS = "contiguous,striped,zigzag,fold"
ROOT = pathlib.Path(__file__).resolve().parent.parent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ringscope", default=str(ROOT / "build/release/app/ringscope"))
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("what", choices=["simulated", "late", "processes", "training", "equality"])
parser.add_argument("--backends", default="cpu,mpi")
parser.add_argument("--world-sizes")
parser.add_argument("--seqlens", default="2048,4096,8192,16384,32768")
parser.add_argument("--partitions")
parser.add_argument("--schemes", default="ring")
parser.add_argument("--heads", type=int, help="as many as make every run take a while")
parser.add_argument("--backward", action="store_true")
parser.add_argument("--csv")
parser.add_argument("--text", help="the project's own sources")
options = parser.parse_args()


def ringscope(arguments, processes=0):
    """Return the JSON of a command, run under mpirun where there are `processes`, or None where it is refused."""
    command = [options.ringscope, *shlex.split(arguments), "--json"]
    if processes:  # bound to no cores, because threads are not either
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", *root, "-np", str(processes), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 2:
        print(done.stderr.strip().splitlines()[-1])
        return None
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def run(arguments, backend, ranks):
    if backend == "mpi":
        return ringscope(f"run --random --backend mpi {arguments}", ranks)
    return ringscope(f"run --random --backend {backend} --world-size {ranks} {arguments}")


def total(answer, member):
    return sum(rank[member] for rank in answer["ranks"])


def compare_simulated():
    rows = []
    passes = "--backward" if options.backward else ""
    for backend in options.backends.split(","):
        for seqlen in map(int, options.seqlens.split(",")):
            heads = options.heads or min(8, max(1, 32768 // seqlen))
            for ranks in map(int, (options.world_sizes or "2,3,4,5,6,7,8").split(",")):
                for scheme in options.schemes.split(","):
                    for partition in (options.partitions or ALL_PARTITIONS).split(","):
                        job = (f"--seqlen {seqlen} --heads {heads} --head-dim 64 --dtype f32 --mask causal "
                               f"--partition {partition} --scheme {scheme} {passes}")
                        row = {"backend": backend, "ranks": ranks, "seqlen": seqlen, "heads": heads,
                               "partition": partition, "scheme": scheme}
                        if one := simulated_and_measured(job, backend, ranks):
                            rows.append(row | one)
                            print(*(f"{value:.4g}" if isinstance(value, float) else value
                                    for value in rows[-1].values()), flush=True)
    for key in ("backend", "scheme", "partition", "ranks", "seqlen"):
        for value in dict.fromkeys(row[key] for row in rows):
            walls = [row["wall"] for row in rows if row[key] == value]
            close = sum(abs(wall - 1) <= 0.1 for wall in walls)
            print(f"{key} {value}: {close} of {len(walls)} within 10 %, predicted / measured {min(walls):.3f} to "
                  f"{max(walls):.3f}, mean {statistics.mean(walls):.3f}")
    if options.csv and rows:
        with open(options.csv, "w", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys())
            table.writeheader()
            table.writerows(rows)


def simulated_and_measured(job, backend, ranks):
    predicted, attends, measured, attended = [], [], [], []
    for _ in range(options.repeats):
        shared = ringscope(f"simulate --measure --world-size {ranks} {job}")
        # Where every rank has a core of its own, a compute slice has no waiting for a core in it.
        alone = ringscope(f"simulate --measure --cores {ranks} --world-size {ranks} {job}")
        real = run(job, backend, ranks)
        if not shared or not alone or not real:
            return None
        predicted.append(shared["wall_s"])
        attends.append(total(alone, "compute_s"))
        measured.append(real["wall_s"])
        attended.append(total(real, "compute_cpu_s"))
    return {"predicted_s": min(predicted), "measured_s": min(measured), "wall": min(predicted) / min(measured),
            "wall_of_medians": statistics.median(predicted) / statistics.median(measured),
            "attend": min(attends) / min(attended)}


def compare_late():
    ranks, delay_s = 8, 0.05  # what --inject sleeps, on average
    job = "--seqlen 512 --heads 1 --head-dim 16 --dtype f32 --partition contiguous --kv-buffers"
    backends = [backend for backend in options.backends.split(",") if backend == "cpu" or shutil.which("mpirun")]
    for kind in ("jitter", "straggler"):
        # A hop takes next to nothing, and so does a block beside the sleep.
        machine = tempfile.NamedTemporaryFile("w", suffix=".txt")
        machine.write("gpu late\n  tflops_f32 1\n  memory_gb 1\nlink late\n  gb_per_s 1e9\n")
        machine.flush()
        simulate = (f"simulate --gpu {machine.name}:late --link {machine.name}:late --world-size {ranks} ")
        block_s = ringscope(f"{simulate} {job} 2")["compute_s"] / ranks
        late = delay_s / block_s
        walls = {}  # of all seeds together, by what and buffers
        for seed in range(options.repeats):
            lateness = (f"--jitter {late} --seed {seed}" if kind == "jitter" else
                        f"--straggler {ranks - 1}:{1 / (1 + late)}")
            for buffers in ("2", "3", "4", "8", "in-step"):
                answer = ringscope(f"{simulate} {lateness} {job} {buffers}")
                walls.setdefault(("simulated", buffers), []).append(answer["wall_s"])
                walls.setdefault(("least", buffers), []).append(max(rank["compute_s"] for rank in answer["ranks"]))
                for backend in backends if buffers != "in-step" else ():
                    walls.setdefault((backend, buffers), []).append(
                        run(f"--inject {kind} --seed {seed} {job} {buffers}", backend, ranks)["wall_s"])
        for (what, buffers), seconds in walls.items():
            print(f"{kind} {what} {buffers} buffers: of two {sum(seconds) / sum(walls[what, '2']):.3f}, over simulated "
                  f"{sum(seconds) / sum(walls['simulated', buffers]):.3f}")


def compare_processes():
    for backward in ("", "--backward"):
        job = f"--seqlen 16384 --heads 1 --head-dim 64 --mask causal --partition zigzag {backward}"
        threads, processes = [], []
        for _ in range(options.repeats):
            threads.append(run(job, "cpu", 2)["wall_s"])
            processes.append(run(job, "mpi", 2))
        walls = [answer["wall_s"] for answer in processes]
        fastest = processes[walls.index(min(walls))]
        print(f"{backward or 'forward'}: of threads {min(threads) / min(walls):.3f}, by medians "
              f"{statistics.median(threads) / statistics.median(walls):.3f}, exposed "
              f"{fastest['exposed_s'] / min(walls):.2%}")
    starts = []
    for _ in range(options.repeats):
        begin = time.monotonic()
        took = run("--seqlen 64", "mpi", 2)["wall_s"]
        starts.append(time.monotonic() - begin - took)
    print(f"a job of two processes beside its run: {min(starts):.2f} s")


def text_file():
    if options.text:
        return options.text
    text = b"".join(path.read_bytes() for folder in "app bench core cuda lessons tests viz".split()
                    for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cpp"))
    text_file.own = tempfile.NamedTemporaryFile(suffix=".txt")  # until the program ends
    text_file.own.write(text)
    text_file.own.flush()
    return text_file.own.name


def compare_training():
    text = text_file()
    for seqlen, batch in ((4096, 1), (256, 16)):
        deals = [(1, "contiguous")] + [(int(ranks), partition)
                                       for ranks in (options.world_sizes or "2").split(",")
                                       for partition in (options.partitions or "zigzag").split(",")]
        steps = {deal: [] for deal in deals}
        shares = {deal: [] for deal in deals}
        plans = {deal: [] for deal in deals}
        for _ in range(options.repeats):
            for ranks, partition in deals:
                deal = f"--world-size {ranks} --partition {partition} --seqlen {seqlen} --batch {batch}"
                answer = ringscope(f"train --text {text} --steps 4 {deal}")
                model = answer["settings"]
                plan = ringscope(f"plan --measure --scheme ring --dtype f32 --mask causal --backward {deal} --vocab 256 "
                                 f"--heads {model['heads']} --heads-kv {model['heads_kv']} --head-dim "
                                 f"{model['head_dim']} --layers {model['layers']} --width {model['width']} "
                                 f"--hidden {model['hidden']}")["model"]
                steps[ranks, partition].append(answer["step_s"])
                shares[ranks, partition].append(total(answer, "attention_share") / ranks)
                plans[ranks, partition].append(plan["attention_share"])
        for deal in deals:
            share, plan = statistics.median(shares[deal]), statistics.median(plans[deal])
            print(f"{batch} of {seqlen}, {deal[0]} ranks, {deal[1]}: step {min(steps[deal]):.4f} s, over one rank's "
                  f"{min(steps[deal]) / min(steps[deals[0]]):.3f}, attention {share:.3f}, plan's over it "
                  f"{plan / share:.2f}")


def compare_equality():
    text, alone = text_file(), None
    for ranks in (1, 2, 4):
        for partition in ALL_PARTITIONS.split(","):
            with tempfile.NamedTemporaryFile(suffix=".csv") as losses:
                answer = ringscope(f"train --text {text} --steps 200 --world-size {ranks} --partition {partition} "
                                   f"--loss-csv {losses.name}")
                table = [float(row["loss"]) for row in csv.DictReader(open(losses.name, newline=""))]
            alone = alone or table
            apart = [abs(loss / first - 1) for loss, first in zip(table, alone)]
            print(f"{ranks} ranks, {partition}: largest relative difference up to step",
                  *(f"{step}: {max(apart[:step]):.1e}" for step in (1, 10, 50, 100, 200)),
                  f"loss {answer['loss_last_mean']:.4f} (unigram entropy {answer['unigram_entropy']:.3f}), "
                  f"{answer['wall_s']:.1f} s", flush=True)


globals()["compare_" + options.what]()
