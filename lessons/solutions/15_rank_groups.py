"""Exercise 15, solved."""

import math


def index_of(rank, sizes, axis):
    return rank // math.prod(sizes[:axis]) % sizes[axis]


def group_of(rank, sizes, axis):
    distance = math.prod(sizes[:axis])
    first = rank - index_of(rank, sizes, axis) * distance
    return [first + i * distance for i in range(sizes[axis])]
