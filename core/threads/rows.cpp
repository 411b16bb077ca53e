#include "core/threads/rows.h"

#include <algorithm>

namespace ringscope {

namespace {

// The inputs' vectors, in the order of Tensor.
constexpr std::vector<float> AttentionInputs::*kInputs[] = {
    &AttentionInputs::q, &AttentionInputs::k, &AttentionInputs::v, &AttentionInputs::dout};
// Call f(offset in the whole tensor, offset in the piece) for every row of `piece`.
template <class F>
void for_each_row(const AttentionShape& shape, const RowsOfHead& piece, F&& f) {
  const Index width = width_of(shape, piece.tensor);
  for (Index row = piece.first; row < piece.end; ++row)
    f((piece.head * seqlen_of(shape, piece.tensor) + piece.rows.global_position(row)) * width,
      (row - piece.first) * width);
}

}  // namespace

void AttentionOutputs::resize(const AttentionShape& shape, std::span<const Tensor> tensors) {
  for (const Tensor tensor : tensors)
    values_of(*this, tensor)
        .assign(static_cast<std::size_t>(heads_of(shape, tensor) * seqlen_of(shape, tensor) *
                                         width_of(shape, tensor)),
                0);
}

AttentionInputs whole_inputs(RowSource& rows, const AttentionShape& shape) {
  AttentionInputs inputs;
  for (const Tensor tensor : {Tensor::q, Tensor::k, Tensor::v}) {
    std::vector<float>& values = inputs.*kInputs[static_cast<int>(tensor)];
    const Index rows_of_head = seqlen_of(shape, tensor);
    const LocalRows all = Partition{PartitionKind::contiguous, rows_of_head, 1}.rows_of(0);
    const Index head_values = rows_of_head * width_of(shape, tensor);
    values.resize(static_cast<std::size_t>(heads_of(shape, tensor) * head_values));
    for (Index head = 0; head < heads_of(shape, tensor); ++head)
      rows.get({tensor, head, all, 0, rows_of_head}, values.data() + head * head_values);
  }
  return inputs;
}

void WholeInputs::get(const RowsOfHead& piece, float* to) {
  const std::vector<float>& whole = inputs_.*kInputs[static_cast<int>(piece.tensor)];
  const Index width = width_of(shape_, piece.tensor);
  if (whole.empty()) {
    std::fill_n(to, piece.count() * width, 1.0f);
    return;
  }
  for_each_row(shape_, piece,
               [&](Index from, Index at) { std::copy_n(whole.data() + from, width, to + at); });
}

void WholeOutputs::put(const RowsOfHead& piece, const float* from) {
  std::vector<float>& whole = values_of(outputs_, piece.tensor);
  const Index width = width_of(shape_, piece.tensor);
  for_each_row(shape_, piece, [&](Index to, Index at) {
    if (piece.tensor == Tensor::dsink)
      whole[to] += from[at];
    else
      std::copy_n(from + at, width, whole.data() + to);
  });
}

}  // namespace ringscope
