#include "core/run/rank.h"

#include <algorithm>

#include "core/ring/schemes.h"

namespace ringscope {

Rank::Rank(const Problem& config, const RingProblem& problem, int rank, MemorySpace& space,
           std::int64_t origin_ns)
    : config_(config),
      problem_(problem),
      rank_(rank),
      rows_(problem.partition.rows_of(rank)),
      space_(space),
      memory_(config, rank, space),
      // A pass records at most one compute slice per step, a wait, a send and a recv for each of
      // two payloads per step, and one wait at its end.
      recorder_(2 * (7 * static_cast<std::size_t>(config.world_size) + 1),
                3 * static_cast<std::size_t>(config.world_size), origin_ns) {}

void Rank::take_inputs(RowSource& inputs) {
  const AttentionShape& shape = config_.shape;
  visit_dtype(config_.dtype, [&]<class Stored>(Stored) {
    std::vector<float> values(static_cast<std::size_t>(piece_values(shape)));
    std::vector<Stored> stored(values.size());
    const auto take = [&](Tensor tensor, std::byte* local) {
      for_each_piece(shape, tensor, rows_, [&](const RowsOfHead& piece) {
        inputs.get(piece, values.data());
        pulse_.tick();
        const Index count = piece.count() * shape.head_dim;
        std::transform(values.begin(), values.begin() + count, stored.begin(), from_float<Stored>);
        const Index at = (piece.head * rows_.size() + piece.first) * shape.head_dim;
        constexpr auto kBytes = static_cast<Index>(sizeof(Stored));
        space_.copy_in(local + at * kBytes, stored.data(), count * kBytes);
      });
    };
    take(Tensor::q, memory_.q.data());
    take(Tensor::k, memory_.own_kv());
    take(Tensor::v, memory_.own_kv() + problem_.kv_bytes(rank_) / 2);
    if (config_.backward) take(Tensor::dout, memory_.dout.data());
  });
}

void Rank::run(Communicator& comm, BlockBackend& backend) {
  run_forward(config_.scheme, comm, backend, problem_, memory_);
  if (config_.backward) home_ = run_backward(config_.scheme, comm, backend, problem_, memory_);
}

RankEvents Rank::recorded() const {
  return {.events = recorder_.events(),
          .samples = recorder_.samples(),
          .dropped = recorder_.dropped(),
          .peak_bytes = peak_bytes()};
}

void Rank::give_outputs(RowSink& outputs) const {
  const AttentionShape& shape = config_.shape;
  std::vector<float> values(static_cast<std::size_t>(piece_values(shape)));
  const auto give = [&](Tensor tensor, const float* local) {
    const Index width = width_of(shape, tensor);
    for_each_piece(shape, tensor, rows_, [&](const RowsOfHead& piece) {
      const Index at = (piece.head * rows_.size() + piece.first) * width;
      const Index count = piece.count() * width;
      space_.copy_out(values.data(), local + at, count * static_cast<Index>(sizeof(float)));
      if (tensor != Tensor::lse)
        for (Index i = 0; i < count; ++i) values[i] = round_to(config_.dtype, values[i]);
      outputs.put(piece, values.data());
      pulse_.tick();
    });
  };
  give(Tensor::out, memory_.out_accum.data());
  give(Tensor::lse, memory_.lse.data());
  if (!config_.backward) return;
  give(Tensor::dq, memory_.dq.data());
  give(Tensor::dk, home_.data);
  give(Tensor::dv, home_.data + kv_values(problem_.params, home_.rows));
}

}  // namespace ringscope
