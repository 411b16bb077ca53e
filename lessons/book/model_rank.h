// A small causal model on rank threads, for the lessons on training.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

}  // namespace ringscope::lessons
