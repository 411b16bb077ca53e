"""Lesson 17 in NumPy: a sum in bf16 stands still."""

import numpy as np


def to_bf16(x):
    """Round f32 to the nearest bf16, ties to even. bf16 is the upper half of an f32."""
    bits = int(np.float32(x).view(np.uint32))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return np.uint32(bits).view(np.float32)


def count_up(round_to, ones):
    total = np.float32(0)
    for _ in range(ones):
        total = round_to(total + np.float32(1))
    return total


if __name__ == "__main__":
    print(f"a thousand ones in bf16: {count_up(to_bf16, 1000):.0f}")
    print(f"ten thousand in f16: {count_up(np.float16, 10000):,.0f}")
    print(f"36.881 in bf16: {to_bf16(36.881):.3f}")
    lse = np.log(4096)
    print(f"all weights with lse in bf16, times: {np.exp(lse - to_bf16(lse)):.4f}")
