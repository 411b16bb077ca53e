"""Exercise 14, solved."""


def labels_of(positions, text):
    return [text[p + 1] if p + 1 < len(text) else None for p in positions]


def mean_loss(sums, counts):
    return sum(sums) / sum(counts)
