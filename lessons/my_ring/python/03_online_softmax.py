"""Your ring, 1: carry on. A query has met some keys and now meets a few more.

scores[j] is NONE when the pair with key j is forbidden; values[j] is its row of V. A state that
has met no allowed key has m = NONE, l = 0 and zeros, before and after.
"""

from given import NONE, State  # noqa: F401


def carry_on(state, scores, values):
    """Return the state after these keys."""
    return state  # to be written
