#include "cuda/base/tensor_map.h"

#include <map>
#include <tuple>

#include "cuda/base/check.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/runtime.h"
#endif

namespace ringscope::cuda {
namespace {

// The 4-D view of the tensor that tensor_map.h describes, innermost dimension first.
struct Dimensions {
  std::uint64_t extent[4];
  std::uint64_t stride_bytes[4];
  std::uint32_t box[4];
};

Dimensions dimensions(std::int64_t matrices, std::int64_t rows, int head_dim, int box_rows,
                      int element_bytes) {
  const auto row_bytes = static_cast<std::uint64_t>(head_dim * element_bytes);
  const auto columns = static_cast<std::uint32_t>(kPanelBytes / element_bytes);
  const auto panels = static_cast<std::uint32_t>(row_bytes / kPanelBytes);
  return {{columns, static_cast<std::uint64_t>(rows), panels, static_cast<std::uint64_t>(matrices)},
          {static_cast<std::uint64_t>(element_bytes), row_bytes, kPanelBytes,
           static_cast<std::uint64_t>(rows) * row_bytes},
          {columns, static_cast<std::uint32_t>(box_rows), panels, 1}};
}

#ifdef RINGSCOPE_MODEL

TensorMap encoded(const void* tensor, std::int64_t matrices, std::int64_t rows, int head_dim,
                  int box_rows, int element_bytes) {
  TensorMap map;
  RINGSCOPE_CUDA(model::encode_tensor_map());
  const bool encodable = reinterpret_cast<std::uintptr_t>(tensor) % 16 == 0 &&
                         head_dim * element_bytes % kPanelBytes == 0 && 0 < box_rows &&
                         box_rows <= 256;
  if (!encodable) RINGSCOPE_CUDA(cudaErrorInvalidValue);
  const Dimensions of = dimensions(matrices, rows, head_dim, box_rows, element_bytes);
  map.address = static_cast<const unsigned char*>(tensor);
  map.rank = 4;
  for (int i = 0; i < 4; ++i) {
    map.extent[i] = static_cast<std::int64_t>(of.extent[i]);
    map.stride_bytes[i] = static_cast<std::int64_t>(of.stride_bytes[i]);
    map.box[i] = static_cast<int>(of.box[i]);
  }
  map.swizzle_bytes = 128;
  return map;
}

#else

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// Get the driver's function through the runtime, so that nothing links with the driver library.
EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    RINGSCOPE_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                    cudaEnableDefault, &result));
#else
    RINGSCOPE_CUDA(
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess) RINGSCOPE_CUDA(cudaErrorInsufficientDriver);
    return reinterpret_cast<EncodeTiled>(found);
  }();
  return function;
}

TensorMap encoded(const void* tensor, std::int64_t matrices, std::int64_t rows, int head_dim,
                  int box_rows, int element_bytes) {
  TensorMap map{};
  const Dimensions of = dimensions(matrices, rows, head_dim, box_rows, element_bytes);
  const std::uint32_t every_element[4] = {1, 1, 1, 1};
  // A copy only moves elements, so bf16 serves for f16 as well. f32 are added.
  const CUtensorMapDataType type =
      element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult encoded = encode_tiled()(
      &map, type, 4, const_cast<void*>(tensor), of.extent, of.stride_bytes + 1, of.box,
      every_element, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (encoded != CUDA_SUCCESS) RINGSCOPE_CUDA(static_cast<cudaError_t>(encoded));
  return map;
}

#endif

}  // namespace

// A map says nothing but what it is made of, so it stays right when the memory is another tensor's.
TensorMap make_tensor_map(const void* tensor, std::int64_t matrices, std::int64_t rows,
                          int head_dim, int box_rows, int element_bytes) {
  if (matrices == 0 || rows == 0) return {};
  using Facts = std::tuple<const void*, std::int64_t, std::int64_t, int, int, int>;
  thread_local std::map<Facts, TensorMap> known;
  const Facts facts{tensor, matrices, rows, head_dim, box_rows, element_bytes};
  if (const auto found = known.find(facts); found != known.end()) return found->second;
  const TensorMap map = encoded(tensor, matrices, rows, head_dim, box_rows, element_bytes);
  constexpr std::size_t kMostKnown = 256;  // a rank has some ten
  if (known.size() == kMostKnown) known.clear();
  return known[facts] = map;
}

}  // namespace ringscope::cuda
