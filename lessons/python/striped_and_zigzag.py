"""Lesson 8 in NumPy: four ways to deal the tokens out."""

import numpy as np

from causal_masks import balance_ceiling, pairs


def contiguous(tokens, ranks):
    return np.split(np.arange(tokens), ranks)


def striped(tokens, ranks):
    return [np.arange(rank, tokens, ranks) for rank in range(ranks)]


def zigzag(tokens, ranks):
    chunks = np.split(np.arange(tokens), 2 * ranks)
    return [np.concatenate((chunks[rank], chunks[-1 - rank])) for rank in range(ranks)]


def fold(tokens, ranks):
    rounds = np.arange(tokens).reshape(-1, ranks)
    rounds[1::2] = rounds[1::2, ::-1]  # every other round is dealt backwards
    return list(rounds.T)


if __name__ == "__main__":
    for deal in (contiguous, striped, fold, zigzag):
        counts = pairs(deal(4096, 8))
        of_ranks = counts.sum(axis=1)
        slowest, ceiling = of_ranks.max() / of_ranks.mean(), 100 * balance_ceiling(counts)
        print(f"{deal.__name__}: {slowest:.4f} | {ceiling:.2f} %")
    share = pairs(zigzag(4096, 4))[3, 2] / 1024**2
    print(f"rank 3 meets rank 1's block in zigzag: {100 * share:.0f} %")
