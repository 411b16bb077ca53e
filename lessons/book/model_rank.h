// A small model and the text that it learns, for lessons 14 to 16, and what becomes of its gradients when
// ranks scale their losses.
#pragma once

#include <memory>

#include "core/training/rank_threads.h"
#include "core/training/replica.h"
#include "core/training/training.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

inline ModelShape small_model() {
  return {.layers = 2, .width = 32, .num_heads = 4, .num_heads_kv = 2, .head_dim = 8, .hidden = 80};
}

// Return the text that the model reads: the neighbours of each rank, for 2 to 9 ranks.
inline std::string ring_text() {
  std::string text;
  for (int n = 2; n <= 9; ++n)
    for (int r = 0; r < n; ++r)
      text += fmt::format("Of {} ranks, rank {} sends to rank {} and receives from rank {}.\n", n,
                          r, (r + 1) % n, (r + n - 1) % n);
  return text;
}

inline double mean_of(std::span<const double> losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}
// Return the mean over the ranks of what each takes for the mean of its own rows.
inline double mean_of_means(std::span<const double> losses, const std::vector<std::size_t>& rows) {
  double sum = 0;
  for (const std::size_t count : rows) {
    sum += mean_of(losses.first(count));
    losses = losses.subspan(count);
  }
  return sum / static_cast<double>(rows.size());
}

// Return four equal rows of 8 numbers, turned for positions from `first_position` on.
inline std::vector<float> turned_rows(Index first_position) {
  std::vector<float> rows(4 * 8, 1);
  Rotary({{{first_position, 1, 4}, {}}}, 8, 100).turn(1, 1, rows.data());
  return rows;
}

// Let four ranks train a model on `rows` rows of the text, multiply the losses of their own rows by
// scale(own rows, all rows), add up their gradients and multiply these by `after`. Return the error relative
// to the gradients of one rank.
template <class Scale>
double error_of_gradients(const ModelShape& shape, Index rows, LossKind kind, const Scale& scale,
                          double after) {
  const ModelWeights weights(shape);
  const auto windows = TextBatches(ring_text(), 1, rows, 0).windows(0);
  const auto ranks = [&](int world_size, const auto& work) {
    const Problem problem = attention_problem(shape, 1, rows, MaskSpec::parse("causal"),
                                              PartitionKind::contiguous, world_size);
    return run_rank_threads(
        world_size,
        [&](Communicator& comm) {
          return std::make_unique<Replica>(weights, problem, comm, 1, kind);
        },
        work);
  };
  const auto one = ranks(1, [&](Replica& rank) { rank.loss_and_gradients(windows.data()); });
  const auto four = ranks(4, [&](Replica& rank) {
    rank.store().clear_gradients();
    rank.model().loss_and_gradients(
        rank.store(), take_rows(windows.data(), 1, rows, rank.ring().local_rows()),
        scale(static_cast<double>(rank.ring().tokens()), static_cast<double>(rows)));
  });
  double off = 0, length = 0;
  for (Index i = 0; i < one[0]->store().size(); ++i) {
    const double right = double{one[0]->store().gradients()[i]};
    double sum = 0;
    for (const auto& rank : four) sum += after * double{rank->store().gradients()[i]};
    off += (sum - right) * (sum - right);
    length += right * right;
  }
  return std::sqrt(off / length);
}

}  // namespace ringscope::lessons
