"""Lesson 9 in NumPy: gradients from scores that are computed again and one lse per row."""

import numpy as np


def block_backward(q, k, v, mask, lse, delta, dout):
    """Return what these queries and one block of keys add to dq, dk and dv."""
    scale = 1 / np.sqrt(q.shape[1])
    p = np.where(mask, np.exp(scale * q @ k.T - lse[:, None]), 0)
    ds = p * (dout @ v.T - delta[:, None])
    return scale * ds @ k, scale * ds.T @ q, p.T @ dout


if __name__ == "__main__":
    scores, values = np.array([1.0, 3, 2, 5]), np.array([10.0, 20, 30, 40])
    lse = np.log(np.exp(scores).sum())
    p = np.exp(scores - lse)
    out = p @ values  # dO is 1, so delta is out
    for score, weight, value in zip(scores, p, values):
        print(f"score {score:.0f}: {weight:.3f} | {value:.0f} | {weight * (value - out):.3f}")

    def output(scores):
        return np.exp(scores) @ values / np.exp(scores).sum()

    for nudge in 1e-5 * np.eye(4):
        print(f"by nudging: {(output(scores + nudge) - output(scores - nudge)) / 2e-5:.3f}")

    # With q = 1 and k = scores, dk is the derivative by the scores.
    one = np.ones((1, 1))
    k, v = scores[:, None], values[:, None]
    dq, dk, dv = block_backward(one, k, v, True, np.array([lse]), np.array([out]), dout=one)
    assert np.allclose(dk[:, 0], p * (values - out)) and np.allclose(dv[:, 0], p)
