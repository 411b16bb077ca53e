#!/usr/bin/env python3
"""Prints what a GPU reached, as the tables of cuda/README.md: measured.py bench/results/FILE.json. TFLOP/s of each
kernel's fastest tile, beside those of libraries in the same run."""
import json
import sys

from reports import fastest_of_kernels, figure_in

SHAPES = {"8192/full": "8,192 rows", "8192/causal": "8,192 causal", "16384/full": "16,384 rows",
          "16384/causal": "16,384 causal", "16384/full-mha": "16,384 rows, 16 heads",
          "16384/causal-mha": "16,384 causal, 16 heads"}
LIBRARIES = {"cudnn": "cuDNN", "flash": "FlashAttention-2"}


def row(name, cells):
    return f"| {name} | {' | '.join(cells)} |"


def table(head, rows):
    return [row(head[0], head[1:]), row("---", ["---"] * (len(head) - 1)), *rows, ""]


def passes(results):
    """Yield the rows of the 16-bit kernels and the libraries, forward and backward."""
    for pass_name, is_backward in (("forward", False), ("backward", True)):
        library = {name: [next((figure_in(m, "TFLOPs") for m in results["library"]
                                if m["name"] == f"{name}/{pass_name}/bf16/d128/{shape}"), 0) for shape in SHAPES]
                   for name in LIBRARIES}
        ours = {}
        for lists, note in ((("whole",), ", the whole pass"), (("main",), ", the kernel alone" if is_backward else "")):
            for at, shape in enumerate(SHAPES):
                for kernel, (tflops, _) in fastest_of_kernels(results["benchmarks"], "bf16/d128/" + shape, lists):
                    if (kernel >= "08") == is_backward:
                        ours.setdefault(kernel.replace("_", " ", 1) + note, [0] * len(SHAPES))[at] = tflops
        for name, all_tflops in sorted(ours.items(), key=lambda one: (one[0][:2], "alone" in one[0])):
            yield row(f"{pass_name} {name}", [f"{mine:.0f} ({mine / theirs:.2f})" if mine and theirs else f"{mine:.0f}"
                                              for mine, theirs in zip(all_tflops, library["cudnn"])])
        for name, text in LIBRARIES.items():
            yield row(f"{pass_name} {text}", [f"{tflops:.0f}" for tflops in library[name]])


def tables(results):
    """Return the lines of both tables."""
    versions = next(part["detail"] for part in results["parts"] if part["name"] == "library")
    device = results["device"]
    lines = [f"{device['name']}, driver {device['driver']}, {versions}, commit {results['commit']}, {results['date']}.",
             "TFLOP/s in bf16 with head_dim 128, 64 heads and 8 of K and V or 16 of each; in brackets the ratio to cuDNN.",
             "",
             *table(["pass and kernel", *SHAPES.values()], passes(results)),
             "The kernels for f32, with head_dim 128, 4,096 rows, 16 heads and 2 of K and V:", ""]
    full, causal = (dict(fastest_of_kernels(results["benchmarks"], f"f32/d128/4096/{mask}"))
                    for mask in ("full", "causal"))
    return lines + table(["kernel", "4,096 rows", "4,096 causal"],
                         [row(kernel.replace("_", " ", 1), [f"{by[kernel][0]:.1f}" for by in (full, causal)])
                          for kernel in sorted(full)])


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(tables(json.load(file))[:-1]))
