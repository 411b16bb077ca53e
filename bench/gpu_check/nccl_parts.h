// The parts of a gpu-check about the ring over the real NCCL: its tests on one GPU or more, the same
// under compute-sanitizer, and its speed. Without an NCCL they are not measured, which is no failure:
// most machines have none.
#pragma once

#include "bench/gpu_check/parts.h"

namespace ringscope::gpu_check {

Verdict nccl_tests(Check& check);
Verdict nccl_memcheck(Check& check);
Verdict nccl_speed(Check& check);

}  // namespace ringscope::gpu_check
