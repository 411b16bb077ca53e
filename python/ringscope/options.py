"""The flags of the program as keyword options, for editors and type checkers.

A comment stands where the name doesn't say it; `ringscope COMMAND --help` says all, and decides.
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

from .program import PathLike

Size = Union[int, str]  # 131072 or "128k"
Dtype = Literal["f32", "bf16", "f16"]
Hops = Literal["all", "needed"]
Layout = Literal["bhsd", "bshd", "sbhd", "thd"]
ByRank = Union[Mapping[int, float], str]  # {3: 0.5} or "3:0.5"


class PositionsOptions(TypedDict, total=False):
    partition: Any  # a name, or an array with the rank of each position
    mask: str
    convention: Literal[
        "ringscope",
        "ring-flash-attention",
        "ring-flash-attention-llama3",
        "transformer-engine",
        "pytorch",
        "pytorch-ptrr",
        "megatron",
        "megatron-contiguous",
    ]
    label_shift: int


class ShardsOptions(TypedDict, total=False):
    """Those of check_sharded()."""

    partition: Any
    cu_seqlens: Any
    layout: Layout
    scale: float
    softcap: float
    mask: str
    dtype: Dtype
    reference: Literal["mine-is-f32", "mine-is-bf16", "mine-is-f16"]
    rope: float
    rows: Size
    seed: int
    q_offset: Size
    partition_q: Any
    sink_logits: Any


class CheckOptions(ShardsOptions, total=False):
    dsink: Any
    lse: Any
    dq: Any
    dk: Any
    dv: Any
    dout: Any
    world_size: int


class Problem(TypedDict, total=False):
    """What is attended, and how it is dealt out."""

    partition: Any
    world_size: int
    seqlen: Size
    batch: Size
    heads: Size
    heads_kv: Size
    head_dim: Size
    dtype: Dtype
    mask: str
    backward: bool
    scheme: str
    hops: Hops
    speeds: Union[Sequence[float], str]


class RunOptions(Problem, total=False):
    seqlen_q: Size
    q_offset: Size
    partition_q: Any
    head_dim_v: Size
    layout: Layout
    scale: float
    softcap: float
    text: PathLike
    random: bool
    seed: int
    backend: Literal["cpu", "mpi", "cuda", "nccl"]
    kernel: Size
    backward_kernel: Size
    kernel_trace: int
    record_tile: str  # "2:1": of rank 2 at step 1
    gpus: int
    nccl_ctas: int
    kv_buffers: int
    write_partition: PathLike
    trace: PathLike
    verify: bool
    verify_rows: Size
    timeout: float
    inject: str


class Machine(Problem, total=False):
    """The machine that a run is planned or simulated for."""

    gpu: PathLike
    link: PathLike
    between: PathLike
    nodes: int
    nics: int
    measure: bool
    calibrated: bool
    kernels: Literal["fa2", "fa3", "cudnn"]


class PlanOptions(Machine, total=False):
    kv_buffers: int
    layers: int
    width: Size
    hidden: Size
    vocab: Size
    model: str
    recompute: Literal["none", "attention", "layer"]
    offload: Literal["none", "activations"]
    logit_chunks: int
    shard: int
    expert: int
    products: Literal["stored", "fp8"]
    chunks: int
    micro_batches: int
    zero: Literal[0, 1, 2, 3]
    logit_bytes: float
    gradients: Literal["stored", "f32"]
    memory_fraction: float
    tensor: int
    pipeline: int
    data: int
    context: Union[int, Literal["all"]]
    sequences: Size
    interleave: int
    sequence_parallel: bool
    ranks_a_node: int
    explain: bool


class SimulateOptions(Machine, total=False):
    seqlen_q: Size
    q_offset: Size
    partition_q: Any
    head_dim_v: Size
    kv_buffers: Union[int, Literal["in-step"]]
    placement: Literal["block", "cyclic"]
    straggler: ByRank
    slow_link: ByRank
    jitter: float
    hop_jitter: float
    seed: int
    cores: int
    step_us: float
    tile: str
    write_partition: PathLike
    trace: PathLike
    trace_ranks: Union[int, Literal["all"]]
    sweep: Union[Mapping[str, Any], Sequence[str], str]
    csv: PathLike


class ExplainOptions(TypedDict, total=False):
    attention: Union[str, Sequence[str]]  # parts of the names of kernels
    unpack: float


class ShowOptions(TypedDict, total=False):
    unpack: float
    size: str
    bare: bool
    step: int
    at: Union[int, str]
    select: str
    zoom: bool
    range: str
    pin: Union[Sequence[int], str]
    fold: Union[Sequence[int], str]
    table: bool
    difference: bool
    note: Union[Sequence[str], str]
    layer: str
    axis: Literal["time", "steps"]
    story: int
    panel: Literal["timeline", "ring", "mask", "balance", "softmax", "links", "tile"]
    what_if: Union[bool, str]
    theme: Literal["dark", "light"]
