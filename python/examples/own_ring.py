"""A ring of one's own: four processes, zigzag, over gloo. It is recorded, explained, checked and
shown.

    torchrun --nproc-per-node 4 own_ring.py                                   # right
    torchrun --nproc-per-node 4 own_ring.py --mistake causal-in-local-order   # its mistake named
"""

import argparse

import ringscope
import torch
import torch.distributed as dist

MISTAKES = ("causal-in-local-order", "scale", "missing-block", "merge-without-max")


def attend(q, k, v, mask, scale):
    """Attend one block. Return its output and lse, -inf for a row without keys."""
    with ringscope.attention():
        scores = (q @ k.transpose(-1, -2) * scale).masked_fill(~mask, float("-inf"))
        lse = scores.logsumexp(-1, keepdim=True)
        return torch.exp(scores - lse).nan_to_num(0.0) @ v, lse


def merge(out, lse, block_out, block_lse, mistake):
    """Merge two partial outputs by their row sums."""
    if mistake == "merge-without-max":
        total = torch.log(lse.exp() + block_lse.exp())
    else:
        total = torch.logaddexp(lse, block_lse)
    return (lse - total).exp() * out + (block_lse - total).exp() * block_out, total


def ring_attention(q, k, v, positions, mistake=None):
    """Return out and lse of this rank's rows, [batch, heads, rows, ...], causal by position."""
    rank, size = dist.get_rank(), dist.get_world_size()
    scale = q.shape[-1] ** -0.5 if mistake != "scale" else 1 / q.shape[-1]
    out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], float("-inf"))
    block = torch.stack((k, v))
    for step in range(size):
        if step < size - 1:
            coming = torch.empty_like(block)
            hops = [dist.isend(block, (rank + 1) % size), dist.irecv(coming, (rank - 1) % size)]
        owner = (rank - step) % size
        mask = positions[rank][:, None] >= positions[owner]
        if mistake == "causal-in-local-order":
            mask = torch.ones_like(mask).tril()
        elif mistake == "missing-block" and owner == 1 != rank:
            mask = torch.zeros_like(mask)
        out, lse = merge(out, lse, *attend(q, block[0], block[1], mask, scale), mistake)
        if step < size - 1:
            for hop in hops:
                hop.wait()
            block = coming
    return out, lse[..., 0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mistake", choices=MISTAKES)
    parser.add_argument("--seqlen", type=int, default=1024)
    parser.add_argument(
        "--folder", default="profile", help="what is written: profiles, tensors and a page"
    )
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, size = dist.get_rank(), dist.get_world_size()

    rows = ringscope.positions(options.seqlen, size, partition="zigzag", device="cpu")
    positions = [one.positions for one in rows]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, options.seqlen, 64)[:, :, positions[rank]] for _ in range(3))

    with ringscope.record(options.folder):
        for _ in range(3):  # layers
            out, lse = ring_attention(q, k, v, positions, options.mistake)

    verdict = ringscope.check_sharded(out, q, k, v, lse=lse, mask="causal", partition="zigzag")
    dist.barrier()  # until all have written their profiles
    if rank == 0:
        print("check:", verdict)
        why = ringscope.explain(options.folder)
        for note in why["notes"]:
            print("note:", note)
        for finding in why["findings"]:
            print("explain:", finding["cause"], f"{finding['share']:.0%}:", finding["evidence"])
        try:
            print("page:", ringscope.show(options.folder))
        except ringscope.RingscopeError as error:
            print("no page:", error)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
