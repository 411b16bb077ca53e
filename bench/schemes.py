#!/usr/bin/env python3
"""Prints bench/schemes.md: which scheme and which deal take the least time for six jobs, by `ringscope
simulate` on H100 nodes. Of a scheme's deals the fastest counts.

    bench/schemes.py build/release/app/ringscope COMMIT > bench/schemes.md

It measures nothing; bench/predicted compares simulations with runs.
"""
import csv
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


print("# Schemes and deals, compared\n\nWhich scheme and which deal take the least time for six jobs, forward and "
      "backward, bf16, head_dim 128, on H100 with NVLink4 inside a node and 8 x InfiniBand-NDR between nodes. "
      f"Written by `bench/schemes.py` at commit {sys.argv[2]}; every time is simulated, none is measured. The loops "
      "are those that run, with two KV buffers in a ring; ulysses is its closed form where heads divide evenly. "
      "Kernels compute tiles of 128 x 128. A line shows the scheme's fastest deal of contiguous, zigzag, striped and "
      "fold, of documents:zigzag where there are documents, and of a searched one in a ring.")
for one in JOBS:
    page_of(sys.argv[1], one)
