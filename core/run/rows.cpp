#include "core/run/rows.h"

#include <algorithm>

namespace ringscope {

namespace {

// Return the vector of `tensor` among the inputs or outputs.
template <class Inputs>
auto& input(Inputs& inputs, Tensor tensor) {
  switch (tensor) {
    case Tensor::q:
      return inputs.q;
    case Tensor::k:
      return inputs.k;
    case Tensor::v:
      return inputs.v;
    default:
      return inputs.dout;
  }
}

std::vector<float>& output(AttentionOutputs& outputs, Tensor tensor) {
  switch (tensor) {
    case Tensor::lse:
      return outputs.lse;
    case Tensor::dq:
      return outputs.dq;
    case Tensor::dk:
      return outputs.dk;
    case Tensor::dv:
      return outputs.dv;
    default:
      return outputs.out;
  }
}

// Call f(offset in the whole tensor, offset in the piece) for every row of `piece`.
template <class F>
void for_each_row(const AttentionShape& shape, const RowsOfHead& piece, F&& f) {
  const Index width = width_of(shape, piece.tensor);
  for (Index row = piece.first; row < piece.end; ++row)
    f((piece.head * shape.seqlen + piece.rows.global_position(row)) * width,
      (row - piece.first) * width);
}

}  // namespace

void AttentionOutputs::resize(const AttentionShape& shape, bool backward) {
  const auto give_size = [&](Tensor tensor) {
    output(*this, tensor)
        .resize(static_cast<std::size_t>(heads_of(shape, tensor) * shape.seqlen *
                                         width_of(shape, tensor)));
  };
  for (const Tensor tensor : kForwardOutputs) give_size(tensor);
  if (backward)
    for (const Tensor tensor : kBackwardOutputs) give_size(tensor);
}

void WholeInputs::get(const RowsOfHead& piece, float* to) {
  const std::vector<float>& whole = input(inputs_, piece.tensor);
  if (whole.empty()) {
    std::fill_n(to, piece.count() * shape_.head_dim, 1.0f);
    return;
  }
  for_each_row(shape_, piece, [&](Index from, Index at) {
    std::copy_n(whole.data() + from, shape_.head_dim, to + at);
  });
}

void WholeOutputs::put(const RowsOfHead& piece, const float* from) {
  std::vector<float>& whole = output(outputs_, piece.tensor);
  const Index width = width_of(shape_, piece.tensor);
  for_each_row(shape_, piece,
               [&](Index to, Index at) { std::copy_n(from + at, width, whole.data() + to); });
}

}  // namespace ringscope
