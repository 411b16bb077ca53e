"""TransformerEngine's context parallelism, checked: DotProductAttention over a group, qkv_format
bshd.

    torchrun --nproc-per-node 4 transformer_engine_ring.py

It needs GPUs and transformer_engine.
"""

import ringscope
import torch
import torch.distributed as dist
from transformer_engine.pytorch import DotProductAttention

SEQLEN, HEADS, HEAD_DIM = 4096, 8, 64


def main():
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    rows = ringscope.positions(
        SEQLEN, size, convention="transformer-engine", rank=rank, device="cuda"
    ).positions
    torch.manual_seed(0)  # every rank makes the whole sequence, [batch, seqlen, heads, head_dim]
    options = dict(dtype=torch.bfloat16, device="cuda")
    q, k, v = (
        torch.randn(1, SEQLEN, HEADS, HEAD_DIM, **options)[:, rows].contiguous() for _ in range(3)
    )

    attention = DotProductAttention(HEADS, HEAD_DIM, qkv_format="bshd", attn_mask_type="causal")
    attention.set_context_parallel_group(
        dist.group.WORLD, list(range(size)), torch.cuda.Stream(), cp_comm_type="p2p"
    )
    out = attention(q, k, v).view(q.shape)  # it comes as [batch, rows, heads x head_dim]

    verdict = ringscope.check_sharded(
        out, q, k, v, layout="bshd", mask="causal", partition="zigzag", dtype="bf16"
    )
    if rank == 0:
        print("check:", verdict)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
