"""Lesson 12 in Python: from how many rows a hop hides behind the computing."""


def crossover(flops, bytes_per_s, e=2, kv_share=1.0, allowed=1.0):
    """Return c*. e: bytes per number; kv_share: G/H; allowed: share of the pairs under the mask."""
    return flops / bytes_per_s * e / 2 * kv_share / allowed


if __name__ == "__main__":
    print(f"A100 with NVLink3: {crossover(312e12, 300e9):,.0f}")
    print(f"causal, balanced: {crossover(312e12, 300e9, allowed=0.5):,.0f}")
    print(f"H100 with InfiniBand: {crossover(989.4e12, 50e9):,.0f}")
    for name, reached in (("all", 1), ("0.65", 0.65)):
        rows = crossover(reached * 989.4e12, 450e9, kv_share=8 / 32, allowed=0.5)
        print(f"H100 with NVLink4, causal, 8 KV heads of 32, {name} of the peak: {rows:,.0f}")
    print(f"ranks for a million tokens, InfiniBand: {int(2**20 / crossover(989.4e12, 50e9))} ranks")
