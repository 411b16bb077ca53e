#!/usr/bin/env python3
"""Attention on one core beside other libraries: our CPU time over theirs, so below 1 ours is faster.

    bench/cpu_peers.py [--ringscope FILE] [--repeats N] [--seqlen 4096] [--heads 4]

Needs numpy and torch; measures onnxruntime (with onnx) and jax where they are installed. Ours is `compute_cpu_s` of
`ringscope run --world-size 1 --json`, theirs the process's CPU time of a call on one thread. All take turns and the
least of each counts, because whatever else the machine does only adds time. The last line says which share of the
rate of torch's own matrix product, the nearest there is to the machine's peak, ours reaches.
"""
import argparse
import json
import os
import pathlib
import subprocess
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS"):  # before the libraries read them
    os.environ[name] = "1" if name != "XLA_FLAGS" else "--xla_cpu_multi_thread_eigen=false"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402
import torch  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ringscope", default=str(ROOT / "build/release/app/ringscope"))
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--seqlen", type=int, default=4096)
parser.add_argument("--heads", type=int, default=4)
options = parser.parse_args()
torch.set_num_threads(1)


def cpu_time(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def ours(case):
    command = [options.ringscope, "run", "--random", "--world-size", "1", "--json", "--seqlen", str(options.seqlen),
               "--heads", str(options.heads), "--head-dim", str(case["head_dim"]), "--dtype", case["dtype"],
               "--mask", "causal" if case["causal"] else "full"] + ["--backward"] * case["backward"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["ranks"][0]["compute_cpu_s"]


def tensors(case):
    numbers = np.random.default_rng(0)
    return [numbers.standard_normal((1, options.heads, options.seqlen, case["head_dim"])).astype(np.float32)
            for _ in range(4)]


def of_torch(case):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    *qkv, dout = [torch.tensor(x, dtype=dtype) for x in tensors(case)]
    for x in qkv:
        x.requires_grad_(case["backward"])

    def call():
        out = torch.nn.functional.scaled_dot_product_attention(*qkv, is_causal=case["causal"])
        if case["backward"]:
            out.backward(dout)

    return lambda: cpu_time(call)


def of_onnxruntime(case):
    if case["backward"] or case["dtype"] != "f32":
        return None  # it has neither on CPUs
    import onnx
    import onnxruntime
    width = options.heads * case["head_dim"]
    names = ["query", "key", "value"]
    node = onnx.helper.make_node("MultiHeadAttention", names, ["out"], domain="com.microsoft",
                                 num_heads=options.heads, unidirectional=int(case["causal"]))
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, options.seqlen, width])
             for name in names + ["out"]]
    graph = onnx.helper.make_graph([node], "attention", infos[:3], infos[3:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    feeds = {name: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(1, options.seqlen, width)
             for name, x in zip(names, tensors(case))}
    return lambda: cpu_time(lambda: session.run(None, feeds))


def of_jax(case):
    import jax
    dtype = {"f32": jax.numpy.float32, "bf16": jax.numpy.bfloat16}[case["dtype"]]
    *qkv, dout = [jax.numpy.asarray(x.transpose(0, 2, 1, 3), dtype) for x in tensors(case)]

    def attention(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=case["causal"])

    def with_gradients(q, k, v):
        out, backward = jax.vjp(attention, q, k, v)
        return out, backward(dout)

    compiled = jax.jit(with_gradients if case["backward"] else attention)
    return lambda: cpu_time(lambda: jax.block_until_ready(compiled(*qkv)))


def peers_of(case):
    peers = {}
    for make in (of_torch, of_onnxruntime, of_jax):
        try:
            call = make(case)
        except ImportError:
            continue
        if call is not None:
            call()  # compiles and warms up
            peers[make.__name__.removeprefix("of_")] = call
    return peers


def matrix_product_rate():
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return 2 * 1024**3 / min(cpu_time(lambda: torch.mm(a, b)) for _ in range(4 * options.repeats))


def main():
    peak = matrix_product_rate()
    with open("/proc/cpuinfo") as file:
        print(next(line.split(":")[1].strip() for line in file if line.startswith("model name")) +
              f", torch {torch.__version__}, {options.heads} heads, {options.seqlen} rows, "
              f"matrix product {peak * 1e-9:.1f} GFLOP/s")
    for backward in (False, True):
        for dtype in ("f32", "bf16"):
            for head_dim in (64, 128):
                for causal in (False, True):
                    case = {"head_dim": head_dim, "dtype": dtype, "causal": causal, "backward": backward}
                    calls = {"ours": lambda: ours(case)} | peers_of(case)
                    least = dict.fromkeys(calls, float("inf"))
                    for _ in range(options.repeats):
                        for name, call in calls.items():
                            least[name] = min(least[name], call())
                    pairs = options.seqlen * (options.seqlen + 1) / 2 if causal else options.seqlen**2
                    rate = (14 if backward else 4) * pairs * head_dim * options.heads / least["ours"]
                    print(f"{'forward + backward' if backward else 'forward':18} {dtype:4} {head_dim:3} "
                          f"{'causal' if causal else 'full':6} "
                          + "  ".join(f"/{name} {least['ours'] / least[name]:.2f}" for name in list(calls)[1:])
                          + f"  share of the matrix product's rate {rate / peak:.2f}", flush=True)


main()
