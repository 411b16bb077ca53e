"""Your ring, 4: the mask.

As attend(), but a query meets only keys whose position is not beyond its own.

Positions grow within a block; they may have gaps. What counts: a tile without an allowed pair is
not computed.
"""

from given import NONE, TILE  # noqa: F401


def visible(query_position, key_positions):
    """Return how many keys of a block, from its first on, a query may meet."""
    return len(key_positions)  # to be written


def attend_causal(rank, queries, block, states):
    pass  # to be written
