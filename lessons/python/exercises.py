"""Try a short exercise: python3 exercises.py LESSON FILE

Each case is a call, as text, and what it should give. `./ringscope lesson N --check` runs this.
"""

import math
import runpy
import sys

GROUPED = "8, 32, 8, 128, 2"
FALLING = "[8.8, 6.0, 3.0, 2.2], [3, 3, 2, 2]"  # the sums of ten losses on four ranks
FAST, SLOW = "[(0, 125), (125, 250)]", "[(0, 20), (125, 145)]"


def sent(rank, tokens, ranks):
    """Play a ring hop by hop, and count the rows that a rank sends."""
    owners = [(rank - hop) % ranks for hop in range(ranks - 1)]
    return sum(tokens // ranks + (owner < tokens % ranks) for owner in owners)


def meetings(rank, rows, window):
    """Count the blocks with which a rank of whole pieces has an allowed pair, pair by pair."""
    mine = range(rank * rows, (rank + 1) * rows)
    return len({j // rows for i in mine for j in range(i + 1) if i - j < window})


def nearest_in_bf16(x):
    """Return x with 8 significant bits, rounded to even."""
    fraction, power = math.frexp(x)
    return math.ldexp(round(fraction * 256), power - 8)


CASES = {
    2: [
        *((f"softmax([{s}, {s} + math.log(2), -math.inf, {s} + math.log(5)])", ([0.125, 0.25, 0, 0.625], s + math.log(8)))
          for s in (0, 100, 10000, -10000)),
        ("softmax([0, 88.5, 88.5])[0][1]", 0.5),
        ("softmax([-math.inf, -math.inf])", ([0, 0], -math.inf)),
    ],
    5: [
        ("rows_of(1, 10, 4)", 3),
        ("rows_of(2, 10, 4)", 2),
        ("rows_of(3, 3, 4)", 0),
        *((f"rows_sent({rank}, {tokens}, 4)", sent(rank, tokens, 4)) for tokens in (8, 10, 3) for rank in range(4)),
        ("rows_sent(0, 7, 1)", 0),
        ("rows_held(False, 10, 4)", 6),
        ("rows_held(True, 10, 4)", 10),
        ("rows_held(False, 10, 1)", 10),
    ],
    10: [
        ("kv_heads_of(6, 12, 32, 8)", [1, 2]),
        ("kv_heads_of(0, 8, 8, 2)", [0, 1]),
        ("kv_heads_of(14, 16, 32, 8)", [3]),
        ("kv_heads_of(2, 5, 8, 8)", [2, 3, 4]),
        ("kv_heads_of(5, 8, 8, 1)", [0]),
        ("shared([[1, 10], [2, 20], [3, 30], [4, 40]], 2)", [[3, 30], [7, 70]]),
        ("shared([[1, 10], [2, 20], [3, 30], [4, 40]], 1)", [[10, 100]]),
        ("shared([[1, 10], [2, 20], [3, 30], [4, 40]], 4)", [[1, 10], [2, 20], [3, 30], [4, 40]]),
    ],
    11: [
        *((f"allowed_keys({i}, {window}, {begin})", next((j, i + 1) for j in range(begin, i + 1) if i - j < window))
          for window in (1, 3, 100) for begin in (0, 7) for i in (begin, begin + 1, begin + 11)),
        *((f"blocks_to_meet({rank}, {rows}, {window})", meetings(rank, rows, window))
          for rows, window in ((4, 1), (4, 2), (4, 4), (4, 5), (4, 6), (3, 100)) for rank in (0, 1, 5)),
    ],
    12: [
        ("crossover(312e12, 300e9, 32, 32, 128, 2)", 1040),
        ("crossover(312e12, 300e9, 32, 8, 128, 2)", 260),
        ("crossover(1e12, 1e9, 1, 1, 64, 4)", 2000),
        ("crossover(1e12, 1e9, 1, 1, 128, 4)", 2000),
        ("exposed(1e12, 1e9, 1, 1, 64, 4, 1000, 4)", 768e-6),  # hops of 512 µs beside steps of 256 µs
        ("exposed(1e12, 1e9, 1, 1, 64, 4, 2000, 4)", 0),
        ("exposed(1e12, 1e9, 1, 1, 64, 4, 3000, 4)", 0),
        ("exposed(1e12, 1e9, 1, 1, 64, 4, 1000, 1)", 0),
    ],
    14: [
        ("labels_of([0, 1, 2], 'Hello!')", ["e", "l", "l"]),
        ("labels_of([3, 4, 5], 'Hello!')", ["o", "!", None]),
        ("labels_of([1, 3, 5], 'Hello!')", ["l", "o", None]),
        ("labels_of([0, 5], 'Hello!')", ["e", None]),
        ("mean_loss([6, 2], [2, 2])", 2),
        (f"mean_loss({FALLING})", 2),
        ("mean_loss([6, 0], [3, 0])", 2),
    ],
    15: [
        ("index_of(21, (2, 4, 2, 2), 1)", 2),
        ("index_of(21, (2, 4, 2, 2), 3)", 1),
        ("group_of(21, (2, 4, 2, 2), 1)", [17, 19, 21, 23]),
        ("group_of(21, (2, 4, 2, 2), 2)", [21, 29]),
        ("group_of(6, (4, 2, 2, 1), 1)", [2, 6]),
        ("group_of(5, (4, 2, 1, 1), 3)", [5]),
        *((f"group_of({rank}, (2, 3, 2, 1), 1)", [rank % 2 + rank // 6 * 6 + 2 * i for i in range(3)]) for rank in range(12)),
    ],
    17: [
        *((f"to_bf16({x})", nearest_in_bf16(x)) for x in (36.881, 257, 259, -259, 0, 1e-3, 70000, -0.7071)),
        ("sum_of([1] * 1000)", 1000),
        ("sum_of([256] + [1] * 10)", 266),
    ],
    19: [
        (f"ring_bytes({GROUPED})", 7 * 4096),
        (f"ulysses_bytes({GROUPED})", 7 * 4096 / 1.6),
        ("ulysses_bytes(4, 8, 8, 128, 2) / ring_bytes(4, 8, 8, 128, 2)", 0.5),
        ("ulysses_bytes(8, 32, 2, 128, 2)", 7 / 8 * 2 * (32 + 8) * 128 * 2),
        ("ulysses_bytes(16, 8, 8, 128, 2)", None),
        ("takes_ring(16, 8, 8, 128, 2, 1, 1000)", True),
        (f"takes_ring({GROUPED}, 267, 715)", False),
        (f"takes_ring({GROUPED}, 269, 715)", True),
    ],
    21: [
        ("hidden_share([(100, 200)], [(150, 400)])", 0.5),
        ("hidden_share([(160, 200)], [(150, 400)])", 1),
        ("hidden_share([(0, 20)], [(20, 120)])", 0),
        ("hidden_share([(0, 100), (200, 300)], [(10, 40), (60, 100), (200, 250)])", 0.6),
        (f"slow_rank([{FAST}, {FAST}, {SLOW}, {FAST}])", 2),
        (f"slow_rank([{SLOW}, {FAST}])", 0),
    ],
}  # fmt: skip


def is_right(mine, expected):
    if isinstance(expected, (list, tuple)) and isinstance(mine, (list, tuple)):
        return len(mine) == len(expected) and all(map(is_right, mine, expected))
    if isinstance(expected, (int, float)) and isinstance(mine, (int, float)):
        return math.isclose(mine, expected, rel_tol=1e-9, abs_tol=1e-12)
    return mine == expected


def check(lesson, path):
    """Print a line per case, and return whether all hold."""
    names = runpy.run_path(path)
    right = 0
    for call, expected in CASES[lesson]:
        try:
            mine = eval(call, {"math": math, **names})
            good, said = is_right(mine, expected), f"yours {mine}, expected {expected}"
        except Exception as error:  # of the learner's code
            good, said = False, f"{type(error).__name__}: {error}"
        right += good
        print(f"  ok    {call}" if good else f"  WRONG {call}: {said}")
    solved = right == len(CASES[lesson])
    print(f"solved: all {right} hold" if solved else f"not yet: {right} of {len(CASES[lesson])} hold")
    return solved


if __name__ == "__main__":
    sys.exit(not check(int(sys.argv[1]), sys.argv[2]))
