"""ring-flash-attention, checked: zigzag_ring_flash_attn_func, forward and backward.

    torchrun --nproc-per-node 4 ring_flash_attention.py

It needs GPUs, flash-attn and ring-flash-attn.
"""

import ringscope
import torch
import torch.distributed as dist
from ring_flash_attn import zigzag_ring_flash_attn_func

SEQLEN = 4096


def main():
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    rows = ringscope.positions(
        SEQLEN, size, convention="ring-flash-attention", rank=rank, device="cuda"
    ).positions
    torch.manual_seed(0)  # every rank makes the whole sequence, [batch, seqlen, heads, head_dim]
    options = dict(dtype=torch.bfloat16, device="cuda")
    q, k, v, dout = (
        torch.randn(1, SEQLEN, 4, 64, **options)[:, rows].contiguous() for _ in range(4)
    )
    for x in (q, k, v):
        x.requires_grad_()

    with ringscope.record("profile"):
        for _ in range(2):  # layers
            out, lse, _ = zigzag_ring_flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    out.backward(dout)

    verdict = ringscope.check_sharded(
        out,
        q,
        k,
        v,
        lse=lse,
        dout=dout,
        dq=q.grad,
        dk=k.grad,
        dv=v.grad,
        layout="bshd",
        mask="causal",
        partition="zigzag",
        dtype="bf16",
    )
    dist.barrier()  # until all have written their profiles
    if rank == 0:
        print("check:", verdict)
        for finding in ringscope.explain("profile")["findings"]:
            print("explain:", finding["cause"], f"{finding['share']:.0%}:", finding["evidence"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
