"""PyTorch's context parallelism, checked: torch.distributed.tensor.experimental.context_parallel.

    torchrun --nproc-per-node 4 context_parallel.py

With GPUs it runs the public context. PyTorch 2.15 has no rule for its attention on a CPU there, so
without GPUs it runs the same ring, `_templated_ring_attention`, by itself, over gloo. That is a
private function: with other versions it may have moved.
"""

import ringscope
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import _attention, context_parallel

SEQLEN = 1024


def attend_on_gpus(mesh, q, k, v):
    """Return out and this rank's rows of q, k, v, which the context deals out in place."""
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.clone(), q.clone(), k.clone(), v.clone()


def attend_on_cpus(mesh, q, k, v):
    """The same with rows that are dealt out as PyTorch does it, and its ring over them."""
    rank, size = mesh.get_local_rank(), mesh.size()
    rows = ringscope.positions(
        SEQLEN, size, convention="pytorch", rank=rank, device="cpu"
    ).positions
    q, k, v = (x[:, :, rows] for x in (q, k, v))
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, *_ = _attention._templated_ring_attention(mesh.get_group(), 2, op, q, k, v, is_causal=True)
    return out, q, k, v


def main():
    on_gpus = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpus else "gloo")
    if on_gpus:
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    else:
        torch.set_num_threads(1)
    mesh = init_device_mesh("cuda" if on_gpus else "cpu", (dist.get_world_size(),))
    torch.manual_seed(0)  # every rank makes the whole sequence
    dtype, device = (torch.bfloat16, "cuda") if on_gpus else (torch.float32, "cpu")
    q, k, v = (torch.randn(1, 4, SEQLEN, 64, dtype=dtype, device=device) for _ in range(3))

    out, q, k, v = (attend_on_gpus if on_gpus else attend_on_cpus)(mesh, q, k, v)

    verdict = ringscope.check_sharded(out, q, k, v, mask="causal", partition="zigzag")
    if dist.get_rank() == 0:
        print("check:", verdict)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
