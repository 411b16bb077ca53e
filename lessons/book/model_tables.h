// What the lessons on models show: a small causal model on rank threads (lessons 16 and 29), groups
// of ranks (17), and the costs of decoding (18).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/hardware.h"
#include "core/model/generate.h"
#include "core/model/merge.h"
#include "core/model/rank_groups.h"
#include "core/model/rank_threads.h"
#include "core/model/replica.h"
#include "core/model/training.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

using Windows = std::vector<std::uint8_t>;  // [batch, seqlen + 1], as TextBatches gives them

struct ModelJob {
  ModelShape shape;
  Index batch = 1;
  Index seqlen = 1;
  PartitionKind partition = PartitionKind::contiguous;
  LossKind kind = LossKind::mean;
};

// Return the text that the model reads: the neighbours of each rank, for 2 to 9 ranks.
inline std::string ring_text() {
  std::string text;
  for (int n = 2; n <= 9; ++n)
    for (int r = 0; r < n; ++r)
      text += fmt::format("Of {} ranks, rank {} sends to rank {} and receives from rank {}.\n", n,
                          r, (r + 1) % n, (r + n - 1) % n);
  return text;
}

// A replica and what it has computed. Its weights are the same in all jobs of one shape.
struct ModelRank {
  ModelRank(const ModelJob& job, Communicator& comm)
      : windows(TextBatches(ring_text(), job.batch, job.seqlen, 0).windows(0)),
        weights(job.shape),
        replica(weights,
                attention_problem(job.shape, job.batch, job.seqlen, MaskSpec::parse("causal"),
                                  job.partition, comm.world_size()),
                comm, 1, job.kind),
        rows(replica.ring().tokens()) {}

  // Return the bytes of the rank's rows, with those that follow them.
  RankBytes own_bytes() {
    const RingProblem& problem = replica.ring().ring_problem();
    return take_rows(windows.data(), problem.params.batch, problem.partition.seqlen,
                     replica.ring().local_rows());
  }
  // Compute the loss and gradients of all rows.
  void step() { loss = replica.loss_and_gradients(windows.data()); }
  // Compute the gradients of `scale` times the losses of the rank's rows, not summed over ranks.
  void own_gradients(double scale) {
    replica.store().clear_gradients();
    replica.model().loss_and_gradients(replica.store(), own_bytes(), scale);
  }
  std::vector<double> gradients() const {
    const ParameterStore& store = replica.store();
    return {store.gradients(), store.gradients() + store.size()};
  }

  Windows windows;
  ModelWeights weights;
  Replica replica;
  Index rows;  // of all sequences
  double loss = 0;
};

// Call work(ModelRank&) on a thread per rank.
template <class Work>
std::vector<std::unique_ptr<ModelRank>> on_ranks(const ModelJob& job, int world_size,
                                                 const Work& work) {
  return run_rank_threads(
      world_size, [&](Communicator& comm) { return std::make_unique<ModelRank>(job, comm); }, work);
}

inline double length_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// ---
// Lesson 16.

// Tabulate the loss and gradients of one batch with its rows divided in different ways. `off` is
// the largest difference from one rank: of the loss (relative) and of gradients.
inline CheckedTable agreement_of(ModelJob job) {
  CheckedTable all({"ranks", "partition", "loss", "largest difference of a gradient"});
  const auto step = [](ModelRank& rank) { rank.step(); };
  const auto alone = std::move(on_ranks(job, 1, step)[0]);
  all.table.row(1, "", fixed(alone->loss, 4), "");
  for (const int world_size : {2, 4})
    for (const PartitionKind partition : kAllPartitions) {
      job.partition = partition;
      const auto ranks = on_ranks(job, world_size, step);
      double error = 0;
      for (const auto& rank : ranks) {
        keep_larger(error, largest_difference(rank->gradients(), alone->gradients()));
        keep_larger(error, std::abs(rank->loss / alone->loss - 1));
      }
      all.table.row(world_size, std::string(name_of(partition)), fixed(ranks[0]->loss, 4),
                    rounding(error, 1e-6));
      keep_larger(all.off, error);
    }
  return all;
}

// ---
// Lesson 29.

// Tabulate the choices for the loss on four ranks. The values are relative errors of the gradients:
// of each way with 16 rows and with 10.
inline CheckedTable loss_ways(const ModelShape& shape) {
  CheckedTable ways(
      {"loss", "a rank takes", "over the ranks", "off by, 16 rows", "off by, 10 rows"});
  // Ranks multiply their losses by scale(own rows, all rows); `after` multiplies the sum.
  const auto add = [&](std::vector<Cell> cells, LossKind kind, const auto& scale, double after) {
    for (const Index rows : {16, 10}) {
      const ModelJob job{shape, 1, rows, PartitionKind::contiguous, kind};
      const auto one = on_ranks(job, 1, [](ModelRank& rank) { rank.step(); });
      const auto four = on_ranks(job, 4, [&](ModelRank& rank) {
        rank.own_gradients(scale(static_cast<double>(rank.rows), static_cast<double>(rows)));
      });
      const std::vector<double> right = one[0]->gradients();
      std::vector<double> off(right.size());
      for (const auto& rank : four) {
        const std::vector<double> own = rank->gradients();
        for (std::size_t i = 0; i < off.size(); ++i) off[i] += after * own[i];
      }
      for (std::size_t i = 0; i < off.size(); ++i) off[i] -= right[i];
      ways.values.push_back(length_of(off) / length_of(right));
      cells.push_back(percent(ways.values.back()));
    }
    ways.table.add(cells);
  };
  const auto one = [](double, double) { return 1.0; };
  const auto by_own = [](double own, double) { return 1 / own; };
  const auto by_all = [](double, double all) { return 1 / all; };
  add({"sum", "the sum of its rows", "mean (S1)"}, LossKind::sum, one, 0.25);
  add({"sum", "the sum of its rows", "sum"}, LossKind::sum, one, 1);
  add({"mean", "the mean of its rows", "mean"}, LossKind::mean, by_own, 0.25);
  add({"mean", "the sum of its rows, over the count of all", "sum"}, LossKind::mean, by_all, 1);
  return ways;
}

// Tabulate the gradients of the first layer's weights: their lengths, and the slopes of the mean
// loss when weights move along them. A slope equals the length if the gradients are right; `off` is
// the largest relative error.
inline CheckedTable nudged(const ModelJob& job) {
  constexpr double kNudge = 1.0 / 256;
  CheckedTable all({"weights", "by nudging", "length of the gradient"});
  on_ranks(job, 1, [&](ModelRank& rank) {
    rank.step();
    ParameterStore& store = rank.replica.store();
    for (const NamedParameter& parameter : rank.weights.layout.all()) {
      if (parameter.name.starts_with("layer.1")) continue;
      const Parameter& place = parameter.place;
      const float* const gradient = store.gradients() + place.offset;
      const std::vector<double> direction(gradient, gradient + place.size());
      float* const values = store.values() + place.offset;
      const std::vector<float> before(values, values + place.size());
      const double length = length_of(direction);
      double rise = 0;
      for (const int sign : {-1, 1}) {
        for (std::size_t i = 0; i < before.size(); ++i)
          values[i] = before[i] + static_cast<float>(sign * kNudge * direction[i] / length);
        rise += sign * rank.replica.model().loss(store, rank.own_bytes());
      }
      std::copy(before.begin(), before.end(), values);
      const double slope = rise / static_cast<double>(rank.rows) / (2 * kNudge);
      all.table.row(parameter.name, fixed(slope, 3), fixed(length, 3));
      keep_larger(all.off, std::abs(slope / length - 1));
    }
  });
  return all;
}

// The losses of training on the text, on 1, 2 and 4 ranks.
struct Learning {
  Table table{{"step", "loss on 1 rank", "on 2", "on 4"}};
  std::vector<double> losses[3];  // by step
  double largest_difference = 0;  // from one rank, relative, in any step
};

inline Learning learning(const TrainingSettings& settings, Index steps) {
  Learning all;
  for (const int which : {0, 1, 2})
    train_on_threads({settings, {PartitionKind::zigzag, 1 << which}, nullptr, steps}, ring_text(),
                     [&](const StepReport& report, const TrainingRank&) {
                       all.losses[which].push_back(report.loss);
                     });
  const auto& [one, two, four] = all.losses;
  for (std::size_t i = 0; i < one.size(); ++i) {
    keep_larger(all.largest_difference, std::abs(two[i] / one[i] - 1));
    keep_larger(all.largest_difference, std::abs(four[i] / one[i] - 1));
    if (i == 0 || i % 10 == 9)
      all.table.row(i + 1, fixed(one[i], 2), fixed(two[i], 2), fixed(four[i], 2));
  }
  return all;
}

// ---
// Lesson 17.

// Write ranks as "1, 3, 5".
inline std::string listed(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

// Tabulate what a rank sends in a training step of `job`, and how its groups lie on nodes.
inline Table talk_table(const GroupJob& job, const RankGroups& world, int ranks_a_node) {
  const GroupTraffic sent = group_traffic(job);
  Table table({"group", "talks about", "how often", "bytes", "meanwhile", "on one node"});
  const auto row = [&](const char* who, const char* what, const Talk& talk, const char* meanwhile,
                       const std::vector<Axis>& axes) {
    const GroupPlacement lie = placement(world, axes, ranks_a_node);
    table.row(who, what, talk.times, bytes(talk.bytes), meanwhile,
              fmt::format("{} of {}", lie.inside, lie.inside + lie.crossing));
  };
  row("tensor", "sums of y, of dx", sent.tensor, "it waits", {Axis::tensor});
  row("context", "hops of K, V, dK, dV", sent.context, "it attends", {Axis::context});
  row("pipeline", "rows, or their dx", sent.pipeline, "other sequences", {Axis::pipeline});
  row("context × data", "a sum of gradients", sent.gradients, "earlier layers", kGradientAxes);
  return table;
}

// Tabulate several splits of 32 ranks into TP x CP, and what a rank sends in each. The values are
// bytes: of a block in each, and then of all.
inline CheckedTable split_ways(GroupJob job) {
  CheckedTable ways({"TP", "CP", "block of a hop", "the ring", "sums over TP", "together"});
  std::vector<double> together;
  for (const int tensor : {1, 2, 4, 8}) {
    job.sizes = {{tensor, 32 / tensor, 1, 1}};
    const GroupTraffic sent = group_traffic(job);
    ways.values.push_back(ring_block_bytes(job));
    together.push_back(sent.context.bytes + sent.tensor.bytes);
    ways.table.row(tensor, 32 / tensor, bytes(ways.values.back()), bytes(sent.context.bytes),
                   bytes(sent.tensor.bytes), bytes(together.back()));
  }
  ways.values.insert(ways.values.end(), together.begin(), together.end());
  return ways;
}

// ---
// Lesson 18.

// Return the FLOPs of attention per byte of K and V read, if `queries` rows of g query heads use
// each number read once: a multiplication and an addition each.
inline double flops_a_byte(Index queries, Index g, Index bytes_a_number) {
  return 2.0 * static_cast<double>(queries * g) / static_cast<double>(bytes_a_number);
}

// Compare these with what `gpu` could do while it reads a byte. Its memory speed must be known.
inline Table roofline_table(const Gpu& gpu) {
  Table table({"", "FLOPs a byte", "the " + gpu.name + " could do", "of its peak, at most"});
  const auto add = [&](const char* what, DType dtype, Index queries, Index g) {
    const double flops = flops_a_byte(queries, g, bytes_of(dtype));
    const double could = gpu.peak_flops(dtype) / gpu.memory_bytes_per_s.value();
    table.row(what, flops, std::round(could), percent(std::min(1.0, flops / could)));
  };
  add("decode, f32, g = 1", DType::f32, 1, 1);
  add("decode, f32, g = 4", DType::f32, 1, 4);
  add("decode, 16 bits, g = 4", DType::bf16, 1, 4);
  add("prefill, 16 bits, g = 4, 4,096 queries", DType::bf16, 4096, 4);
  return table;
}

// Tabulate how long one token's bytes take on two links, without the costs of each message.
inline Table ways_table(const std::vector<std::pair<const char*, double>>& bytes_of_ways) {
  Table table(
      {"for one token, 8 ranks", "bytes, one after the other", "NVLink4", "InfiniBand-NDR"});
  for (const auto& [what, count] : bytes_of_ways) {
    const auto on = [count = count](const char* link) {
      return fmt::format("{:.3f} ms", 1e3 * count / find_link(link).bytes_per_s);
    };
    table.row(what, bytes(count), on("NVLink4"), on("InfiniBand-NDR"));
  }
  return table;
}

// Tabulate one merge of `heads` heads of head_dim numbers.
inline Table merge_table(Index heads, Index head_dim) {
  Table table(
      {"ranks", "ring: rounds", "messages", "tree: rounds", "messages", "bytes, in either"});
  for (const int n : {2, 3, 4, 8, 16}) {
    const MergeCost ring = merge_cost(MergeKind::ring, heads, head_dim, n);
    const MergeCost tree = merge_cost(MergeKind::tree, heads, head_dim, n);
    table.row(n, ring.rounds, ring.messages, tree.rounds, tree.messages,
              bytes(static_cast<double>(tree.bytes)));
  }
  return table;
}

// Train a small model on nothing but `line`, repeated, on one rank, so that it knows it by heart.
inline Checkpoint learned_by_heart(const std::string& line) {
  TrainingSettings settings;
  settings.shape = {.layers = 2,
                    .width = 32,
                    .num_heads = 4,
                    .num_heads_kv = 2,
                    .head_dim = 8,
                    .hidden = 64,
                    .vocab = 128};
  settings.adam.rate = 5e-3;
  settings.batch = 4;
  settings.seqlen = 2 * static_cast<Index>(line.size());
  return train_on_threads({settings, {PartitionKind::contiguous, 1}, nullptr, 150},
                          line + line + line + line)
      .end;
}

// Return `prompt` and the likeliest 29 bytes that follow it, by a model on `ranks` zigzag ranks.
inline std::string written(const Checkpoint& model, const std::string& prompt, int ranks) {
  const GenerateOptions options{.prompt = prompt, .bytes = 29, .sampling = {.temperature = 0}};
  return prompt + generate_on_threads(model, {PartitionKind::zigzag, ranks}, options).text;
}

}  // namespace ringscope::lessons
