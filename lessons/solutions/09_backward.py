"""Our version of step 6."""

import numpy as np
from given import TILE, Gradient


def block_backward(rank, queries, block, states, dq):
    gradient = Gradient(np.zeros_like(block.k), np.zeros_like(block.v))
    scale = 1 / np.sqrt(block.k.shape[1])
    for first in range(0, len(queries.q), TILE):
        rows = slice(first, min(first + TILE, len(queries.q)))
        most = visible(queries.positions[rows.stop - 1], block.positions)
        for first_key in range(0, most, TILE):
            keys = slice(first_key, min(first_key + TILE, len(block.k)))
            tile = rank.scores(queries, rows, block, keys)
            for i in range(rows.start, rows.stop):
                q, dout, state = queries.q[i], queries.dout[i], states[i]
                p = np.exp(tile[i - rows.start] - state.m) / state.l
                p[block.positions[keys] > queries.positions[i]] = 0
                ds = scale * p * (block.v[keys] @ dout - dout @ state.out / state.l)
                gradient.dv[keys] += np.outer(p, dout)
                gradient.dk[keys] += np.outer(ds, q)
                dq[i] += ds @ block.k[keys]
    return gradient


def ring_backward(rank, mine, held, states, dq):
    for step in range(rank.ranks):
        is_last = step + 1 == rank.ranks
        if not is_last:
            rank.start_hop(held)
        total = block_backward(rank, mine, held, states, dq)
        if step > 0:  # the sum of the ranks before, started a step ago
            before = rank.finish_hop()
            total = Gradient(total.dk + before.dk, total.dv + before.dv)
        if not is_last:
            held = rank.finish_hop()
        rank.start_hop(total)
    return rank.finish_hop()
