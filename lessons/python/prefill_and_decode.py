"""Lesson 16 in NumPy: two results are merged by their lse, and a tree merges those of all ranks."""

import numpy as np

from safe_softmax import safe_softmax


def merge_by_lse(a, b):
    """Merge two pairs of out and lse. -inf means no keys."""
    lse = np.logaddexp(a[1], b[1])
    if lse == -np.inf:
        return a
    return np.exp(a[1] - lse) * a[0] + np.exp(b[1] - lse) * b[0], lse


def merge_in_a_tree(parts):
    """Merge the results of all ranks. Return the result and the number of rounds."""
    rounds = 0
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [merge_by_lse(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        rounds += 1
    return parts[0], rounds


if __name__ == "__main__":
    scores, values = np.array([1.0, 3, 2, 5]), np.array([10.0, 20, 30, 40])
    parts = []
    for own in (slice(0, 2), slice(2, 4)):
        weights, lse = safe_softmax(scores[own])
        parts.append((weights @ values[own], lse))
    print("out, lse, out, lse:", ", ".join(f"{x:.2f}" for part in parts for x in part))
    print(f"the second weighs: {np.exp(parts[1][1] - parts[0][1]):.2f}")
    (out, lse), _ = merge_in_a_tree(parts)
    print(f"merged: {out:.2f}")
    _, rounds = merge_in_a_tree([parts[0]] * 8)
    print(f"8 ranks, rounds up a tree and down again: {2 * rounds}")
