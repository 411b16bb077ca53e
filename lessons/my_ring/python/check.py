"""Check the steps of your ring: python3 check.py LESSON FOLDER

tests/lessons/exercises/my_ring_test.cpp does the same in C++. Ranks are threads with a clock that
counts work and bytes: a query-key pair takes one tick, and a message a tick for each 16 bytes.
"""

import copy
import queue
import sys
import threading
import traceback
from collections import Counter, defaultdict, deque
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from given import NONE, TILE, Block, Gradient, Queries, Rank, State

STEPS = {path.name[:2]: path.name for path in Path(__file__).parent.glob("[0-9][0-9]_*.py")}
TICKS_PER_BYTE = 1 / 16
DIM = 4
MOST_ERROR = 1e-12


class Exercise:
    """Prints one line per claim."""

    MOST_WRONG = 8  # this many are shown

    def __init__(self, is_folded):
        self.right = self.wrong = 0
        self.is_folded = is_folded
        self.scores, self.above = [], []

    def holds(self, what, good):
        if good:
            self.right += 1
        else:
            self.wrong += 1
        if good and self.wrong == 0 and not self.is_folded:
            print("  ok   ", what)
        elif not good and self.wrong <= self.MOST_WRONG + 1:
            print("  WRONG " + what if self.wrong <= self.MOST_WRONG else "  ...")

    def compare(self, good, what, yours, word, bound, why=""):
        self.holds(what if good else f"{what}: yours {yours:.9g}, {word} {bound:.9g}{why}", good)

    def near(self, what, yours, expected, tolerance, why=""):
        if np.isnan(yours):
            why = why or ". NaN comes from a state that has met no key"
        self.compare(abs(yours - expected) <= tolerance, what, yours, "expected", expected, why)

    def equal(self, what, yours, expected):
        self.near(what, yours, expected, 0)

    def at_most(self, what, yours, most):
        self.compare(yours <= most, what, yours, "at most", most)

    def runs(self, what, failure):
        self.holds(f"{what}: {failure or 'runs'}", not failure)

    def unfold(self, what):
        if self.is_folded and self.wrong == 0:
            print(f"  ok    {what}: {self.right} hold")
        self.is_folded = False

    def score(self, what, yours, par, unit=""):
        is_good = yours <= par + 1e-9 * abs(par) + 1e-9
        above = "" if is_good else "  above par"
        self.scores.append(f"  score  {what:<34} {yours:10.6g}{unit}, par {par:.6g}{unit}{above}")
        if not is_good:
            self.above.append(what)

    def finish(self):
        if self.wrong:
            print(f"not yet: {self.right} of {self.right + self.wrong} hold")
            return 1
        for line in self.scores:
            print(line)
        above = ", ".join(self.above)
        print(f"{f'right, but above par in {above}' if above else 'solved'}: all {self.right} hold")
        return 0


# ---
# Ranks.


def bytes_of(message):
    """Count the bytes of a message. Positions are free, because a rank can compute them."""
    if isinstance(message, State):
        return 8 * (len(message.out) + 2)
    both = (message.dk, message.dv) if isinstance(message, Gradient) else (message.k, message.v)
    return 8 * sum(np.size(matrix) for matrix in both)


class Network:
    def __init__(self):
        self.queues = defaultdict(queue.Queue)
        self.has_failed = False
        self.lock = threading.Lock()

    def queue(self, *key):
        with self.lock:
            return self.queues[key]

    def put(self, sender, to, kind, message, at):
        self.queue(sender, to, kind).put((copy.deepcopy(message), at))

    def take(self, sender, to, kind):
        for _ in range(200):  # of a hang, which lasts two seconds
            try:
                return self.queue(sender, to, kind).get(timeout=0.01)
            except queue.Empty:
                if self.has_failed:
                    break
        raise RuntimeError(f"rank {to} waits for ever for rank {sender}")


class CountingRank(Rank):
    def __init__(self, number, ranks, network):
        super().__init__(number, ranks)
        self.network = network
        self.exchange = None  # what carries hops out instead of start_hop and finish_hop
        self.now = self.computed = self.bytes = self.link_free = 0
        self.started = deque()
        self.met = Counter()  # how often each query and key, by their positions

    def scores(self, queries, rows, block, keys):
        if not isinstance(block, Block):
            kind = type(block).__name__
            raise RuntimeError(f"a {kind}, not a Block: hops end in the order they began in")
        counts = [part.stop - part.start for part in (rows, keys)]
        ends = rows.stop > len(queries.q) or keys.stop > len(block.k)
        if ends or min(counts) < 0 or max(counts) > TILE:
            tile = f"queries [{rows.start}, {rows.stop}) and keys [{keys.start}, {keys.stop})"
            raise RuntimeError(f"a tile of {tile} does not exist, or is too large")
        self.now += counts[0] * counts[1]
        self.computed += counts[0] * counts[1]
        self.met.update(product(queries.positions[rows].tolist(), block.positions[keys].tolist()))
        return queries.q[rows] @ block.k[keys].T / np.sqrt(block.k.shape[1])

    def start_hop(self, message):
        self.started.append((message, self.now))
        if self.exchange is None:
            self.bytes += bytes_of(message)
            self.network.put(self.number, self.next, "hop", message, self.now)

    def finish_hop(self):
        if not self.started:
            raise RuntimeError("finish_hop() without start_hop()")
        mine, started = self.started.popleft()
        if self.exchange is not None:
            return self.exchange(self, mine)
        message, sent = self.network.take(self.previous, self.number, "hop")
        self.link_free = max(sent, started, self.link_free) + TICKS_PER_BYTE * bytes_of(message)
        self.now = max(self.now, self.link_free)
        return message

    def send(self, to, message):
        self.bytes += bytes_of(message)
        self.network.put(self.number, to, "sent", message, self.now)
        self.now = max(self.now, self.network.take(to, self.number, "taken")[1])

    def receive(self, sender):
        message, sent = self.network.take(sender, self.number, "sent")
        self.now = max(sent, self.now) + TICKS_PER_BYTE * bytes_of(message)
        self.network.put(self.number, sender, "taken", None, self.now)
        return message


def run_ranks(count, body):
    """Run body(rank) for all ranks. Return them, and the failure of the one that failed first."""
    network = Network()
    ranks = [CountingRank(number, count, network) for number in range(count)]
    failures = []

    def run(rank):
        try:
            body(rank)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            where = f" ({Path(line.filename).name}, line {line.lineno})"
            failures.append(f"{error}{'' if isinstance(error, RuntimeError) else where}")
            network.has_failed = True

    threads = [threading.Thread(target=run, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ranks, failures[0] if failures else ""


def score_run(exercise, ranks, par_bytes, par_wall, par_all, par_most):
    wall, computed = max(rank.now for rank in ranks), [rank.computed for rank in ranks]
    n = len(ranks)
    exercise.score("bytes sent", sum(rank.bytes for rank in ranks), par_bytes)
    exercise.score("ticks", wall, par_wall)
    idle = 100 * (1 - sum(computed) / n / wall) if wall else 0
    exercise.score("idle share", idle, 100 * (1 - par_all / n / par_wall), " %")
    exercise.score("exposed ticks", wall - max(computed), par_wall - par_most)


# ---
# Problems.

NO_DIVISION = "P is not divided by l"
NO_DELTA = "delta is missing"
DELTA_OF_SUMS = "delta is made of an out that is not divided by l"


class Problem:
    def __init__(self, seqlen, causal, size=1):
        self.seqlen = seqlen
        random = np.random.default_rng(1)
        self.q, self.k, self.v, self.dout = random.standard_normal((4, seqlen, DIM))
        self.q *= size
        self.allowed = np.tri(seqlen, dtype=bool) | (not causal)
        self.exact = self.attention()

    def attention(self, mistake="", rows=slice(None), met=None):
        """Return the output, and what these rows add to the gradients. `met`: pairs not masked."""
        scores = self.q @ self.k.T / np.sqrt(DIM)
        m = np.where(self.allowed, scores, NONE).max(axis=1, keepdims=True)
        e = np.exp(scores - m)
        l = (e * self.allowed).sum(axis=1, keepdims=True)
        out = e * self.allowed @ self.v / l
        p = e * (self.allowed if met is None else met) / (1 if mistake == NO_DIVISION else l)
        delta = (self.dout * out).sum(axis=1, keepdims=True)
        delta *= {NO_DELTA: 0, DELTA_OF_SUMS: l}.get(mistake, 1)
        ds = p * (self.dout @ self.v.T - delta) / np.sqrt(DIM)
        if met is not None:
            out = p @ self.v / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
        return SimpleNamespace(
            out=out, dq=ds @ self.k, dk=ds[rows].T @ self.q[rows], dv=p[rows].T @ self.dout[rows]
        )

    def queries(self, at):
        return Queries(np.asarray(at), self.q[at], self.dout[at])

    def block(self, at):
        return Block(np.asarray(at), self.k[at], self.v[at])


def contiguous(rank, ranks, seqlen):
    return np.arange(rank * seqlen // ranks, (rank + 1) * seqlen // ranks)


def no_keys(count):
    return [State(NONE, 0, np.zeros(DIM)) for _ in range(count)]


def outputs_of(states):
    with np.errstate(all="ignore"):
        return np.array([state.out / state.l for state in states])


def error_of(yours, exact):
    yours = np.asarray(yours, float)
    return np.abs(yours - exact).max(initial=0) if yours.shape == exact.shape else np.inf


def ranks_text(count):
    return f"{count} rank" if count == 1 else f"{count} ranks"


def all_bytes(seqlen):
    """Return the bytes of K and V, or of their gradients, that a sequence has."""
    return seqlen * 2 * DIM * 8


# ---
# What a common mistake leaves behind. Each returns a sentence, or nothing.


def who_met_whom(problem, met, rows):
    for query in rows:
        for key in np.flatnonzero(problem.allowed[query]).tolist():
            times = met[query, key]
            if times != 1:
                often = {0: "never", 2: "twice"}.get(times, f"{times} times")
                return f". Query {query} meets key {key} {often}"
    return ""


def pairs_met(problem, met):
    pairs = np.zeros_like(problem.allowed)
    pairs[tuple(np.array(list(met)).T)] = True
    return pairs


def why_carried_wrong(before, state, scores, values, expected):
    if not isinstance(state, State) or np.shape(state.out) != expected.out.shape:
        return ""
    if np.isnan(state.l):
        return ". NaN comes from -inf - -inf, where no key has been met"
    if expected.l > 0 and np.allclose(state.out, expected.out / expected.l):
        return ". out is divided by l, and should stay a sum"
    p = np.exp(scores - expected.m)
    lacks = {"l": np.isclose(state.l, before.l + p.sum())}
    lacks["out"] = np.allclose(state.out, before.out + p @ values)
    names = " and ".join(name for name in lacks if before.l > 0 and lacks[name])
    return names and f". What {names} had before needs the factor exp(old m - new m)"


def why_states_wrong(problem, met, rows, states):
    """`rows` are the positions of the states."""
    if all(state.l == 0 for state in states):
        return ". No state has met a key"
    why = who_met_whom(problem, met, rows)
    if not why and error_of([state.out for state in states], problem.exact.out[rows]) < 1e-9:
        why = ". The states are divided by l, and should stay sums"
    unmasked = problem.attention(met=pairs_met(problem, met)).out
    if not why and error_of(outputs_of(states), unmasked[rows]) < 1e-9:
        why = ". Forbidden pairs of the tiles count, too"
    return why


def why_gradient_wrong(problem, met, which, at, yours):
    """at[r] has the positions of rank r's rows, and yours[r] their gradients."""
    n = len(at)

    def is_that(gradients, to=0):
        gradient = getattr(gradients, which)
        return all(error_of(yours[r], gradient[at[(r + to) % n]]) < 1e-9 for r in range(n))

    why = who_met_whom(problem, met, range(problem.seqlen))
    if why:
        return why
    if is_that(problem.attention(met=pairs_met(problem, met))):
        return ". Forbidden pairs of the tiles count, too"
    for mistake in (NO_DIVISION, NO_DELTA, DELTA_OF_SUMS):
        if is_that(problem.attention(mistake)):
            return f". This comes out if {mistake}"
    exact = vars(problem.exact)
    for factor, text in ((0, "zeros"), (np.sqrt(DIM), "sqrt(d) times what they should be")):
        if is_that(SimpleNamespace(**{name: factor * exact[name] for name in exact})):
            return f". All are {text}"
    for to in range(1, n):
        if is_that(problem.exact, to):
            return f". Rank 0 has that of rank {to}'s block, which isn't home yet"
    for rows, name in ((at[0][-1:], "query"), (at[0][-TILE:], "tile")):
        if n == 1 and is_that(problem.attention(rows=rows)):
            return f". It is what the last {name} adds, not the sum"
    shares = [getattr(problem.attention(rows=rows), which) for rows in at]
    for lag in range(n):
        if all(error_of(yours[r], shares[(r + lag) % n][at[r]]) < 1e-9 for r in range(n)):
            return ". It is what one rank's queries add, not the sum over the ranks"
    return ""


def why_merged_wrong(found, parts):
    """`parts` are the states of the ranks that hold keys."""
    with np.errstate(all="ignore"):
        out = found.out / found.l
    if np.allclose(out, parts[0].out / parts[0].l):
        return ". It is rank 0's part alone"
    if np.allclose(out, sum(part.out for part in parts) / sum(part.l for part in parts)):
        return ". The parts are added without their factors exp(m - new m)"
    return ""


# ---
# The checks, in the order in which the functions are written.


def state_of(scores, values):
    m = max(scores)
    if m == NONE:
        return State(NONE, 0, np.zeros(values.shape[1]))
    p = np.exp(scores - m)
    return State(m, p.sum(), p @ values)


def is_same(a, b):
    return (
        isinstance(a, State)
        and a.m == b.m
        and abs(a.l - b.l) <= MOST_ERROR
        and np.shape(a.out) == b.out.shape
        and bool(np.all(np.abs(a.out - b.out) <= 1e-10))
    )


def text_of(state):
    if not isinstance(state, State):
        return f"no State but {state!r}"
    return f"{state.m:.6g}, {state.l:.6g}, " + " ".join(f"{x:.6g}" for x in np.ravel(state.out))


def check_carry_on(exercise, mine):
    for shift in (0, 1000, -1000):
        scores = np.array([NONE, NONE, shift + 1, shift + 3, NONE, shift + 5, shift - 2])
        values = np.array([[7.0, 7], [7, 7], [10, -1], [20, 2], [7, 7], [30, 5], [-5, 0]])
        for piece in (1, 2, 3, 7):
            state, name = State(NONE, 0, np.zeros(2)), f"scores near {shift} in pieces of {piece}"
            for first in range(0, 7, piece):
                to = min(first + piece, 7)
                before, piece_of = state, (scores[first:to], values[first:to])
                state = mine.carry_on(copy.deepcopy(before), *piece_of)
                expected = state_of(scores[:to], values[:to])
                if not is_same(state, expected):
                    both = f"yours {text_of(state)}, expected {text_of(expected)}"
                    why = why_carried_wrong(before, state, *piece_of, expected)
                    name += f", after {to} scores: m, l, out: {both}{why}"
                    break
            exercise.holds(name, is_same(state, expected))
    none = State(NONE, 0, np.zeros(2))
    after = mine.carry_on(none, np.full(2, NONE), np.array([[1.0, 2], [3, 4]]))
    good = is_same(after, State(NONE, 0, np.zeros(2)))
    name = "forbidden keys alone leave no trace"
    exercise.holds(name if good else f"{name}: m, l, out: yours {text_of(after)}", good)


def check_tiles(exercise, mine):
    for seqlen in (8, 21, 5):
        problem, states, name = Problem(seqlen, False, 5), no_keys(seqlen), f"{seqlen} rows"
        at = np.arange(seqlen)
        queries, block = problem.queries(at), problem.block(at)
        ranks, failure = run_ranks(1, lambda rank: mine.attend(rank, queries, block, states))
        exercise.runs(name, failure)
        error = error_of(outputs_of(states), problem.exact.out)
        why = ""
        if not error <= MOST_ERROR and not failure:
            why = why_states_wrong(problem, ranks[0].met, at, states)
        exercise.near(f"{name}: error", error, 0, MOST_ERROR, why)
        exercise.equal(f"{name}: pairs computed", ranks[0].computed, seqlen**2)


def check_ring(exercise, name, problem, n, deal, attend, mine, backward=False, exchange=None):
    found = [{} for _ in range(n)]
    at = [deal(r, n, problem.seqlen) for r in range(n)]

    def run(rank):
        rank.exchange = exchange
        rows = at[rank.number]
        queries, own = problem.queries(rows), problem.block(rows)
        states = mine.ring_forward(rank, queries, own, attend)
        found[rank.number].update(out=outputs_of(states), states=states)
        if backward:
            rank.met.clear()
            dq = np.zeros((len(rows), DIM))
            home = mine.ring_backward(rank, queries, own, states, dq)
            found[rank.number].update(dq=dq, dk=home.dk, dv=home.dv)

    ranks, failure = run_ranks(n, run)
    exercise.runs(name, failure)
    for which, what, most in (
        ("out", "the output", MOST_ERROR),
        *((("dq", "dQ", 1e-11), ("dk", "dK", 1e-11), ("dv", "dV", 1e-11)) if backward else ()),
    ):
        exact = getattr(problem.exact, which)
        yours = [found[r].get(which, []) for r in range(n)]
        error = max(map(error_of, yours, (exact[rows] for rows in at)), key=lambda e: (e != e, e))
        why = ""
        if not error <= most and not failure:
            met = sum((rank.met for rank in ranks), Counter())
            if which == "out":
                states = [state for each in found for state in each["states"]]
                why = why_states_wrong(problem, met, np.concatenate(at), states)
            else:
                why = why_gradient_wrong(problem, met, which, at, yours)
        exercise.near(f"{name}: error of {what}", error, 0, most, why)
    return ranks, failure


def check_interleaved(exercise, mine):
    problem = Problem(32, True)
    rows = np.array([0, 5, 9, 12, 14, 15, 18, 19, 21, 24, 27, 28, 31])
    keys = np.array([3, 4, 7, 8, 11, 13, 16, 17, 20, 22, 25, 26, 30])
    states, name = no_keys(len(rows)), "a tile that only its last query sees"

    def run(rank):
        for block in (keys, np.setdiff1d(np.arange(32), keys)):
            mine.attend_causal(rank, problem.queries(rows), problem.block(block), states)

    ranks, failure = run_ranks(1, run)
    exercise.runs(name, failure)
    error = error_of(outputs_of(states), problem.exact.out[rows])
    why = ""
    if not error <= MOST_ERROR and not failure:
        why = why_states_wrong(problem, ranks[0].met, rows, states)
    exercise.near(f"{name}: error", error, 0, MOST_ERROR, why)


def check_deal(exercise, mine):
    for ranks in (1, 2, 3, 4):
        dealt = [mine.positions_of(r, ranks, 48) for r in range(ranks)]
        count = Counter(np.concatenate(dealt).tolist())
        wrong = [position for position in range(48) if count[position] != 1]
        why = f", but {wrong[0]} is there {count[wrong[0]]} times" if wrong else ""
        if any(np.any(np.diff(rows) <= 0) for rows in dealt):
            why = why or ", but they don't grow"
        exercise.holds(f"{ranks_text(ranks)}: every position once{why}", not why)


def check_exchange(exercise, mine):
    for count in range(2, 10):
        got, name = [None] * count, f"a hop of {ranks_text(count)}"

        def run(rank):
            got[rank.number] = mine.exchange(rank, State(rank.number, 0, np.zeros(14))).m

        ranks, failure = run_ranks(count, run)
        exercise.runs(name, failure)
        right = [(r - 1) % count for r in range(count)]
        why = "" if got == right else f", but rank 0 gets that of {got[0]}"
        exercise.holds(f"{name}: brings the previous rank's message{why}", got == right)
        sends = max(rank.now for rank in ranks) / (128 * TICKS_PER_BYTE)
        exercise.at_most(f"{name}: {sends:.0f} sends one after another", sends, 3)
        if failure:
            return False
    return True


def check_decode(exercise, mine, causal):
    last = causal.seqlen - 1
    for count in (1, 2, 3, 5, 8):
        holders = min(count, 6)  # the ranks from 6 on hold no key
        found, name = no_keys(1), f"decode, {ranks_text(count)}"

        def run(rank):
            own = np.array([], int)
            if rank.number < holders:
                own = contiguous(rank.number, holders, causal.seqlen)
            state = mine.decode(rank, causal.queries([last]), causal.block(own))
            if rank.number == 0:
                found[0] = state

        ranks, failure = run_ranks(count, run)
        exercise.runs(name, failure)
        error = error_of(outputs_of(found), causal.exact.out[[last]])
        scores = causal.q[last] @ causal.k.T / np.sqrt(DIM)
        held = [contiguous(r, holders, causal.seqlen) for r in range(holders)]
        parts = [state_of(scores[rows], causal.v[rows]) for rows in held]
        exercise.near(f"{name}: error", error, 0, MOST_ERROR, why_merged_wrong(found[0], parts))
    # 7 states of 6 numbers; 22 keys on the rank that has most; three messages one after another.
    rounds = (max(rank.now for rank in ranks) - 22) / (48 * TICKS_PER_BYTE)
    exercise.at_most("decode, 8 ranks: messages one after another", rounds, 3)
    score_run(exercise, ranks, 7 * 48, 22 + 3 * 48 * TICKS_PER_BYTE, causal.seqlen, 22)


def check(step, mine):
    """Check the steps up to lesson `step`. Return the exit status."""
    exercise = Exercise(is_folded=step > 3)

    def comes(number, before):
        if number == step:
            exercise.unfold("lesson 3" if number == 4 else f"lessons 3 to {before}")
        return step >= number

    n, seqlen = 4, 128
    full, causal = Problem(seqlen, False), Problem(seqlen, True)
    bytes_forward, bytes_both = (n - 1) * all_bytes(seqlen), (3 * n - 2) * all_bytes(seqlen)
    # 136 tiles of 8 x 8 are not forbidden. The last rank has rows of 13, 14, 15 and 16 of them.
    of_all, of_last = 136 * 64, (13 + 14 + 15 + 16) * 64

    check_carry_on(exercise, mine)
    if comes(4, 3):
        check_tiles(exercise, mine)
    if comes(6, 4):
        for ranks in (1, 2, 3):
            problem = Problem(48, False)
            check_ring(exercise, ranks_text(ranks), problem, ranks, contiguous, mine.attend, mine)
        ran, _ = check_ring(exercise, "4 ranks", full, n, contiguous, mine.attend, mine)
        if step == 6:
            share = seqlen**2 / n
            score_run(exercise, ran, bytes_forward, share, seqlen**2, share)
    if comes(7, 6):
        for position in (-1, 0, 3, 4, 9, 10):
            expected = sum(position >= key for key in (0, 1, 4, 9))
            found = mine.visible(position, np.array([0, 1, 4, 9]))
            exercise.equal(f"visible at {position}", found, expected)
        check_interleaved(exercise, mine)
        name, few = "causal, 3 ranks of 7 rows", Problem(21, True)
        check_ring(exercise, name, few, 3, contiguous, mine.attend_causal, mine)
        name, attend = "causal, 4 ranks", mine.attend_causal
        ran, _ = check_ring(exercise, name, causal, n, contiguous, attend, mine)
        if step == 7:
            score_run(exercise, ran, bytes_forward, of_last, of_all, of_last)
    if comes(8, 7):
        check_deal(exercise, mine)
        if len(mine.positions_of(0, n, seqlen)) == 0:
            return exercise.finish()
        deal = mine.positions_of
        ran, _ = check_ring(exercise, "zigzag, 4 ranks", causal, n, deal, attend, mine)
        ticks = [rank.computed for rank in ran]
        name = "zigzag: ticks of the rank with most work"
        exercise.near(name, max(ticks), of_all / n, 0, f". The ranks have {ticks}")
        if step == 8:
            score_run(exercise, ran, bytes_forward, of_all / n, of_all, of_all / n)
    if comes(9, 8):
        for ranks in (1, 2, 3):
            name, problem = f"backward, {ranks_text(ranks)}", Problem(48, True)
            check_ring(exercise, name, problem, ranks, deal, attend, mine, backward=True)
        name = "backward, 4 ranks"
        ran, _ = check_ring(exercise, name, causal, n, deal, attend, mine, backward=True)
        if step == 9:
            # A gradient makes a hop more than its block; the last one has nothing to hide behind.
            wall = 2 * of_all / n + all_bytes(seqlen) / n * TICKS_PER_BYTE
            score_run(exercise, ran, bytes_both, wall, 2 * of_all, 2 * of_all / n)
    if comes(13, 9):
        if not check_exchange(exercise, mine):
            return exercise.finish()
        name, over = "exchange, 4 ranks", mine.exchange
        ran, _ = check_ring(exercise, name, causal, n, deal, attend, mine, True, over)
        if step == 13:
            # Nothing is hidden: 3 hops forward and 7 backward, each of two sends one after another.
            wall = 2 * of_all / n + 2 * bytes_both / n * TICKS_PER_BYTE
            score_run(exercise, ran, bytes_both, wall, 2 * of_all, 2 * of_all / n)
    if comes(16, 13):
        check_decode(exercise, mine, causal)
    return exercise.finish()


def load(step, folder):
    """Run the steps up to lesson `step` one after the other, so that each sees those before it."""
    names = {}
    for number, name in sorted(STEPS.items()):
        if int(number) <= step:
            path = Path(folder) / name
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return SimpleNamespace(**names)


def main(step, folder):
    try:
        return check(step, load(step, folder))
    except Exception as error:  # of the learner's code
        line = traceback.extract_tb(error.__traceback__)[-1]
        name, number = Path(line.filename).name, line.lineno
        if isinstance(error, SyntaxError):
            name, number, error = Path(error.filename).name, error.lineno, error.msg
        print(f"  WRONG {name}, line {number}: {error}\nnot yet")
        return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
