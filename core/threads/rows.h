// How rows get into and out of a run: piece by piece, by tensor, head and local rows, so nobody who
// needs only a part ever holds the whole. Sources and sinks are a process's whole tensors (here),
// other processes (core/processes/mpi) and generators (generated_rows.h).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/names.h"
#include "core/problem/partition.h"
#include "core/problem/shape.h"

namespace ringscope {

enum class Tensor { q, k, v, dout, out, lse, dq, dk, dv, dsink };

// Return the tensors that a rank takes in, or gives out, in this order.
inline std::span<const Tensor> input_tensors(bool backward) {
  static constexpr Tensor all[] = {Tensor::q, Tensor::k, Tensor::v, Tensor::dout};
  return std::span(all).first(backward ? 4 : 3);
}
inline std::span<const Tensor> output_tensors(bool backward, bool has_sinks = false) {
  static constexpr Tensor all[] = {Tensor::out, Tensor::lse, Tensor::dq,
                                   Tensor::dk,  Tensor::dv,  Tensor::dsink};
  return std::span(all).first(!backward ? 2 : has_sinks ? 6 : 5);
}

constexpr auto names_of(Tensor) {
  return list_of({"q", "k", "v", "dout", "out", "lse", "dq", "dk", "dv", "dsink"});
}

constexpr bool is_key_side(Tensor tensor) {
  return tensor == Tensor::k || tensor == Tensor::v || tensor == Tensor::dk || tensor == Tensor::dv;
}
// Return the tensor's batch entries x heads (heads_of), the rows of each (seqlen_of) and its values
// per row (width_of). dsink has one row per head, whatever the batch.
constexpr Index heads_of(const AttentionShape& shape, Tensor tensor) {
  if (tensor == Tensor::dsink) return shape.num_heads;
  return shape.batch * (is_key_side(tensor) ? shape.num_heads_kv : shape.num_heads);
}
constexpr Index seqlen_of(const AttentionShape& shape, Tensor tensor) {
  if (tensor == Tensor::dsink) return 1;
  return is_key_side(tensor) ? shape.seqlen : shape.queries();
}
constexpr Index width_of(const AttentionShape& shape, Tensor tensor) {
  if (tensor == Tensor::lse || tensor == Tensor::dsink) return 1;
  const bool is_of_values = tensor == Tensor::v || tensor == Tensor::dout ||
                            tensor == Tensor::out || tensor == Tensor::dv;
  return is_of_values ? shape.value_dim() : shape.head_dim;
}

// Rows [first, end) of a rank's local rows in one head, counted over batch entries and heads. `rows` are
// places in the tensor: of queries, from the first query on.
struct RowsOfHead {
  Tensor tensor;
  Index head;
  const LocalRows& rows;
  Index first, end;

  Index count() const { return end - first; }
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Write the values of `piece`, [count, head_dim], to `to`. Throw RunError.
  virtual void get(const RowsOfHead& piece, float* to) = 0;
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  // Take the values of `piece`, [count, width]; those of dsink are added up. Throw RunError.
  virtual void put(const RowsOfHead& piece, const float* from) = 0;
};

// f32 tensors of the whole sequence, [batch, heads or heads-kv, seqlen, width_of()]. Ranks round them
// to the run's dtype when they take their rows. An empty dout means ones.
struct AttentionInputs {
  std::vector<float> q, k, v, dout;
};

struct AttentionOutputs {
  std::vector<float> out;         // [batch, heads, seqlen, head_dim_v]
  std::vector<float> lse;         // [batch, heads, seqlen]
  std::vector<float> dq, dk, dv;  // backward only
  std::vector<float> dsink;       // [heads]; likewise, if there are sinks

  // Resize all of them, and set them to 0.
  void resize(const AttentionShape& shape, std::span<const Tensor> tensors);
};

// Return the output tensor of AttentionOutputs, or of the oracle's NaiveResult.
template <class Outputs>
auto& values_of(Outputs& outputs, Tensor tensor) {
  decltype(&outputs.out) const all[] = {&outputs.out, &outputs.lse, &outputs.dq,
                                        &outputs.dk,  &outputs.dv,  &outputs.dsink};
  return *all[static_cast<int>(tensor) - static_cast<int>(Tensor::out)];
}

// Return Q, K and V of all rows. dO stays empty.
AttentionInputs whole_inputs(RowSource& rows, const AttentionShape& shape);

// The whole tensors of this process as a source and a sink, which they must outlive.
class WholeInputs : public RowSource {
 public:
  WholeInputs(const AttentionShape& shape, const AttentionInputs& inputs)
      : shape_(shape), inputs_(inputs) {}
  void get(const RowsOfHead& piece, float* to) override;

 private:
  AttentionShape shape_;
  const AttentionInputs& inputs_;
};

class WholeOutputs : public RowSink {
 public:
  WholeOutputs(const AttentionShape& shape, AttentionOutputs& outputs)
      : shape_(shape), outputs_(outputs) {}
  void put(const RowsOfHead& piece, const float* from) override;

 private:
  AttentionShape shape_;
  AttentionOutputs& outputs_;
};

// Call f(piece) for all rows of `tensor` that a rank with `rows` holds, head by head, in pieces of
// 16 KiB of f32 or one row. The order is fixed, so a sender and a receiver agree.
template <class F>
void for_each_piece(const AttentionShape& shape, Tensor tensor, const LocalRows& rows, F&& f) {
  constexpr Index kValues = 4096;
  const Index most = max_of(kValues / width_of(shape, tensor), 1);
  for (Index head = 0; head < heads_of(shape, tensor); ++head)
    for (Index first = 0; first < rows.size(); first += most)
      f(RowsOfHead{tensor, head, rows, first, min_of(first + most, rows.size())});
}
// The rows of a tensor with one per head.
inline constexpr LocalRows kOneRow{{{0, 1, 1}, {1, 1, 0}}};

// Return the number of values in the largest piece.
inline Index piece_values(const AttentionShape& shape) {
  return max_of(4096, max_of(shape.head_dim, shape.value_dim()));
}

}  // namespace ringscope
