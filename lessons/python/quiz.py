"""Write the quiz, lessons/quiz.md: python3 quiz.py

Each part mixes questions from its lessons. Answers are computed here. The number in brackets is the lesson.
"""

import math
from pathlib import Path


def ring_bytes(n, c, g, d, e, backward=False):
    return (n - 1) * 2 * c * g * d * e + (n * 8 * c * g * d if backward else 0)


def owner(rank, step, n):
    return (rank - step) % n


def crossover(flops, bandwidth, e, share_of_heads, share_of_pairs=1):
    return flops / bandwidth * e / 2 * share_of_heads / share_of_pairs


def in_bf16(ones):
    total = 0
    for _ in range(ones):
        step = 1 if total < 256 else 2
        total += 1 if step == 1 else 0  # a tie goes to the even last bit
    return total


PARTS = {
    "One machine: lessons 0 to 4": [
        ("Scores 0 and ln 4, values 10 and 20: what is the output?", f"{(10 + 4 * 20) / 5:g}",
         "The weights are 1/5 and 4/5. (1)"),
        ("A tile has 64 queries and 128 keys. How often is each row of K fetched, for 4,096 queries?", f"{4096 // 64} times",
         "Once per block of queries. The width plays no part. (4)"),
        ("Two parts have m = 2, l = 3 and m = 4, l = 1. What is l of both together?", f"{3 * math.exp(-2) + 1:.3f}",
         "The first is brought to m = 4: 3 exp(2 - 4) + 1. (3)"),
        ("All scores of a row are -∞. What are its output and its lse?", "0 and -∞",
         "Nothing is allowed, so nothing is averaged. Whoever computes exp(score - lse) must treat the row apart. (2)"),
        ("Twice the tokens: how many times the memory of P, and of K and V?", f"{2**2} and 2 times",
         "P has S² numbers, K and V have 2 S d each head. (1)"),
        ("What does a window lose that exact attention keeps?", "every line before the window",
         "It guesses these, and is right half of the time if the answer is yes or no. (0)"),
    ],
    "The ring: lessons 5 to 9": [
        ("Rank 2 of 6 at step 4: whose block does it attend?", f"rank {owner(2, 4, 6)}'s", "(2 - 4) mod 6. (6)"),
        ("Contiguous, causal, 16 ranks: how many times faster is zigzag?", f"{2 - 1 / 16:.4g} times", "2 - 1/N. (8)"),
        ("8 ranks with 4,096 rows, 8 KV heads of 128, bf16: bytes that a rank sends forward and backward?",
         f"{ring_bytes(8, 4096, 8, 128, 2) / 2**20:g} and {ring_bytes(8, 4096, 8, 128, 2, True) / 2**20:g} MiB",
         "7 blocks of 16 MiB; backward the same again, and 8 gradient blocks in f32 of twice 16 MiB. (9)"),
        ("Which of these 8 gradient hops can't hide?", "the last",
         "It brings the gradient home when there is nothing left to compute. (9)"),
        ("When may a block be overwritten?", "when it has been attended and has been sent",
         "Both read it, and they end at different times. (6)"),
        ("64 ranks hold a text of K and V of 64 GiB. How much has a rank of a ring at once, and of an all-gather?",
         f"{2 * 64 / 64:g} and 64 GiB", "Two blocks against all of them. (5)"),
        ("Zigzag on 3 ranks: which of the chunks 0 to 5 has rank 1?", "1 and 4", "Chunk r and chunk 2N - 1 - r. (8)"),
    ],
    "Real masks and real ranks: lessons 10 to 13": [
        ("F/B = 2,000, bf16, 8 KV heads of 32, causal and balanced: c*?",
         f"{crossover(2000, 1, 2, 8 / 32, 1 / 2):g} rows", "2,000 · (2/2) · (8/32), and twice that for half of the pairs. (12)"),
        ("32 query heads, 4 KV heads: which KV head does query head 13 read?", f"{13 // (32 // 4)}", "13 / 8, rounded down. (10)"),
        ("A causal window of 2,049, contiguous ranks of 1,024 rows: how many hops does a block make?",
         f"{math.ceil((2049 - 1) / 1024)}", "(W - 1) / c, rounded up. (11)"),
        ("Ranks 0, 1 and 3 wait, and rank 2 has posted nothing. Who is the culprit?", "rank 2",
         "Follow the waits to the rank that lacks what others need. (13)"),
        ("A hop takes 5 ms, a step 3 ms. How much is exposed in a ring of 4?", f"{3 * (5 - 3)} ms", "3 hops, 2 ms each. (12)"),
        ("Why does a test with small blocks not find sends that wait for each other?",
         "MPI puts a small block aside, so the send is over at once", "With larger blocks the same program hangs. (13)"),
    ],
    "A model: lessons 14 to 17": [
        ("Losses 1, 1, 1 on one rank and 5 on another: the mean, and the mean of means?",
         f"{(3 + 5) / 4:g} and {(1 + 5) / 2:g}", "Divide the sum by the count of all rows. (14)"),
        ("300 ones, added up in bf16?", f"{in_bf16(300)}", "256 + 1 is a tie, and goes to the even last bit: 256. (17)"),
        ("TP 4, CP 2: which rank holds tp = 3 and cp = 1?", f"rank {1 * 4 + 3}", "cp · TP + tp. (15)"),
        ("A tree over 32 ranks, up and down: how many rounds, and a ring?", f"{2 * int(math.log2(32))} and {2 * (32 - 1)}",
         "2 log₂ N and 2 (N - 1). (16)"),
        ("Output wrong, lse right: where do you look?", "at the outputs' merge or storage in sixteen bits",
         "If l were kept in too few bits, lse would be wrong as well. (17)"),
        ("The gradients of all weights are N times too small. What happened?", "a mean stands for a sum",
         "They were averaged over the ranks. (14)"),
        ("Why is decode not done by a ring?", "one query makes no work that could hide a hop",
         "Results are smaller than K and V there, so results travel. (16)"),
    ],
    "Which, what, who: lessons 18 to 21": [
        ("Two nodes of 8, a step of 1 ms, a hop inside of 0.1 ms, between nodes of 4 ms: a flat ring?",
         f"{15 * 4 + 1} ms", "15 hops that all wait for the slowest, and the last step. (18)"),
        ("The same on two levels, with a card for each GPU?", f"{max(8 * 1, 4) + 8 * 1} ms",
         "A crossing of 4 ms lies beside 8 steps, so nothing is exposed: 16 steps. (18)"),
        ("N = 8, H = 32, G = 4: may Ulysses be used, and at what price?", "yes, with copies of KV heads",
         "8 ranks need 8 KV heads, so each is copied once. (19)"),
        ("70 · 10⁹ weights with AdamW, sharded over 64 ranks: how much state has each?", f"{16 * 70 / 64:g} GB", "16 bytes each. (20)"),
        ("A profile has 8 attention kernels and 7 SendRecv per layer. What is it?", "a ring of 8 ranks, forward",
         "N and N - 1. (21)"),
        ("All ranks but one have long SendRecv. Who is slow?", "the one with short ones",
         "The others wait inside theirs. (21)"),
        ("More ranks, and it still doesn't fit. Which bill doesn't shrink?", "weights and optimizer", "They are copies. Shard them. (20)"),
    ],
    "A GPU: lessons 22 to 26": [
        ("Rows of 32 words, 32 threads read down a column: how many rounds, and with rows of 33?", "32 and 1",
         "Word w is in bank w mod 32. (22)"),
        ("A register tile of 8 x 4 in f32: bytes per product?", f"{4 * (8 + 4) / (8 * 4):g}", "4 (8 + 4) / 32. (23)"),
        ("Where does unit 6 of row 5 lie?", f"{6 ^ 5}", "6 xor 5. (24)"),
        ("A tile begins at byte 2,048. What stands in the descriptor's bits 0 to 13?", f"{2048 // 16}", "Units of 16 bytes. (25)"),
        ("Exp of a tile takes 1,024 clocks, its products 2,048. How many times faster side by side?",
         f"{(2048 + 1024) / 2048:g} times", "3,072 clocks in turn, 2,048 at once. (25)"),
        ("A kernel that stores less is no faster. Why not?", "it still fetches every key for every query",
         "Speed comes from using a fetched number more often. (26)"),
    ],
}  # fmt: skip


def page():
    text = "<!-- Made by lessons/python/quiz.py. -->\n\n# Quiz\n\nA part for some lessons each, mixed. Say the answer before you open it.\n"
    for part, questions in PARTS.items():
        text += f"\n## {part}\n"
        for number, (question, answer, why) in enumerate(questions, 1):
            text += f"\n**{number}.** {question}\n\n<details><summary>Answer</summary>\n\n**{answer}**\n\n{why}\n</details>\n"
    return text


if __name__ == "__main__":
    (Path(__file__).parents[1] / "quiz.md").write_text(page(), encoding="utf-8")
