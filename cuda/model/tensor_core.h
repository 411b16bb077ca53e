// The model's side of cp.async, ldmatrix and mma.sync (cuda/ptx/async_copy.h, tensor_core.h), with
// fragments laid out as the PTX ISA draws them. Misuse is a ModelError. Called by threads of a
// running block.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace ringscope::cuda::model {

// Copies happen at the wait that promises them, or at once when the schedule is not async_late. A
// thread that ends with copies it did not wait for is a ModelError: on a device, they might still
// write to shared memory that belongs to another block by then.
void cp_async_16(void* shared, const void* global, bool valid);
void cp_async_commit();
void cp_async_wait(int pending);

// `squares` is 4 or 2 (the other lanes' addresses are ignored, as by the device); writes r[0 ..
// squares).
void ldmatrix(std::uint32_t* r, int squares, const void* shared_row, bool transposed);

// d += a b. Products are exact in f32; they are added to d one by one, k ascending.
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  DType dtype);

// How often, so far, ldmatrix had to come back to shared memory because two rows of a square lie in
// the same banks: 0 to 7 times a square. Of all grids of this process.
std::int64_t bank_conflicts();

}  // namespace ringscope::cuda::model
