// A searched partition is real: the ring loops, on threads, over one, exact and with the predicted
// pairs at every step.
//
// Whatever is dealt out, a ring over it is one over contiguous parts of the sequence in another order:
// blocks, messages and memory are the same. Only the mask is not, and that is the backend's business:
// this one attends a block piece by piece, of consecutive positions each.
#include <gtest/gtest.h>

#include <cstring>

#include "core/sim/search/searched.h"
#include "tests/core/ring/ring_harness.h"

namespace ringscope {
namespace {

// Consecutive positions, and which of the rank's rows is the first of them.
struct Piece {
  Run positions;
  Index local_first;
};

std::vector<Piece> pieces_of(const SearchedPartition& found, int rank) {
  std::vector<Piece> pieces;
  Index local = 0;
  for (const Interval here : found.positions_of(rank)) {
    pieces.push_back({{here.first, 1, here.size()}, local});
    local += here.size();
  }
  return pieces;
}

class PieceByPiece : public ForwardingBackend {
 public:
  PieceByPiece(CpuBackend& inner, const SearchedPartition& found, const Mask& mask,
               const AttentionParams& params, int rank, const Work& expected)
      : ForwardingBackend(inner),
        found_(found),
        mask_(mask),
        params_(params),
        rank_(rank),
        expected_(expected),
        scratch_(nullptr, params.head_dim, true) {}

  Completion attend(const StepInfo& step, const Region&, const QueryBlock& q, const KvBlock& block,
                    const SoftmaxState& state, const Completion& after) override {
    wait_for(after);
    stats_ = {};
    for_each_piece(step.kv_owner, q.rows, block, [&](const Place& at, const KvBlock& keys) {
      const SoftmaxState mine{state.row_max + at.row, state.row_sum + at.row,
                              state.out_accum + at.row * params_.head_dim, nullptr};
      return attend_block(one_head_, at.region, queries(q, at), keys, mine, scratch_);
    });
    EXPECT_EQ(static_cast<double>(stats_.pairs), expected_.pairs(rank_, step.kv_owner));
    return nullptr;
  }

  Completion attend_backward(const StepInfo& step, const Region&, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    wait_for(after);
    stats_ = {};
    const Index values = kv_values(params_, block.rows);
    std::fill(gradient.data, gradient.data + 2 * values, 0.0f);
    for_each_piece(step.kv_owner, q.rows, block, [&](const Place& at, const KvBlock& keys) {
      const Index d = params_.head_dim;
      const BackwardState mine{state.row_max + at.row, state.row_sum + at.row,
                               state.out + at.row * d, state.delta + at.row, state.dq + at.row * d};
      std::vector<float> share(static_cast<std::size_t>(2 * keys.rows * d));
      const BlockStats stats = attend_block_backward(one_head_, at.region, queries(q, at), keys,
                                                     mine, {share.data(), keys.rows}, scratch_);
      for (Index i = 0; i < keys.rows * d; ++i) {
        gradient.data[at.key_row * d + i] += share[static_cast<std::size_t>(i)];
        gradient.data[values + at.key_row * d + i] +=
            share[static_cast<std::size_t>(keys.rows * d + i)];
      }
      return stats;
    });
    EXPECT_EQ(static_cast<double>(stats_.pairs), expected_.pairs(rank_, step.kv_owner));
    return nullptr;
  }

  const BlockStats& last_stats() const override { return stats_; }

 private:
  // Where a piece of the queries and one of the keys lie, counted in rows over all heads.
  struct Place {
    Region region;
    Index row, key_row;
  };

  QueryBlock queries(const QueryBlock& q, const Place& at) const {
    const auto from = [&](const void* tensor) {
      return static_cast<const char*>(tensor) + at.row * params_.head_dim * bytes_of(params_.dtype);
    };
    return {from(q.q), from(q.dout), at.region.queries.size()};
  }

  // One head at a time, since a piece's rows of two heads don't follow each other. Its K and V are
  // copied to where they do.
  template <class Attend>
  void for_each_piece(int owner, Index rows, const KvBlock& block, Attend attend) {
    const Index row_bytes = params_.head_dim * bytes_of(params_.dtype);
    const Index v_offset = kv_values(params_, block.rows) * bytes_of(params_.dtype);
    for (Index head = 0; head < params_.batch * params_.num_heads; ++head)
      for (const Piece& q : pieces_of(found_, rank_))
        for (const Piece& k : pieces_of(found_, owner)) {
          const Index key_row = head / params_.group_size() * block.rows + k.local_first;
          const Place at{{mask_, rows_of(q), rows_of(k)}, head * rows + q.local_first, key_row};
          if (at.region.pairs() == 0) continue;
          const Index bytes = k.positions.count * row_bytes;
          std::vector<char> keys(static_cast<std::size_t>(2 * bytes));
          const char* const from = static_cast<const char*>(block.data) + key_row * row_bytes;
          std::memcpy(keys.data(), from, static_cast<std::size_t>(bytes));
          std::memcpy(keys.data() + bytes, from + v_offset, static_cast<std::size_t>(bytes));
          const BlockStats stats = attend(at, KvBlock{keys.data(), k.positions.count});
          if (head == 0) stats_.pairs += stats.pairs;
        }
  }
  LocalRows rows_of(const Piece& piece) const {
    return {{piece.positions, {mask_.seqlen, 1, 0}}, false};
  }

  const SearchedPartition& found_;
  Mask mask_;
  AttentionParams params_;
  int rank_;
  const Work& expected_;
  BlockwiseScratch scratch_;
  BlockStats stats_;
  AttentionParams one_head_{
      {1, 1, 1, params_.seqlen, params_.head_dim}, params_.dtype, params_.softmax_scale};
};

// Positions in the order of the ranks that hold them.
std::vector<Index> order_of(const SearchedPartition& found, int world_size) {
  std::vector<Index> order;
  for (int rank = 0; rank < world_size; ++rank)
    for (const Interval here : found.positions_of(rank))
      for (Index i = here.first; i < here.last; ++i) order.push_back(i);
  return order;
}

// Every head's rows in that order, or from it back.
template <class T>
std::vector<T> reordered(const std::vector<T>& tensor, Index width, const std::vector<Index>& order,
                         bool back) {
  const auto seqlen = static_cast<Index>(order.size());
  std::vector<T> result(tensor.size());
  for (Index head = 0; head < static_cast<Index>(tensor.size()) / (seqlen * width); ++head)
    for (Index i = 0; i < seqlen; ++i) {
      const Index from = back ? i : order[static_cast<std::size_t>(i)];
      const Index to = back ? order[static_cast<std::size_t>(i)] : i;
      for (Index x = 0; x < width; ++x)
        result[static_cast<std::size_t>((head * seqlen + to) * width + x)] =
            tensor[static_cast<std::size_t>((head * seqlen + from) * width + x)];
    }
  return result;
}

TEST(SearchedRing, IsExactAndCountsThePredictedPairs) {
  constexpr Index kSeqlen = 384, kHeadDim = 8;
  constexpr int kRanks = 4;
  for (const char* mask : {"causal", "causal+window:50", "prefix:100", "documents:200,100,84",
                           "causal+documents:190,60,50,84"}) {
    const RingReference reference({2, 4, 2, kSeqlen, kHeadDim}, DType::f32, mask, 0.3f, 5);
    Problem job;
    job.shape = reference.shape;
    job.mask = MaskSpec::parse(mask);
    job.world_size = kRanks;
    SearchedPartition found = search_partition(
        {.job = job, .granularity = {8, 8}, .least_chunk_rows = 8, .exchanges = 3000});
    const std::vector<Index> order = order_of(found, kRanks);
    const Mask by_position = job.mask.for_seqlen(kSeqlen);

    // What the loops see: contiguous parts of the reordered sequence, of which the backend knows more.
    Problem config = reference.config(PartitionKind::contiguous, kRanks);
    config.mask = MaskSpec();
    const auto there = [&](const std::vector<float>& tensor) {
      return reordered(tensor, kHeadDim, order, false);
    };
    const AttentionInputs& in = reference.inputs;
    const HarnessRun run = run_wrapped(
        config, {there(in.q), there(in.k), there(in.v), there(in.dout)},
        [](Communicator& comm) { return ForwardingCommunicator(comm); },
        [&](int rank, CpuBackend& cpu) {
          return PieceByPiece(cpu, found, by_position, config.ring_problem().params, rank,
                              found.work);
        });
    ASSERT_FALSE(run.error) << run.error->what();
    RingRun back;
    const auto home = [&](const std::vector<float>& tensor, Index width) {
      return reordered(tensor, width, order, true);
    };
    back.outputs.out = home(run.outputs.out, kHeadDim);
    back.outputs.lse = home(run.outputs.lse, 1);
    back.outputs.dq = home(run.outputs.dq, kHeadDim);
    back.outputs.dk = home(run.outputs.dk, kHeadDim);
    back.outputs.dv = home(run.outputs.dv, kHeadDim);
    reference.check(reference.config(PartitionKind::contiguous, kRanks), back);
  }
}

}  // namespace
}  // namespace ringscope
