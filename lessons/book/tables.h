// Inputs for lessons, which are the same on every machine, and tables that several of them show. Lessons
// rely on the headers that it includes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/attention/naive.h"
#include "core/attention/online_softmax.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/ring/problem.h"
#include "core/threads/run.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/trace/summary.h"
#include "lessons/book/page.h"

namespace ringscope::lessons {

// Return `count` values from N(0, 1).
template <class T = float>
std::vector<T> random_values(RandomTensor tensor, Index count, std::uint64_t seed = 1) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<T>(normal(seed, tensor, i));
  return values;
}

// Return Q, K, V and dO of `shape`.
inline AttentionInputs random_inputs(const AttentionShape& shape, std::uint64_t seed = 1) {
  const Index row = shape.batch * shape.seqlen * shape.head_dim;
  return {random_values(RandomTensor::q, row * shape.num_heads, seed),
          random_values(RandomTensor::k, row * shape.num_heads_kv, seed),
          random_values(RandomTensor::v, row * shape.num_heads_kv, seed),
          random_values(RandomTensor::dout, row * shape.num_heads, seed)};
}

// Return attention of `heads` heads of 64 numbers, each with its own K and V, on a ring in f32.
inline Problem ring_job(Index heads, Index seqlen, int world_size, const std::string& mask = "full",
                        PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {.num_heads = heads, .num_heads_kv = heads, .seqlen = seqlen, .head_dim = 64},
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = world_size};
}

// Return an attention layer of 32 query heads and heads_kv of K and V, with a full mask.
inline Problem layer_job(Index seqlen, int world_size, Index heads_kv) {
  return {.shape = {.num_heads = 32, .num_heads_kv = heads_kv, .seqlen = seqlen, .head_dim = 128},
          .dtype = DType::bf16,
          .world_size = world_size};
}

// Return a causal zigzag layer, forward, on eight H100 with `link`.
inline Scenario on_8(const char* scheme, Index seqlen, Index heads, Index heads_kv,
                     const char* link, int nodes = 1) {
  Scenario all;
  all.job = {.shape = {1, heads, heads_kv, seqlen, 128},
             .dtype = DType::bf16,
             .mask = MaskSpec::parse("causal"),
             .partition = PartitionKind::zigzag,
             .world_size = 8};
  set_scheme(all.job, scheme);
  all.job.nodes = nodes;
  all.rates = rates_of(find_gpu("H100"), find_link(link), DType::bf16);
  all.between = find_link("InfiniBand-NDR");
  all.nics = 4;
  return all;
}

inline double bytes_sent(const RingRun& run, std::size_t rank) {
  return static_cast<double>(summarize(run.recording).ranks[rank].bytes_sent);
}

inline std::vector<double> in_f64(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// Evaluate the formulas in f64 on one rank, as the reference for a ring's output. `backward` adds
// the gradients.
inline NaiveResult<double> exact_attention(const Problem& config, const AttentionInputs& in,
                                           bool backward = false) {
  const auto q = in_f64(in.q), k = in_f64(in.k), v = in_f64(in.v), dout = in_f64(in.dout);
  return naive_attention<double>(config.shape, config.ring_problem().mask, config.scale(), q.data(),
                                 k.data(), v.data(), backward ? dout.data() : nullptr,
                                 {.block_rows = 256, .threads = 2, .queries = {}, .progress = {}});
}

// Return letters from a on in ascending order of their values: "cab" if the third is the least.
inline std::string letters_by(const std::vector<double>& values) {
  std::string letters;
  for (std::size_t i = 0; i < values.size(); ++i) letters += static_cast<char>('a' + i);
  const auto value_of = [&](char c) { return values[static_cast<std::size_t>(c - 'a')]; };
  std::stable_sort(letters.begin(), letters.end(),
                   [&](char a, char b) { return value_of(a) < value_of(b); });
  return letters;
}

// Set `most` to the larger of the two. A NaN on either side stays.
inline void keep_larger(double& most, double other) {
  if (!(other <= most) && !std::isnan(most)) most = other;
}

// Return the largest |a[i] - b[i]|, NaN if any is NaN, or infinity if the sizes differ.
template <class A, class B>
double largest_difference(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < std::size(a); ++i)
    keep_larger(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

// The running example: one query with four keys, of lesson 3.

inline const std::vector<double> kFourScores = {1, 3, 2, 5}, kFourValues = {10, 20, 30, 40};

// The result over some of the keys.
struct PartOfKeys {
  double m, l, out, lse;
};

// Attend keys first to last - 1.
inline PartOfKeys over_keys(std::span<const double> scores, const double* values) {
  RowState<double> row;
  double out = 0;
  carry_on<double>(row, {&out, 1}, scores, values);
  return {row.row_max, row.row_sum, out / row.row_sum, lse_of(row)};
}
inline PartOfKeys over_keys(std::size_t first, std::size_t last,
                            const std::vector<double>& scores = kFourScores) {
  return over_keys(std::span(scores).subspan(first, last - first), &kFourValues[first]);
}

// ---
// These functions give the pairs of every rank at every step of a ring, as a table and as totals.

// Tabulate the pairs, a row per rank and a column per step, as shares of a full block of
// (seqlen/world_size)^2, or "idle".
inline Table pairs_table(const Problem& config) {
  const double rows = static_cast<double>(config.shape.seqlen) / config.world_size;
  std::vector<std::string> head = {""};
  for (int step = 0; step < config.world_size; ++step) head.push_back(fmt::format("step {}", step));
  Table table(head);
  for (int rank = 0; rank < config.world_size; ++rank) {
    std::vector<Cell> cells = {fmt::format("rank {}", rank)};
    for (int step = 0; step < config.world_size; ++step) {
      const auto pairs = static_cast<double>(predicted_pairs(config, rank, step));
      cells.push_back(pairs == 0 ? Cell("idle") : fixed(pairs / (rows * rows), 2));
    }
    table.add(cells);
  }
  return table;
}

// Count the tiles of tile x tile pairs, over all steps, of the rank that has the most.
inline Index tiles_of_slowest_rank(const Problem& config, Index tile) {
  const Work work(config, {tile, tile});
  std::vector<double> pairs(static_cast<std::size_t>(config.world_size));
  for (int rank = 0; rank < config.world_size; ++rank)
    for (int owner = 0; owner < config.world_size; ++owner)
      pairs[static_cast<std::size_t>(rank)] += work.computed_pairs(rank, owner);
  return static_cast<Index>(*std::max_element(pairs.begin(), pairs.end())) / (tile * tile);
}

// Return a drawing for Page::draw() with # where marked(row, column) holds.
template <class F>
std::string drawing_of(int rows, int columns, F&& marked) {
  std::string cells;
  for (int row = 0; row < rows; ++row) {
    if (row > 0) cells += '/';
    for (int column = 0; column < columns; ++column) cells += marked(row, column) ? '#' : '.';
  }
  return cells;
}

}  // namespace ringscope::lessons
