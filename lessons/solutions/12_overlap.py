"""Exercise 12, solved."""


def crossover(flops, bandwidth, h, g, d, e):
    return flops / bandwidth * e / 2 * g / h


def exposed(flops, bandwidth, h, g, d, e, rows, ranks):
    computing = 4 * d * h * rows**2 / flops
    sending = 2 * d * g * rows * e / bandwidth
    return (ranks - 1) * max(0, sending - computing)
