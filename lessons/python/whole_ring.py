"""Ring attention with its gradients in NumPy: causal, zigzag, all ranks in one loop."""

import numpy as np


def zigzag(tokens, ranks):
    chunks = np.array_split(np.arange(tokens), 2 * ranks)
    return [np.concatenate((chunks[r], chunks[-1 - r])) for r in range(ranks)]


def masked_scores(q, k, at_q, at_k):
    scores = q @ k.T / np.sqrt(q.shape[1])
    return np.where(at_q[:, None] >= at_k, scores, -np.inf)


def ring_forward(q, k, v, at):
    """Return out and lse of each rank's rows. at[r] has their positions."""
    ranks = range(len(q))
    m = [np.full((len(x), 1), -np.inf) for x in q]
    l = [np.zeros((len(x), 1)) for x in q]
    out = [np.zeros_like(x) for x in q]
    held = list(ranks)  # whose block each rank has
    for step in ranks:
        for r in ranks:
            owner = held[r]
            scores = masked_scores(q[r], k[owner], at[r], at[owner])
            new_m = np.maximum(m[r], scores.max(axis=1, keepdims=True))
            unit = np.where(np.isfinite(new_m), new_m, 0)  # a row that has met no key
            p, factor = np.exp(scores - unit), np.exp(m[r] - unit)
            m[r], l[r] = new_m, factor * l[r] + p.sum(axis=1, keepdims=True)
            out[r] = factor * out[r] + p @ v[owner]
        held = [held[r - 1] for r in ranks]  # the hop
    return [o / s for o, s in zip(out, l)], [a + np.log(s) for a, s in zip(m, l)]


def ring_backward(q, k, v, at, out, lse, dout):
    """Return dq, dk and dv. The gradient of a block follows it, and one more hop brings it home."""
    ranks = range(len(q))
    scale = 1 / np.sqrt(q[0].shape[1])
    delta = [(d * o).sum(axis=1, keepdims=True) for d, o in zip(dout, out)]
    dq = [np.zeros_like(x) for x in q]
    held = list(ranks)
    gradients = [[np.zeros_like(k[r]), np.zeros_like(v[r])] for r in ranks]  # of the held block
    for step in ranks:
        for r in ranks:
            owner = held[r]
            p = np.exp(masked_scores(q[r], k[owner], at[r], at[owner]) - lse[r])
            ds = scale * p * (dout[r] @ v[owner].T - delta[r])
            dq[r] += ds @ k[owner]
            gradients[r][0] += ds.T @ q[r]
            gradients[r][1] += p.T @ dout[r]
        held = [held[r - 1] for r in ranks]
        gradients = [gradients[r - 1] for r in ranks]  # N hops, not N - 1
    return dq, [g[0] for g in gradients], [g[1] for g in gradients]
