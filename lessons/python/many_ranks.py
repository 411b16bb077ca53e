"""Lesson 5 in NumPy: each rank keeps its queries and meets all keys, in any order."""

import numpy as np

from online_softmax import carry_on, no_keys


if __name__ == "__main__":
    scores, values = np.array([1.0, 3, 2, 5]), np.array([[10.0], [20], [30], [40]])
    own, others = slice(2, 4), slice(0, 2)  # of rank 1, which has keys 3 and 4

    m, l, out = carry_on(no_keys(1), scores, values)
    print(f"all-gather, keys 1 to 4: {out[0] / l:.2f}")

    state = carry_on(no_keys(1), scores[own], values[own])
    m, l, out = carry_on(state, scores[others], values[others])
    print(f"ring, keys 3, 4, 1, 2: {out[0] / l:.2f}")

    all_kv = 2 * 4 * 4096 * 64 * 4  # K and V, heads, tokens, head_dim, bytes
    print(f"each of four ranks receives: {all_kv * 3 // 4 // 2**20} MiB")
    print(f"and holds two blocks of 64 ranks: {2 * 2 * 8 * 2**20 * 128 * 2 // 64 // 2**20} MiB")
