"""Lesson 2 in NumPy: the largest score is subtracted before exp."""

import numpy as np


def plain_softmax(scores):
    e = np.exp(scores)
    return e / e.sum()


def safe_softmax(scores):
    """Return the weights of a row and its lse: 0 and -inf if all keys are forbidden."""
    m = scores.max()
    if m == -np.inf:
        return np.zeros_like(scores), m
    e = np.exp(scores - m)
    return e / e.sum(), m + np.log(e.sum())


if __name__ == "__main__":

    def shown(weights):
        return "NaN" if np.isnan(weights).any() else ", ".join(f"{w:.3f}" for w in weights)

    with np.errstate(all="ignore"):
        print("plain, 126 to 128:", shown(plain_softmax(np.float32([126, 127, 128]))))
        print("plain, two of 88.5:", shown(plain_softmax(np.float32([0, 88.5, 88.5]))))
    weights, lse = safe_softmax(np.float32([126, 127, 128]))
    print("safe:", shown(weights))
    print(f"lse: {lse:.3f}")
    print("no key:", shown(safe_softmax(np.full(3, -np.inf))[0]))
