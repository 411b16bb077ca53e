#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention (cuDNN's and FlashAttention's kernels) and a large matrix
product, on the shapes of bench/gpu_ladder.h, so that ours can be a ratio within one run.

Writes FILE anew after each measurement: {"measurements": [{"name", "ms", "TFLOPs"} or {"name", "problem"}]},
or {"not_measured": WHY} without PyTorch or a GPU.
"""
import argparse
import json
import os
import statistics


def write(path, document):
    with open(path + ".new", "w") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".new", path)


def median_seconds(torch, flush, call):
    """Return the median time of a call, the L2 cache emptied before each, as bench/gpu_timing.h does it."""

    def once():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda._sleep(2_000_000)  # so that the call is enqueued before the GPU comes to `begin`
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    once()
    repeats = max(3, min(25, int(0.25 / max(once(), 1e-6))))
    return statistics.median(once() for _ in range(repeats))


def attention(torch, backend, q, k, v, causal):
    """Return a call of `backend`, its differentiable inputs, and whether it took grouped heads; where it takes none,
    K and V are repeated beforehand."""

    def calling(k, v, **how):
        def call():
            with torch.nn.attention.sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **how)

        call()
        return call

    try:
        return calling(k, v, enable_gqa=True), (q, k, v), True
    except (RuntimeError, TypeError):
        groups = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(groups, dim=1).detach().requires_grad_() for x in (k, v))
        return calling(k, v), (q, k, v), False


def measure(torch, add):
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    backends = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
                "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}

    def draw(*shape, requires_grad=True):
        return torch.randn(*shape, dtype=torch.bfloat16, device="cuda", requires_grad=requires_grad)

    def time(name, call, flops, **more):
        add(name, median_seconds(torch, flush, call), flops, more)

    def matrix_product(name, n=8192):
        a, b = (draw(n, n, requires_grad=False) for _ in range(2))
        time(name, lambda: torch.matmul(a, b), 2 * n**3)

    shapes = [(rows, 128, 64, 8) for rows in (8192, 16384, 4096)] + [(16384, 128, 16, 16), (8192, 64, 64, 8)]
    matrix_product("matmul/bf16/8192")
    for rows, head_dim, heads, heads_kv in shapes:
        for mask in ("full", "causal"):
            q, k, v = (draw(1, count, rows, head_dim) for count in (heads, heads_kv, heads_kv))
            dout = draw(1, heads, rows, head_dim, requires_grad=False)
            pairs = heads * (rows * (rows + 1) // 2 if mask == "causal" else rows * rows)
            shape = f"bf16/d{head_dim}/{rows}/{mask}{'-mha' if heads == heads_kv else ''}"
            for name, backend in backends.items():
                try:
                    call, inputs, takes_groups = attention(torch, backend, q, k, v, mask == "causal")
                    more = {} if takes_groups else {"heads_repeated": 1}
                    with torch.no_grad():
                        time(f"{name}/forward/{shape}", call, 4 * pairs * head_dim, **more)
                    out = call()
                    time(f"{name}/backward/{shape}",
                         lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True), 10 * pairs * head_dim, **more)
                except Exception as error:  # whatever one kernel has against one shape, the others go on
                    add(f"{name}/{shape}", problem=str(error).split("\n")[0] or repr(error))
    matrix_product("matmul/bf16/8192/again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    path = parser.parse_args().out
    try:
        import torch
        import torch.nn.attention
    except Exception as error:
        return write(path, {"not_measured": f"python3 has no PyTorch: {error}"})
    if not torch.cuda.is_available():
        return write(path, {"not_measured": "PyTorch sees no GPU"})
    document = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "measurements": []}

    def add(name, seconds=None, flops=0, more=None, problem=None):
        one = {"problem": problem} if problem else {"ms": seconds * 1e3, "TFLOPs": flops / seconds * 1e-12}
        document["measurements"].append({"name": name, **(more or {}), **one})
        write(path, document)

    torch.manual_seed(1)
    measure(torch, add)


if __name__ == "__main__":
    main()
