"""With PyTorch on CPUs: its tensors, and four processes over gloo that record and check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ringscope

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None

pytestmark = pytest.mark.skipif(
    torch is None or not dist.is_available() or not dist.is_gloo_available(),
    reason="there is no PyTorch with gloo",
)

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "python" / "examples"


def start(script, *words, folder):
    """Run a script in four processes, in a folder. Return what rank 0 printed, by the word before
    ':'.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    return {name: [text for other, _, text in lines if other == name] for name, _, _ in lines}


def test_tensors_of_all_types():
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
    for dtype, verdict in (
        (torch.float32, "exact"),
        (torch.float64, "exact"),
        (torch.bfloat16, "rounding"),
        (torch.float16, "rounding"),
    ):
        tensors = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in tensors))
        assert ringscope.check(out.to(dtype), *tensors)["verdict"] == verdict


class Wrapper(torch.Tensor if torch else object):
    """A tensor that holds another one, and no values of its own."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        inner = [one.inner if isinstance(one, cls) else one for one in args]
        return cls(function(*inner, **(kwargs or {})))


class Named(torch.Tensor if torch else object):
    """A tensor of another name."""


def test_a_tensor_without_values_to_read_is_named(tmp_path):
    x = torch.randn(1, 2, 64, 16)
    odd = {
        "'Tensor' (float32, meta)": torch.empty(1, 2, 64, 16, device="meta"),
        "'Tensor' (float8_e4m3fn, cpu)": x.to(torch.float8_e4m3fn),
        "'Wrapper' (float32, cpu)": Wrapper(x),
        "'Wrapper' (bfloat16, cpu)": Wrapper(x.bfloat16()),
        "'Tensor' (int64, cpu)": x.long(),
        "'Tensor' (float32, cpu)": x.to_sparse(),
    }
    for said, tensor in odd.items():
        with pytest.raises(ringscope.RingscopeError) as error:
            ringscope.check(x, x, x, tensor)
        assert (
            str(error.value).startswith(f"v: {said} given; accepted: ") and error.value.status == 2
        )
    assert ringscope.check(x * 0, x, x, (x * 0).as_subclass(Named)).ok
    with pytest.raises(
        ringscope.RingscopeError, match="^partition: 'Tensor' .bfloat16, cpu. given"
    ):
        ringscope.check(x, x, x, x, partition=torch.zeros(64, dtype=torch.bfloat16))


def test_a_dtensor_is_named(tmp_path):
    tensors = pytest.importorskip("torch.distributed.tensor")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        mesh = tensors.init_device_mesh("cpu", (1,))
        x = torch.zeros(1, 2, 64, 16)
        shared = tensors.distribute_tensor(x, mesh, [tensors.Shard(2)])
        for check in (ringscope.check, ringscope.check_sharded):
            with pytest.raises(
                ringscope.RingscopeError, match="q: 'DTensor' .*; accepted: .*to_local"
            ):
                check(x, shared, x, x)
        assert ringscope.check(x, shared.full_tensor(), shared.to_local(), x).ok
    finally:
        dist.destroy_process_group()


def test_positions_are_tensors_on_a_device():
    rows = ringscope.positions(16, 4, partition="zigzag", rank=1, device="cpu")
    assert torch.equal(rows.positions, torch.tensor([2, 3, 12, 13]))
    assert all(x.dtype == torch.int64 for x in rows)


def test_sharded_needs_a_group():
    with pytest.raises(ringscope.RingscopeError, match="no process group"):
        ringscope.check_sharded(None, None, None, None)


def test_ranks_check_what_they_hold(tmp_path):
    said = start(HERE / "sharded.py", str(tmp_path / "shards"), folder=tmp_path)
    said = {name: texts[0] for name, texts in said.items()}
    for name in ("gathered", "written", "read again", "group of two", "gradient"):
        assert said[name] in ("exact", "rounding"), name
    assert said["bf16"] == "rounding"
    files = [f"{name}.rank{r}.npy" for name in ("k", "out", "q", "v") for r in range(4)]
    assert said["files"] == str(files)
    assert said["wrong"].startswith("wrong: 16 rows of out (16 to 47)")
    assert said["refused"].startswith("status 2: --mask: 'causl'")
    assert (
        said["short"].startswith("status 2: ")
        and "accepted: 15, as the partition deals 63 positions" in said["short"]
    )
    assert said["lost"].startswith("status 2: rank 3: out: 'object' given")


@pytest.mark.parametrize("mistake", [None, "causal-in-local-order", "missing-block"])
def test_a_ring_of_ones_own_is_recorded_explained_checked_and_shown(tmp_path, mistake):
    said = start(
        EXAMPLES / "own_ring.py", *(["--mistake", mistake] if mistake else []), folder=tmp_path
    )
    if mistake is None:
        assert said["check"] == ["exact"]
    else:
        assert said["check"][0].startswith("wrong: ") and f"; {mistake}" in said["check"][0]
        assert "% sure" in said["check"][0]
    profiles = sorted(file.name for file in (tmp_path / "profile").iterdir())
    assert profiles == [f"rank{r}.pt.trace.json" for r in range(4)]
    assert said["note"][0].startswith("A ring of 4 ranks: 3 layers, forward, 1 attention kernel")
    assert said["note"][1].startswith("Blocks go from rank r to rank r + 1")
    page = tmp_path / said["page"][0]
    assert page.stat().st_size > (1_000_000 if page.suffix == ".html" else 10_000)


def test_pytorchs_context_parallel_is_right(tmp_path):
    pytest.importorskip("torch.distributed.tensor.experimental")
    attention = pytest.importorskip("torch.distributed.tensor.experimental._attention")
    if not hasattr(attention, "_templated_ring_attention"):
        pytest.skip("this PyTorch has its ring elsewhere")
    assert start(EXAMPLES / "context_parallel.py", folder=tmp_path)["check"] == ["exact"]
