// What the copy engine (TMA) knows of a tensor in device memory: its place, shape, strides, the box
// that one copy brings, and how the box is swizzled. The real thing is 128 opaque bytes that the
// driver encodes.
#pragma once

#ifdef RINGSCOPE_MODEL
#include "cuda/model/tensor_map.h"
#else
#include <cuda.h>
#endif

#include <cstdint>

namespace ringscope::cuda {

// Tensors of 16-bit elements seen as 4-D, innermost first:
//
//   {64 elements of a row's head_dim, rows, head_dim / 64, batch * heads}
//
// and boxes of 64 x box_rows x head_dim/64 x 1. So one copy brings `box_rows` whole rows as
// head_dim/64 panels of [box_rows][64 elements = 128 bytes], which is the layout that WGMMA reads
// with the 128-byte swizzle. `rows` is a dimension of its own: rows past the end are zeros, never
// those of the next head.
inline constexpr int kPanelColumns = 64;

#ifdef RINGSCOPE_MODEL
using TensorMap = model::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

// The map of the tensor [matrices, rows, head_dim] (C order, 16-bit elements, aligned to 16 bytes)
// at `tensor`; head_dim a multiple of 64, box_rows at most 256. All zeros, not to be used by a
// copy, when the tensor is empty. Throws CudaError when the driver refuses, or has no such
// function.
TensorMap make_tensor_map(const void* tensor, std::int64_t matrices, std::int64_t rows,
                          int head_dim, int box_rows);

}  // namespace ringscope::cuda
