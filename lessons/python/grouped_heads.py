"""Lesson 10 in NumPy: query heads that share a KV head, and the gradient that they add up."""

import numpy as np


def kv_head_of(head, heads, kv_heads):
    return head // (heads // kv_heads)


def gradient_of_shared(gradients, kv_heads):
    """Add up the gradients [heads, rows, d] of the copies of each KV head."""
    heads, rows, d = gradients.shape
    return gradients.reshape(kv_heads, heads // kv_heads, rows, d).sum(axis=1)


if __name__ == "__main__":
    print(f"a hop shrinks by: {32 // 8} times")
    kv_heads = {kv_head_of(head, 32, 8) for head in range(6, 12)}
    print(f"query heads 6 to 11 need: {len(kv_heads)} heads")
    copies = np.array([1.0, 2, 3, 4]).reshape(4, 1, 1)
    print(f"gradient of four copies: {gradient_of_shared(copies, 1).item():.0f}")
