"""Your ring, 7: hops between ranks that can only send and receive, one after the other.

rank.send() returns when the other side has received, rank.receive() when it has been sent
something. There may be any number of ranks. Nobody may wait for ever, and a hop may take no
longer than three sends one after another. Your ring, forward and backward, then runs over this
function.
"""


def exchange(rank, out):
    """Send `out` to the next rank. Return what the previous one sends."""
    return out  # to be written
