// Runs lesson 16's small causal model on rank threads, and counts everything that its ranks send.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/model/rank_threads.h"
#include "core/model/replica.h"
#include "core/model/training.h"
#include "core/model/training_run.h"
#include "core/problem/mask.h"
#include "core/ring/wire_counter.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

using Windows = std::vector<std::uint8_t>;  // [batch, seqlen + 1], as TextBatches gives them

struct ModelJob {
  ModelShape shape;
  Index batch = 1;
  Index seqlen = 1;
  PartitionKind partition = PartitionKind::contiguous;
  LossKind kind = LossKind::mean;

  double tokens() const { return static_cast<double>(batch * seqlen); }
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

// Return pieces of the text, one for each sequence of the job.
inline Windows ring_windows(const ModelJob& job) {
  return TextBatches(ring_text(), job.batch, job.seqlen, 0).windows(0);
}

// A replica and its data. Its weights are the same in all jobs of one shape.
struct ModelRank {
  ModelRank(const ModelJob& job, Communicator& comm)
      : weights(job.shape),
        counted(comm),
        replica(weights,
                attention_problem(job.shape, job.batch, job.seqlen, MaskSpec::parse("causal"),
                                  job.partition, comm.world_size()),
                counted, 1, job.kind) {}

  Index rows() const { return rows_of_all_sequences; }
  RankBytes own_bytes(const Windows& windows) {
    const RingProblem& problem = replica.ring().ring_problem();
    return take_rows(windows.data(), problem.params.batch, problem.partition.seqlen,
                     replica.ring().local_rows());
  }
  // Compute the loss and gradients of all rows.
  void step(const Windows& windows) { loss = replica.loss_and_gradients(windows.data()); }
  // Compute the gradients of `scale` times the losses of the rank's rows, not summed over ranks.
  void own_gradients(const Windows& windows, double scale) {
    replica.store().clear_gradients();
    replica.model().loss_and_gradients(replica.store(), own_bytes(windows), scale);
  }
  std::vector<double> gradients() const {
    const ParameterStore& store = replica.store();
    return {store.gradients(), store.gradients() + store.size()};
  }

  ModelWeights weights;
  WireCounter counted;
  Replica replica;
  Index rows_of_all_sequences = replica.ring().tokens();
  double loss = 0;
};

using ModelRanks = std::vector<std::unique_ptr<ModelRank>>;

// Call work(ModelRank&) on a thread per rank.
template <class Work>
ModelRanks on_ranks(const ModelJob& job, int world_size, const Work& work) {
  return run_rank_threads(
      world_size, [&](Communicator& comm) { return std::make_unique<ModelRank>(job, comm); }, work);
}

// Return the sum of all ranks' gradients, times `factor`.
inline std::vector<double> sum_of_gradients(const ModelRanks& ranks, double factor = 1) {
  std::vector<double> sum(ranks[0]->gradients().size());
  for (const auto& rank : ranks) {
    const std::vector<double> own = rank->gradients();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * own[i];
  }
  return sum;
}

inline double length_of(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Return |a - b| / |b|.
inline double relative_distance(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length_of(a) / length_of(b);
}

// Return the slope of the mean loss, on one rank, when the values of `place` move along their part
// of `gradients`. It equals that part's length if the gradients are right.
inline double slope_by_nudging(const ModelJob& job, const Windows& windows, const Parameter& place,
                               const std::vector<double>& gradients) {
  constexpr double kNudge = 1.0 / 256;
  const auto first = gradients.begin() + place.offset;
  const std::vector<double> direction(first, first + place.size());
  const double length = length_of(direction);
  double rise = 0;
  on_ranks(job, 1, [&](ModelRank& rank) {
    ParameterStore& store = rank.replica.store();
    float* const values = store.values() + place.offset;
    const std::vector<float> before(values, values + place.size());
    for (const int sign : {-1, 1}) {
      for (std::size_t i = 0; i < before.size(); ++i)
        values[i] = before[i] + static_cast<float>(sign * kNudge * direction[i] / length);
      rise += sign * rank.replica.model().loss(store, rank.own_bytes(windows)) / job.tokens();
    }
  });
  return rise / (2 * kNudge);
}

// ---
// The tables below show what lesson 16 says about a model on several ranks.

// The scores of 16 equal keys on 4 ranks for the query at position 9.
struct RotaryScores {
  Table table{{"positions", "keys of rank 0", "of rank 1", "of rank 2", "of rank 3"}};
  int at_distance_0[2] = {};  // [local, global]: how many keys seem to be at distance 0
};

// turned(p) must return four rows of 8 numbers, turned to positions p to p + 3. A row's product
// with itself must be 8.
template <class Turned>
RotaryScores rotary_scores(const Turned& turned) {
  RotaryScores scores;
  for (const bool global : {true, false}) {
    std::vector<Cell> cells = {global ? "global" : "local"};
    const std::vector<float> queries = turned(global ? 8 : 0);  // of rank 2; the query is row 1
    for (Index rank = 0; rank < 4; ++rank) {
      const std::vector<float> keys = turned(global ? 4 * rank : 0);
      std::vector<double> score(4);
      for (std::size_t i = 0; i < 32; ++i) score[i / 8] += queries[8 + i % 8] * keys[i] / 8;
      for (const double s : score) scores.at_distance_0[global] += s > 0.999;
      cells.push_back(numbers(score));
    }
    scores.table.add(cells);
  }
  return scores;
}

// The choices for the loss on four ranks.
struct LossWays {
  Table table{{"loss", "a rank takes", "over the ranks", "off by, 16 rows", "off by, 10 rows"}};
  std::vector<double> off;  // [way, 16 rows or 10]
};

// off_by(job, scale, after) must return the relative error of the gradients if each rank's losses
// are multiplied by scale(its rows) and the sum of the gradients by `after`.
template <class OffBy>
LossWays loss_ways(const ModelShape& shape, const OffBy& off_by) {
  LossWays ways;
  const auto add = [&](std::vector<Cell> cells, LossKind kind, const auto& scale, double after) {
    for (const Index rows : {16, 10}) {
      const ModelJob job{shape, 1, rows, PartitionKind::contiguous, kind};
      ways.off.push_back(off_by(
          job, [&](Index own) { return scale(own, rows); }, after));
      cells.push_back(percent(ways.off.back()));
    }
    ways.table.add(cells);
  };
  const auto one = [](Index, Index) { return 1.0; };
  const auto by_own = [](Index own, Index) { return 1.0 / static_cast<double>(own); };
  const auto by_all = [](Index, Index all) { return 1.0 / static_cast<double>(all); };
  add({"sum", "the sum of its rows", "mean (S1)"}, LossKind::sum, one, 0.25);
  add({"sum", "the sum of its rows", "sum"}, LossKind::sum, one, 1);
  add({"mean", "the mean of its rows", "mean"}, LossKind::mean, by_own, 0.25);
  add({"mean", "the sum of its rows, over the count of all", "sum"}, LossKind::mean, by_all, 1);
  return ways;
}

// The loss and gradients of one batch with its rows divided in different ways.
struct Agreement {
  Table table{{"ranks", "partition", "loss", "largest difference of a gradient"}};
  double error = 0;  // largest difference from one rank: of the loss (relative) and of gradients
};

inline Agreement agreement_of(ModelJob job, const Windows& windows, const ModelRank& alone) {
  Agreement all;
  all.table.row(1, "", fixed(alone.loss, 4), "");
  for (const int world_size : {2, 4})
    for (const PartitionKind partition : kAllPartitions) {
      job.partition = partition;
      const ModelRanks ranks =
          on_ranks(job, world_size, [&](ModelRank& rank) { rank.step(windows); });
      double error = 0;
      for (const auto& rank : ranks) {
        keep_larger(error, largest_difference(rank->gradients(), alone.gradients()));
        keep_larger(error, std::abs(rank->loss / alone.loss - 1));
      }
      all.table.row(world_size, std::string(name_of(partition)), fixed(ranks[0]->loss, 4),
                    rounding(error, 1e-6));
      keep_larger(all.error, error);
    }
  return all;
}

// Bytes that all ranks together send in a training step.
struct SentBytes {
  Index forward = 0, backward = 0;  // by attention
  Index reduction = 0;              // to add up the gradients

  Index all() const { return forward + backward + reduction; }
};

inline SentBytes sent_in_a_step(const ModelJob& job, int world_size, const Windows& windows) {
  SentBytes sent;
  const auto whole = on_ranks(job, world_size, [&](ModelRank& rank) { rank.step(windows); });
  for (const auto& rank : whole) {
    sent.forward += rank->counted.sent(Pass::forward).bytes;
    sent.reduction += rank->counted.sent(Pass::backward).bytes;
  }
  // Repeat the step without adding up the gradients.
  const auto own =
      on_ranks(job, world_size, [&](ModelRank& rank) { rank.own_gradients(windows, 1); });
  for (const auto& rank : own) sent.backward += rank->counted.sent(Pass::backward).bytes;
  sent.reduction -= sent.backward;
  return sent;
}

inline Table sent_table(const SentBytes& formula, const SentBytes& counted) {
  Table table({"bytes that four ranks send", "by formula", "counted"});
  table.row("attention, forward", formula.forward, counted.forward);
  table.row("attention, backward", formula.backward, counted.backward);
  table.row("gradients of weights, and the loss", formula.reduction, counted.reduction);
  table.row("everything else", 0, counted.all() - formula.all());
  return table;
}

// The losses of training on the text, on 1, 2 and 4 ranks.
struct Learning {
  Table table{{"step", "loss on 1 rank", "on 2", "on 4"}};
  std::vector<double> losses[3];  // by step
  double largest_difference = 0;  // from one rank, relative, in any step
};

inline Learning learning(const TrainingSettings& settings, Index steps) {
  Learning all;
  int which = 0;
  for (const int world_size : {1, 2, 4}) {
    std::vector<double>& losses = all.losses[which++];
    train_on_threads(
        settings, {PartitionKind::zigzag, world_size}, ring_text(), nullptr, steps,
        [&](const StepReport& report, const TrainingRank&) { losses.push_back(report.loss); });
  }
  for (const std::vector<double>& losses : all.losses)
    for (std::size_t i = 0; i < losses.size(); ++i)
      keep_larger(all.largest_difference, std::abs(losses[i] / all.losses[0][i] - 1));
  for (std::size_t i = 0; i < all.losses[0].size(); ++i)
    if (i == 0 || i % 10 == 9)
      all.table.row(i + 1, fixed(all.losses[0][i], 2), fixed(all.losses[1][i], 2),
                    fixed(all.losses[2][i], 2));
  return all;
}

// Record the third step of a training.
inline Recording recorded_step(const TrainingSettings& settings, const Deal& deal) {
  const TextBatches batches(ring_text(), settings.batch, settings.seqlen, settings.seed);
  const Index layer = default_recorded_layer(settings.shape);
  std::vector<RankEvents> events(static_cast<std::size_t>(deal.world_size));
  run_rank_threads(
      deal.world_size,
      [&](Communicator& comm) {
        return std::make_unique<TrainingRank>(settings, deal, batches, comm);
      },
      [&](TrainingRank& rank) {
        rank.step(), rank.step();
        events[static_cast<std::size_t>(rank.rank())] = record_step(rank, layer).events;
      });
  return recording_of_step(settings, deal, 3, layer, std::move(events));
}

// The gradients of the first layer's weights: their lengths, and their slopes by nudging.
struct Nudged {
  Table table{{"weights", "by nudging", "length of the gradient"}};
  double error = 0;  // largest relative error
};

inline Nudged nudged(const ModelJob& job, const Windows& windows, const ModelRank& rank) {
  Nudged all;
  const std::vector<double> gradients = rank.gradients();
  for (const NamedParameter& parameter : rank.weights.layout.all()) {
    if (parameter.name.starts_with("layer.1")) continue;
    const Parameter& place = parameter.place;
    const double slope = slope_by_nudging(job, windows, place, gradients);
    const auto first = gradients.begin() + place.offset;
    const double length = length_of({first, first + place.size()});
    all.table.row(parameter.name, fixed(slope, 3), fixed(length, 3));
    keep_larger(all.error, std::abs(slope / length - 1));
  }
  return all;
}

}  // namespace ringscope::lessons
