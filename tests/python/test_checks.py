"""Right outputs pass, wrong ones are named, whatever the arrays are."""

import sys
import tempfile
import threading
import types

import numpy as np
import pytest
import ringscope
from naive import attend, causal, documents, inputs, to_bf16, zigzag


def test_right_outputs_are_exact():
    q, k, v = inputs(heads=4, heads_kv=2)
    out, lse = attend(q, k, v, causal(64))
    verdict = ringscope.check(out.astype(np.float32), q, k, v, lse=lse, mask="causal")
    assert verdict.ok and verdict["verdict"] == "exact", verdict
    assert (verdict.mistake, verdict.sure, str(verdict)) == (None, False, "exact")
    assert set(verdict["tensors"]) == {"out", "lse"}


def test_a_sample_says_so_and_a_guess_has_no_number():
    q, k, v = inputs()
    out, _ = attend(q, k, v)
    sampled = ringscope.check(out.astype(np.float32), q, k, v, rows=8)
    assert str(sampled) == "exact in a sample of 8 of 64 rows" and sampled["sampled"]
    full, _ = attend(q, k, v, causal(64))
    mixed = ringscope.check((0.8 * full + 0.2 * out).astype(np.float32), q, k, v)
    assert not mixed.sure and "a guess, not sure: wrong-mask" in str(mixed), mixed
    assert "%" not in str(mixed)


class Tensor:
    """As much of a tensor on a device as is used: no array before cpu() and detach()."""

    def __init__(self, array, dtype="torch.float32", ready=()):
        self.array, self.dtype, self.ready = array, dtype, set(ready)

    def detach(self):
        return Tensor(self.array, self.dtype, self.ready | {"detached"})

    def cpu(self):
        return Tensor(self.array, self.dtype, self.ready | {"on the host"})

    def float(self):
        return Tensor(self.array, "torch.float32", self.ready)

    def numpy(self):
        assert self.ready == {"detached", "on the host"} and self.dtype == "torch.float32"
        return self.array


def test_tensors_are_taken_on_any_device():
    q, k, v = inputs()
    out, _ = attend(q, k, v)
    tensors = [Tensor(x.astype(np.float32)) for x in (out, q, k, v)]
    assert ringscope.check(*tensors)["verdict"] == "exact"


def test_bf16_keeps_its_bits():
    q, k, v = (to_bf16(x) for x in inputs())
    out = to_bf16(attend(q, k, v)[0])
    verdict = ringscope.check(*(Tensor(x, "torch.bfloat16") for x in (out, q, k, v)))
    assert (verdict["verdict"], verdict["dtype"]) == ("rounding", "bf16"), verdict


def test_a_tensors_dtype_says_which_rounding_is_right():
    q, k, v = inputs()
    rounded = [to_bf16(attend(q, k, v)[0]), q, k, v]
    # NumPy has no bf16, so that an array of f32 may be what bf16 became.
    assert ringscope.check(*rounded)["dtype"] == "bf16"
    tensors = [Tensor(x.astype(np.float32)) for x in rounded]
    verdict = ringscope.check(*tensors)
    assert (verdict["verdict"], verdict["dtype"]) == ("wrong", "f32"), verdict
    assert ringscope.check(*tensors, dtype="bf16").ok
    assert ringscope.check(*tensors, reference="mine-is-bf16").ok
    # Zeros fit in bf16, which is tried first.
    zeros = np.zeros((1, 2, 8, 16), dtype=np.float16)
    assert ringscope.check(*[zeros] * 4)["dtype"] == "f16"
    assert (
        ringscope.check(None, *[zeros] * 3, dq=Tensor(zeros.astype(np.float32)))["dtype"] == "f32"
    )


@pytest.mark.parametrize("layout, axes", [("bshd", (0, 2, 1, 3)), ("sbhd", (2, 0, 1, 3))])
def test_the_order_of_the_axes_is_told(layout, axes):
    q, k, v = inputs()
    tensors = [x.transpose(axes) for x in (attend(q, k, v)[0], q, k, v)]
    assert ringscope.check(*tensors, layout=layout).ok


def test_documents_are_given_by_cu_seqlens():
    q, k, v = inputs()
    packed = [x[0].swapaxes(0, 1) for x in (attend(q, k, v, documents(40, 24))[0], q, k, v)]
    options = dict(layout="thd", mask="causal", cu_seqlens=np.array([0, 40, 64], dtype=np.int32))
    assert ringscope.check(*packed, **options).ok
    packed[0] = attend(q, k, v, causal(64))[0][0].swapaxes(0, 1)
    verdict = ringscope.check(*packed, **options)
    assert verdict.mistake == "wrong-mask" and verdict["suspects"][0]["mask"] == "causal"


@pytest.mark.parametrize("as_name", [True, False])
def test_a_file_per_rank_is_put_back_by_the_partition(tmp_path, as_name):
    q, k, v = inputs()
    tensors = {"out": attend(q, k, v, causal(64))[0], "q": q, "k": k, "v": v}
    ranks = np.empty(64, dtype=int)
    for rank, rows in enumerate(zigzag(64, 4)):
        ranks[rows] = rank
        for name, array in tensors.items():
            np.save(tmp_path / f"{name}.rank{rank}.npy", array[:, :, rows])
    paths = [tmp_path / (name + ".rank{r}.npy") for name in tensors]
    partition = "zigzag" if as_name else ranks
    assert ringscope.check(*paths, mask="causal", partition=partition, world_size=4).ok
    assert not ringscope.check(*paths, mask="causal", world_size=4).ok


def without_block_of_rank_1(q, k, v):
    mask = causal(64)
    mask[:, zigzag(64, 4)[1]] &= np.eye(64, dtype=bool)[:, zigzag(64, 4)[1]]
    return attend(q, k, v, mask)[0]


def nan_in_one_row(q, k, v):
    out = attend(q, k, v, causal(64))[0]
    out[0, 1, 7] = np.nan
    return out


@pytest.mark.parametrize(
    "mistaken, mistake",
    [
        (lambda q, k, v: attend(q, k, v)[0], "wrong-mask"),
        (lambda q, k, v: attend(q, k, v, causal(64), scale=1 / 16)[0], "scale"),
        (lambda q, k, v: np.roll(attend(q, k, v, causal(64))[0], 16, axis=2), "rows-of-other-rank"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_mistake_is_named(mistaken, mistake, seed):
    q, k, v = inputs(seed=seed)
    out = mistaken(q, k, v).astype(np.float32)
    verdict = ringscope.check(out, q, k, v, mask="causal", world_size=4)
    assert not verdict.ok and verdict.sure
    assert verdict.mistake == mistake, verdict
    assert str(verdict).startswith("wrong: ") and mistake in str(verdict)


@pytest.mark.parametrize("mistaken", [without_block_of_rank_1, nan_in_one_row])
def test_other_wrong_outputs_do_not_pass(mistaken):
    q, k, v = inputs()
    out = mistaken(q, k, v).astype(np.float32)
    verdict = ringscope.check(out, q, k, v, mask="causal", partition="zigzag", world_size=4)
    assert not verdict.ok
    assert f"{verdict['tensors']['out']['wrong_rows']} rows of out" in str(verdict)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"out": None}, "no output of yours given"),
        ({"k": np.zeros((1, 1, 8, 16), dtype=np.float32)}, "no more queries than keys"),
        ({"q": np.zeros((1, 2, 64, 16), dtype=np.int64)}, "q: 'ndarray' (int64) given; accepted"),
        ({"q": object()}, "q: 'object' given; accepted: an array"),
        ({"q": [[1.0], [1.0, 2.0]]}, "q: 'list' given; accepted: an array"),
        ({"k": np.zeros((2, 64, 16))}, "k: 3 dimensions (2, 64, 16) given"),
        ({"lse": np.zeros((1, 64))}, "lse: shape "),
        ({"cu_seqlens": [0, 3.5, 64]}, "cu_seqlens: 'list' (float64) given; accepted: integers"),
        ({"partition": [0, 1, 2]}, "partition: an array of 3 ranks given"),
        ({"mask": "causl"}, "--mask"),
        ({"k": "no/such.npy"}, "--k no/such.npy"),
    ],
)
def test_bad_input_is_an_error(change, named):
    q, k, v = inputs()
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.check(**{"out": q, "q": q, "k": k, "v": v, **change})
    assert named in str(error.value) and str(error.value) == error.value.args[0]
    assert error.value.status == 2 and tempfile.gettempdir() not in str(error.value)


def test_a_partition_of_fractions_is_refused():
    q, k, v = inputs()
    for partition in ([0.5] * 64, np.zeros(64), np.zeros(64, dtype=bool)):
        with pytest.raises(ringscope.RingscopeError, match=r"^partition: '.*' \(.*\) given; acc"):
            ringscope.check(q, q, k, v, partition=partition)


@pytest.mark.parametrize("folder", ["a{r}b", "a.safetensors:b", "a,b c"])
def test_any_folder_for_temporary_files_will_do(tmp_path, monkeypatch, folder):
    (tmp_path / folder).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
    q, k, v = inputs()
    ranks = np.arange(64) % 4
    assert ringscope.check(attend(q, k, v)[0], q, k, v, partition=ranks)["verdict"] == "exact"


def test_no_folder_for_temporary_files_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    q, k, v = inputs()
    with pytest.raises(ringscope.RingscopeError, match="none/") as error:
        ringscope.check(q, q, k, v)
    assert error.value.status == 3


def test_paths_may_begin_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    q, k, v = inputs()
    for name, array in {"-out": attend(q, k, v)[0], "--json": q, "-k": k, "-v": v}.items():
        np.save(name + ".npy", array)
    paths = [name + ".npy" for name in ("-out", "--json", "-k", "-v")]
    assert ringscope.check(*paths)["verdict"] == "exact"


def test_other_ranks_hear_from_the_one_that_checks(monkeypatch):
    """A rank that waits for a long check takes part in short collectives, not in a single one."""
    told, enough = [], threading.Event()

    def broadcast(answer, src, group):
        told.append(answer[0] is not None)
        if len(told) == 3:
            enough.set()

    def gather(share, shares, dst, group):
        shares[0] = share

    dist = types.ModuleType("torch.distributed")
    vars(dist).update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda group: 0,
        get_world_size=lambda group: 1,
        gather_object=gather,
        broadcast_object_list=broadcast,
    )
    torch = types.ModuleType("torch")
    vars(torch)["distributed"] = dist
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    monkeypatch.setattr(ringscope.checks, "TELL_EVERY_S", 0)
    checked = ringscope.checks._check_shares

    def slowly(*shares):
        assert enough.wait(60)
        return checked(*shares)

    monkeypatch.setattr(ringscope.checks, "_check_shares", slowly)
    q, k, v = inputs()
    out, _ = attend(q, k, v)
    assert ringscope.check_sharded(out.astype(np.float32), q, k, v).ok
    assert len(told) > 3 and told[-1] and not any(told[:-1])
