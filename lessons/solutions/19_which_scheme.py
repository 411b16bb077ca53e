"""Exercise 19, solved."""


def ring_bytes(n, h, g, d, e):
    return (n - 1) * 2 * g * d * e


def ulysses_bytes(n, h, g, d, e):
    return (n - 1) / n * 2 * (h + max(g, n)) * d * e if h >= n else None


def takes_ring(n, h, g, d, e, rows, crossover):
    # A hop exposes the share of its time by which the rows fall short of the crossover.
    swaps = ulysses_bytes(n, h, g, d, e)
    return swaps is None or (1 - rows / crossover) * ring_bytes(n, h, g, d, e) <= swaps
