"""Exercise 2: softmax that doesn't overflow, with the lse of the row.

Scores may be as large as 10,000; -math.inf is a forbidden key.
"""

import math  # noqa: F401


def softmax(scores):
    """Return the weights, as a list, and lse. A row of forbidden keys alone has weights 0 and lse -math.inf."""
    return [0 for _ in scores], 0  # to be written
