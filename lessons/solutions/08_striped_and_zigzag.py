"""Our version of step 5."""

import numpy as np


def positions_of(rank, ranks, seqlen):
    chunks = np.split(np.arange(seqlen), 2 * ranks)
    return np.concatenate((chunks[rank], chunks[-1 - rank]))
