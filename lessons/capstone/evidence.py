"""Write the evidence of the capstone's four cases: python3 evidence.py FOLDER [PROGRAM]

Solve them first: this file says what was done wrong. PROGRAM is ./ringscope unless it is given.
"""

import csv
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
RANKS = 4


def hang(folder):
    """Dumps of NCCL's flight recorder: rank 2 ends its loop a hop too early."""
    for rank in range(RANKS):
        entries = []
        for hop in range(1, 3 if rank == 2 else 4):
            calls = (f"send {rank}->{(rank + 1) % RANKS}", f"recv {rank}<-{(rank - 1) % RANKS}", "coalesced")
            for call in calls:
                entries.append({
                    "process_group": ("0", "default"), "pg_id": 5, "p2p_seq_id": hop, "is_p2p": True,
                    "profiling_name": f"nccl:{call}", "state": "completed" if hop < 3 else "scheduled",
                })  # fmt: skip
        dump = {
            "pg_config": {"0": {"ranks": str(list(range(RANKS)))}},
            "pg_status": {"5": {"last_completed_collective": 0}},
            "entries": entries,
        }
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))


def drift(folder, program):
    """Outputs of a ring that merges in bf16, on 1, 4 and 16 ranks."""
    tensors = np.random.default_rng(1).standard_normal((3, 1, 2, 256, 16)).astype(np.float32)
    flags = []
    for name, tensor in zip("qkv", tensors):
        np.save(folder / f"{name}.npy", tensor)
        flags += [f"--{name}", folder / f"{name}.npy"]
    for ranks in (1, 4, 16):
        bug = [] if ranks == 1 else ["--inject", "rounds-each-hop"]
        command = [program, "run", *flags, "--mask", "causal", "--partition", "zigzag", "--dtype", "bf16", *bug]
        command += ["--world-size", str(ranks), "--out", folder / f"out_{ranks}.npy"]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)


def loss(folder):
    """The same losses row by row, and two means of them: four ranks have 512, 512, 512 and 170 rows with a label."""
    counts = (512, 512, 512, 170)
    losses = 2.5 - 0.042 * np.log1p(np.arange(sum(counts)))
    owner = np.repeat(np.arange(RANKS), counts)
    with open(folder / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["position", "rank", "loss on 1 rank", "loss on 4 ranks"])
        rows.writerows([p, owner[p], f"{x:.6f}", f"{x:.6f}"] for p, x in enumerate(losses))
    means = [losses[owner == rank].mean() for rank in range(RANKS)]
    (folder / "log.txt").write_text(f"1 rank:  loss {losses.mean():.4f}\n4 ranks: loss {np.mean(means):.4f}\n")


def trace(folder):
    """PyTorch's profiles of a ring that starts its hop, waits for it, and computes then; and rank 1 is slow."""
    attention, hop = [100.0, 140.0, 100.0, 100.0], 30.0
    events, ready = [[] for _ in range(RANKS)], [0.0] * RANKS

    def kernel(rank, name, stream, begin, duration):
        args = {"stream": stream, "correlation": len(events[rank]) + 1}
        events[rank].append({
            "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": round(begin, 3),
            "dur": round(duration, 3), "args": args,
        })  # fmt: skip

    for step in range(8 * RANKS):
        began = list(ready)
        for rank in range(RANKS):
            begin = began[rank]
            if step % RANKS < RANKS - 1:
                together = max(began[rank - 1], began[rank], began[(rank + 1) % RANKS])
                kernel(rank, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20, begin, together + hop - begin)
                begin = together + hop
            kernel(rank, "void flash::flash_fwd_kernel<>(Flash_fwd_params)", 7, begin, attention[rank])
            ready[rank] = begin + attention[rank]
    for rank in range(RANKS):
        info = f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {RANKS}}}'
        text = f'{{"schemaVersion": 1, {info}, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": {json.dumps(events[rank])}}}'
        (folder / f"rank{rank}.pt.trace.json").write_text(text)


def write(folder, program=ROOT / "ringscope"):
    for case in (hang, drift, loss, trace):
        place = Path(folder) / case.__name__
        place.mkdir(parents=True, exist_ok=True)
        case(place, *([program] if case is drift else []))


if __name__ == "__main__":
    write(*sys.argv[1:])
