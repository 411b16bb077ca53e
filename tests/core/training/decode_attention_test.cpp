// Decode attention where results are exact, with today's models' sinks, widths and large values, and what
// it may not touch; and the shard of a rank. (That it equals the prefill: decoder_test.cpp.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/attention/online_softmax.h"
#include "core/attention/vectors.h"
#include "core/training/decode_attention.h"
#include "core/training/layers.h"
#include "core/training/rank_threads.h"
#include "tests/core/attention/blockwise_run.h"

namespace ringscope {
namespace {

struct DecodeCase {
  AttentionShape shape;  // seqlen: prompt and what is generated
  Index prompt = 1;
  std::string mask = "causal";
  std::vector<float> sinks = {};
  double softcap = 0;

  Index generated() const { return shape.seqlen - prompt; }
  AttentionParams params() const {
    const float* const logits = sinks.empty() ? nullptr : sinks.data();
    return {shape, DType::f32, default_softmax_scale(shape.head_dim), logits, 0, softcap};
  }
};

// [count, seqlen, width] -> [count, last - first, width]
template <class T>
std::vector<T> slice(const std::vector<T>& tensor, Index count, Index seqlen, Index width,
                     const LocalRows& rows) {
  std::vector<T> result;
  for (Index c = 0; c < count; ++c)
    for (Index i = 0; i < rows.size(); ++i)
      for (Index x = 0; x < width; ++x)
        result.push_back(tensor[(c * seqlen + rows.global_position(i)) * width + x]);
  return result;
}

// One rank's cache, and what it has decoded: [batch, num_heads, generated, head_dim_v].
struct DecodingRank {
  DecodingRank(const DecodeCase& its_case, PartitionKind kind, Communicator& its_comm)
      : c(its_case),
        comm(its_comm),
        rank(its_comm.rank()),
        partition{kind, c.prompt, its_comm.world_size()},
        shard(c.params(), partition, rank, nullptr),
        attention(c.params(), its_comm.world_size(), nullptr) {}

  void decode(const Tensors<float>& in, const Mask& mask) {
    const AttentionShape& s = c.shape;
    const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
    const Index d = s.head_dim, d_v = s.value_dim();
    const auto by_row = [&](const std::vector<float>& tensor, Index width, const LocalRows& rows) {
      const std::vector<float> by_head = slice(tensor, heads_kv, s.seqlen, width, rows);
      std::vector<float> result(by_head.size());
      AttentionShape of_width = s;
      of_width.head_dim = width;
      heads_to_rows(of_width, s.num_heads_kv, rows.size(), {0, 1, rows.size()}, by_head.data(),
                    result.data());
      return result;
    };
    const LocalRows mine = partition.rows_of(rank);
    shard.fill(by_row(in.k, d, mine).data(), by_row(in.v, d_v, mine).data());
    out.resize(heads * c.generated() * d_v);
    lse.resize(heads * c.generated());
    std::vector<float> one_out(heads * d_v), one_lse(heads);
    for (Index p = c.prompt; p < s.seqlen; ++p) {
      const LocalRows here = consecutive_rows(p, p + 1);
      shard.append(slice(in.k, heads_kv, s.seqlen, d, here).data(),
                   slice(in.v, heads_kv, s.seqlen, d_v, here).data());
      const std::vector<float> q = slice(in.q, heads, s.seqlen, d, here);
      attention(comm, shard, mask.allowed_keys(p), q.data(), one_out.data(), one_lse.data());
      for (Index h = 0; h < heads; ++h) {
        const Index at = h * c.generated() + p - c.prompt;
        std::copy_n(one_out.data() + h * d_v, d_v, out.data() + at * d_v);
        lse[at] = one_lse[h];
      }
    }
  }

  DecodeCase c;
  Communicator& comm;
  int rank;
  Partition partition;
  KvShard shard;
  DecodeAttention attention;
  std::vector<float> out, lse;
};

auto decoded(const DecodeCase& c, PartitionKind kind, int world_size, const Tensors<float>& in,
             const Mask& mask) {
  return run_rank_threads(
      world_size, [&](Communicator& comm) { return std::make_unique<DecodingRank>(c, kind, comm); },
      [&](DecodingRank& rank) { rank.decode(in, mask); });
}

// One key's score is above the others by so much that their weights are 0 in f32, and no power of
// e of it fits: its value comes out bit for bit, from whichever rank.
TEST(DecodeAttention, OfOneFarAboveAllIsItsValue) {
  const DecodeCase c{{1, 2, 1, 40, 4}, 20};
  for (const Index target : {0, 19, 30}) {
    Tensors<float> in = random_tensors(c.shape, 5);
    std::fill(in.q.begin(), in.q.end(), 1.0f);
    for (Index p = 0; p < 40; ++p)
      std::fill_n(in.k.begin() + p * 4, 4, p == target ? 1000.0f : 0.5f);
    const MaskSpec spec = MaskSpec::parse("causal");
    for (const auto& rank : decoded(c, PartitionKind::fold, 5, in, spec.for_seqlen(40)))
      for (Index h = 0; h < 2; ++h)
        for (Index p = max_of(20, target); p < 40; ++p) {
          ASSERT_EQ(rank->lse[h * 20 + p - 20], 2000);
          for (Index x = 0; x < 4; ++x)
            ASSERT_EQ(rank->out[(h * 20 + p - 20) * 4 + x], in.v[target * 4 + x]) << target;
        }
  }
}

// Sinks count once on any number of ranks, also in rows without keys; values have their own width, and
// come out finite where they are near the largest of f32.
TEST(DecodeAttention, OfTodaysModelsIsTheOracles) {
  for (const Index head_dim_v : {3, 9, 20})
    for (const float largest : {1.0f, 3e38f})
      for (const int ranks : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << head_dim_v << ", " << largest << ", " << ranks);
        DecodeCase c{{2, 6, 2, 300, 9, head_dim_v}, 290};
        c.mask = ranks == 5 ? "causal+documents:200,93,7" : "causal+window:150";
        c.softcap = ranks == 2 ? 1.5 : 0;
        c.sinks = {-1, 2, 40, kMinusInfinity<float>, 0, 5};
        Tensors<float> in = random_tensors(c.shape, 9);
        in.dout.clear();
        for (float& x : in.v) x = std::clamp(x * largest, -largest, largest);
        const MaskSpec spec = MaskSpec::parse(c.mask);
        const Mask mask = spec.for_seqlen(300);
        const NaiveResult<double> right =
            naive_with_bounds(c.shape, mask, c.params().softmax_scale, in, c.sinks, c.softcap);
        const Index heads = 2 * 6;
        for (const auto& rank : decoded(c, PartitionKind::zigzag, ranks, in, mask)) {
          for (Index at = 0; at < heads * 10; ++at) {
            const Index row = at / 10 * 300 + 290 + at % 10;
            ASSERT_NEAR(rank->lse[at], right.lse[row], 1e-5 * (1 + std::abs(right.lse[row])));
            for (Index x = 0; x < head_dim_v; ++x)
              ASSERT_NEAR(rank->out[at * head_dim_v + x], right.out[row * head_dim_v + x],
                          1e-5 * largest);
          }
        }
      }
  DecodeCase c{{1, 2, 1, 20, 4}, 19};
  c.sinks = {1.5f, kMinusInfinity<float>};
  const auto decode = [&](Communicator& comm) {
    return std::make_unique<DecodingRank>(c, PartitionKind::contiguous, comm);
  };
  const Tensors<float> in = random_tensors(c.shape, 3);
  const auto no_keys = [&](DecodingRank& rank) {
    rank.out.assign(8, 1);
    rank.lse.assign(2, 1);
    rank.attention(rank.comm, rank.shard, {}, in.q.data(), rank.out.data(), rank.lse.data());
  };
  for (const auto& rank : run_rank_threads(3, decode, no_keys)) {
    EXPECT_EQ(rank->out, std::vector<float>(8, 0));
    EXPECT_EQ(rank->lse, c.sinks);
  }
}

TEST(DecodeAttention, DoesNotTouchWhatIsOutsideTheWindow) {
  const DecodeCase c{{1, 2, 1, 60, 4}, 30, "causal+window:8"};
  Tensors<float> in = random_tensors(c.shape, 5);
  std::fill_n(in.k.begin(), 23 * 4, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(in.v.begin(), 23 * 4, std::numeric_limits<float>::quiet_NaN());
  const MaskSpec spec = MaskSpec::parse(c.mask);
  for (const PartitionKind kind : kAllPartitions)
    for (const auto& rank : decoded(c, kind, 3, in, spec.for_seqlen(60)))
      for (const float x : rank->out) ASSERT_TRUE(std::isfinite(x));
}

// The shard of K and V that a rank holds.

constexpr AttentionParams kParams{{.batch = 2, .num_heads = 4, .num_heads_kv = 2, .head_dim = 3}};

// A value that says where it belongs.
float value_at(Index b, Index h, Index position, Index x) {
  return static_cast<float>(((b * 2 + h) * 1024 + position) * 4 + x);
}

std::vector<float> rows_of(const std::vector<Index>& positions, float sign) {
  std::vector<float> rows;
  for (Index b = 0; b < 2; ++b)
    for (const Index position : positions)
      for (Index h = 0; h < 2; ++h)
        for (Index x = 0; x < 3; ++x) rows.push_back(sign * value_at(b, h, position, x));
  return rows;
}

TEST(KvShard, HoldsThePromptAsItWasDealtOutAndThenEveryNthPosition) {
  constexpr Index kPrompt = 301, kGenerated = 400;
  for (const PartitionKind kind : kAllPartitions)
    for (const int n : {1, 2, 3, 8}) {
      const Partition prompt{kind, kPrompt, n};
      std::set<Index> held;
      for (int rank = 0; rank < n; ++rank) {
        KvShard shard(kParams, prompt, rank, nullptr);
        std::vector<Index> positions;
        const LocalRows rows = prompt.rows_of(rank);
        for (Index i = 0; i < rows.size(); ++i) positions.push_back(rows.global_position(i));
        shard.fill(rows_of(positions, 1).data(), rows_of(positions, -1).data());
        const float* const first_page = shard.keys(0, 0, 0);
        for (Index p = kPrompt; p < kPrompt + kGenerated; ++p) {
          ASSERT_EQ(shard.positions(), p);
          shard.append(rows_of({p}, 1).data(), rows_of({p}, -1).data());
          if ((p - kPrompt) % n == rank) positions.push_back(p);
        }
        EXPECT_EQ(shard.keys(0, 0, 0), first_page) << "what was there has been moved";

        ASSERT_EQ(shard.rows(), std::ssize(positions));
        for (Index row = 0; row < shard.rows(); ++row)
          for (Index b = 0; b < 2; ++b)
            for (Index h = 0; h < 2; ++h)
              for (Index x = 0; x < 3; ++x) {
                const Index page = row / KvShard::kPageRows, at = row % KvShard::kPageRows;
                const float expected = value_at(b, h, positions[row], x);
                ASSERT_EQ(shard.keys(page, b, h)[x * KvShard::kPageRows + at], expected);
                ASSERT_EQ(shard.values(page, b, h)[at * shard.value_stride() + x], -expected);
              }
        for (Index first = 0; first <= kPrompt + kGenerated; first += 7)
          for (const Index last : {first, first + 1, first + 64, kPrompt + kGenerated}) {
            const auto below = [&](Index position) {
              return std::lower_bound(positions.begin(), positions.end(), position) -
                     positions.begin();
            };
            ASSERT_EQ(shard.rows_within({first, last}), (Interval{below(first), below(last)}));
          }
        held.insert(positions.begin(), positions.end());
      }
      EXPECT_EQ(std::ssize(held), kPrompt + kGenerated);
    }
}

// K and V of the rows in whole pages, their padding included, and not a page more.
TEST(KvShard, TakesMemoryByPages) {
  MemoryMeter meter;
  KvShard shard(kParams, {PartitionKind::contiguous, 1, 1}, 0, &meter);
  const std::vector<float> row(12);
  const Index page = 4 * 2 * 2 * KvShard::kPageRows * (3 + round_up(3, vector_width()));
  shard.fill(row.data(), row.data());
  for (Index rows = 1; rows < 1000; ++rows) {
    ASSERT_EQ(shard.bytes(), page * ceil_div(rows, KvShard::kPageRows));
    ASSERT_EQ(meter.peak_bytes(), shard.bytes());
    shard.append(row.data(), row.data());
  }
}

}  // namespace
}  // namespace ringscope
