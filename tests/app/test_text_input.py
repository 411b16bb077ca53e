"""Texts as inputs. The weights that a query gives to the keys are read off the gradient of V: when dO is one for that query
and zero elsewhere, dV at a key is the weight."""

import itertools
import re

import numpy as np
import pytest

TEXT = (
    "the ring turns and every rank sends its block on, while other words (queue, lane, 42) pass by; "
    "in a ring no rank waits long, so the block comes home: ring of ranks, ring of blocks.\n"
)


def weights_of(program, text, query, head_dim=64):
    program.path("t.txt").write_text(text)
    dout = np.zeros((1, 1, len(text), head_dim), np.float32)
    dout[0, 0, query] = 1
    np.save(program.path("do.npy"), dout)
    files = "--dout do.npy --dv dv.npy"
    program.well("run --text t.txt --heads 1 --mask causal --backward --head-dim", head_dim, files)
    weights = np.load(program.path("dv.npy"))[0, 0, :, 0]
    assert abs(weights.sum(dtype=np.float64) - 1) <= 1e-4
    return weights


@pytest.mark.parametrize("head_dim", [64, 65, 128, 33])
def test_repeated_words_attend_to_their_earlier_occurrences(program, head_dim):
    """Of the weight that the last byte of the last "ring" gives away to other bytes, nearly all goes to the last bytes of the
    earlier ones, and each of those gets more than any other byte."""
    *earlier, query = (found.end() - 1 for found in re.finditer("ring", TEXT))
    weights = weights_of(program, TEXT, query, head_dim)
    equal = weights[earlier]
    others = np.delete(weights, [*earlier, query])
    assert len(equal) == 3
    assert equal.sum() >= 4 * others.sum()
    assert equal.min() >= 2 * others.max()


def test_similar_words_are_other_words(program):
    """ "sing" ends as "ring" does, but is another word."""
    weights = weights_of(program, "ring sing ring", -1)
    assert weights[3] >= 20 * weights[8]


def test_nearer_occurrences_get_more(program):
    """Positions are turned into K and Q: of two equal words the nearer one gets more, and both a lot."""
    text = "zip" + 60 * "." + " zip; zip"
    weights = weights_of(program, text, -1)
    far, near = weights[2], weights[text.index("zip;") + 2]
    assert near > 1.5 * far and far > 0.01


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_the_length_is_that_of_the_file_divided_by_the_batch(program, batch):
    program.path("t.txt").write_text(TEXT)
    program.well("run --text t.txt --out o.npy --head-dim 4 --batch", batch)
    assert np.load(program.path("o.npy")).shape == (batch, 4, len(TEXT) // batch, 4)


def test_windows_are_independent(program):
    """Every batch entry is a text of its own: the second window gives what it gives alone."""
    program.path("both.txt").write_text(TEXT[:100])
    program.path("second.txt").write_text(TEXT[50:100])
    for flags in ("both.txt --batch 2 --out both.npy", "second.txt --out second.npy"):
        program.well("run --seqlen 50 --mask causal --head-dim 16 --text", flags)
    both, second = (np.load(program.path(name)) for name in ("both.npy", "second.npy"))
    assert len(both) == 2 and (both[1:] == second).all()


def test_heads_differ(program):
    program.path("t.txt").write_text(TEXT)
    program.well("run --text t.txt --heads 4 --heads-kv 2 --head-dim 8 --mask causal --lse lse.npy")
    for one, other in itertools.combinations(np.load(program.path("lse.npy"))[0], 2):
        assert (one != other).any()
