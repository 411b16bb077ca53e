"""Your ring, 5: zigzag.

seqlen is a multiple of twice the number of ranks. Together the ranks have every position once,
and under a causal mask your ring of the lessons before has equal work for all of them.
"""

import numpy as np


def positions_of(rank, ranks, seqlen):
    """Return the positions of the rows of a rank, in growing order."""
    return np.array([], int)  # to be written
