"""Exercise 17: round to bf16, and add up a thousand ones without standing still.

A bf16 is the upper half of a float's bits, which bits_of gives as a whole number and float_of makes a float again.
"""

import struct


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def to_bf16(x):
    """Return the nearest bf16 number, as a float; a tie goes to the one whose last bit is 0."""
    return x  # to be written


def sum_of(numbers):
    """Return the sum of bf16 numbers, a bf16 number; the running sum may be a float."""
    total = 0.0
    for x in numbers:
        total = float_of(bits_of(total + x) & 0xFFFF0000)  # to be mended
    return total
