#!/usr/bin/env python3
"""How good the simulator's predictions are, of runs that others measured: every row of a CSV of published
measurements is predicted from what its source gives of one device and its links, rings by `ringscope simulate`, and
predictions are compared with what was measured. The model knows devices, implementations and tiles; it knows no row.

    bench/published.py [--ringscope FILE] [--csv FILE] [--page FILE]

Without --csv it takes bench/published/runs.csv; any file with the same columns will do. Sizes that it leaves out are 1
(batch), those of the queries (kv_heads) or 128 (head_dim). A figure may be a mean over several layouts of documents:

    note "documents x8: [A,B] [C]"       those lists, scaled to the sequence
    mask "(8 segments, 90 % filled)"     that many equal ones, and the rest empty
    mask "varlen..."                     the packs of MagiAttention's benchmark (packs.csv)
    mask with "documents"                8 equal ones
    any other                            one document

Rows that gave a kernel's speed, and those that a machine's two costs were fitted on, are marked, and are not counted.
Two rows are a comparable pair where only the scheme differs and the figures differ by more than they can be read, and
by more than 2 %. The last line is `MAPE x %, y of z pairs ranked as published`.
"""
import argparse
import collections
import concurrent.futures
import csv
import itertools
import json
import math
import operator
import os
import pathlib
import re
import subprocess
import tempfile
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "bench/published"
COLUMNS = ("source,hardware,link,world_size,seqlen,batch,heads,kv_heads,head_dim,dtype,mask,pass,scheme,metric,value,"
           "note").split(",")
NODE_RANKS = 8
TILE_ROWS = 128  # of the kernels
DIAGONAL = 1.06  # times as many keys in a block with a diagonal: its rows are unequal
BACKWARD_STEP = 1.3  # calls and memory traffic of a backward step over a forward one

# ---
# What the files say. A machine has two kernels' rates, those of its links (inside a node, and a device's to other
# nodes) and memory, and two costs that are fitted: bytes of memory traffic that merging two blocks' results takes for
# each value of the output, and seconds that a ring step, or the pass of another scheme, takes besides.


def read_machine(row):
    texts = ("name", "source", "device", "implementation", "fitted_on", "given_by")
    return SimpleNamespace(**{name: text if name in texts else float(text or 0) for name, text in row.items()})


with open(DATA / "machines.csv", newline="") as file:
    MACHINES = list(map(read_machine, csv.DictReader(file)))  # the last ones are defaults, by device
# The documents that the sampler of MagiAttention's benchmark draws with its seed (42, of numpy's default generator) for
# each number of positions that its figures have, pack by pack.
PACKS = collections.defaultdict(lambda: collections.defaultdict(list))
with open(DATA / "packs.csv", newline="") as file:
    for positions, pack, length, documents in itertools.islice(csv.reader(file), 1, None):
        PACKS[int(positions)][int(pack)] += [int(length)] * int(documents)


def size_in(text, otherwise=None):
    size = otherwise if otherwise and text in ("", "-") else int(text)
    if size < 1:
        raise ValueError(f"{size} given; accepted: at least 1")
    return size


def read_row(fields, line):
    if len(fields) != len(COLUMNS):
        raise ValueError(f"{len(fields)} fields; accepted: {len(COLUMNS)}")
    row = SimpleNamespace(**dict(zip(COLUMNS, fields)), line=line)
    row.world_size, row.seqlen, row.heads = size_in(row.world_size), size_in(row.seqlen), size_in(row.heads)
    row.batch, row.head_dim = size_in(row.batch, 1), size_in(row.head_dim, 128)
    row.kv_heads = size_in(row.kv_heads, row.heads)
    row.value = float(row.value) if row.value else None
    if row.value is not None and not 0 < row.value < math.inf:
        raise ValueError(f"value {row.value} given; accepted: a number above 0, or nothing")
    row.passes = fields[COLUMNS.index("pass")]
    row.is_causal = "causal" in row.mask or row.mask == "not stated"
    row.machine = next(m for m in MACHINES
                       if m.source in row.source and m.device in row.hardware and m.implementation in row.scheme)
    key = f"{row.hardware} {row.seqlen} {row.mask} {row.passes} {row.scheme}"
    row.use = "fitted" if key in row.machine.fitted_on.split("|") else "kernel" if row.scheme == "kernel" else ""
    return row


def read_published(path):
    rows, line = [], 1
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        records = csv.reader(file, strict=True)
        try:
            if next(records, None) != COLUMNS:
                raise ValueError(f"another header given; accepted: {','.join(COLUMNS)}")
            line = records.line_num + 1
            for fields in records:
                rows += [read_row(fields, line)] if fields else []
                line = records.line_num + 1
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
    if not rows:
        raise ValueError(f"{path}: no row; accepted: one or more")
    return rows


def layouts_of(row):
    """Return the layouts that a row's figure is a mean over: the lengths of a sequence's documents, in order."""
    if "documents" not in row.mask and "varlen" not in row.mask:
        return [[row.seqlen]]
    text = row.note
    if "4 layouts" in row.mask and "[" not in text:
        text = "[8192] [256,7392,544] [4096,4096] [3104,3200,1600,160,128]"
    layouts = [[float(length) for length in re.findall(r"\d+", inside) if int(length)]
               for inside in re.findall(r"\[([^\]]*)", text)]
    if "varlen" in row.mask:  # of the next longer sequence that there is, or of the longest
        layouts = PACKS[min((known for known in PACKS if known >= row.seqlen), default=max(PACKS))].values()
    if any(layouts):
        return [[length * row.seqlen / sum(lengths) for length in lengths] for lengths in layouts if lengths]
    found = re.search(r"\((\d{1,5}) segments(?:, (\d\d) %)?", row.mask)
    segments, filled = (int(found[1]) or 1, float(found[2] or 100)) if found else (8, 100)
    return [[row.seqlen * filled / 100 / segments] * segments]


# ---
# Predictions.


# Seconds of simulated rings: by ranks, hops and pass, and then by the times of their blocks. Nan: not yet; text: why
RINGS = collections.defaultdict(dict)


def ring_seconds(ranks, values, bytes_per_s, is_backward, block_s):
    """Return the seconds of a pass of a ring with two KV buffers, in which attending a block takes a rank so long if it
    is of an earlier rank, its own, or of a later one, and a hop carries `values` values of K and as many of V. It is
    nan until simulate_rings() has been called. Throw ValueError that says why it can't be simulated."""
    seconds = RINGS[ranks, values, bytes_per_s, is_backward].setdefault(block_s, math.nan)
    if isinstance(seconds, str):
        raise ValueError(seconds)
    return seconds


def simulate_rings(alike):
    """Have `ringscope simulate` simulate rings with the same hops.

    A simulated rank has so many rows that the share of them that attend a block's keys is the block's share of the
    longest time. A row has one value, so the link is slower by as much."""
    (ranks, values, bytes_per_s, is_backward), rings = alike
    pending = [block_s for block_s, seconds in rings.items() if seconds is math.nan]
    if not pending:
        return
    rows, longest = (1 << 30) // ranks, max(map(max, pending))
    flops = (10 if is_backward else 4) * rows * rows  # of a block that all rows attend
    with tempfile.TemporaryDirectory() as folder:
        masks = [pathlib.Path(folder, str(i)) for i in range(len(pending))]
        for mask, block_s in zip(masks, pending):
            slices = ""
            for first in range(0, ranks * rows, rows):
                bounds = (0, first, first + rows, ranks * rows)  # of the keys of earlier, own and later blocks
                for seconds, begin, end in zip(block_s, bounds, bounds[1:]):
                    busy = round(rows * seconds / longest)
                    if busy > 0 and begin < end:
                        slices += f"{first} {first + busy} {begin} {end} full\n"
            mask.write_text(slices)
        machine = pathlib.Path(folder, "machine")
        machine.write_text(f"gpu rank\ntflops_16bit {flops / longest / 1e12!r}\nmemory_gb 1\n"
                           f"link hop\ngb_per_s {bytes_per_s * rows / values / 1e9!r}\n")
        command = [options.ringscope, "simulate", "--json", "--gpu", machine, "--link", machine, "--kv-buffers", 2,
                   "--hops", "all", "--world-size", ranks, "--seqlen", ranks * rows, "--heads", 1, "--head-dim", 1,
                   "--dtype", "bf16", "--sweep", "mask=" + ",".join(f"ranges:{mask}" for mask in masks),
                   *["--backward"] * is_backward]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    for block_s, point in zip(pending, json.loads(done.stdout)["sweep"]):
        rings[block_s] = point["why_not"] or point["backward_s" if is_backward else "forward_s"]


class Job:
    """A pass of what a row describes, in numbers. The methods from ring_s() on are schemes, and return seconds."""

    def __init__(self, row, machine, is_backward):
        self.scheme, self.machine, self.is_causal, self.is_backward = row.scheme, machine, row.is_causal, is_backward
        self.is_step = row.passes == "one ring step"
        self.ranks, self.positions, self.rows = row.world_size, row.seqlen, row.seqlen / row.world_size
        self.heads, self.kv_heads = row.heads, row.kv_heads
        self.head_values = row.batch * row.head_dim  # of a position, in one head
        self.link_bytes_per_s, self.network_bytes_per_s = machine.link_bytes_per_s, machine.network_bytes_per_s
        self.ring_link_bytes_per_s = machine.link_bytes_per_s
        if "PCIe" in row.link:
            self.ring_link_bytes_per_s /= 2  # a hop is written to the host's bridge and read from it
        own = "own_" if "magi" in row.scheme and machine.own_forward_flops > 0 else ""
        kernel = own + ("backward" if is_backward else "forward")
        # A row of queries that attends K keys takes as long as K + start_keys at the full rate: the loop over keys
        # begins and ends once whatever its length.
        self.start_keys = getattr(machine, kernel + "_start_keys")
        # Heads of less than 128 values fill the matrix units less; the exponentials stay as many.
        rate = getattr(machine, kernel + "_flops") * min(1, (row.head_dim + 160) / 288)
        self.head_flops = (10 if is_backward else 4) * self.head_values  # of a pair, in one head
        self.head_s = self.head_flops / rate
        self.call_s = machine.call_s * (2 if is_backward else 1)

    def memory_s(self, size):
        return size / self.machine.memory_bytes_per_s

    def merge_s(self, rows, heads):
        return self.memory_s(self.machine.step_bytes * rows * heads * self.head_values)

    def effective(self, rows, keys):
        """Return the effective pairs of rows that attend so many keys: with starts of loops, and in whole tiles."""
        return math.ceil(rows / TILE_ROWS - 1e-9) * TILE_ROWS * (keys + self.start_keys)

    def whole_s(self, layout, heads, ranks=1, parts=1):
        """Return the time of whole documents dealt out over `ranks`, where each document is cut into equal parts, which
        begin and end with tiles of their own."""
        pairs = sum(parts * self.effective(length / parts, length / 2 + TILE_ROWS / 2 if self.is_causal else length)
                    for length in layout)
        return pairs / ranks * heads * self.head_s

    def block_pairs(self, layout, ranks, deal, block):
        """Return the effective pairs of a rank with an earlier block, its own, or a later one. Documents are dealt out
        one by one."""
        pairs = 0
        for length in layout:
            rows = keys = length / ranks
            if self.is_causal and (block == "own" or deal == "striped"):
                keys = (rows / 2 + min(rows, TILE_ROWS) / 2) * DIAGONAL
            elif self.is_causal and deal == "zigzag":
                rows, keys = (rows, keys / 2) if block == "earlier" else (rows / 2, keys)
            elif self.is_causal and block == "later":
                continue
            pairs += self.effective(rows, keys)
        return pairs

    def contiguous_pairs(self, layout):
        """Return the effective pairs of the rank with most, where ranks hold consecutive parts of the sequence and all
        keys, as after an all-gather."""
        pairs = [0] * self.ranks
        for rank in range(self.ranks):
            begin = 0
            for length in layout:
                low, high = max(rank * self.rows, begin), min((rank + 1) * self.rows, begin + length)
                if low < high:
                    pairs[rank] += self.effective(high - low, (low + high) / 2 - begin if self.is_causal else length)
                begin += length
        return max(pairs)

    def ring_s(self, layout, ranks, heads, kv_heads, deal, ports):
        """Return the time of a ring of `ranks` that hold so many heads. Messages between nodes share nothing but a
        device's own port to the network. A flat ring has one sender a node, whose port takes what all of the node need,
        so its hops are twice as long: 2 `ports`. 0: the ring stays inside a node."""
        bytes_per_s = self.network_bytes_per_s / ports if ports else self.ring_link_bytes_per_s
        if self.is_backward:
            bytes_per_s *= 12 / 8  # gradients travel in 16 bits in these implementations, and in f32 in ours
        # The first block's result is the accumulator; the others are merged into it.
        step_s = self.machine.call_s + (1 - 1 / ranks) * self.merge_s(self.positions / ranks, heads)
        block_s = []
        for block in ("earlier", "own", "later"):
            pairs = self.block_pairs(layout, ranks, deal, block)
            calls = (BACKWARD_STEP if self.is_backward else 1) if pairs > 0 else 0
            block_s.append(pairs * heads * self.head_s + calls * step_s)
        values = math.ceil(self.positions / ranks) * kv_heads * self.head_values
        return ring_seconds(ranks, values, bytes_per_s, self.is_backward, tuple(block_s))

    def hybrid_s(self, layout, inner):
        """Heads dealt out over `inner` ranks, and a ring of the others around each: the all-to-alls of Ulysses, a ring,
        or both."""
        outer = max(1, self.ranks // inner)
        is_2d, kv_heads = "2d" in self.scheme, max(self.kv_heads, inner)  # repeated
        seconds = 0
        if inner > 1:
            size = 4 * self.rows * (self.heads + kv_heads) * self.head_values  # Q and the output; K and V
            inside = min(inner, NODE_RANKS)
            seconds = self.call_s + max(size * (inside - 1) / inner / self.link_bytes_per_s,
                                        size * (inner - inside) / inner / self.network_bytes_per_s)
            seconds += self.memory_s(8 * size)  # into the order of heads and back
        if outer == 1:
            if is_2d or "usp" in self.scheme:  # which go through the ring's merge even there
                seconds += self.merge_s(self.rows, self.heads)
            return seconds + self.whole_s(layout, self.heads / inner)
        ports = 0 if self.ranks <= NODE_RANKS else 1 if inner > 1 and not is_2d else 2
        # Two rings, one within the other: a gradient's hop to another node begins when the inner ring is done, and its
        # first step waits for it (MagiAttention's exps/dist_attn/baselines/loongtrain.py).
        if is_2d and self.is_backward:
            size = 4 * self.positions * kv_heads / inner * self.head_values
            seconds += size * ports / self.network_bytes_per_s
        return seconds + self.ring_s(layout, outer, self.heads / inner, kv_heads / inner, deal_of(self.scheme), ports)

    def allgather_s(self, layout):
        """Gather all K and V, then attend. The backward pass scatters the gradients, which those that were measured
        hold of every query head first."""
        all_kv = 4 * self.positions * self.kv_heads * self.head_values
        gathered = all_kv * (self.ranks - 1) / self.ranks
        moving = gathered / self.link_bytes_per_s
        if self.ranks > NODE_RANKS:
            moving = max(moving, gathered / NODE_RANKS / self.network_bytes_per_s)
        if "contiguous" in self.scheme:
            attending = self.contiguous_pairs(layout) * self.heads * self.head_s
        else:
            in_stripes = "stripes" in self.scheme  # which packs tiles of several documents
            attending = self.whole_s(layout, self.heads, self.ranks, 1 if in_stripes else 2 * self.ranks)
            attending *= (DIAGONAL if in_stripes else 1) * (DIAGONAL if self.is_causal and self.is_backward else 1)
        seconds = attending + self.memory_s(2 * all_kv) + moving
        if self.is_backward:
            seconds += moving
            if "llama3" not in self.scheme:
                seconds += self.memory_s(36 * self.positions * self.heads * self.head_values)
        return seconds

    def magi_s(self, layout):
        """Chunks of 2,048 rows dealt out for balance, each with just the keys that it needs, which move while the
        device computes on what it has."""
        needed = 0  # keys of other ranks that a rank attends
        for length in layout:
            chunks = length / 2048
            needed += (length * chunks / 2 / self.ranks if chunks <= 1 else
                       (0.75 if self.is_causal else 1) * length * (1 - (1 - 1 / self.ranks) ** chunks))
        is_native = "native" in self.scheme  # a node is sent each key once
        share = max(0, self.ranks - NODE_RANKS) / (self.ranks - 1)  # of messages that go to other nodes
        uneven = 1.5 if len(layout) > 1 and share > 0 else 1
        size = uneven * min(needed, self.positions) * (self.ranks - 1) / self.ranks
        size *= 4 * self.kv_heads * self.head_values * (2 if self.is_backward else 1)
        moving = max(size * share / (2 if is_native else 1) / self.network_bytes_per_s, size / self.link_bytes_per_s)
        work = self.whole_s(layout, self.heads, self.ranks)
        packed = 0 if is_native else self.memory_s(4 * size)  # for the library's all-to-all
        queries = self.memory_s(4 * self.rows * self.heads * self.head_values)
        return max(work, moving) + min(work, moving) / 3 + packed + queries  # the rest is hidden

    def seconds(self, layout):
        if self.is_step:
            return max(4 * self.rows * self.kv_heads * self.head_values / self.link_bytes_per_s,
                       self.rows * self.rows * self.heads * self.head_s)
        if self.scheme == "kernel" or self.ranks == 1:
            return self.whole_s(layout, self.heads)
        if "magi" in self.scheme:
            return self.call_s + self.magi_s(layout)
        if "hybrid_dcp" in self.scheme and len(layout) > 1:
            # Whole documents, or parts of the longest, on subgroups of ranks. Their loads differ more the more ranks.
            uneven = (1.6 if self.is_backward else 1.3) * max(1, math.log2(self.ranks) / 3)
            return self.call_s + 2 * self.machine.call_s + uneven * self.whole_s(layout, self.heads, self.ranks)
        if "hybrid_dcp" in self.scheme:
            ports = 2 if self.ranks > NODE_RANKS else 0
            return self.ring_s(layout, self.ranks, self.heads, self.kv_heads, "zigzag", ports)
        if "allgather" in self.scheme:
            return self.call_s + self.allgather_s(layout)
        found = re.search(r"ulysses ([1-9]\d{0,3})", self.scheme)
        inner = int(found[1]) if found else self.ranks if "ulysses" in self.scheme else 1
        if "usp" in self.scheme or "2d" in self.scheme:
            inner = NODE_RANKS
        return self.hybrid_s(layout, min(inner, self.ranks))


def deal_of(scheme):
    if any(word in scheme for word in ("zigzag", "usp", "2d")):
        return "zigzag"
    return "striped" if "striped" in scheme else "contiguous"


def training_tflops(row, machine):
    """A step of Llama 2 7B: the products with weights in 8 bits beside attention in 16. Return TFLOP/s of a device,
    counted as the source counts them."""
    layers, width, hidden, vocab = 32, 4096, 11008, 32000
    if row.metric != "TFLOP/s/GPU" or machine.own_forward_flops == 0:
        raise ValueError("a training step is predicted in TFLOP/s/GPU only, where the rate of its products is known")
    products = 6 * (layers * (4 * width * width + 3 * width * hidden) + width * vocab)
    attention = 3 * 4 * row.seqlen / 2 * width * layers  # a token
    seconds = (products / machine.own_forward_flops + attention / 3 / machine.forward_flops +
               attention * 2 / 3 / machine.backward_flops)
    return (products + attention) / seconds / 1e12


def predict(row, machine):
    """Return the predicted value in the row's metric on row.machine, or one with other costs. Throw ValueError that
    says why there is none."""
    if row.passes == "training step":
        return training_tflops(row, machine)
    passes = {"fwd": [False], "one ring step": [False], "bwd": [True], "fwd+bwd": [False, True]}
    if row.passes not in passes:
        raise ValueError(f"no such pass: {row.passes[:40]}")
    jobs = [Job(row, machine, is_backward) for is_backward in passes[row.passes]]
    seconds, flops_per_s = [], []
    for layout in layouts_of(row):
        seconds.append(sum(job.seconds(layout) for job in jobs))
        pairs = sum(length * ((length + 1) / 2 if row.is_causal else length) for length in layout)
        flops_per_s.append(sum(pairs * row.heads * job.head_flops for job in jobs) / seconds[-1])
    seconds = sum(seconds) / len(seconds)
    tflops = sum(flops_per_s) / len(flops_per_s) / 1e12  # sources give the mean of the layouts' rates
    device_tflops, tokens_per_s = tflops / row.world_size, row.seqlen * row.batch / seconds
    metrics = {"TFLOP/s/GPU": device_tflops, "TFLOP/s/device": device_tflops, "TFLOP/s": tflops, "iter/s": 1 / seconds,
               "s": seconds, "ms": 1e3 * seconds, "us": 1e6 * seconds, "tokens/s": tokens_per_s,
               "tokens/s/GPU": tokens_per_s / row.world_size}
    if row.metric not in metrics:
        raise ValueError(f"no such metric: {row.metric[:40]}")
    return metrics[row.metric]


def predict_all(rows, **other_costs):
    """Return the predictions of rows in turn, or texts that say why there is none."""
    def predicted(row):
        try:
            return predict(row, SimpleNamespace(**{**vars(row.machine), **other_costs}))
        except ValueError as why:
            return str(why)
    for row in rows:
        predicted(row)  # which asks for rings
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(simulate_rings, RINGS.items()))
    return list(map(predicted, rows))


# ---
# The score.


def misread_by(row):
    """Return what the value has to be divided by where the axis of the figure that it was read off was misread, or 1.
    MagiAttention's figures label every second or half gridline: the values of one panel are twice, those of seven half,
    what its labels say."""
    if "MagiAttention" not in row.source or row.metric != "TFLOP/s/GPU":
        return 1
    is_narrow = row.mask == "varlen_causal" and row.passes == "bwd"
    return 2 if "H100" in row.hardware and is_narrow else 0.5 if "B200" in row.hardware and not is_narrow else 1


def reading_error(row):
    """Return by how much a figure that was read off a picture may be wrong, in the file's unit."""
    found = re.search(r"\+-(\d+\.?\d*)", row.note)
    return float(found[1]) if found else 0


def is_comparable(a, b):
    difference = abs(a.published - b.published)
    return (a.scheme != b.scheme and "kernel" not in (a.use, b.use) and not (a.use and b.use) and
            difference > (reading_error(a) + reading_error(b)) / a.misread and
            difference > 0.02 * min(a.published, b.published))


def grouped(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())


def score(rows):
    """Give rows their predictions, and return what is counted of them."""
    board = SimpleNamespace(rows=rows, scored=[], unpredicted=[], pairs=0, right=0, close=0)
    for row, predicted in zip(rows, predict_all(rows)):
        if row.value is None or isinstance(predicted, str):
            board.unpredicted.append(f"line {row.line}, {'no value' if row.value is None else predicted}")
            continue
        row.misread = misread_by(row)
        row.published, row.predicted = row.value / row.misread, predicted
        row.ratio = predicted / row.published
        row.error = abs(row.ratio - 1)
        board.scored.append(row)
    board.counted = [row for row in board.scored if not row.use]
    but_for_scheme = operator.attrgetter("source", "hardware", "world_size", "seqlen", "batch", "heads", "kv_heads",
                                         "head_dim", "dtype", "mask", "passes", "metric")
    for _, group in grouped(board.scored, but_for_scheme):
        for a, b in itertools.combinations(group, 2):
            if is_comparable(a, b):
                is_right = (a.published - b.published) * (a.predicted - b.predicted) > 0
                is_close = abs(a.published - b.published) < 0.05 * min(a.published, b.published)
                board.pairs, board.right = board.pairs + 1, board.right + is_right
                board.close += is_close and not is_right
    return board


def mape(errors):
    errors = list(errors)
    return f"{100 * sum(errors) / max(1, len(errors)):.1f} %"


def scheme_family(row):
    """Return the scheme without its source's own words."""
    for word in ("kernel", "TP", "magi", "hybrid_dcp", "allgather", "usp", "2d"):
        if word in row.scheme:
            return "training step" if word == "TP" else word
    if "ulysses" in row.scheme and "ulysses 1 x" not in row.scheme:
        return "ulysses"
    return next((word + " ring" for word in ("zigzag", "striped", "contiguous") if word in row.scheme), "ring")


def score_text(board):
    return f"MAPE {mape(row.error for row in board.counted)}, {board.right} of {board.pairs} pairs ranked as published"


def worst_text(board):
    row = max(board.counted, key=lambda row: row.error)
    return (f"line {row.line}: {row.scheme}, {row.seqlen} x {row.heads} of {row.head_dim}, {row.mask}, {row.passes} "
            f"{row.metric}: {row.predicted:.4g} predicted, {row.published:.4g} published")


def remarks(board):
    """Return what was done to the rows, a sentence a line."""
    uses = collections.Counter(row.use for row in board.scored)
    misread = sum(row.misread != 1 for row in board.scored)
    unknown = sum(scheme_family(row) == "ring" and "ring" not in row.scheme for row in board.counted)
    text = (f"{len(board.rows)} rows: {uses['']} predicted, {uses['kernel']} are kernels by themselves, "
            f"{uses['fitted']} are fitted on, {len(board.unpredicted)} can't be predicted.\n")
    if unknown:
        text += f"Schemes of {unknown} rows are not known; taken as rings.\n"
    if board.right < board.pairs:
        text += (f"Of the {board.pairs - board.right} pairs that are ranked otherwise, {board.close} were published "
                 "less than 5 % apart.\n")
    if misread:
        raw = mape(abs(row.predicted / row.value - 1) for row in board.counted)
        text += (f"{misread} rows were read off figures as if each gridline were 100 TFLOP/s, where it is 50 or 200; "
                 f"they are taken by the figures' labels (without that the MAPE is {raw}).\n")
    if board.unpredicted:
        text += f"Not predicted, among others: {board.unpredicted[0]}.\n"
    return text


def table(head, rows):
    """Return a table in Markdown, which is also what a terminal gets."""
    rule = "|---" * (head.count("|") - 1) + "|\n"
    return head + "\n" + rule + "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def means_tables(board, title):
    """Return the means by source, scheme, machine and number of devices, each under `title`."""
    text = ""
    for name, key in (("source", lambda row: row.source), ("scheme", scheme_family),
                      ("machine", lambda row: row.machine.name), ("devices", lambda row: f"{row.world_size:4}")):
        text += title.format(name) + table(
            f"| {name} | rows | MAPE | mean of predicted / published | worst |",
            [(of, len(rows), mape(row.error for row in rows), f"{sum(row.ratio for row in rows) / len(rows):.2f}",
              f"{max(rows, key=lambda row: row.error).ratio:.2f}") for of, rows in grouped(board.counted, key)]) + "\n"
    return text


def borrowed_costs(board):
    """Return the error of a machine's rows with the two costs that were fitted on another source's runs on the same
    device: what the model is worth where nothing can be fitted."""
    lines = []
    for own in MACHINES:
        rows = [row for row in board.counted if row.machine is own]
        lenders = [other for other in MACHINES if other is not own and other.device == own.device and other.source and
                   own.call_s > 0 and other.call_s > 0]
        others = []
        for other in lenders if rows else []:
            predictions = predict_all(rows, step_bytes=other.step_bytes, call_s=other.call_s)
            errors = [abs(predicted / row.published - 1) for row, predicted in zip(rows, predictions)]
            others.append(f"{other.name}: {mape(errors)}")
        if others:
            lines.append((own.name, len(rows), mape(row.error for row in rows), "; ".join(others)))
    return table("| machine | rows | MAPE | with the costs of |", lines)


PAGE = """\
<!-- Written by `bench/published.py --page FILE`: edit that. -->
# Predictions held to account

What others measured, beside what is simulated from one device's kernel and the links.
`bench/published.py --csv FILE` does this for any file of the form of [runs.csv](runs.csv).

A device is known by four figures of its kernels (the rate of a long row and the keys' worth of time
that a row takes besides, forward and backward), three rates (links inside a node, to other nodes,
memory), and two costs that are fitted on one row each: the bytes of memory traffic that merging two
blocks takes, and the seconds that a call takes besides (`simulate` and `plan` count these two with
`--calibrated`). Tiles of 128 rows, the halves of zigzag,
hops that wait for their link, all-to-alls and gathers follow from the row itself. There is no
figure for any row. Sources whose machines are not in the table get defaults. What the
implementations share (traffic of a backward step over a forward one, copies around an all-to-all,
what unequal documents cost subgroups of ranks) is written in [published.py](../published.py); it was
chosen with these rows in view, so only rows from elsewhere are a test of it. The documents of
MagiAttention's packs are those that its sampler draws with its seed ([packs.csv](packs.csv)).

"""


def page(board):
    rows = [(row.line, row.machine.name, row.world_size, row.seqlen, row.mask, row.passes, row.scheme, row.metric,
             f"{row.published:.4g}", f"{row.predicted:.4g}", f"{row.ratio:.2f}", row.use) for row in board.scored]
    return (PAGE + remarks(board) + (f"\nThe worst is {worst_text(board)}.\n" if board.counted else "") +
            f"\n**{score_text(board)}**\n\n" + means_tables(board, "## By {}\n\n") +
            "## Machines\n\n[machines.csv](machines.csv) has their figures, and where each is from.\n\n"
            "## With the costs of another source\n\n" + borrowed_costs(board) + "\n## Every row\n\n" +
            table("| line | machine | devices | tokens | mask | pass | scheme | metric | published | predicted | ratio "
                  "| |", rows))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ringscope", default=str(ROOT / "build/release/app/ringscope"))
parser.add_argument("--csv", default=str(DATA / "runs.csv"))
parser.add_argument("--page", help="write them as a page, Markdown")
options = parser.parse_args()
try:
    board = score(read_published(options.csv))
    if options.page:
        pathlib.Path(options.page).write_text(page(board))
except (OSError, ValueError) as error:
    parser.error(str(error))
print(means_tables(board, ""), end="")
if board.counted:
    print("worst row:", worst_text(board))
print(remarks(board) + score_text(board))
