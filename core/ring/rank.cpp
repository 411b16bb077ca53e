#include "core/ring/rank.h"

#include "core/ring/ring_attention.h"

namespace ringscope {

namespace {

// Rows go to and from a rank's memory through a small buffer, so that nothing is held twice.
constexpr Index kStagedBytes = 16 << 10;

// Calls f(first row, end row) for runs of rows of one head that fit the buffer.
template <class F>
void for_each_chunk(Index rows, Index row_bytes, F&& f) {
  const Index most = max_of(kStagedBytes / row_bytes, 1);
  for (Index first = 0; first < rows; first += most) f(first, min_of(first + most, rows));
}

// Copies a rank's rows of `whole`, [heads, seqlen, width], to `local`, [heads, rows, width], stored
// as `dtype`. An empty `whole` is all ones.
void scatter(const std::vector<float>& whole, DType dtype, const LocalRows& rows, Index heads,
             Index seqlen, Index width, MemorySpace& space, std::byte* local) {
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    const Index row_bytes = width * static_cast<Index>(sizeof(Stored));
    std::vector<Stored> staged(
        static_cast<std::size_t>(max_of(kStagedBytes, row_bytes)) / sizeof(Stored),
        from_float<Stored>(1.0f));
    for (Index head = 0; head < heads; ++head)
      for_each_chunk(rows.size(), row_bytes, [&](Index first, Index end) {
        for (Index row = first; row < end && !whole.empty(); ++row) {
          const float* from = whole.data() + (head * seqlen + rows.global_position(row)) * width;
          Stored* to = staged.data() + (row - first) * width;
          for (Index x = 0; x < width; ++x) to[x] = from_float<Stored>(from[x]);
        }
        space.copy_in(local + (head * rows.size() + first) * row_bytes, staged.data(),
                      (end - first) * row_bytes);
      });
  });
}

// Puts a rank's rows to their places in `whole`, as values of `dtype`.
void gather(const float* local, DType dtype, const LocalRows& rows, Index heads, Index seqlen,
            Index width, const MemorySpace& space, std::vector<float>& whole) {
  const Index row_bytes = width * static_cast<Index>(sizeof(float));
  std::vector<float> staged(static_cast<std::size_t>(max_of(kStagedBytes, row_bytes)) /
                            sizeof(float));
  for (Index head = 0; head < heads; ++head)
    for_each_chunk(rows.size(), row_bytes, [&](Index first, Index end) {
      space.copy_out(staged.data(), local + (head * rows.size() + first) * width,
                     (end - first) * row_bytes);
      for (Index row = first; row < end; ++row) {
        float* to = whole.data() + (head * seqlen + rows.global_position(row)) * width;
        const float* from = staged.data() + (row - first) * width;
        for (Index x = 0; x < width; ++x) to[x] = round_to(dtype, from[x]);
      }
    });
}

}  // namespace

Rank::Rank(const RingConfig& config, const RingProblem& problem, int rank, MemorySpace& space,
           std::int64_t origin_ns)
    : config_(config),
      problem_(problem),
      rank_(rank),
      space_(space),
      memory_(problem, rank, config.scheme, config.backward, space),
      // A pass records per step at most a compute slice, and a wait, a send and a recv for each of
      // two payloads; and one wait at its end.
      recorder_(2 * (7 * static_cast<std::size_t>(config.world_size) + 1),
                3 * static_cast<std::size_t>(config.world_size), origin_ns) {}

void Rank::take_inputs(const AttentionInputs& inputs) {
  const AttentionShape& s = config_.shape;
  const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
  const auto take = [&](const std::vector<float>& whole, Index of_heads, std::byte* local) {
    scatter(whole, config_.dtype, rows(), of_heads, s.seqlen, s.head_dim, space_, local);
  };
  take(inputs.q, heads, memory_.q.data());
  take(inputs.k, heads_kv, memory_.own_kv());
  take(inputs.v, heads_kv, memory_.own_kv() + problem_.kv_bytes(rank_) / 2);
  if (config_.backward) take(inputs.dout, heads, memory_.dout.data());
}

void Rank::run(Communicator& comm, BlockBackend& backend) {
  const bool is_ring = config_.scheme == Scheme::ring;
  is_ring ? ring_forward(comm, backend, problem_, memory_)
          : allgather_forward(comm, backend, problem_, memory_);
  if (config_.backward)
    home_ = is_ring ? ring_backward(comm, backend, problem_, memory_)
                    : allgather_backward(comm, backend, problem_, memory_);
}

void Rank::give_outputs(AttentionOutputs& outputs) const {
  const AttentionShape& s = config_.shape;
  const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
  const auto give = [&](const float* local, DType dtype, Index of_heads, Index width,
                        std::vector<float>& whole) {
    gather(local, dtype, rows(), of_heads, s.seqlen, width, space_, whole);
  };
  give(memory_.out_accum.data(), config_.dtype, heads, s.head_dim, outputs.out);
  give(memory_.lse.data(), DType::f32, heads, 1, outputs.lse);
  if (!config_.backward) return;
  give(memory_.dq.data(), config_.dtype, heads, s.head_dim, outputs.dq);
  give(home_.data, config_.dtype, heads_kv, s.head_dim, outputs.dk);
  give(home_.data + problem_.params.kv_values(home_.rows), config_.dtype, heads_kv, s.head_dim,
       outputs.dv);
}

}  // namespace ringscope
