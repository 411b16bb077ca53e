#!/usr/bin/env python3
"""Prints bench/schemes.md: which scheme and which deal take the least time for six jobs, by `ringscope
simulate` on H100 nodes, and for the same jobs, made smaller, by runs on this machine. Of a scheme's deals the
fastest counts.

    bench/schemes.py build/release/app/ringscope COMMIT bench/schemes.png > bench/schemes.md

The runs put two ranks each into two network namespaces, joined by a link whose rate is enforced, which takes root
and iproute2. bench/compare.py compares simulations with runs on threads.
"""
import contextlib
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

K = 1024
ONE_NODE = "ring bidirectional pass-q allgather ulysses hybrid:2 hybrid:4 mesh:2x4 mesh:4x2".split()
TWO_NODES = ("ring bidirectional pass-q allgather ulysses hybrid:2 hybrid:4 hybrid:8 two-level:2 "
             "mesh:2x8 mesh:4x4").split()
MACHINE = "--gpu H100 --link NVLink4 --tile 128x128 --kv-buffers 2".split()
CLUSTER = "--nodes 2 --between InfiniBand-NDR --nics 8".split()

prefill = tempfile.NamedTemporaryFile("w", suffix=".txt")
prefill.write(f"{248 * K} {256 * K} 0 {256 * K} causal\n")
prefill.flush()

# title, query heads, kv heads, positions, mask, ranks, nodes, schemes
JOBS = [
    ("Long and causal", 32, 32, 1024 * K, "causal", 8, 1, ONE_NODE),
    ("8 kv heads on 16 ranks", 64, 8, 256 * K, "causal", 16, 2, TWO_NODES),
    ("Packed documents", 32, 8, 128 * K,
     "causal+documents:65536,32768,16384,8192,4096,2048,1024,512,512", 8, 1, ONE_NODE),
    ("A window", 32, 8, 256 * K, "causal+window:4096", 8, 1, ONE_NODE),
    ("Two nodes", 32, 32, 128 * K, "causal", 16, 2, TWO_NODES),
    ("A prefill on a cache: the last 8,192 positions query all", 32, 8, 256 * K,
     "ranges:" + prefill.name, 8, 1, ONE_NODE),
]


def seconds(value):
    value = float(value)
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def simulate(ringscope, job, schemes, deals):
    """Return the table's rows, those of each scheme together."""
    _, heads, heads_kv, seqlen, mask, ranks, nodes, _ = job
    sizes = {"world-size": ranks, "seqlen": seqlen, "heads": heads, "heads-kv": heads_kv, "mask": mask}
    run = subprocess.run(
        [ringscope, "simulate", *(f"--{name}={size}" for name, size in sizes.items()), "--backward", *MACHINE,
         *(CLUSTER if nodes == 2 else []), "--sweep", "scheme=" + ",".join(schemes), "partition=" + ",".join(deals),
         "--csv", "-"], stdout=subprocess.PIPE, text=True, check=True)
    return list(csv.DictReader(run.stdout.splitlines()))


def page_of(ringscope, job):
    title, heads, heads_kv, seqlen, mask, ranks, nodes, schemes = job
    is_prefill = mask.startswith("ranges:")
    print(f"\n## {title}\n\n{ranks} ranks on {nodes} node{'s' if nodes > 1 else ''}, seqlen {seqlen}, {heads} heads, "
          f"{heads_kv} kv heads, mask `{'ranges:FILE' if is_prefill else mask}`\n")
    if is_prefill:
        print("A problem has as many queries as keys, so the queries of the cache's positions travel as well, though "
              "they attend nothing: pass-q shows less than it would save.\n")
    deals = "contiguous zigzag striped fold".split() + ["documents:zigzag"] * ("documents" in mask)
    all_rows = simulate(ringscope, job, schemes, deals)
    best, missing = [], []
    for i, scheme in enumerate(schemes):
        rows = all_rows[i * len(deals):(i + 1) * len(deals)]
        rows += simulate(ringscope, job, ["ring"], ["searched"]) if scheme == "ring" else []
        why = rows[-1]["why_not"]
        rows = [row for row in rows if not row["why_not"]]
        if rows:
            best.append((scheme, min(rows, key=lambda row: float(row["wall_s"]))))
        else:
            missing.append(f"- `{scheme}`: {why}\n")
    print("| scheme | best deal | time of a layer | efficiency | exposed | memory |\n|---|---|---|---|---|---|")
    for scheme, row in sorted(best, key=lambda way: float(way[1]["wall_s"])):
        print(f"| `{scheme}` | {row['partition']} | {seconds(row['wall_s'])} | "
              f"{100 * float(row['efficiency']):.1f} % | {seconds(row['exposed_s'])} | "
              f"{float(row['peak_bytes']) / 2**30:.2f} GiB |")
    if missing:
        print("\nNot possible:\n\n" + "".join(missing), end="")


# ---
# The same jobs on two hosts of this machine.

BYTES_PER_S = 50e6  # of the link, each way
REPEATS = 3
MEASURED = "ring bidirectional pass-q allgather ulysses hybrid:2 two-level:2 mesh:2x2".split()


class TwoHosts:
    """Two network namespaces with names of their own, joined by a link that passes BYTES_PER_S each way."""
    NAMES, DEVICES, ADDRESSES = ("ring-a", "ring-b"), ("toward-b", "toward-a"), ("10.77.0.1", "10.77.0.2")

    def __enter__(self):
        with contextlib.ExitStack() as undoing:  # also where a command below fails
            self.folder = undoing.enter_context(tempfile.TemporaryDirectory())
            self.keepers = []
            for name in self.NAMES:
                words = ["unshare", "--net", "--uts", "sh", "-c", f"hostname {name}; echo; exec sleep infinity"]
                self.keepers.append(undoing.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE)))
                undoing.callback(self.keepers[-1].kill)
                self.keepers[-1].stdout.readline()  # its namespaces are there
            self.join()
            self.undoing = undoing.pop_all()
        return self

    def __exit__(self, *_):
        self.undoing.close()

    def join(self):
        self.on(0, "ip", "link", "add", self.DEVICES[0], "type", "veth", "peer", "name", self.DEVICES[1], "netns",
                str(self.keepers[1].pid))
        for host in (0, 1):
            device = self.DEVICES[host]
            self.on(host, "ip", "address", "add", self.ADDRESSES[host] + "/24", "dev", device)
            self.on(host, "ip", "link", "set", device, "up")
            self.on(host, "ip", "link", "set", "lo", "up")
            # Of a frame of 1514 bytes, headers take 66. Nothing is dropped, so a transfer takes as long as its bytes do.
            self.on(host, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                    f"{8 * BYTES_PER_S * 1514 / 1448:.0f}bit", "burst", "64kb", "limit", "64mb")
        agent = pathlib.Path(self.folder, "agent")  # Open MPI calls it like ssh
        agent.write_text(f'#!/bin/sh\nshift\nexec nsenter -t {self.keepers[1].pid} -n -u sh -c "$*"\n')
        agent.chmod(0o700)

    def on(self, host, *words, **options):
        return subprocess.run(["nsenter", "-t", str(self.keepers[host].pid), "-n", "-u", *words], check=True, **options)

    def run(self, ringscope, *words):
        """Run four ranks, two on each host, and return the run's JSON."""
        parameters = {"plm_rsh_agent": self.folder + "/agent", "pml": "ob1", "btl": "tcp,self",
                      "btl_tcp_if_include": "10.77.0.0/24", "oob_tcp_if_include": "10.77.0.0/24", "btl_tcp_flags": "send"}
        mca = [word for name, value in parameters.items() for word in ("--mca", name, value)]
        done = self.on(0, "env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--bind-to", "none",
                       "-np", "4", "-host", f"{self.NAMES[0]}:2,{self.ADDRESSES[1]}:2", *mca, ringscope, "run", "--random",
                       "--backend", "mpi", "--backward", "--json", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout)


def measured_page(ringscope):
    """Print the tables of the six jobs at an eighth or less of their sizes, on four ranks."""
    with TwoHosts() as hosts, tempfile.TemporaryDirectory() as folder:
        for title, heads, heads_kv, seqlen, mask, *_ in JOBS:
            factor = seqlen // 2048
            heads, heads_kv, head_dim = 8, max(8 * heads_kv // heads, 1), 64
            if mask.startswith("ranges:"):
                mask = folder + "/prefill.txt"
                pathlib.Path(mask).write_text("1984 2048 0 2048 causal\n")
                mask = "ranges:" + mask
            elif ":" in mask:
                name, numbers = mask.rsplit(":", 1)
                mask = name + ":" + ",".join(str(int(number) // factor) for number in numbers.split(","))
            deal = "documents:zigzag" if "documents" in mask else "striped" if "ranges" in mask else "zigzag"
            job = ["--seqlen=2048", f"--heads={heads}", f"--heads-kv={heads_kv}", f"--head-dim={head_dim}", f"--mask={mask}",
                   f"--partition={deal}"]
            rows = []
            for scheme in MEASURED:
                runs = [hosts.run(ringscope, *job, f"--scheme={scheme}") for _ in range(REPEATS)]
                # Two ranks of a host reach each other past the link; what crosses it is the rest.
                rows.append((scheme, statistics.median(run["wall_s"] for run in runs),
                             max(run["wall_s"] for run in runs) / min(run["wall_s"] for run in runs),
                             sum(rank["bytes_sent"] for rank in runs[0]["ranks"]) / 2**20,
                             statistics.median(run["exposed_s"] for run in runs)))
            print(f"\n### {title}\n\n2048 positions, {heads} heads, {heads_kv} kv heads, "
                  f"mask `{'ranges:FILE' if 'ranges' in mask else mask}`, partition `{deal}`\n")
            print("| scheme | wall time | spread | exposed | all ranks send |\n|---|---|---|---|---|")
            rows.sort(key=lambda row: row[1])
            for scheme, wall, spread, sent, exposed in rows:
                print(f"| `{scheme}` | {seconds(wall)} | {spread:.2f} | {seconds(exposed)} | {sent:.1f} MiB |")
            if title == "Two nodes":
                traces = [f"{folder}/{i}.json" for i in (0, 1)]
                for trace, scheme in zip(traces, (rows[0][0], "ring")):
                    hosts.run(ringscope, *job, f"--scheme={scheme}", f"--trace={trace}")
                subprocess.run([ringscope, "view", *traces, "--screenshot", sys.argv[3], "--size", "1280x720"], check=True)
                print(f"\n![{rows[0][0]} left, ring right]({pathlib.Path(sys.argv[3]).name})\n\nOne run each of "
                      f"`{rows[0][0]}` and of the ring.")


print("# Schemes and deals, compared\n\nWhich scheme and which deal take the least time for six jobs, forward and "
      "backward, bf16, head_dim 128, on H100 with NVLink4 inside a node and 8 x InfiniBand-NDR between nodes. "
      f"Written by `bench/schemes.py` at commit {sys.argv[2]}; every time in the first six tables is simulated. The loops "
      "are those that run, with two KV buffers in a ring; ulysses is its closed form where heads divide evenly. "
      "Kernels compute tiles of 128 x 128. A line shows the scheme's fastest deal of contiguous, zigzag, striped and "
      "fold, of documents:zigzag where there are documents, and of a searched one in a ring.")
for one in JOBS:
    page_of(sys.argv[1], one)

model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
print(f"\n## Measured on this machine\n\nThe same jobs, made small, on four ranks: processes over MPI, two on each of two "
      f"hosts that are network namespaces of one machine ({os.cpu_count()} cores, {model}), joined by a link of "
      f"{BYTES_PER_S / 1e6:.0f} MB/s each way, which its queue enforces. Median wall time of {REPEATS} runs, forward and "
      "backward, f32, head_dim 64; spread is the slowest over the fastest. The link is slow beside the cores, as it is "
      "not on H100 nodes, so the bytes that cross it decide.")
measured_page(os.path.abspath(sys.argv[1]))
