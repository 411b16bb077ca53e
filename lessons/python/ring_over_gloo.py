"""The ring in PyTorch, a process per rank: torchrun --nproc-per-node 4 ring_over_gloo.py"""

import math

import torch
import torch.distributed as dist


def start_hop(block):
    """Start to send to the next rank, and to receive as much from the one before."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(block)
    return arriving, dist.isend(block, (rank + 1) % ranks), dist.irecv(arriving, (rank - 1) % ranks)


def finish_hop(arriving, sent, received):
    sent.wait()
    received.wait()
    return arriving


def scores_of(q, k, at_q, at_k):
    scores = q @ k.T / math.sqrt(q.shape[1])
    return scores.masked_fill(at_q[:, None] < at_k, -math.inf)


class RingAttention(torch.autograd.Function):
    """Causal attention of a rank's rows, for one head. at has the positions of all ranks' rows."""

    @staticmethod
    def forward(ctx, q, k, v, at):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        m, l = q.new_full((len(q), 1), -math.inf), q.new_zeros(len(q), 1)
        out, block = torch.zeros_like(q), torch.stack((k, v))
        for step in range(ranks):
            if step + 1 < ranks:
                hop = start_hop(block)
            scores = scores_of(q, block[0], at[rank], at[(rank - step) % ranks])
            new_m = torch.maximum(m, scores.amax(1, keepdim=True))  # finite: own keys come first
            p, factor = (scores - new_m).exp(), (m - new_m).exp()
            m, l, out = new_m, factor * l + p.sum(1, keepdim=True), factor * out + p @ block[1]
            if step + 1 < ranks:
                block = finish_hop(*hop)
        ctx.at = at
        ctx.save_for_backward(q, k, v, out / l, m + l.log())
        return out / l

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        rank, ranks, scale = dist.get_rank(), dist.get_world_size(), 1 / math.sqrt(q.shape[1])
        delta = (dout * out).sum(1, keepdim=True)
        dq, block = torch.zeros_like(q), torch.stack((k, v))
        gradient = torch.zeros_like(block)  # of the block that is held
        for step in range(ranks):
            p = (scores_of(q, block[0], ctx.at[rank], ctx.at[(rank - step) % ranks]) - lse).exp()
            ds = scale * p * (dout @ block[1].T - delta)
            dq += ds @ block[0]
            gradient += torch.stack((ds.T @ q, p.T @ dout))
            if step + 1 < ranks:
                block = finish_hop(*start_hop(block))
            gradient = finish_hop(*start_hop(gradient))  # follows its block, and makes one hop more
        return dq, gradient[0], gradient[1], None


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    q, k, v, dout = torch.randn(4, 48, 8, dtype=torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = torch.arange(48).chunk(2 * ranks)
    at = [torch.cat((chunks[r], chunks[-1 - r])) for r in range(ranks)]  # zigzag
    mine = [x[at[rank]].requires_grad_() for x in (q, k, v)]
    RingAttention.apply(*mine, at).backward(dout[at[rank]])
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    scores_of(q, k, torch.arange(48), torch.arange(48)).softmax(1).matmul(v).backward(dout)
    for ring, whole in zip(mine, (q, k, v)):
        torch.testing.assert_close(ring.grad, whole.grad[at[rank]])
    print("right on rank", rank)
