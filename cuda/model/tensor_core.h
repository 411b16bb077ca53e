// Models cp.async, ldmatrix and mma.sync (cuda/ptx/tensor_core.h), with fragments
// laid out as the PTX ISA draws them. Misuse is a ModelError. Threads of a running block call it.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace ringscope::cuda::model {

// A copy happens at the wait that guarantees it, or at once when the schedule is not async_late. A
// thread that ends with copies it did not wait for is a ModelError, because on a device they might
// still write to shared memory that belongs to another block by then.
void cp_async_16(void* shared, const void* global, bool valid);
void cp_async_commit();
void cp_async_wait(int pending);

// Load four squares.
void ldmatrix_x4(std::uint32_t (&r)[4], const void* shared_row, bool transposed);

// Compute d += a b. Products are exact in f32 and are added to d one by one, k ascending.
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  DType dtype);

// Return how often ldmatrix has had to access shared memory again because two rows of a square lie
// in the same banks: 0 to 7 times per square. Counts all grids of this process.
std::int64_t bank_conflicts();

}  // namespace ringscope::cuda::model
