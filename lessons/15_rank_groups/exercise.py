"""Exercise 15: ranks and their groups. sizes has the number of parts along TP, CP, PP and DP; TP counts fastest."""


def index_of(rank, sizes, axis):
    """Return the index of a rank along an axis: 0 TP, 1 CP, 2 PP, 3 DP."""
    return 0  # to be written


def group_of(rank, sizes, axis):
    """Return the ranks that differ from this one along the axis alone, itself included, in order."""
    return []  # to be written
