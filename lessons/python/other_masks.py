"""Lesson 11 in NumPy: masks of models, and which meetings of a ring they leave any work."""

import numpy as np

from causal_masks import allowed
from striped_and_zigzag import contiguous, striped, zigzag


def window(width):
    return lambda q, k: allowed(q, k) & (q[:, None] - k < width)


def prefix(length):
    return lambda q, k: allowed(q, k) | (k < length)


def documents(*lengths):
    ends = np.cumsum(lengths)
    number = lambda positions: np.searchsorted(ends, positions, side="right")
    return lambda q, k: allowed(q, k) & (number(q)[:, None] == number(k))


def meetings(mask, deal):
    """Count the meetings of a rank and a block that have any work."""
    return sum(mask(queries, keys).any() for queries in deal for keys in deal)


if __name__ == "__main__":
    masks = {
        "causal": allowed,
        "window 1,024": window(1024),
        "prefix 4,096": prefix(4096),
        "documents": documents(700, 4000, 300, 3192),
    }
    for name, mask in masks.items():
        for deal in (contiguous, striped, zigzag):
            print(f"{name}, {deal.__name__}: {meetings(mask, deal(8192, 8))}")
