"""Draw the lessons' diagrams: python3 pictures.py

Drawings of a lesson's own numbers are made by the lesson (lessons/book/drawing.h). These show how things move or wait,
in the same colours. What is placed along an axis is computed here: schedules, merges, times, what builds on what.
"""

import math
import re
from html import escape
from pathlib import Path

LESSONS = Path(__file__).parents[1]
OWNERS = ["#9bb0ef", "#d78f24", "#3ead8b", "#8f7de3"]
PANEL, TEXT, SOFT, QUIET, RED = "#171c25", "#e3e8ef", "#8b97a8", "#4d5663", "#e5484d"


class Picture:
    """A card with rectangles, texts, lines and arrows on it, for light pages and dark ones."""

    def __init__(self, title, height, width=400):
        self.title, self.height, self.width, self.parts = title, height, width, []

    def box(self, x, y, width, height, color, text="", size=14, ink=PANEL, style=""):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{color}" {style}/>'
        )
        if text:
            self.text(x + width / 2, y + height / 2 + size / 3, text, ink, "middle", size)

    def text(self, x, y, text, color=TEXT, anchor="start", size=14, weight=400):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}">{escape(text)}</text>'
        )

    def head(self, y, text):
        self.text(14, y, text, weight=600)

    def shape(self, points, color, style=""):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{corners}" fill="{color}" {style}/>')

    def line(self, x, y, to_x, to_y, color=SOFT, width=1.5, style=""):
        self.parts.append(
            f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{color}" stroke-width="{width}" fill="none" {style}/>'
        )

    def arrow(self, x, y, to_x, to_y, color=SOFT, width=1.5, style=""):
        self.line(x, y, to_x, to_y, color, width, style)
        angle = math.atan2(to_y - y, to_x - x)
        tips = [(to_x - 7 * math.cos(angle + turn), to_y - 7 * math.sin(angle + turn)) for turn in (0.45, -0.45)]
        self.shape([(to_x, to_y), *tips], color)

    def key(self, y, *entries, x=14):
        for color, text in entries:
            self.box(x, y, 14, 14, color)
            self.text(x + 20, y + 12, text, SOFT, size=13)
            x += 40 + 6.6 * len(text)

    def svg(self):
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{1.4 * self.width:.0f}" '
            f'height="{1.4 * self.height:.0f}" font-family="Roboto, Helvetica, Arial, sans-serif">\n<title>{self.title}</title>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="7" fill="{PANEL}"/>\n{body}\n</svg>\n'
        )


def merge():
    """Lesson 3: two states, two factors, one sum."""
    scores, values = (1, 3, 2, 5), (10, 20, 30, 40)

    def state(keys, m):
        weights = [math.exp(scores[j] - m) for j in keys]
        return m, sum(weights), sum(w * values[j] for w, j in zip(weights, keys))

    first, second, both = state((0, 1), 3), state((2, 3), 5), state(range(4), 5)
    p = Picture("Two states of different keys become one", 292)

    def show(x, y, name, of, color):
        p.box(x, y, 150, 84, color)
        for line, text in enumerate([name, *(f"{n} = {v:.4g}" for n, v in zip(("m", "l", "out_accum"), of))]):
            p.text(x + 10, y + 19 + 19 * line, text, PANEL, weight=600 if line == 0 else 400)

    show(20, 14, "keys 1 and 2", first, OWNERS[0])
    show(230, 14, "keys 3 and 4", second, OWNERS[2])
    p.arrow(95, 98, 178, 168, OWNERS[0], 2)
    p.arrow(305, 98, 222, 168, OWNERS[2], 2)
    p.text(24, 140, "times exp(3 - 5)", OWNERS[0])
    p.text(278, 140, "times exp(5 - 5)", OWNERS[2])
    p.text(200, 166, "add", anchor="middle")
    show(125, 174, "all four keys", both, OWNERS[1])
    p.text(200, 280, f"output = out_accum / l = {both[2] / both[1]:.2f}", anchor="middle")
    return p


def buffers():
    """Lesson 6: what lies in the two buffers of rank 1 of 4, and a block that arrives too early."""
    p = Picture("Two buffers take turns; a block that comes early overwrites one in use", 268)
    left, unit, ranks = 78, 76, 4
    for step in range(ranks):
        p.text(left + unit * (step + 0.5), 26, f"step {step}", SOFT, "middle")

    def blocks(y, early):
        for step in range(ranks):
            owner, place = (1 - step) % ranks, y + 30 * (step % 2)
            p.box(left + unit * step + 1, place, unit - 2, 24, OWNERS[owner], f"attend {owner}", 13)
            if step > 0:
                begin = left + unit * (step - 1)
                p.box(begin + 1, place, unit - 2, 24, PANEL, f"{owner} arrives", 13, OWNERS[owner],
                      f'stroke="{OWNERS[owner]}" stroke-width="1.5"')  # fmt: skip
            if early and step == 2:
                p.box(left + 0.55 * unit, place, 0.45 * unit - 1, 24, RED, "3", 13)
        for n in (0, 1):
            p.text(14, y + 17 + 30 * n, f"buffer {n}", SOFT)

    blocks(40, False)
    p.head(126, "block 3 comes before block 1 is done with")
    blocks(140, True)
    p.key(214, (RED, "overwrites block 1, which is still attended and sent"))
    p.text(14, 254, "It may come when step 0 is over and block 1 has left.", SOFT, size=13)
    return p


def home():
    """Lesson 9: rank 0's block, and its gradient, which leaves a rank one step later."""
    p = Picture("The gradient follows its block one step behind, and makes one hop more", 268)
    left, top, wide, high = 76, 40, 62, 40

    def corner(step, rank):
        return left + wide * step, top + high * rank

    for step in range(5):
        p.text(left + wide * (step + 0.45), 26, f"step {step}" if step < 4 else "home", SOFT, "middle")
    for rank in range(4):
        p.text(14, top + high * rank + 21, f"rank {rank}", SOFT)
        x, y = corner(rank, rank)
        p.box(x, y, wide - 8, high - 12, OWNERS[0], "attend", 12)
    for hop in range(3):  # in step `hop`
        x, y = corner(hop, hop)
        p.arrow(x + 12, y + high - 12, x + wide + 4, y + high, OWNERS[0], 2)
    for hop in range(4):  # in step `hop` + 1
        x, y = corner(hop, hop)
        to_x, to_y = corner(hop + 1, (hop + 1) % 4)
        p.arrow(x + wide - 9, y + 14, to_x + wide - 10, to_y + (0 if hop < 3 else 24), OWNERS[1], 2)
    p.box(*corner(4, 0), wide - 8, high - 12, OWNERS[1], "dK, dV", 12)
    p.key(208, (OWNERS[0], "K and V: 3 hops, from step 0 on"))
    p.key(232, (OWNERS[1], "dK and dV: 4 hops, each one step later"))
    return p


def circle():
    """Lesson 13: sends that wait for each other, and groups."""
    p = Picture("Four ranks that send first wait in a circle; groups don't", 262)
    for left, title, color in ((0, "each sends first", RED), (200, "send and receive together", OWNERS[2])):
        p.text(left + 100, 26, title, anchor="middle", weight=600)
        at = [(left + 100 + 62 * math.sin(r * math.pi / 2), 120 - 62 * math.cos(r * math.pi / 2)) for r in range(4)]
        for r, (x, y) in enumerate(at):
            to_x, to_y = at[(r + 1) % 4]
            dx, dy = (to_x - x) / 62, (to_y - y) / 62
            p.arrow(x + 20 * dx, y + 20 * dy, to_x - 20 * dx, to_y - 20 * dy, color, 2,
                    'stroke-dasharray="5 4"' if left == 0 else "")  # fmt: skip
        for r, (x, y) in enumerate(at):
            p.box(x - 17, y - 15, 34, 30, OWNERS[r], str(r))
    p.text(100, 222, "0 waits for 1 to receive,", SOFT, "middle", 13)
    p.text(100, 240, "1 for 2, 2 for 3, 3 for 0", SOFT, "middle", 13)
    p.text(300, 222, "each receive is posted,", SOFT, "middle", 13)
    p.text(300, 240, "so all four blocks move", SOFT, "middle", 13)
    return p


def rounds():
    """Lesson 16: which rank sends to which, round by round."""
    ranks = 8
    up = [[(r + far, r) for r in range(0, ranks, 2 * far)] for far in (1, 2, 4)]
    tree = up + [[(to, by) for by, to in pairs] for pairs in reversed(up)]
    ring = [[(r, (r + 1) % ranks) for r in range(ranks)]] * (2 * (ranks - 1))
    p = Picture("Who sends to whom, round by round", 438)
    for top, schedule, name in ((24, ring, "ring"), (228, tree, "tree")):
        p.head(top, f"{name}: {len(schedule)} rounds")
        for rank in range(ranks):
            p.text(14, top + 26 + 18 * rank, f"rank {rank}", SOFT, size=12)
            p.line(64, top + 22 + 18 * rank, 390, top + 22 + 18 * rank, QUIET, 0.6)
        for number, pairs in enumerate(schedule):
            x = 74 + 23 * number
            for lane, (by, to) in enumerate(pairs):
                at = x + (lane % 2) * 5
                color = OWNERS[0] if abs(by - to) < ranks - 1 else OWNERS[1]
                p.arrow(at, top + 22 + 18 * by, at, top + 22 + 18 * to, color, 1.2)
            p.text(x + 3, top + 172, str(number + 1), SOFT, "middle", 11)
    p.key(412, (OWNERS[0], "to another rank"), (OWNERS[1], "from the last rank to the first"))
    return p


def levels():
    """Lesson 18: rank 3 of 8, on two nodes, in its lesson's times."""
    block = 4096 * 2 * 8 * 128 * 2
    step = 4 * 128 * 32 * 4096**2 / 2 / (0.65 * 989.4e12) * 1e3
    inside, across = block / 450e9 * 1e3, block / 50e9 * 1e3
    p = Picture("A crossing beside one step, and beside four", 292)
    left, scale = 86, 300 / (7 * across + step)

    def bar(y, begin, length, color, text=""):
        p.box(left + scale * begin, y, max(scale * length - 1.5, 2), 22, color, text, 12)

    def lanes(y, *names):
        for n, name in enumerate(names):
            p.text(14, y + 16 + 26 * n, name, SOFT, size=13)

    p.head(26, f"one ring: {7 * across + step:.2f} ms")
    lanes(36, "rank 3", "its hops")
    for n in range(8):
        begin = n * max(step, across)
        bar(36, begin, step, OWNERS[0], str(n))
        if n < 7:
            bar(62, begin, across, RED)
    p.head(124, f"two levels, four cards: {8 * step:.2f} ms")
    lanes(134, "rank 3", "in the node", "between")
    for n in range(8):
        bar(134, n * step, step, OWNERS[0], str(n))
        if n % 4 < 3:
            bar(160, n * step, inside, OWNERS[2])
    bar(186, 0, across, RED)
    p.line(left + scale * 4 * step, 130, left + scale * 4 * step, 212, TEXT, 1, 'stroke-dasharray="3 3"')
    p.text(left + scale * 4 * step + 6, 203, "needed here", SOFT, size=12)
    p.key(226, (OWNERS[0], "computes"), (OWNERS[2], "a hop inside the node"))
    p.key(248, (RED, "a hop to the other node"))
    p.text(14, 282, f"A step takes {step:.3f} ms, hops {inside:.3f} and {across:.3f} ms.", SOFT, size=13)
    return p


def cube():
    """Lesson 19: rows, heads and head_dim, by the rank that holds them."""
    ranks, rows, heads = 4, 8, 4
    deals = [
        ("dealt by rows", lambda row, head: row // 2),
        ("Ulysses: by heads", lambda row, head: head),
        ("hybrid: by both", lambda row, head: 2 * (row // 4) + head // 2),
    ]
    p = Picture("Rows, heads and head_dim, coloured by rank", 224)
    cell, deep = 20, 18
    for n, (title, holder) in enumerate(deals):
        left, top = 26 + 126 * n, 60
        p.text(left + 48, 26, title, anchor="middle", size=13, weight=600)
        for head in range(heads):
            x = left + cell * head
            p.shape([(x, top), (x + deep, top - deep), (x + cell + deep, top - deep), (x + cell, top)],
                    OWNERS[holder(0, head)], f'opacity="0.7" stroke="{PANEL}"')  # fmt: skip
        for row in range(rows):
            y, x = top + 14 * row, left + cell * heads
            p.shape([(x, y), (x + deep, y - deep), (x + deep, y + 14 - deep), (x, y + 14)],
                    OWNERS[holder(row, heads - 1)], f'opacity="0.5" stroke="{PANEL}"')  # fmt: skip
            for head in range(heads):
                p.box(left + cell * head, y, cell - 1, 13, OWNERS[holder(row, head)])
    p.text(18, 120, "rows", SOFT, "middle", 12)
    p.parts[-1] = p.parts[-1].replace("<text ", '<text transform="rotate(-90 18 120)" ')
    p.text(66, 186, "heads", SOFT, "middle", 12)
    p.key(196, *((OWNERS[rank], f"rank {rank}") for rank in range(ranks)), x=40)
    return p


def alive():
    """Lesson 20: one training step, with layers that are computed again."""
    layers = 8  # drawn
    p = Picture("What is in memory when", 262)
    left, unit = 112, 270 / (2 * layers + 3)
    loss, end = left + unit * layers, left + unit * (2 * layers + 3)
    back = loss + 2 * unit
    names = ["forward", "loss", "backward", "update"]
    for name, x in zip(names, (left + unit * layers / 2, loss + unit, back + unit * layers / 2, end - unit / 2 - 2)):
        p.text(x, 26, name, SOFT, "middle", 12)
    for x in (left, loss, back, end - unit):
        p.line(x, 34, x, 226, QUIET, 1)

    def lane(y, name):
        p.text(14, y + 20, name, SOFT, size=13)

    lane(38, "weights, state")
    p.box(left, 44, end - left, 22, OWNERS[0])
    lane(76, "layers' inputs")
    p.shape([(left, 104), (loss, 80), (back, 80), (end - unit, 104)], OWNERS[1])
    lane(114, "one layer")
    for n in range(layers):
        p.box(back + unit * n + 1, 118, unit - 2, 24, OWNERS[2])
        p.box(left + unit * n + 3, 132, unit - 6, 10, OWNERS[2])
    lane(152, "ring's buffers")
    for n in range(layers):
        p.box(left + unit * n + 4, 168, unit / 3, 12, OWNERS[3])
        p.box(back + unit * n + 4, 156, unit / 2, 24, OWNERS[3])
    lane(190, "logits")
    p.box(loss + 1, 194, 2 * unit - 2, 24, RED)
    p.text(14, 248, "Layers' inputs and logits meet at the loss: there memory is fullest.", SOFT, size=12)
    return p


def phases():
    """Lesson 23: a producer that fills in 1.5 units, consumers that take 2."""
    fill, use, tiles = 1.5, 2.0, 6
    filled, used = [], []
    for t in range(tiles):
        free = used[t - 2] if t > 1 else 0
        filled.append(max(filled[-1] if filled else 0, free) + fill)
        used.append(max(used[-1] if used else 0, filled[t]) + use)
    p = Picture("Six tiles, two buffers: the phases of their barriers", 292)
    left, unit = 92, 296 / used[-1]
    p.text(14, 34, "producer", SOFT)
    p.text(14, 64, "consumers", SOFT)
    for t in range(tiles):
        p.box(left + unit * (filled[t] - fill), 18, unit * fill - 2, 22, OWNERS[t % 2], f"fill {t}", 12)
        p.box(left + unit * (used[t] - use), 48, unit * use - 2, 22, OWNERS[t % 2], f"use {t}", 12)
    for lane, (name, ends) in enumerate((f"{kind} {b}", ends[b::2]) for b in (0, 1) for kind, ends in (("full", filled), ("empty", used))):  # fmt: skip
        y, begin = 92 + 32 * lane + 10 * (lane > 1), 0
        p.text(14, y + 16, name, SOFT)
        for phase, finish in enumerate(ends):
            wide = unit * (finish - begin) - 2
            p.box(left + unit * begin, y, wide, 22, QUIET if phase % 2 else SOFT,
                  f"phase {phase}" if wide > 50 else str(phase), 12, TEXT if phase % 2 else PANEL)  # fmt: skip
            begin = finish
    p.key(240, (OWNERS[0], "buffer 0"), (OWNERS[1], "buffer 1"))
    p.key(264, (SOFT, "even phase"), (QUIET, "odd phase"))
    return p


def course():
    """The contents: lessons by what they build on, as their pages say it."""
    rows = {0: 0, 11: 0, 13: 0, 14: 2, 15: 2, 16: 3, 17: 4, 20: 4, **dict.fromkeys(range(22, 27), 5)}
    needs = {}
    for page in sorted(LESSONS.glob("[0-9][0-9]_*/README.md")):
        head = page.read_text(encoding="utf-8").split("\n## ", 1)[0]
        before = re.search(r"read before: (.*?)(?: · |\n)", head)
        needs[int(page.parent.name[:2])] = [int(n) for n in re.findall(r"\[(\d\d)\]", before[1] if before else "")]
    depth = {}
    for number in sorted(needs, key=lambda n: (n > 21, n)):
        depth[number] = max((depth[need] + 1 for need in needs[number]), default=0)
    width = 46
    p = Picture("Lessons, and those that they build on", 338, 30 + width * (max(depth.values()) + 1))

    def place(number):
        return 38 + width * depth[number], 36 + 48 * rows.get(number, 1)

    for number, before in needs.items():
        for need in before:
            (x, y), (to_x, to_y) = place(need), place(number)
            bend = (to_x - x) / 2
            p.parts.append(
                f'<path d="M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}" '
                f'stroke="{SOFT}" stroke-width="1.3" fill="none"/>'
            )
    for number in needs:
        x, y = place(number)
        color = OWNERS[3] if number > 21 else OWNERS[1] if number > 16 else OWNERS[0]
        p.box(x - 15, y - 13, 30, 26, color, f"{number:02}", 14)
    p.key(310, (OWNERS[0], "from two products to a ring"), (OWNERS[1], "one question each"), (OWNERS[3], "on a GPU"))
    return p


PICTURES = {
    "03_online_softmax/merge.svg": merge,
    "06_the_ring/buffers.svg": buffers,
    "09_backward/home.svg": home,
    "13_real_processes/circle.svg": circle,
    "16_prefill_and_decode/rounds.svg": rounds,
    "18_two_nodes/levels.svg": levels,
    "19_which_scheme/cube.svg": cube,
    "20_what_fits/alive.svg": alive,
    "23_gpu_tensor_cores/phases.svg": phases,
    "figures/course.svg": course,
}


if __name__ == "__main__":
    for file, draw in PICTURES.items():
        (LESSONS / file).write_text(draw().svg(), encoding="utf-8")
