"""Attention as NumPy has it, with the mistakes that tests plant in it."""

import numpy as np


def inputs(heads=2, heads_kv=None, seqlen=64, head_dim=16, seed=0):
    """Return q, k, v, [1, heads, seqlen, head_dim] in f32."""
    random = np.random.default_rng(seed)
    return [
        random.standard_normal((1, count, seqlen, head_dim)).astype(np.float32)
        for count in (heads, heads_kv or heads, heads_kv or heads)
    ]


def causal(seqlen):
    return np.tril(np.ones((seqlen, seqlen), dtype=bool))


def documents(*lengths):
    """Return the causal mask of packed documents."""
    of_row = np.repeat(np.arange(len(lengths)), lengths)
    return causal(len(of_row)) & (of_row[:, None] == of_row)


def zigzag(seqlen, ranks):
    """Return the positions of each rank: of 2 N chunks those with numbers r and 2 N - 1 - r."""
    chunks = np.arange(seqlen).reshape(2 * ranks, -1)
    return [np.concatenate([chunks[r], chunks[2 * ranks - 1 - r]]) for r in range(ranks)]


def attend(q, k, v, mask=None, scale=None):
    """Return out and lse, computed in f64. A mask is [queries, keys]; True is attended."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, (largest + np.log(total))[..., 0]


def to_bf16(array):
    """Return f32 rounded to bf16, to even, as f32."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)
