#!/usr/bin/env python3
"""Counts what Hopper kernels do for a tile, in the machine code that nvcc makes, beside what they have to do.

    bench/gpu_check/sass.py [--nvcc NVCC] [--nvdisasm NVDISASM] [--all] [--same COMMIT] [KERNEL ...]

Prints a table of the instances for bf16 and head_dim 128, as it stands in README.md here; --all: of all. With --same it
says instead of each instance whether it is that of the commit, instruction for instruction, and exits with 1 if one is
not, or is missing; instances that stamp what they do (--kernel-trace) are those that may be new. It takes a CUDA toolkit,
nvdisasm and no GPU. KERNEL is a file of cuda/kernels without .cu.

A tile's loop is the innermost one with the most HGMMA. Of a product m64nNk16 a multiprocessor makes 4096 FLOPs a clock in
bf16, so it takes N / 2 clocks, and it reads N x 16 elements of 2 bytes from shared memory, and 64 x 16 more if its left
operand lies there. There are 16 exponentials a clock (MUFU), 128 lanes of f32 and 128 bytes of shared memory
(CUDA C++ Programming Guide, arithmetic instructions; FlashAttention-3, arXiv:2407.08608, section 2.2, has the same).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = ["06_hopper", "07_hopper_overlap", "11_backward_one_pass"]
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-gencode=arch=compute_90a,code=sm_90a",
         "-Xptxas=-v"]
# What the switches of an instance mean.
SWITCHES = {"06": {"false": "no roles", "true": "roles"}, "11": {"false": "any order", "true": "turns"},
            "07": {"false,false": "neither", "true,false": "ping-pong", "true,true": "both"}}
CONSUMERS = {"06_hopper": 2, "07_hopper_overlap": 2, "11_backward_one_pass": 2}


def stop(text):
    print("sass.py:", text, file=sys.stderr)
    sys.exit(2)


def run(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        stop("%s failed: %s" % (os.path.basename(arguments[0]), (done.stderr or done.stdout).strip()[-400:]))
    return done


def tool(given, name):
    path = given or shutil.which(name) or os.path.join("/usr/local/cuda/bin", name)
    if not os.access(path, os.X_OK):
        stop("no %s was found; --%s PATH is accepted" % (name, name))
    return path


def functions_of(sass):
    """Returns {mangled name: its instructions and labels, in order}."""
    functions = {}
    for section in re.split(r"\n//-+ \.text\.", sass)[1:]:
        name, lines = section.split()[0], []
        for line in section.split("\n"):
            found = re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;|(\.L_x_\d+):", line)
            if found:
                lines.append(found[1] or found[2])
        functions[name] = lines
    return functions


def loop_of(lines):
    """Returns the innermost loop with the most HGMMA, without what a prologue beside it has."""
    labels = {line: i for i, line in enumerate(lines) if line.startswith(".L_x_")}
    loops = []
    for i, line in enumerate(lines):
        target = re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", line)
        if target and labels.get(target[1], i) < i:
            body = lines[labels[target[1]]:i + 1]
            loops.append((labels[target[1]], i, body, sum("HGMMA" in b for b in body)))
    loops = [loop for loop in loops if loop[3] > 0]
    inner = [a for a in loops if not any(b is not a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return max(inner, key=lambda loop: loop[3])[2] if inner else []


def counts_of(body, consumers, copied):
    hgmma = [re.search(r"HGMMA\.64x(\d+)x16\S* R\d+, (gdesc|R\d+)", b) for b in body if "HGMMA" in b]
    clocks = sum(int(h[1]) / 2 for h in hgmma)
    read = sum(int(h[1]) * 32 + (2048 if h[2] == "gdesc" else 0) for h in hgmma)
    moved = 0
    for line in body:
        access = re.match(r"(?:@!?U?P\d+ )?(LDSM|STSM|LDS|STS)((?:\.\w+)*)", line)
        if access and "U" != line[0]:
            width = re.search(r"\.(32|64|128|U8|U16)\b", access[2])
            each = {"64": 8, "128": 16, "U8": 1, "U16": 2}.get(width[1] if width else "", 4)
            if access[1] in ("LDSM", "STSM"):
                each = 4 * int(access[2][-1])  # as many squares
            # What these kernels load by LDS are notes that all rows of a warp share: 128 bytes a warp.
            moved += 128 * (4 if access[1] == "LDS" else each)
    number = lambda pattern: sum(bool(re.match(r"(?:@!?U?P\d+ )?(%s)\b" % pattern, b)) for b in body)
    exponentials, f32 = number("MUFU.EX2"), number("FFMA|FADD|FMUL|FMNMX")
    tensor = clocks * consumers
    return {"hgmma": len(hgmma), "tensor": tensor, "mufu": exponentials, "mufu_clocks": exponentials * 8 * consumers,
            "f32": f32, "f32_clocks": f32 * consumers, "f64": number(r"D(ADD|MUL|FMA|SETP)"), "all": len(body),
            "shared": ((read + moved) * consumers + copied) / tensor if tensor else 0}


def planned(kernel, numbers, name):
    """Returns what a tile takes by its sizes: HGMMA of a warp, exponentials of a thread, and the bytes of shared memory
    that copies write, or add from, in a block."""
    own, visit, depth = numbers[:3]
    copied = 2 * visit * depth * 2
    if kernel[:2] in ("06", "07"):
        return depth // 16 + visit // 16, visit // 2, copied
    return 2 * depth // 16 + 2 * visit // 16 + own // 16, visit // 2, copied + visit * depth * 4


def compiled(root, kernel, nvcc, nvdisasm):
    """Returns what the compiler says and {mangled name: instructions}."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = os.path.join(folder, kernel + ".cubin")
        source = os.path.join(root, "cuda/kernels", kernel + ".cu")
        log = run(nvcc, *FLAGS, "-I", root, "-cubin", source, "-o", cubin).stderr
        return log, functions_of(run(nvdisasm, "-c", cubin).stdout)


def short_names(functions):
    names = subprocess.run(["c++filt"], input="\n".join(functions), capture_output=True, text=True).stdout.split("\n")
    for name in names[:len(functions)]:
        short = re.sub(r"ringscope::|cuda::|\(anonymous namespace\)::|^void ", "", name)
        yield re.sub(r"\((?!Owner).*", "", short).replace(" ", "")


def with_own_labels(lines):
    """Returns the lines with labels numbered within the function, and without its name."""
    numbers = {}
    label = lambda found: ".L_%d" % numbers.setdefault(found[0], len(numbers))
    return [re.sub(r"\.L_x_\d+", label, re.sub(r"\w*_Z\w+", "", line)) for line in lines]


def differences(kernel, commit, nvcc, nvdisasm):
    """Prints a line for each instance, and returns how many are not those of the commit."""
    with tempfile.TemporaryDirectory() as before:
        archive = os.path.join(before, "tree.tar")
        run("git", "-C", ROOT, "archive", "-o", archive, commit, "core", "cuda")
        run("tar", "-xf", archive, "-C", before)
        old, new = (dict(zip(short_names(f), map(with_own_labels, f.values())))
                    for f in (compiled(root, kernel, nvcc, nvdisasm)[1] for root in (before, ROOT)))
    differ = 0
    for name in sorted({*old, *new}):
        is_new = name not in old and "StampBuffer" in name
        differ += not is_new and old.get(name) != new.get(name)
        print("new " if is_new else "same" if old.get(name) == new.get(name) else "not the same", name, flush=True)
    return differ


def rows_of(kernel, nvcc, nvdisasm, every):
    log, functions = compiled(ROOT, kernel, nvcc, nvdisasm)
    said = {}
    for part in log.split("Compiling entry function ")[1:]:
        spills = re.search(r"(\d+) bytes spill stores", part)
        registers = re.search(r"Used (\d+) registers", part)
        said[re.match(r"'(\S+)'", part)[1]] = (int(registers[1]), int(spills[1]))
    for mangled, short in zip(functions, short_names(functions)):
        sizes = [int(n) for n in re.findall(r"(?<=,)\d+", short)]
        body = loop_of(functions[mangled])
        if not body or not every and not ("<bf16" in short and sizes[2] == 128 and "Stamp" not in short):
            continue
        consumers = CONSUMERS[kernel] or sizes[0] // 64
        hgmma, exponentials, copied = planned(kernel, sizes, short)
        c, (registers, spills) = counts_of(body, consumers, copied), said[mangled]
        sizes_text, _, switches = short.split("<", 1)[1][:-1].partition(">,")
        if switches:
            sizes_text += ">, " + SWITCHES[kernel[:2]].get(switches, switches)
        yield "| %s `%s` | %d, %d | %d / %d | %d | %d / %d | %d | %d, %d | %.0f | %d |" % (
            kernel[:2], sizes_text.replace("bf16,", "", 1 if not every else 0), registers, spills,
            c["hgmma"], hgmma, c["tensor"], c["mufu"], exponentials, c["mufu_clocks"], c["f32"], c["f32_clocks"],
            c["shared"], c["all"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--same", metavar="COMMIT")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    options = parser.parse_args()
    nvcc, nvdisasm = tool(options.nvcc, "nvcc"), tool(options.nvdisasm, "nvdisasm")
    for kernel in options.kernels:
        if kernel not in KERNELS:
            stop("no kernel %s; %s are accepted" % (kernel, ", ".join(KERNELS)))
    if options.same:
        sys.exit(1 if sum(differences(kernel, options.same, nvcc, nvdisasm) for kernel in options.kernels or KERNELS) else 0)
    print("| instance | registers, spills | HGMMA / planned | their clocks | EX2 / planned | clocks | f32, clocks "
          "| shared bytes a clock | instructions |\n|---|---|---|---|---|---|---|---|---|")
    for kernel in options.kernels or KERNELS:
        for row in rows_of(kernel, nvcc, nvdisasm, options.all):
            print(row, flush=True)
    commit = run("git", "-C", ROOT, "describe", "--always", "--dirty").stdout.strip()
    print("\nCommit %s, %s." % (commit, run(nvcc, "--version").stdout.strip().split("\n")[-2]))


if __name__ == "__main__":
    main()
