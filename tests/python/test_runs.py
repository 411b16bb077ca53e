"""A run of the ring gives arrays, and says what each rank did."""

import numpy as np
import pytest
import ringscope
from naive import attend, causal, inputs, to_bf16

ARRAYS = ("out", "lse", "dq", "dk", "dv")


@pytest.mark.parametrize("layout, axes", [("bhsd", (0, 1, 2, 3)), ("bshd", (0, 2, 1, 3))])
def test_a_run_gives_out_and_lse(layout, axes):
    q, k, v = inputs(heads=4, heads_kv=2)
    run = ringscope.run(
        *(x.transpose(axes) for x in (q, k, v)), layout=layout, mask="causal", partition="zigzag"
    )
    out, lse = attend(q, k, v, causal(64))
    np.testing.assert_allclose(run.out.transpose(axes), out, atol=1e-5)
    np.testing.assert_allclose(run.lse, lse, atol=1e-5)
    assert run.out.dtype == np.float32 and run.dq is None
    assert [rank["rank"] for rank in run["ranks"]] == [0, 1, 2, 3] and run["partition"] == "zigzag"
    assert run._repr_html_().count("<tr>") == 5


def test_gradients_are_those_of_dout():
    q, k, v = inputs(seqlen=16)
    dout = inputs(seqlen=16, seed=1)[0]
    run = ringscope.run(q, k, v, dout=dout, world_size=2, partition=np.arange(16) % 2)
    arrays = {name: getattr(run, name) for name in ARRAYS}
    assert ringscope.check(**arrays, q=q, k=k, v=v, dout=dout)["verdict"] == "exact"
    ones = ringscope.run(q, k, v, backward=True)
    assert np.abs(ones.dv - run.dv).max() > 0.1


def test_values_sinks_and_queries_of_todays_models():
    q, k, v = inputs(heads=4, heads_kv=2)
    q, v, dout = q[:, :, :10], v[..., :6], np.ones((1, 4, 10, 6), dtype=np.float32)
    sinks = np.array([0.5, -1, 2, 0], dtype=np.float32)
    given = {"mask": "causal", "sink_logits": sinks, "q_offset": 20, "partition_q": [0, 1] * 5}
    run = ringscope.run(q, k, v, dout=dout, world_size=2, **given)
    assert run.out.shape == (1, 4, 10, 6) and run.dv.shape == v.shape and run.dsink.shape == (4,)
    made = {name: getattr(run, name) for name in ("lse", "dq", "dk", "dv", "dsink")}
    assert ringscope.check(run.out, q, k, v, dout=dout, world_size=2, **given, **made)
    del given["sink_logits"], made["dsink"]
    assert not ringscope.check(run.out, q, k, v, dout=dout, world_size=2, **given, **made)


def test_inputs_may_be_drawn():
    one, two = (ringscope.run(random=True, seqlen=32, seed=s, verify=True) for s in (5, 6))
    assert one["verify"]["pass"] and one.out.shape == (1, 4, 32, 64)
    assert (one.out != two.out).all()


def test_the_dtype_is_that_of_the_queries():
    q, k, v = (to_bf16(x) for x in inputs())
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (q, k, v)]
    assert ringscope.run(*bits)["dtype"] == "bf16"
    assert ringscope.run(*bits, dtype="f32")["dtype"] == "f32"
    assert ringscope.run(q, k, v)["dtype"] == "f32"


def test_outputs_that_differ_are_no_error():
    with pytest.warns(ringscope.RingscopeWarning, match="out is off"):
        run = ringscope.run(random=True, seqlen=32, mask="causal", verify=True, inject="wrong-mask")
    assert not run["verify"]["pass"] and run.out is not None


@pytest.mark.parametrize(
    "given, named",
    [
        ({"q": [1]}, "q: 'list' (int64) given"),
        ({"q": np.zeros((1, 1, 4, 4))}, "--k"),
        ({"random": True, "seqlen": 0}, "--seqlen"),
        ({"random": True, "world_size": 2, "inject": "killed-rank@1:0"}, "rank 1"),
    ],
)
def test_what_is_refused_or_fails_is_an_error(given, named):
    with pytest.raises(ringscope.RingscopeError) as error:
        ringscope.run(**given)
    assert named in str(error.value)


def test_a_program_that_writes_no_arrays_is_an_error(tmp_path, monkeypatch):
    program = tmp_path / "odd"
    program.write_text("#!/bin/sh\necho '{}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("RINGSCOPE", str(program))
    with pytest.raises(ringscope.RingscopeError, match="run wrote no array out") as error:
        ringscope.run(random=True)
    assert error.value.status == 3
