"""What test_torch.py starts four times: check_sharded() in cases, each of which prints a line on
rank 0.
"""

import os
import sys

import ringscope
import torch
import torch.distributed as dist

SEQLEN = 64


def main(folder):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, SEQLEN, 16) for _ in range(3))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    rows = ringscope.positions(SEQLEN, size, partition="zigzag", rank=rank, device="cpu").positions
    mine = [x[:, :, rows] for x in (out, q, k, v)]
    options = dict(mask="causal", partition="zigzag")

    def say(name, function):
        try:
            text = function()
        except ringscope.RingscopeError as error:
            text = f"status {error.status}: {error}"
        texts = [None] * size
        dist.all_gather_object(texts, str(text))
        if rank == 0:
            print(f"{name}: {texts[0] if len(set(texts)) == 1 else texts}", flush=True)

    say("gathered", lambda: ringscope.check_sharded(*mine, **options))
    say("written", lambda: ringscope.check_sharded(*mine, folder=folder, **options))
    say("files", lambda: sorted(os.listdir(folder)))
    say(
        "read again",
        lambda: ringscope.check(
            *(f"{folder}/{name}.rank{{r}}.npy" for name in ("out", "q", "k", "v")),
            world_size=size,
            **options,
        ),
    )
    say("bf16", lambda: ringscope.check_sharded(*(x.bfloat16() for x in mine), **options))
    doubled = mine[0] * 2 if rank == 2 else mine[0]
    say("wrong", lambda: ringscope.check_sharded(doubled, *mine[1:], **options))
    say("refused", lambda: ringscope.check_sharded(*mine, mask="causl"))
    # One rank's rows are too few for the partition, and one can't be written.
    short = [x[:, :, :-1] for x in mine] if rank == 1 else mine
    say("short", lambda: ringscope.check_sharded(*short, **options))
    lost = [object()] + mine[1:] if rank == 3 else mine
    say("lost", lambda: ringscope.check_sharded(*lost, **options))
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    half = ringscope.positions(SEQLEN, 2, partition="zigzag", rank=rank % 2, device="cpu").positions
    say(
        "group of two",
        lambda: ringscope.check_sharded(
            *(x[:, :, half] for x in (out, q, k, v)), group=pairs[rank // 2], **options
        ),
    )
    say("gradient", lambda: gradients(q, k, v, rows, options))
    dist.destroy_process_group()


def gradients(q, k, v, rows, options):
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    dout = torch.randn_like(out)
    out.backward(dout)
    named = {"out": out, "q": q, "k": k, "v": v, "dout": dout}
    named.update(dq=q.grad, dk=k.grad, dv=v.grad)
    return ringscope.check_sharded(**{name: x[:, :, rows] for name, x in named.items()}, **options)


if __name__ == "__main__":
    main(sys.argv[1])
