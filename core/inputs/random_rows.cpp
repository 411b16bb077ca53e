#include "core/inputs/random_rows.h"

#include <algorithm>

#include "core/base/random.h"

namespace ringscope {
namespace {

RandomTensor stream_of(Tensor tensor) {
  switch (tensor) {
    case Tensor::k:
      return RandomTensor::k;
    case Tensor::v:
      return RandomTensor::v;
    default:
      return RandomTensor::q;
  }
}

}  // namespace

void RandomRows::get(const RowsOfHead& piece, float* to) {
  if (piece.tensor == Tensor::dout) {
    std::fill_n(to, piece.count() * shape_.head_dim, 1.0f);
    return;
  }
  const RandomTensor stream = stream_of(piece.tensor);
  for (Index row = piece.first; row < piece.end; ++row) {
    const Index first =
        (piece.head * shape_.seqlen + piece.rows.global_position(row)) * shape_.head_dim;
    for (Index d = 0; d < shape_.head_dim; ++d)
      *to++ = static_cast<float>(normal(seed_, stream, first + d));
  }
}

}  // namespace ringscope
