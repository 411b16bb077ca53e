"""Exercise 14: labels and a loss that don't depend on the number of ranks."""


def labels_of(positions, text):
    """Return for each row of a rank the token that follows it in the text, and None for the text's last token.

    positions[i] is where row i stands in the text.
    """
    return []  # to be written


def mean_loss(sums, counts):
    """Return the mean loss of all rows with a label: sums[r] is rank r's sum, counts[r] its number of such rows, perhaps 0."""
    return sum(s / max(c, 1) for s, c in zip(sums, counts)) / len(sums)  # to be mended: a mean of means
