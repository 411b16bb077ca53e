// Tells the copy engine (TMA) about a tensor in device memory: its address, shape and strides, the
// box that one copy brings, and how the box is swizzled. A real map is 128 opaque bytes that the
// driver encodes.
#pragma once

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/tensor_map.h"
#else
#include <cuda.h>
#endif

#include <cstdint>

namespace ringscope::cuda {

// A tensor is seen as 4-D, innermost dimension first, in panels of 128 bytes of a row:
//
//   {elements of a panel, rows, panels of a row, batch * heads}
//
// A box has box_rows rows of all panels of one matrix. One copy therefore moves `box_rows` whole rows
// as panels of [box_rows][128 bytes], the layout that WGMMA reads with the 128-byte swizzle. Because
// `rows` is a dimension of its own, rows past the end are zeros, never those of the next head.
inline constexpr int kPanelBytes = 128;
inline constexpr int kPanelColumns = kPanelBytes / 2;  // of 16-bit elements

#ifdef RINGSCOPE_MODEL
using TensorMap = model::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

// Return the map of the tensor [matrices, rows, head_dim] (C order, aligned to 16 bytes) at `tensor`, of
// elements of 2 bytes, or f32 of 4. A row must have whole panels, box_rows is at most 256. An empty
// tensor has a map of all zeros, which no copy may use. A thread encodes equal maps once. Throws
// CudaError when the driver refuses or lacks the function.
TensorMap make_tensor_map(const void* tensor, std::int64_t matrices, std::int64_t rows,
                          int head_dim, int box_rows, int element_bytes = 2);

}  // namespace ringscope::cuda
