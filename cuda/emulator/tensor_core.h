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

// How mma and wgmma add products: one by one in f32, k ascending, or as tensor cores do. Those add a
// few products and the accumulator at a time, exact but for what lies below the last bit of the
// largest of them, which is dropped; they drop the bits of the sum that f32 has no place for as
// well (Fasi, Higham, Mikaitis, Pranesh, doi.org/10.7717/peerj-cs.330; Khattak, Mikaitis,
// arXiv:2512.07004). Generations differ in how many they add (4 in V100, more since) and in how many
// bits below they keep (none in V100). `truncated` is V100's way, the least exact of them: the terms
// of a group lose at most 2^-23 of the largest each, and the sum 2^-23 of itself. So n products with
// an accumulator c come within kTruncation n (|c| + sum |a b|) of the exact sum.
enum class Sums { one_by_one, truncated };
inline constexpr int kTruncatedGroup = 4;  // products
inline constexpr double kTruncation = (kTruncatedGroup + 2.0) / kTruncatedGroup * 0x1p-23;

// Choose for products from now on, of any thread; and return the choice.
void set_sums(Sums sums);
Sums sums();

// Return c + a[0] b[0] + ... truncated. `count` is a multiple of kTruncatedGroup.
float truncated_sum(float c, const float* a, const float* b, int count);

// Compute d += a b, as sums() says: a of rows x kProductDepth, b of kProductDepth x columns, d of rows x
// columns. `columns` is a multiple of 8; rows of b and d begin `stride` values apart.
inline constexpr int kProductDepth = 16;
void add_products(const float* a, const float* b, float* d, int rows, int columns, int stride);

// Compute d += a b, of the fragments that a warp's lanes hold.
void mma_m16n8k16(float* d, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  DType dtype);

// Return how often ldmatrix has had to access shared memory again because two rows of a square lie
// in the same banks: 0 to 7 times per square. Counts all grids of this process.
std::int64_t bank_conflicts();

}  // namespace ringscope::cuda::model
