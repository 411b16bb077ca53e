"""Exercise 2, solved."""

import math


def softmax(scores):
    m = max(scores)
    if m == -math.inf:
        return [0.0] * len(scores), m
    terms = [math.exp(score - m) for score in scores]
    return [term / sum(terms) for term in terms], m + math.log(sum(terms))
