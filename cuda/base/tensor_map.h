// Tells the copy engine (TMA) about a tensor in device memory: its address, shape and strides, the
// box that one copy brings, and how the box is swizzled. A real map is 128 opaque bytes that the
// driver encodes.
#pragma once

#ifdef RINGSCOPE_MODEL
#include "cuda/model/tensor_map.h"
#else
#include <cuda.h>
#endif

#include <cstdint>

namespace ringscope::cuda {

// A tensor of 16-bit elements is seen as 4-D, innermost dimension first:
//
//   {64 elements of a row's head_dim, rows, head_dim / 64, batch * heads}
//
// A box has 64 x box_rows x head_dim/64 x 1 elements. One copy therefore brings `box_rows` whole
// rows as head_dim/64 panels of [box_rows][64 elements = 128 bytes], the layout that WGMMA reads
// with the 128-byte swizzle. Because `rows` is a dimension of its own, rows past the end are zeros,
// never those of the next head.
inline constexpr int kPanelColumns = 64;

#ifdef RINGSCOPE_MODEL
using TensorMap = model::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

// Return the map of the tensor [matrices, rows, head_dim] (C order, 16-bit elements, aligned to 16
// bytes) at `tensor`. head_dim must be a multiple of 64, box_rows at most 256. An empty tensor has a map of all zeros,
// which no copy may use. A thread encodes equal maps once. Throws CudaError when the driver refuses
// or lacks the function.
TensorMap make_tensor_map(const void* tensor, std::int64_t matrices, std::int64_t rows,
                          int head_dim, int box_rows);

}  // namespace ringscope::cuda
