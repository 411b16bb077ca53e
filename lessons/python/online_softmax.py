"""Lesson 3 in NumPy: a row's state is carried on over more keys, or merged with another state."""

import numpy as np


def no_keys(width):
    """Return the state of a row that has met no key: m, l and out_accum."""
    return -np.inf, 0.0, np.zeros(width)


def carry_on(state, scores, values):
    """Return the state after the keys with these scores and rows of values; -inf forbids a key."""
    m, l, out = state
    new_m = max(m, scores.max(initial=-np.inf))
    if new_m == -np.inf:
        return state
    p, factor = np.exp(scores - new_m), np.exp(m - new_m)
    return new_m, factor * l + p.sum(), factor * out + p @ values


def merge(a, b):
    """Return the state of the keys of both."""
    m = max(a[0], b[0])
    if m == -np.inf:
        return a
    of_a, of_b = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, of_a * a[1] + of_b * b[1], of_a * a[2] + of_b * b[2]


if __name__ == "__main__":
    scores, values = np.array([1.0, 3, 2, 5]), np.array([[10.0], [20], [30], [40]])
    early = carry_on(no_keys(1), scores[:2], values[:2])
    whole = carry_on(early, scores[2:], values[2:])
    for keys, (m, l, out) in ((2, early), (4, whole)):
        print(f"{keys} keys: {m:.0f} | {l:.3f} | {out[0]:.3f} | {out[0] / l:.3f}")
    late = carry_on(no_keys(1), scores[2:], values[2:])
    m, l, out = merge(early, late)
    print(f"merged: {out[0] / l:.3f}")
