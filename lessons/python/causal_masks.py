"""Lesson 7 in NumPy: a causal mask compares positions, and contiguous ranks have unequal work."""

import numpy as np


def allowed(queries, keys):
    """Return which pairs of these positions a causal mask allows."""
    return queries[:, None] >= keys


def pairs(deal):
    """Count the allowed pairs, a row per rank and a column per step. deal[r] has r's positions."""
    ranks = range(len(deal))
    return np.array([[allowed(deal[r], deal[r - step]).sum() for step in ranks] for r in ranks])


def balance_ceiling(counts):
    """Return mean / slowest, both summed over the steps."""
    return counts.mean(axis=0).sum() / counts.max(axis=0).sum()


if __name__ == "__main__":
    four = pairs(np.split(np.arange(4096), 4))
    for rank, row in enumerate(four / 1024**2):
        shares = " | ".join(f"{share:.2f}" if share else "idle" for share in row)
        print(f"meetings of rank {rank}: {shares}")
    for ranks in (1, 2, 4, 8):
        counts = pairs(np.split(np.arange(4096), ranks))
        print(f"balance ceiling of {ranks}: {100 * balance_ceiling(counts):.1f} %")
        print(f"slowest / mean: {counts.sum(axis=1).max() / counts.sum(axis=1).mean():.3f}")
