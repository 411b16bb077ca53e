#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention (cuDNN's and FlashAttention's kernels) and a large matrix
product, on the shapes of bench/gpu_ladder.h, so that ours can be a ratio within one run.

Writes FILE anew after each measurement: {"measurements": [{"name", "ms", "TFLOPs"} or {"name", "problem"}]},
or {"not_measured": WHY} without PyTorch or a GPU. --device cpu tries the script itself.
"""
import argparse
import json
import os
import statistics
import time


def write(path, document):
    with open(path + ".new", "w") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".new", path)


class Timer:
    """The median time of a call, the L2 cache emptied before each, as bench/gpu_timing.h does it."""

    def __init__(self, torch, device):
        self.torch = torch
        self.on_gpu = device == "cuda"
        if self.on_gpu:
            self.flush = torch.empty(256 << 20, dtype=torch.int8, device=device)

    def once(self, call):
        if not self.on_gpu:
            begin = time.perf_counter()
            call()
            return time.perf_counter() - begin
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        self.torch.cuda._sleep(2_000_000)  # so that the call is enqueued before the GPU comes to `begin`
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def median(self, call):
        self.once(call)
        once = self.once(call)
        repeats = max(3, min(25, int(0.25 / max(once, 1e-6))))
        return statistics.median(self.once(call) for _ in range(repeats))


def attention(torch, backend, q, k, v, causal):
    """A call of `backend`, its differentiable inputs, and whether it took grouped heads; where it takes none,
    K and V are repeated beforehand."""
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def calling(k, v, **how):
        def call():
            with sdpa_kernel([backend]):
                return scaled_dot_product_attention(q, k, v, is_causal=causal, **how)

        call()
        return call

    try:
        return calling(k, v, enable_gqa=True), (q, k, v), True
    except (RuntimeError, TypeError):
        groups = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(groups, dim=1).detach().requires_grad_() for x in (k, v))
        return calling(k, v), (q, k, v), False


def measure(torch, device, shapes, product_size, add):
    timer = Timer(torch, device)
    if device == "cuda":
        backends = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
                    "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
    else:
        backends = {"math": torch.nn.attention.SDPBackend.MATH}

    def matrix_product(name):
        n = product_size
        a, b = (torch.randn(n, n, dtype=torch.bfloat16, device=device) for _ in range(2))
        add(name, timer.median(lambda: torch.matmul(a, b)), 2 * n**3)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.bfloat16, device=device, requires_grad=True)

    matrix_product(f"matmul/bf16/{product_size}")
    for rows, head_dim, causal, heads, heads_kv in shapes:
        q, k, v = draw(1, heads, rows, head_dim), draw(1, heads_kv, rows, head_dim), draw(1, heads_kv, rows, head_dim)
        dout = torch.randn(1, heads, rows, head_dim, dtype=torch.bfloat16, device=device)
        pairs = heads * (rows * (rows + 1) // 2 if causal else rows * rows)
        shape = f"bf16/d{head_dim}/{rows}/{'causal' if causal else 'full'}{'-mha' if heads == heads_kv else ''}"
        for name, backend in backends.items():
            try:
                call, inputs, takes_groups = attention(torch, backend, q, k, v, causal)
                more = {} if takes_groups else {"heads_repeated": 1}

                def forward():
                    with torch.no_grad():
                        call()

                add(f"{name}/forward/{shape}", timer.median(forward), 4 * pairs * head_dim, more)
                out = call()

                def backward():
                    torch.autograd.grad(out, inputs, dout, retain_graph=True)

                add(f"{name}/backward/{shape}", timer.median(backward), 10 * pairs * head_dim, more)
            except Exception as error:  # whatever one kernel has against one shape, the others go on
                add(f"{name}/{shape}", problem=str(error).splitlines()[0] if str(error) else repr(error))
    matrix_product(f"matmul/bf16/{product_size}/again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments = parser.parse_args()
    try:
        import torch
        import torch.nn.attention
    except Exception as error:
        write(arguments.out, {"not_measured": f"python3 has no PyTorch: {error}"})
        return
    if arguments.device == "cuda" and not torch.cuda.is_available():
        write(arguments.out, {"not_measured": "PyTorch sees no GPU"})
        return

    document = {"torch": torch.__version__, "measurements": []}
    if arguments.device == "cuda":
        document["cudnn"] = torch.backends.cudnn.version()

    def add(name, seconds=None, flops=0, more=None, problem=None):
        one = {"name": name, **(more or {})}
        if problem is not None:
            one["problem"] = problem
        else:
            one.update(ms=seconds * 1e3, TFLOPs=flops / seconds * 1e-12)
        document["measurements"].append(one)
        write(arguments.out, document)

    torch.manual_seed(1)
    if arguments.device == "cuda":
        shapes = [(rows, 128, causal, 64, 8) for rows in (8192, 16384, 4096) for causal in (False, True)]
        shapes += [(16384, 128, causal, 16, 16) for causal in (False, True)]
        shapes += [(8192, 64, causal, 64, 8) for causal in (False, True)]
        measure(torch, "cuda", shapes, 8192, add)
    else:
        measure(torch, "cpu", [(64, 16, False, 4, 2), (64, 16, True, 4, 4)], 128, add)


if __name__ == "__main__":
    main()
