"""Your ring, 2: tiles. All queries meet all keys of a block, tile by tile.

rank.scores() computes one tile and refuses larger ones; carry_on() takes each of its rows, with
the rows of block.v that belong to its keys. `states` has a state for each query, of the keys that
it met before: replace them. Numbers of rows need not divide.
"""

from given import TILE  # noqa: F401


def attend(rank, queries, block, states):
    pass  # to be written
