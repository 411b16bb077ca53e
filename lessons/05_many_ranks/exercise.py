"""Exercise 5: rows that are dealt out, sent and held."""


def rows_of(rank, tokens, ranks):
    """Return the rows of a rank if tokens are dealt out evenly: the first ranks have one more."""
    return 0  # to be written


def rows_sent(rank, tokens, ranks):
    """Return the rows that a rank sends in a ring: N - 1 blocks, its own first, and then each that it just received."""
    return 0  # to be written


def rows_held(all_gather, tokens, ranks):
    """Return the rows of K and V that a rank needs room for: two blocks of any size in a ring, or all of them."""
    return 0  # to be written
