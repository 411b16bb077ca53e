// Two passes over blocks of query rows. Forward: scores of a block against the keys that any of its
// rows may attend, softmax of each row over its own interval, weights times V. Backward: the
// weights again from lse, then the five products of the formula in naive.h.
//
// The products run over whole blocks, so they also touch pairs that the mask forbids. There the
// weight is exactly 0, which takes any finite value out of the sum, but 0 * NaN is NaN. So NaN and
// inf are set to zero for the product, and added afterwards to the rows that may see them (class
// Operand).
//
// A row whose allowed scores are all -inf (so -inf came in, or a score overflowed) is one without
// keys as far as softmax can tell: lse = log 0 = -inf, out and gradients 0. A NaN or +inf score
// makes its whole row NaN.
#include "core/attention/naive.h"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace ringscope {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>>;
template <class T>
using ConstView = Eigen::Map<const Matrix<T>>;

// Eigen vectorises from the first aligned address on and does the rest one by one, with other
// rounding. So whatever it computes into is aligned: then where memory happens to lie does not show
// in the result.
template <class T>
using AlignedVector = std::vector<T, Eigen::aligned_allocator<T>>;

// One head of one tensor, [rows, head_dim], as a factor of products over blocks.
template <class T>
class Operand {
 public:
  Operand(const T* data, Index rows, Index head_dim) : given_(data, rows, head_dim) {
    for (Index row = 0; row < rows; ++row)
      if (!given_.row(row).allFinite()) non_finite_rows_.push_back(row);
    if (non_finite_rows_.empty()) return;
    without_ = given_.unaryExpr([](T x) { return std::isfinite(x) ? x : T(0); });
  }

  auto given(Interval rows) const { return given_.middleRows(rows.first, rows.size()); }
  ConstView<T> finite() const {
    return non_finite_rows_.empty()
               ? given_
               : ConstView<T>(without_.data(), without_.rows(), without_.cols());
  }

  // into[i] += weight * (the non-finite values of `row`).
  template <class Into>
  void add_non_finite(T weight, Index row, Into&& into) const {
    for (Index c = 0; c < given_.cols(); ++c)
      if (!std::isfinite(given_(row, c))) into(c) += weight * given_(row, c);
  }

  // Calls f(row) for the rows within `rows` that hold a NaN or inf.
  template <class F>
  void for_non_finite_rows(Interval rows, F&& f) const {
    for (const Index row : non_finite_rows_)
      if (rows.contains(row)) f(row);
  }

 private:
  ConstView<T> given_;
  Matrix<T> without_;  // given_, zeros for NaN and inf; empty when there are none
  std::vector<Index> non_finite_rows_;
};

// One block of query rows of one head, and the keys that it may attend.
struct RowBlock {
  Interval queries;
  Interval keys;                  // the hull of `allowed`
  std::vector<Interval> allowed;  // by row of the block

  RowBlock(const Mask& mask, Index first, Index last) : queries{first, last} {
    for (Index i = first; i < last; ++i) allowed.push_back(mask.allowed_keys(i));
    keys = {allowed.front().first, allowed.back().last};
  }
  Index rows() const { return queries.size(); }
  Index columns() const { return keys.size(); }
};

// into [block rows, head_dim] += weights [block rows, block columns] * operand [keys].
template <class T, class Into>
void add_product(const RowBlock& block, const View<T>& weights, const Operand<T>& operand,
                 Into&& into) {
  into += weights * operand.finite().middleRows(block.keys.first, block.columns());
  operand.for_non_finite_rows(block.keys, [&](Index key) {
    for (Index i = 0; i < block.rows(); ++i)
      if (block.allowed[i].contains(key))
        operand.add_non_finite(weights(i, key - block.keys.first), key, into.row(i));
  });
}

// into [keys, head_dim] += weights^T * operand [block's queries].
template <class T>
void add_transposed_product(const RowBlock& block, const View<T>& weights,
                            const Operand<T>& operand, Matrix<T>& into) {
  into.middleRows(block.keys.first, block.columns()).noalias() +=
      weights.transpose() * operand.finite().middleRows(block.queries.first, block.rows());
  operand.for_non_finite_rows(block.queries, [&](Index query) {
    const Index i = query - block.queries.first;
    for (Index key = block.allowed[i].first; key < block.allowed[i].last; ++key)
      operand.add_non_finite(weights(i, key - block.keys.first), query, into.row(key));
  });
}

// exp, with 0 where it would be subnormal (Eigen's own clamps its argument there, even for -inf).
template <class Row>
auto exp_of(const Row& x) {
  using T = typename Row::Scalar;
  const T smallest = std::log(std::numeric_limits<T>::min());
  return (x < smallest).select(T(0), x.exp());
}

// The part of row i of `matrix` that the mask allows, as an array. Outside of it, zeros are
// written.
template <class T>
auto allowed_part(const RowBlock& block, Index i, View<T>& matrix) {
  const Index begin = block.allowed[i].first - block.keys.first, size = block.allowed[i].size();
  matrix.row(i).head(begin).setZero();
  matrix.row(i).tail(block.columns() - begin - size).setZero();
  return matrix.row(i).segment(begin, size).array();
}

// A thread's memory for two matrices of a block.
template <class T>
struct Scratch {
  AlignedVector<T> first, second;

  static View<T> view(AlignedVector<T>& memory, const RowBlock& block) {
    memory.resize(std::max<std::size_t>(memory.size(), block.rows() * block.columns()));
    return {memory.data(), block.rows(), block.columns()};
  }
};

// Runs task(0, scratch) … task(count - 1, scratch) on `threads` threads, in no particular order.
template <class T, class Task>
void run_tasks(Index count, int threads, const Task& task) {
  std::atomic<Index> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Scratch<T> scratch;
      for (Index i = next++; i < count; i = next++) task(i, scratch);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (Index i = 1; i < min_of(threads, count); ++i) helpers.emplace_back(work);
    work();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

template <class T>
class NaiveAttention {
 public:
  NaiveAttention(const AttentionShape& shape, const Mask& mask, double softmax_scale, const T* q,
                 const T* k, const T* v, const T* dout, const NaiveOptions& options)
      : shape_(shape), mask_(mask), scale_(static_cast<T>(softmax_scale)), options_(options) {
    block_rows_ = options.block_rows > 0 ? min_of(options.block_rows, shape.seqlen) : shape.seqlen;
    const Index query_heads = shape.batch * shape.num_heads;
    const Index kv_heads = shape.batch * shape.num_heads_kv;
    q_ = operands(q, query_heads);
    k_ = operands(k, kv_heads);
    v_ = operands(v, kv_heads);
    if (dout != nullptr) dout_ = operands(dout, query_heads);

    const Index per_head = shape.seqlen * shape.head_dim;
    result_.out.assign(query_heads * per_head, T(0));
    result_.lse.resize(query_heads * shape.seqlen);
    if (dout == nullptr) return;
    result_.dq.assign(query_heads * per_head, T(0));
    result_.dk.resize(kv_heads * per_head);
    result_.dv.resize(kv_heads * per_head);
  }

  NaiveResult<T> run() {
    // Every number is computed by one task alone, in a fixed order: so the number of threads does
    // not show in the result. In the backward, all query heads of a kv head add to one dK and dV.
    const Index query_heads = static_cast<Index>(q_.size()),
                kv_heads = static_cast<Index>(k_.size());
    const Index blocks = ceil_div(shape_.seqlen, block_rows_);
    run_tasks<T>(query_heads * blocks, options_.threads, [&](Index task, Scratch<T>& scratch) {
      forward(task / blocks, block(task % blocks), scratch);
      advance(kForwardProducts);
    });
    if (dout_.empty()) return std::move(result_);
    run_tasks<T>(kv_heads, options_.threads, [&](Index kv_head, Scratch<T>& scratch) {
      Matrix<T> dk = Matrix<T>::Zero(shape_.seqlen, shape_.head_dim), dv = dk;
      for (Index head = kv_head * shape_.group_size(); head < (kv_head + 1) * shape_.group_size();
           ++head)
        for (Index b = 0; b < blocks; ++b) {
          backward(head, block(b), scratch, dk, dv);
          advance(kBackwardProducts);
        }
      head_of(result_.dk, kv_head) = dk;
      head_of(result_.dv, kv_head) = dv;
    });
    return std::move(result_);
  }

 private:
  static constexpr int kForwardProducts = 2, kBackwardProducts = 5;

  std::vector<Operand<T>> operands(const T* data, Index heads) const {
    std::vector<Operand<T>> result;
    result.reserve(heads);
    for (Index head = 0; head < heads; ++head)
      result.emplace_back(data + head * shape_.seqlen * shape_.head_dim, shape_.seqlen,
                          shape_.head_dim);
    return result;
  }

  RowBlock block(Index b) const {
    return {mask_, b * block_rows_, min_of((b + 1) * block_rows_, shape_.seqlen)};
  }

  // Head `head`, counted through the batch, of a result.
  View<T> head_of(std::vector<T>& tensor, Index head) const {
    return {tensor.data() + head * shape_.seqlen * shape_.head_dim, shape_.seqlen, shape_.head_dim};
  }

  // S = scale * Q K^T.
  View<T> scores(const RowBlock& block, const Operand<T>& q, const Operand<T>& k,
                 AlignedVector<T>& memory) const {
    View<T> result = Scratch<T>::view(memory, block);
    result.noalias() = scale_ * q.given(block.queries) * k.given(block.keys).transpose();
    return result;
  }

  void forward(Index head, const RowBlock& block, Scratch<T>& scratch) {
    const Index kv_head = head / shape_.group_size();
    // [forward
    View<T> p = scores(block, q_[head], k_[kv_head], scratch.first);
    T* lse = result_.lse.data() + head * shape_.seqlen + block.queries.first;
    for (Index i = 0; i < block.rows(); ++i) {
      auto row = allowed_part(block, i, p);
      const T row_max = row.template maxCoeff<Eigen::PropagateNaN>();
      const T shift = row_max == -std::numeric_limits<T>::infinity() ? T(0) : row_max;
      row = exp_of(row - shift);
      const T row_sum = row.sum();
      if (row_sum != T(0)) row /= row_sum;
      lse[i] = shift + std::log(row_sum);
    }
    add_product(block, p, v_[kv_head],
                head_of(result_.out, head).middleRows(block.queries.first, block.rows()));
    // forward]
  }

  // Adds this block's share to dk and dv, [seqlen, head_dim].
  void backward(Index head, const RowBlock& block, Scratch<T>& scratch, Matrix<T>& dk,
                Matrix<T>& dv) {
    const Index kv_head = head / shape_.group_size();
    const auto out = head_of(result_.out, head).middleRows(block.queries.first, block.rows());
    const T* lse = result_.lse.data() + head * shape_.seqlen + block.queries.first;

    View<T> p = scores(block, q_[head], k_[kv_head], scratch.first);
    View<T> ds = Scratch<T>::view(scratch.second, block);  // dP at first
    const auto dout = dout_[head].given(block.queries);
    ds.noalias() = dout * v_[kv_head].given(block.keys).transpose();
    for (Index i = 0; i < block.rows(); ++i) {
      auto p_row = allowed_part(block, i, p);
      auto ds_row = allowed_part(block, i, ds);
      const bool no_keys = lse[i] == -std::numeric_limits<T>::infinity();
      p_row = exp_of(p_row - (no_keys ? T(0) : lse[i]));
      ds_row = p_row * (ds_row - dout.row(i).dot(out.row(i)));
    }

    add_transposed_product(block, p, dout_[head], dv);
    ds *= scale_;
    add_transposed_product(block, ds, q_[head], dk);
    add_product(block, ds, k_[kv_head],
                head_of(result_.dq, head).middleRows(block.queries.first, block.rows()));
  }

  void advance(int products) {
    if (!options_.progress) return;
    const std::lock_guard lock(progress_mutex_);
    done_ += products;
    const Index blocks = ceil_div(shape_.seqlen, block_rows_) * static_cast<Index>(q_.size());
    const int each = kForwardProducts + (dout_.empty() ? 0 : kBackwardProducts);
    options_.progress(static_cast<double>(done_) / static_cast<double>(blocks * each));
  }

  AttentionShape shape_;
  Mask mask_;
  T scale_;
  NaiveOptions options_;
  Index block_rows_;
  std::vector<Operand<T>> q_, k_, v_, dout_;  // by head, counted through the batch
  NaiveResult<T> result_;
  std::mutex progress_mutex_;
  Index done_ = 0;
};

}  // namespace

template <class T>
NaiveResult<T> naive_attention(const AttentionShape& shape, const Mask& mask, double softmax_scale,
                               const T* q, const T* k, const T* v, const T* dout,
                               const NaiveOptions& options) {
  return NaiveAttention<T>(shape, mask, softmax_scale, q, k, v, dout, options).run();
}

template NaiveResult<float> naive_attention(const AttentionShape&, const Mask&, double,
                                            const float*, const float*, const float*, const float*,
                                            const NaiveOptions&);
template NaiveResult<double> naive_attention(const AttentionShape&, const Mask&, double,
                                             const double*, const double*, const double*,
                                             const double*, const NaiveOptions&);

}  // namespace ringscope
