"""Exercise 17, solved."""

import struct


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def to_bf16(x):
    bits = bits_of(x)
    half = 0x7FFF + (bits >> 16 & 1)  # just below a tie if the last bit is 0
    return float_of(bits + half & 0xFFFF0000)


def sum_of(numbers):
    return to_bf16(sum(numbers))
