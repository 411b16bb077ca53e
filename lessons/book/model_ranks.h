// A small causal model on rank threads, and all that its ranks send, counted: what lesson 16 is
// about.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/layer/rank_threads.h"
#include "core/layer/replica.h"
#include "core/mask/mask_spec.h"
#include "core/ring/wire_counter.h"
#include "core/train/text_batches.h"

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

// The text that the model reads: who sends to whom, for 2 to 9 ranks.
inline std::string ring_text() {
  std::string text;
  for (int n = 2; n <= 9; ++n)
    for (int r = 0; r < n; ++r)
      text += fmt::format("Of {} ranks, rank {} sends to rank {} and receives from rank {}.\n", n,
                          r, (r + 1) % n, (r + n - 1) % n);
  return text;
}

// Pieces of it, one for each sequence of the job.
inline Windows ring_windows(const ModelJob& job) {
  return TextBatches(ring_text(), job.batch, job.seqlen, 0).windows(0);
}

// A replica and what it needs to live. Its weights are the same in all jobs of one shape.
struct ModelRank {
  ModelRank(const ModelJob& job, Communicator& comm)
      : weights(job.shape),
        mask(MaskSpec::parse("causal")),
        counted(comm),
        replica(weights,
                {attention_params(job.shape, job.batch),
                 mask.for_seqlen(job.seqlen),
                 {job.partition, job.seqlen, comm.world_size()}},
                counted, 1, job.kind) {}

  Index rows() const { return rows_of_all_sequences; }
  RankBytes own_bytes(const Windows& windows) {
    const RingProblem& problem = replica.ring().problem();
    return take_rows(windows.data(), problem.params.batch, problem.partition.seqlen,
                     replica.ring().local_rows());
  }
  // The loss and gradients of all rows.
  void step(const Windows& windows) { loss = replica.loss_and_gradients(windows.data()); }
  // The gradients of `scale` times the losses of the rank's rows, before anything is added up.
  void own_gradients(const Windows& windows, double scale) {
    replica.store().clear_gradients();
    replica.model().loss_and_gradients(replica.store(), own_bytes(windows), scale);
  }
  std::vector<double> gradients() const {
    const ParameterStore& store = replica.store();
    return {store.gradients(), store.gradients() + store.size()};
  }

  ModelWeights weights;
  MaskSpec mask;
  WireCounter counted;
  Replica replica;
  Index rows_of_all_sequences = replica.ring().tokens();
  double loss = 0;
};

using ModelRanks = std::vector<std::unique_ptr<ModelRank>>;

// Calls work(ModelRank&) on a thread a rank.
template <class Work>
ModelRanks on_ranks(const ModelJob& job, int world_size, const Work& work) {
  return run_rank_threads(
      world_size, [&](Communicator& comm) { return std::make_unique<ModelRank>(job, comm); }, work);
}

// All ranks' gradients, added up, times `factor`.
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

// |a - b| / |b|
inline double relative_distance(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length_of(a) / length_of(b);
}

// How fast the mean loss rises, on one rank, when the values of `place` move in the direction of
// their part of `gradients`: by that part's length, if gradients are right.
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

}  // namespace ringscope::lessons
