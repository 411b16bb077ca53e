"""`ringscope check`: outputs of `ringscope run`, right and spoiled, in the types and files that users have. (Layouts, documents,
files of ranks and mistakes: tests/python/test_checks.py, which asks the same program.)"""

import json
import struct

import numpy as np
import pytest
from program import expect_ended

INPUTS = "--q q.npy --k k.npy --v v.npy "
PROBLEM = "--mask causal --partition zigzag --world-size 4"
GIVEN = INPUTS + PROBLEM


@pytest.fixture
def solved(program):
    """Q, K and V of 2 batch entries, 4 heads (2 kv), 60 positions and head_dim 8, and what run makes of them."""
    for name, heads in (("q", 4), ("k", 2), ("v", 2)):
        i = np.arange(2 * heads * 60 * 8)
        values = np.sin(0.37 * i * (1 + i % 13) + ord(name)).astype(np.float32)
        np.save(program.path(name), values.reshape(2, heads, 60, 8))
    program.well("run", GIVEN, "--backward --out o.npy --lse l.npy --dq dq.npy --dk dk.npy --dv dv.npy")
    return program


def load(program, name):
    return np.load(program.path(name + ".npy"))


def checked(program, *command):
    """Return what a check says of wrong outputs."""
    ended = program.run("check --json", *command)
    assert ended.returncode == 1, ended
    return json.loads(ended.stdout)


def test_a_right_result_is_exact(solved):
    said = solved.json("check --out o.npy --lse l.npy --dq dq.npy --dk dk.npy --dv dv.npy", GIVEN)
    assert said["verdict"] == "exact" and said["suspects"] == []
    assert set(said["tensors"]) == {"out", "lse", "dq", "dk", "dv"}
    for tensor in said["tensors"].values():
        worst = tensor["worst_row"]
        assert worst["error"] <= min(worst["tolerance"], tensor["max_abs"])
        assert tensor["rms"] <= tensor["max_abs"]


def test_the_rank_whose_rows_are_others_is_named(solved):
    # Rank 1 of 4 holds positions 8 to 15 and 46 to 52; it gets those of rank 2, 16 to 23 and 39 to 45.
    out = load(solved, "o")
    out[:, :, 8:16], out[:, :, 46:53] = out[:, :, 16:24].copy(), out[:, :, 39:46].copy()
    np.save(solved.path("mine"), out)
    said = checked(solved, "--out mine.npy", GIVEN)
    assert said["verdict"] == "wrong"
    assert (said["suspects"][0]["mistake"], said["suspects"][0]["rank"]) == ("rows-of-other-rank", 1)
    errors = said["rms_error"]["out"]["by_rank_and_chunk"]
    assert errors[1][0] > 0.01 and errors[2][0] <= 1e-5
    out = load(solved, "o")
    out[:, :, 46] += 1  # the first row of its upper chunk
    np.save(solved.path("one"), out)
    errors = checked(solved, "--out one.npy", GIVEN)["rms_error"]["out"]["by_rank_and_chunk"]
    assert errors[1][0] <= 1e-5 and errors[1][1] > 0.01
    text = solved.run("check --lse l.npy --out mine.npy", GIVEN)
    assert text.returncode == 1
    assert "right: lse; wrong: out" in text.stdout
    assert "likely mistake: rows-of-other-rank, on rank 1" in text.stdout


# bf16 outputs are rounding by their own looks, and by the flags that say so; not if f32 is asked for.
def test_bf16_is_judged_by_its_rounding(solved):
    solved.well("run", GIVEN, "--dtype bf16 --out o16.npy")
    np.save(solved.path("bits"), (load(solved, "o16").view(np.uint32) >> 16).astype(np.uint16))
    for how in ("--out o16.npy", "--out bits.npy", "--out o16.npy --dtype bf16", "--out bits.npy --reference mine-is-bf16"):
        said = solved.json("check", GIVEN, how)
        assert (said["verdict"], said["dtype"]) == ("rounding", "bf16"), how
    remark = solved.json("check --out o16.npy", GIVEN)["remarks"][-1]
    assert "out: exact for bf16, " in remark and " times too coarse for f32" in remark
    assert remark in solved.run("check --out o16.npy", GIVEN).stdout
    assert solved.run("check --out o16.npy --dtype f32", GIVEN).returncode == 1
    # Code that computes with the inputs as they are, and rounds the output alone, is right as well.
    solved.well("run --scale 8 --out sharp.npy", GIVEN)
    bits = load(solved, "sharp").view(np.uint32)
    np.save(solved.path("late"), ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))
    assert solved.json("check --scale 8 --out late.npy", GIVEN)["verdict"] == "rounding"


# What NaN among the inputs makes is right if it is NaN, and tells of no mistake if it is not.
def test_no_mistake_is_named_for_what_nan_inputs_reach(solved):
    q = load(solved, "q")
    q.reshape(-1)[77] = np.nan
    np.save(solved.path("q"), q)
    kept = solved.run("check --out o.npy", GIVEN)
    assert kept.returncode == 1 and "--q: 1 NaN" in kept.stderr
    assert "No known mistake explains the error; NaN and infinite inputs" in kept.stdout
    assert json.loads(solved.run("check --json --out o.npy", GIVEN).stdout)["suspects"] == []
    solved.run("run --out o.npy", GIVEN)
    assert solved.run("check --out o.npy", GIVEN).returncode == 0


@pytest.mark.parametrize("layout, axes", [("bshd", (0, 2, 1, 3)), ("sbhd", (2, 0, 1, 3))])
def test_run_takes_and_writes_other_layouts(solved, layout, axes):
    for name in ("q", "k", "v", "o"):
        np.save(solved.path("t" + name), np.ascontiguousarray(load(solved, name).transpose(axes)))
    turned = f"--q tq.npy --k tk.npy --v tv.npy --layout {layout} {PROBLEM}"
    assert solved.json("check --out to.npy", turned)["verdict"] == "exact"
    solved.well("run --out again.npy", turned)
    assert np.array_equal(load(solved, "again"), load(solved, "to"))


# Without a word of the layout: the sizes show that something is off.
def test_a_layout_that_was_not_said_is_doubted(solved):
    for name in ("q", "k", "v"):
        np.save(solved.path("t" + name), np.ascontiguousarray(load(solved, name).transpose(0, 2, 1, 3)))
    solved.refused("run --q tq.npy --k tk.npy --v tv.npy", "--layout bshd")
    for shape, command, said in (
        ((1, 90, 4, 8), "run", ("90 heads of 4 positions", "--layout bshd")),
        ((90, 1, 4, 8), "check --layout bshd --out x.npy", ("90 batch entries of 1 position", "--layout sbhd")),
    ):
        np.save(solved.path("x"), np.resize(0.01 * np.arange(17, dtype=np.float32), shape))
        ended = solved.run(command, "--q x.npy --k x.npy --v x.npy")
        assert ended.returncode < 2 and all(part in ended.stderr for part in said), ended


def test_files_of_ranks_that_are_not_there_are_refused(solved):
    for name in ("q", "k", "v", "o"):
        for rank in range(4):
            np.save(solved.path(f"{rank}.{name}"), load(solved, name)[:, :, rank::4])
    ranks = "--q {r}.q.npy --k {r}.k.npy --v {r}.v.npy --mask causal "
    assert solved.json("check --out {r}.o.npy --partition striped", ranks)["verdict"] == "exact"
    assert solved.run("check --out {r}.o.npy --partition contiguous", ranks).returncode == 1
    solved.refused("check --out {r}.o.npy --world-size 5 " + ranks, "--q", "4.q.npy")


def test_a_sample_of_rows_is_called_one(solved):
    sample = "check --rows 20 --out o.npy --lse l.npy --dq dq.npy"
    said = solved.json(sample, GIVEN)
    assert (said["verdict"], said["rows"], said["sampled"]) == ("exact", 20, True)
    assert not solved.json("check --out o.npy", GIVEN)["sampled"]
    assert said["remarks"][0] == "a sample of 20 of the 60 query rows of each head"
    text = solved.run(sample, GIVEN).stdout
    assert "exact: " in text and ", in the rows of the sample" in text
    solved.run("run", GIVEN, "--inject scale --out wrong.npy --lse wl.npy")
    wrong = checked(solved, "--rows 20 --seed 3 --out wrong.npy --lse wl.npy", GIVEN)
    assert wrong["suspects"][0]["mistake"] == "scale" and wrong["tensors"]["lse"]["wrong_rows"] == 20
    moved = "a sample shows no single rows that have moved"
    assert moved in solved.run("check --rows 20 --seed 3 --out wrong.npy", GIVEN).stdout
    # Among two ranks the own block alone is the other's block missing, so a sample leaves it open.
    solved.run("run", INPUTS, "--world-size 2 --inject own-block-only --out own.npy")
    for rows in ("", "--rows 12"):
        (own, *_) = checked(solved, "--world-size 2 --out own.npy", INPUTS, rows)["suspects"]
        assert own["mistake"] == "own-block-only" and own["sure"] == (rows == "")


def test_cumulative_lengths_are_taken_and_refused(solved):
    solved.well("run", INPUTS, "--mask causal+documents:13,30,17 --out d.npy")
    most = np.iinfo(np.int64).max
    ends = dict(cu=[0, 13, 43, 60], from1=[1, 13, 43, 60], off=[0, 14, 44, 60], falls=[0, most, -most, 60])
    for name, values in {**ends, "long": [0, 13, most], "none": [0]}.items():
        np.save(solved.path(name), np.array(values, dtype=np.int64))
    given = f"--out d.npy --mask causal {INPUTS} --cu-seqlens "
    assert solved.json("check", given + "cu.npy")["verdict"] == "exact"
    suspect = checked(solved, given + "off.npy")["suspects"][0]
    assert (suspect["mistake"], suspect["mask"]) == ("wrong-mask", "causal+documents:13,30,17")
    solved.refused("check " + given + "from1.npy", "--cu-seqlens", "from 1")
    for bad in ("falls", "long", "none", "o", "absent"):
        assert solved.run("check", given + bad + ".npy").returncode == 2, bad


def safetensors(header, data):
    """Return a file's bytes: a length, a JSON object, and raw values."""
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + data


def entry(array, begin=0):
    return {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, begin + array.nbytes]}


ALL = "check --q all.safetensors:q --k all.safetensors:k --v all.safetensors:v " + PROBLEM


@pytest.fixture
def packed(solved):
    """The same with inputs in one file of safetensors."""
    tensors = {name: load(solved, name) for name in ("q", "k", "v")}
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        header[name] = entry(array, len(data))
        data += array.tobytes()
    solved.path("all.safetensors").write_bytes(safetensors(header, data))
    solved.path("cut.safetensors").write_bytes(safetensors(header, tensors["q"].tobytes()))
    out = load(solved, "o")
    solved.path("out.safetensors").write_bytes(safetensors({"x": entry(out)}, out.tobytes()))
    return solved


def test_safetensors_are_taken(packed):
    assert packed.json(ALL, "--out out.safetensors")["verdict"] == "exact"
    packed.refused(ALL + " --out all.safetensors", "--out", "3 tensors", "q, k, v")
    packed.refused(ALL + " --out all.safetensors:o", "no tensor 'o'")
    packed.refused(ALL + " --out cut.safetensors:v", "data_offsets")


DEEP = "[" * 100_000
SIZE = 2 * 4 * 60 * 8 * 4


def header_with(**fields):
    return {"x": {"dtype": "F32", "shape": [2, 4, 60, 8], "data_offsets": [0, SIZE], **fields}}


@pytest.mark.parametrize(
    "header",
    [
        "", "{}", "[]", '"x":7', DEEP, '{"x":' + DEEP, '{"x":7}', '{"\\u0000":{}}',
        header_with(dtype="I64"), header_with(dtype={}),
        header_with(shape=[0, 4, 60, 8]), header_with(shape=[-2, 4, 60, 8]), header_with(shape=[2.5, 4, 60, 8]),
        header_with(shape=[1e300, 4, 60, 8]), header_with(shape=[2**63 - 1, 4, 60, 8]), header_with(shape=[1, 1, 1, 4, 60, 8]),
        {"x": {"dtype": "F32", "shapes": [2, 4, 60, 8], "data_offsets": [0, SIZE]}},
        header_with(data_offsets=[1, SIZE]), header_with(data_offsets=[-(2**63), SIZE]), header_with(data_offsets=[SIZE]),
    ],
    ids=lambda header: str(header)[:60],
)  # fmt: skip
def test_headers_of_safetensors_that_lie_are_refused(packed, header):
    packed.path("bad.safetensors").write_bytes(safetensors(header, load(packed, "o").tobytes()))
    ended = packed.run(ALL, "--out bad.safetensors")
    assert ended.returncode == 2 and len(ended.stderr) < 1000, ended


def test_files_of_other_kinds_are_refused(packed):
    for text in (b"\xff" * 8 + b"{}", b"1234"):
        packed.path("bad.safetensors").write_bytes(text)
        packed.refused(ALL + " --out bad.safetensors", "truncated")
    packed.path("q.pt").write_text("PK")
    ended = packed.run("check --out o.npy --q q.pt --k k.npy --v v.npy")
    expect_ended(ended, 2, "torch.load('q.pt'", "numpy.save('q.npy'", "accepted")


# An lse with its axes the other way round is read, and it is said how.
def test_it_is_said_how_an_lse_was_read(solved):
    np.save(solved.path("oblong"), np.ascontiguousarray(load(solved, "l").swapaxes(1, 2)))
    said = solved.json("check --lse oblong.npy", GIVEN)
    assert said["verdict"] == "exact"
    assert "(2, 60, 4) is read as [batch, seqlen, heads]" in said["remarks"][0]
    assert "lse-axes-swapped" in said["remarks"][0]
    assert solved.json("check --lse l.npy", GIVEN)["remarks"] == []


def test_other_sizes_are_refused(solved):
    solved.refused("check --out dk.npy " + INPUTS, "--out", "dk.npy", "4 heads")
