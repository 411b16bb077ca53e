"""Your ring, 8: decoding.

All ranks have the same query, and each a block of keys, perhaps of none.

What counts: N - 1 small messages in all, and for 8 ranks no more than three one after another.
"""

import numpy as np
from given import NONE, State


def merge(a, b):
    """Return the state of the keys of both. Either may have met none."""
    return a  # to be written


def decode(rank, query, own):
    """As one rank runs it: attend the own block, and merge over the ranks by rank.send() and
    rank.receive(). On rank 0 return the state of all keys, on others anything."""
    return State(NONE, 0, np.zeros(query.q.shape[1]))  # to be written
