"""What the exercises of your ring are given: rows, messages, and a rank that talks to others.

The same as given.h, with NumPy arrays for matrices. Every step also has the functions of the steps before it, such as
carry_on, without an import; `import numpy as np` is yours to write where a stub lacks it.
"""

from dataclasses import dataclass

import numpy as np

NONE = -np.inf  # the score of a forbidden pair, and m of a state that has met no key
TILE = 8


@dataclass
class State:
    """Of the keys met so far: the largest score, the sum of exp(score - m), that times values."""

    m: float
    l: float
    out: np.ndarray


@dataclass
class Queries:
    """Positions in the sequence grow. dout is the gradient of the output."""

    positions: np.ndarray
    q: np.ndarray
    dout: np.ndarray


@dataclass
class Block:
    positions: np.ndarray
    k: np.ndarray
    v: np.ndarray


@dataclass
class Gradient:
    dk: np.ndarray
    dv: np.ndarray


class Rank:
    """A message is a Block, a Gradient or a State."""

    def __init__(self, number, ranks):
        self.number, self.ranks = number, ranks
        self.next, self.previous = (number + 1) % ranks, (number - 1) % ranks

    def scores(self, queries, rows, block, keys):
        """Return the scores q k / sqrt(d) of a tile. rows and keys are slices of TILE at most."""
        raise NotImplementedError

    def start_hop(self, message):
        """Start to send to the next rank and to receive from the previous one; return at once."""
        raise NotImplementedError

    def finish_hop(self):
        """Wait for the end of the oldest hop that has been started. Return what it brought."""
        raise NotImplementedError

    def send(self, to, message):
        """Send, and wait until `to` has received it."""
        raise NotImplementedError

    def receive(self, sender):
        """Wait until `sender` sends. Return the message."""
        raise NotImplementedError
