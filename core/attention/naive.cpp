// Two passes over blocks of query rows. Forward computes a block's scores against the keys that any
// of its rows may attend, the softmax of each row over its own interval, and weights times V.
// Backward recomputes the weights from lse, then computes the five products of the formula in
// naive.h.
//
// The products run over whole blocks, so they also touch forbidden pairs. The weight there is
// exactly 0, which removes any finite value from the sum, but 0 * NaN is NaN. NaN and inf are
// therefore set to zero for the product, and added afterwards to the rows that may see them (class
// Operand).
//
// A learned sink is a column of scores that is not in the matrix: its exp joins the rows' sums. As p_sink
// dO . (0 - out) is its dS, ds = -sum_i p_sink rowsum(dO * O).
//
// A row whose allowed scores are all -inf (because -inf came in, or a score overflowed) counts as a
// row without keys: lse = log 0 = -inf, out and gradients 0. A NaN or +inf score makes its whole
// row NaN.
#include "core/attention/naive.h"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <type_traits>

#include "core/attention/tile_product.h"

namespace ringscope {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>>;
template <class T>
using ConstView = Eigen::Map<const Matrix<T>>;

// Memory that Eigen computes into must be aligned. Eigen vectorises from the first aligned address
// on and handles the rest one by one with other rounding, so the address would show in the result.
template <class T>
using AlignedVector = std::vector<T, Eigen::aligned_allocator<T>>;

// Compute into [m, n] += a [m, k] * b [k, n]. Element (i, c) of `a` is a[i * a_row + c * a_column],
// and the rows of `b` and `into` are b_row and into_row values apart. (Eigen's products do the
// same, but compiling them takes longer than the rest of this file.)
template <class T>
void add_product(const T* a, Index a_row, Index a_column, const T* b, Index b_row, Index m, Index k,
                 Index n, T* into, Index into_row) {
  using Lanes = typename LanesOf<T, static_cast<int>(sizeof(Vector) / sizeof(T))>::type;
  constexpr Index kRows = 4, kVectors = 2, kLanes = sizeof(Lanes) / sizeof(T),
                  kColumns = kVectors * kLanes;
  constexpr Index kDepth = 256;  // this many rows of b stay in the cache for all rows of a
  for (Index c0 = 0; c0 < k; c0 += kDepth) {
    const Index c1 = min_of(c0 + kDepth, k);
    for (Index i = 0; i < m; i += kRows) {
      Index j = 0;
      for (; i + kRows <= m && j + kColumns <= n; j += kColumns) {
        Lanes sums[kRows][kVectors];
        const auto for_each = [&](const auto& f) {
#pragma GCC unroll 4
          for (Index r = 0; r < kRows; ++r)
#pragma GCC unroll 2
            for (Index v = 0; v < kVectors; ++v) f(r, v);
        };
        const auto place = [&](Index r, Index v) {
          return into + (i + r) * into_row + j + v * kLanes;
        };
        for_each([&](Index r, Index v) { std::memcpy(&sums[r][v], place(r, v), sizeof(Lanes)); });
        for (Index c = c0; c < c1; ++c) {
          Lanes row[kVectors];
          for (Index v = 0; v < kVectors; ++v)
            std::memcpy(&row[v], b + c * b_row + j + v * kLanes, sizeof(Lanes));
          for_each(
              [&](Index r, Index v) { sums[r][v] += a[(i + r) * a_row + c * a_column] * row[v]; });
        }
        for_each([&](Index r, Index v) { std::memcpy(place(r, v), &sums[r][v], sizeof(Lanes)); });
      }
      for (Index r = i; r < min_of(i + kRows, m); ++r)  // the edges
        for (Index c = c0; c < c1; ++c)
          for (Index column = j; column < n; ++column)
            into[r * into_row + column] += a[r * a_row + c * a_column] * b[c * b_row + column];
    }
  }
}

// Compute into [m, n] = scale * a [m, k] * b [n, k]^T.
template <class T>
void multiply_by_transpose(T scale, ConstView<T> a, ConstView<T> b, View<T> into) {
  constexpr Index kPanel = 64;  // rows of b transposed at a time
  into.setZero();
  AlignedVector<T> transposed(b.cols() * kPanel);
  for (Index j = 0; j < b.rows(); j += kPanel) {
    const Index width = min_of(kPanel, b.rows() - j);
    for (Index row = 0; row < width; ++row)
      for (Index c = 0; c < b.cols(); ++c) transposed[c * kPanel + row] = b(j + row, c);
    add_product(a.data(), a.cols(), Index{1}, transposed.data(), kPanel, a.rows(), a.cols(), width,
                into.data() + j, into.cols());
  }
  into *= scale;
}

// Compute into [m, n] += a [m, k] * b [k, n].
template <class T>
void add_multiplied(ConstView<T> a, ConstView<T> b, View<T> into) {
  add_product(a.data(), a.cols(), Index{1}, b.data(), b.cols(), a.rows(), a.cols(), b.cols(),
              into.data(), into.cols());
}

// Compute into [m, n] += a [k, m]^T * b [k, n].
template <class T>
void add_transpose_multiplied(ConstView<T> a, ConstView<T> b, View<T> into) {
  add_product(a.data(), Index{1}, a.cols(), b.data(), b.cols(), a.cols(), a.rows(), b.cols(),
              into.data(), into.cols());
}

// Return rows [rows.first, rows.last) of a matrix, as a matrix.
template <class T>
ConstView<T> rows_of(ConstView<T> matrix, Interval rows) {
  return {matrix.data() + rows.first * matrix.cols(), rows.size(), matrix.cols()};
}
template <class T>
View<T> rows_of(View<T> matrix, Interval rows) {
  return {matrix.data() + rows.first * matrix.cols(), rows.size(), matrix.cols()};
}

template <class T>
ConstView<T> read_only(View<T> matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols()};
}

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

  ConstView<T> given(Interval rows) const { return rows_of(given_, rows); }
  ConstView<T> finite() const {
    return non_finite_rows_.empty()
               ? given_
               : ConstView<T>(without_.data(), without_.rows(), without_.cols());
  }

  // Compute into[i] += weight * (the non-finite values of `row`).
  template <class Into>
  void add_non_finite(T weight, Index row, Into&& into) const {
    for (Index c = 0; c < given_.cols(); ++c)
      if (!std::isfinite(given_(row, c))) into(c) += weight * given_(row, c);
  }

  // Call f(row) for the rows within `rows` that hold a NaN or inf.
  template <class F>
  void for_non_finite_rows(Interval rows, F&& f) const {
    for (const Index row : non_finite_rows_)
      if (rows.contains(row)) f(row);
  }

 private:
  ConstView<T> given_;
  Matrix<T> without_;  // given_ with zeros for NaN and inf; empty if there are none
  std::vector<Index> non_finite_rows_;
};

// One block of query rows of one head, and the keys that it may attend.
struct RowBlock {
  Interval queries;
  Interval keys;                               // the hull of `allowed`
  std::vector<std::vector<Interval>> allowed;  // by row of the block: ascending, disjoint

  // Make the block of rows [first, last). `positions` are the global positions of all query rows.
  RowBlock(const Mask& mask, const std::vector<Index>& positions, Index first, Index last)
      : queries{first, last}, keys{mask.seqlen, 0} {
    for (Index i = first; i < last; ++i) {
      std::vector<Interval>& of_row = allowed.emplace_back();
      mask.for_allowed(positions[i], [&](Interval interval) { of_row.push_back(interval); });
      if (of_row.empty()) continue;
      keys = {min_of(keys.first, of_row.front().first), max_of(keys.last, of_row.back().last)};
    }
    if (keys.size() == 0) keys = {0, 1};
  }
  // Return the hull of the keys that row i may attend; a key that is a gap if there are none.
  Interval hull(Index i) const {
    if (allowed[i].empty()) return {keys.first, keys.first + 1};
    return {allowed[i].front().first, allowed[i].back().last};
  }
  bool allows(Index i, Index key) const {
    for (const Interval& interval : allowed[i])
      if (interval.contains(key)) return true;
    return false;
  }
  // Write `value` to the keys of `row`, row i of a matrix of the block, that lie between the
  // intervals that it may attend.
  template <class Row, class T>
  void fill_gaps(Index i, Row&& row, T value) const {
    if (allowed[i].empty()) row(0) = value;
    for (std::size_t k = 1; k < allowed[i].size(); ++k)
      row.segment(allowed[i][k - 1].last - keys.first, allowed[i][k].first - allowed[i][k - 1].last)
          .setConstant(value);
  }
  Index rows() const { return queries.size(); }
  Index columns() const { return keys.size(); }
};

// Compute into [block rows, head_dim] += weights [block rows, block columns] * operand [keys].
template <class T>
void add_product_of_block(const RowBlock& block, const View<T>& weights, const Operand<T>& operand,
                          View<T> into) {
  add_multiplied(read_only(weights), rows_of(operand.finite(), block.keys), into);
  operand.for_non_finite_rows(block.keys, [&](Index key) {
    for (Index i = 0; i < block.rows(); ++i)
      if (block.allows(i, key))
        operand.add_non_finite(weights(i, key - block.keys.first), key, into.row(i));
  });
}

// Compute into [keys, head_dim] += weights^T * operand [block's queries].
template <class T>
void add_transposed_product_of_block(const RowBlock& block, const View<T>& weights,
                                     const Operand<T>& operand, Matrix<T>& into) {
  add_transpose_multiplied(read_only(weights), rows_of(operand.finite(), block.queries),
                           rows_of(View<T>(into.data(), into.rows(), into.cols()), block.keys));
  operand.for_non_finite_rows(block.queries, [&](Index query) {
    const Index i = query - block.queries.first;
    for (const Interval& keys : block.allowed[i])
      for (Index key = keys.first; key < keys.last; ++key)
        operand.add_non_finite(weights(i, key - block.keys.first), query, into.row(key));
  });
}

// Return exp(x), or 0 where it is subnormal (Eigen clamps its argument there, even for -inf).
template <class Row>
auto exp_or_zero(const Row& x) {
  using T = typename Row::Scalar;
  const T smallest = std::log(std::numeric_limits<T>::min());
  return (x < smallest).select(T(0), x.exp());
}

// Return the part of row i of `matrix` between the first and the last key that the mask allows, as
// an array. Write zeros outside of it, and -inf into its gaps.
template <class T>
auto allowed_part(const RowBlock& block, Index i, View<T>& matrix) {
  const Index begin = block.hull(i).first - block.keys.first, size = block.hull(i).size();
  matrix.row(i).head(begin).setZero();
  matrix.row(i).tail(block.columns() - begin - size).setZero();
  block.fill_gaps(i, matrix.row(i), -std::numeric_limits<T>::infinity());
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

// Run task(0, scratch) … task(count - 1, scratch) on `threads` threads, in no particular order.
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
      : shape_(shape),
        mask_(mask),
        scale_(static_cast<T>(softmax_scale)),
        options_(options),
        positions_(options.queries) {
    if (positions_.empty()) {
      positions_.resize(shape.queries());
      std::iota(positions_.begin(), positions_.end(), Index{0});
    }
    for (Index& position : positions_) position += shape.first_query();
    block_rows_ = options.block_rows > 0 ? min_of(options.block_rows, rows()) : rows();
    const Index query_heads = shape.batch * shape.num_heads;
    const Index kv_heads = shape.batch * shape.num_heads_kv;
    const Index d = shape.head_dim, d_v = shape.value_dim();
    q_ = operands(chosen_rows(q, query_heads, d, chosen_q_), query_heads, rows(), d);
    k_ = operands(k, kv_heads, shape.seqlen, d);
    v_ = operands(v, kv_heads, shape.seqlen, d_v);
    if (dout != nullptr)
      dout_ = operands(chosen_rows(dout, query_heads, d_v, chosen_dout_), query_heads, rows(), d_v);

    if (options.with_bounds) {
      measure(q_, q_sizes_);
      measure(k_, k_sizes_);
      measure(v_, v_sizes_);
      measure(dout_, dout_sizes_);
      RowBounds& bounds = result_.bounds;
      for (RowBound* bound : {&bounds.out, &bounds.lse}) make_room(*bound, query_heads * rows());
      if (dout != nullptr) make_room(bounds.dq, query_heads * rows());
      if (dout != nullptr && has_every_query())
        for (RowBound* bound : {&bounds.dk, &bounds.dv}) make_room(*bound, kv_heads * shape.seqlen);
      if (dout != nullptr && has_every_query() && has_sinks()) make_room(sink_bounds_, query_heads);
    }
    result_.out.assign(query_heads * rows() * d_v, T(0));
    result_.lse.resize(query_heads * rows());
    if (dout == nullptr) return;
    result_.dq.assign(query_heads * rows() * d, T(0));
    if (!has_every_query()) return;
    if (has_sinks()) sink_sums_.assign(query_heads, T(0));
    result_.dk.resize(kv_heads * shape.seqlen * d);
    result_.dv.resize(kv_heads * shape.seqlen * d_v);
  }

  NaiveResult<T> run() {
    // One task alone computes each number, in a fixed order, so the result does not depend on the
    // number of threads. In backward, all query heads of a kv head add to one dK and dV.
    const Index query_heads = static_cast<Index>(q_.size()),
                kv_heads = static_cast<Index>(k_.size());
    const Index blocks = ceil_div(rows(), block_rows_);
    run_tasks<T>(query_heads * blocks, options_.threads, [&](Index task, Scratch<T>& scratch) {
      forward(task / blocks, block(task % blocks), scratch);
      advance(kForwardProducts);
    });
    if (dout_.empty()) return std::move(result_);
    run_tasks<T>(kv_heads, options_.threads, [&](Index kv_head, Scratch<T>& scratch) {
      Matrix<T> dk = Matrix<T>::Zero(shape_.seqlen, shape_.head_dim);
      Matrix<T> dv = Matrix<T>::Zero(shape_.seqlen, shape_.value_dim());
      for (Index head = kv_head * shape_.group_size(); head < (kv_head + 1) * shape_.group_size();
           ++head)
        for (Index b = 0; b < blocks; ++b) {
          backward(head, block(b), scratch, dk, dv);
          advance(kBackwardProducts);
        }
      if (!has_every_query()) return;
      head_of(result_.dk, kv_head) = dk;
      head_of(result_.dv, kv_head) = dv;
    });
    finish_terms(result_.bounds.dk);
    finish_terms(result_.bounds.dv);
    add_up_sinks();
    return std::move(result_);
  }

 private:
  static constexpr int kForwardProducts = 2, kBackwardProducts = 5;

  T softcap() const { return static_cast<T>(options_.softcap); }
  bool has_sinks() const { return options_.sink_logits != nullptr; }
  // Return the sink of a head, counted through the batch; -inf if there is none.
  T sink_of(Index head) const {
    return has_sinks() ? static_cast<T>(options_.sink_logits[head % shape_.num_heads])
                       : -std::numeric_limits<T>::infinity();
  }
  // Return exp(sink - unit), where one that is -inf weighs nothing.
  static T weight_of_sink(T sink, T unit) {
    return sink == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(sink - unit);
  }
  // Add the sinks' gradients up over the batch, in the order of its entries.
  void add_up_sinks() {
    if (sink_sums_.empty()) return;
    const auto add_up = [&](const auto& from, auto& to) {
      to.assign(shape_.num_heads, 0);
      for (std::size_t head = 0; head < from.size(); ++head)
        to[head % shape_.num_heads] += from[head];
    };
    add_up(sink_sums_, result_.dsink);
    if (sink_bounds_.f32.empty()) return;
    add_up(sink_bounds_.f32, result_.bounds.dsink.f32);
    add_up(sink_bounds_.terms, result_.bounds.dsink.terms);
    finish_terms(result_.bounds.dsink);
  }

  // Return the number of query rows of a head.
  Index rows() const { return static_cast<Index>(positions_.size()); }
  bool has_every_query() const { return rows() == shape_.queries(); }

  // Return the query rows at positions_ of a tensor [heads, queries, width]. `memory` holds them
  // unless they are all rows.
  const T* chosen_rows(const T* data, Index heads, Index width, std::vector<T>& memory) const {
    if (has_every_query()) return data;
    for (Index head = 0; head < heads; ++head)
      for (const Index position : positions_) {
        const T* const row =
            data + (head * shape_.queries() + position - shape_.first_query()) * width;
        memory.insert(memory.end(), row, row + width);
      }
    return memory.data();
  }

  std::vector<Operand<T>> operands(const T* data, Index heads, Index rows, Index width) const {
    std::vector<Operand<T>> result;
    result.reserve(heads);
    for (Index head = 0; head < heads; ++head)
      result.emplace_back(data + head * rows * width, rows, width);
    return result;
  }

  RowBlock block(Index b) const {
    return {mask_, positions_, b * block_rows_, min_of((b + 1) * block_rows_, rows())};
  }

  // Return the result of head `head`, counted through the batch.
  View<T> head_of(std::vector<T>& tensor, Index head) const {
    const bool is_kv = &tensor == &result_.dk || &tensor == &result_.dv;
    const bool is_of_values = &tensor == &result_.out || &tensor == &result_.dv;
    const Index rows_of_head = is_kv ? shape_.seqlen : rows();
    const Index width = is_of_values ? shape_.value_dim() : shape_.head_dim;
    return {tensor.data() + head * rows_of_head * width, rows_of_head, width};
  }

  // Compute S = scale * Q K^T.
  View<T> scores(const RowBlock& block, const Operand<T>& q, const Operand<T>& k,
                 AlignedVector<T>& memory) const {
    View<T> result = Scratch<T>::view(memory, block);
    multiply_by_transpose(scale_, q.given(block.queries), k.given(block.keys), result);
    if (const T cap = softcap(); cap > 0) result = cap * (result / cap).array().tanh();
    return result;
  }

  void forward(Index head, const RowBlock& block, Scratch<T>& scratch) {
    const Index kv_head = head / shape_.group_size();
    // [forward
    View<T> p = scores(block, q_[head], k_[kv_head], scratch.first);
    T* lse = result_.lse.data() + head * rows() + block.queries.first;
    for (Index i = 0; i < block.rows(); ++i) {
      auto row = allowed_part(block, i, p);
      const T sink = sink_of(head);  // a learned one, -inf where there is none
      const T most = row.template maxCoeff<Eigen::PropagateNaN>();
      const T row_max = sink > most ? sink : most;
      const T shift = row_max == -std::numeric_limits<T>::infinity() ? T(0) : row_max;
      row = exp_or_zero(row - shift);
      const T row_sum = row.sum() + weight_of_sink(sink, shift);
      if (row_sum != T(0)) row /= row_sum;
      lse[i] = shift + std::log(row_sum);
    }
    add_product_of_block(block, p, v_[kv_head], rows_of(head_of(result_.out, head), block.queries));
    // forward]
    for (Index i = 0; i < block.rows(); ++i)  // even if V, which has no weight here, is infinite
      if (lse[i] == -std::numeric_limits<T>::infinity() || (has_sinks() && p.row(i).isZero(0)))
        head_of(result_.out, head).row(block.queries.first + i).setZero();
    for (Index i = 0; options_.with_bounds && i < block.rows(); ++i)
      bounder(head).forward(block.queries.first + i, weights_of(block, i, p, p), lse[i],
                            head * rows() + block.queries.first + i, result_.bounds);
  }

  // Add this block's share to dk and dv of a head.
  void backward(Index head, RowBlock block, Scratch<T>& scratch, Matrix<T>& dk, Matrix<T>& dv) {
    const Index kv_head = head / shape_.group_size();
    const View<T> out = rows_of(head_of(result_.out, head), block.queries);
    const T* lse = result_.lse.data() + head * rows() + block.queries.first;

    View<T> p = scores(block, q_[head], k_[kv_head], scratch.first);
    View<T> ds = Scratch<T>::view(scratch.second, block);  // holds dP at first
    const ConstView<T> dout = dout_[head].given(block.queries);
    multiply_by_transpose(T(1), dout, v_[kv_head].given(block.keys), ds);
    for (Index i = 0; i < block.rows(); ++i) {
      if (lse[i] == -std::numeric_limits<T>::infinity()) {
        p.row(i).setZero();
        ds.row(i).setZero();
        block.allowed[i].clear();
        continue;
      }
      auto p_row = allowed_part(block, i, p);
      auto ds_row = allowed_part(block, i, ds);
      ds_row -= dout.row(i).dot(out.row(i));
      if (const T cap = softcap(); cap > 0) ds_row *= T(1) - (p_row / cap).square();
      p_row = exp_or_zero(p_row - lse[i]);
      ds_row *= p_row;
      block.fill_gaps(i, p.row(i), T(0));
      block.fill_gaps(i, ds.row(i), T(0));
      const T sink_weight = weight_of_sink(sink_of(head), lse[i]);
      if (has_every_query() && has_sinks())
        sink_sums_[head] -= sink_weight * dout.row(i).dot(out.row(i));
      if (!options_.with_bounds) continue;
      const auto terms = dout.row(i).cwiseProduct(out.row(i));
      bounder(head).backward(block.queries.first + i, weights_of(block, i, p, ds), lse[i],
                             dout_sizes_[head], terms.sum(), terms.norm(),
                             head * rows() + block.queries.first + i, kv_head * shape_.seqlen,
                             result_.bounds);
      if (!sink_bounds_.f32.empty())
        bounder(head).sink(block.queries.first + i, weights_of(block, i, p, ds), sink_weight,
                           lse[i], dout_sizes_[head], terms.sum(), terms.norm(), head,
                           sink_bounds_);
    }

    if (has_every_query()) add_transposed_product_of_block(block, p, dout_[head], dv);
    ds *= scale_;
    if (has_every_query()) add_transposed_product_of_block(block, ds, q_[head], dk);
    add_product_of_block(block, ds, k_[kv_head], rows_of(head_of(result_.dq, head), block.queries));
  }

  // Only the oracle, in f64, has bounds.
  void measure(const std::vector<Operand<T>>& heads, std::vector<RowSizes>& sizes) const {
    if constexpr (std::is_same_v<T, double>)
      for (const Operand<T>& head : heads) {
        const ConstView<T> rows = head.finite();
        sizes.emplace_back(rows.data(), rows.rows(), rows.cols());
      }
  }
  static void make_room(RowBound& bound, Index rows) {
    bound.f32.assign(rows, 0);
    bound.terms.assign(rows, 0);
  }
  RowBounder bounder(Index head) const {
    const Index kv_head = head / shape_.group_size();
    return {static_cast<double>(scale_),
            options_.softcap > 0,
            shape_.seqlen * shape_.group_size(),
            max_of(shape_.head_dim, shape_.value_dim()),
            q_sizes_[head],
            k_sizes_[kv_head],
            v_sizes_[kv_head]};
  }
  // Return row i of P and dS as far as the mask allows.
  static WeightRow weights_of(const RowBlock& block, Index i, const View<T>& p, const View<T>& ds) {
    const Interval keys = block.hull(i);
    const Index at = i * block.columns() + keys.first - block.keys.first;
    if constexpr (std::is_same_v<T, double>)
      return {keys.first, keys.size(), p.data() + at, ds.data() + at};
    return {};
  }

  void advance(int products) {
    if (!options_.progress) return;
    const std::lock_guard lock(progress_mutex_);
    done_ += products;
    const Index blocks = ceil_div(rows(), block_rows_) * static_cast<Index>(q_.size());
    const int each = kForwardProducts + (dout_.empty() ? 0 : kBackwardProducts);
    options_.progress(static_cast<double>(done_) / static_cast<double>(blocks * each));
  }

  AttentionShape shape_;
  Mask mask_;
  T scale_;
  NaiveOptions options_;
  std::vector<Index> positions_;  // global positions of the query rows
  std::vector<T> chosen_q_, chosen_dout_;
  Index block_rows_;
  std::vector<Operand<T>> q_, k_, v_, dout_;  // by head, counted through the batch
  std::vector<RowSizes> q_sizes_, k_sizes_, v_sizes_, dout_sizes_;  // likewise, for bounds alone
  NaiveResult<T> result_;
  std::vector<T> sink_sums_;  // dsink by head, counted through the batch, and its bounds
  RowBound sink_bounds_;
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
