"""Exercise 10, solved."""


def kv_heads_of(first, last, heads, heads_kv):
    group = heads // heads_kv
    return list(range(first // group, (last - 1) // group + 1))


def shared(gradients, heads_kv):
    group = len(gradients) // heads_kv
    return [[sum(x) for x in zip(*gradients[g * group : (g + 1) * group])] for g in range(heads_kv)]
