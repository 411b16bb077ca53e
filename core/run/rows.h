// How rows get into a run and out of it: piece by piece, by tensor, head and the rank's local rows,
// so that nobody who is only concerned with a part ever holds the whole. The whole tensors of a
// process (here), other processes (core/mpi) and generators (app) are the ends of it.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/problem/partition.h"
#include "core/problem/shape.h"

namespace ringscope {

enum class Tensor { q, k, v, dout, out, lse, dq, dk, dv };

inline constexpr Tensor kForwardInputs[] = {Tensor::q, Tensor::k, Tensor::v};
inline constexpr Tensor kForwardOutputs[] = {Tensor::out, Tensor::lse};
inline constexpr Tensor kBackwardOutputs[] = {Tensor::dq, Tensor::dk, Tensor::dv};

constexpr std::string_view name_of(Tensor tensor) {
  constexpr std::string_view names[] = {"q", "k", "v", "dout", "out", "lse", "dq", "dk", "dv"};
  return names[static_cast<int>(tensor)];
}

constexpr bool is_key_side(Tensor tensor) {
  return tensor == Tensor::k || tensor == Tensor::v || tensor == Tensor::dk || tensor == Tensor::dv;
}
// batch entries x heads of the tensor, and values a row.
constexpr Index heads_of(const AttentionShape& shape, Tensor tensor) {
  return shape.batch * (is_key_side(tensor) ? shape.num_heads_kv : shape.num_heads);
}
constexpr Index width_of(const AttentionShape& shape, Tensor tensor) {
  return tensor == Tensor::lse ? 1 : shape.head_dim;
}

// Rows [first, end) of a rank's local rows in one head (counted over batch entries and heads).
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
  // Writes the values of `piece`, [count, head_dim], to `to`. Throws RunError.
  virtual void get(const RowsOfHead& piece, float* to) = 0;
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  // Takes the values of `piece`, [count, width]. Throws RunError.
  virtual void put(const RowsOfHead& piece, const float* from) = 0;
};

// f32 tensors of the whole sequence, [batch, heads or heads-kv, seqlen, head_dim]; rounded to the
// run's dtype when ranks take their rows. dout may be empty: ones.
struct AttentionInputs {
  std::vector<float> q, k, v, dout;
};

struct AttentionOutputs {
  std::vector<float> out;         // [batch, heads, seqlen, head_dim]
  std::vector<float> lse;         // [batch, heads, seqlen]
  std::vector<float> dq, dk, dv;  // backward only

  // Gives all of them their sizes.
  void resize(const AttentionShape& shape, bool backward);
};

// The whole tensors of this process as a source and a sink. They must outlive it.
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

// Calls f(piece) for all rows of `tensor` that a rank with `rows` holds: head by head, in pieces of
// 16 KiB of f32 or one row. The same for whoever walks it, so that a sender and a receiver agree.
template <class F>
void for_each_piece(const AttentionShape& shape, Tensor tensor, const LocalRows& rows, F&& f) {
  constexpr Index kValues = 4096;
  const Index most = max_of(kValues / width_of(shape, tensor), 1);
  for (Index head = 0; head < heads_of(shape, tensor); ++head)
    for (Index first = 0; first < rows.size(); first += most)
      f(RowsOfHead{tensor, head, rows, first, min_of(first + most, rows.size())});
}
// Values of the largest piece.
inline Index piece_values(const AttentionShape& shape) { return max_of(4096, shape.head_dim); }

}  // namespace ringscope
