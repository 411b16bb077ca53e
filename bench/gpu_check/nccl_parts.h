// The parts of a gpu-check about the ring over the real NCCL: its tests on one GPU or more, one of
// them under compute-sanitizer, and its speed. Without NCCL they are not measured. That is no
// failure, because most machines have none.
#pragma once

#include "bench/gpu_check/parts.h"

namespace ringscope::gpu_check {

Verdict nccl_tests(Check& check);
Verdict nccl_memcheck(Check& check);
Verdict nccl_speed(Check& check);

}  // namespace ringscope::gpu_check
