"""Exercise 12: is a ring worth it?

A machine makes `flops` operations and sends `bandwidth` bytes one way per second. h, g, d and e are as in the lesson.
"""


def crossover(flops, bandwidth, h, g, d, e):
    """Return the rows per rank from which a hop hides behind the computing of a step, with a full mask."""
    return 0  # to be written


def exposed(flops, bandwidth, h, g, d, e, rows, ranks):
    """Return the seconds, in all N - 1 hops, during which a rank waits."""
    return 0  # to be written
