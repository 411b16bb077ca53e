// The schemes that are not one ring: each on threads against the f64 oracle, forward and backward,
// with the bill's memory; and what the heads of their files say that a rank sends.
#include "core/ring/schemes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/ring/cpu_backend.h"
#include "core/ring/loop_counts.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"

namespace ringscope {
namespace {

constexpr const char* kNeededRing = "needed";  // a ring that sends what is needed

Problem with_scheme(Problem job, const std::string& scheme) {
  set_scheme(job, scheme == kNeededRing ? "ring" : scheme);
  if (scheme == kNeededRing) job.hops = Hops::needed;
  return job;
}

struct SchemeCase {
  const char* scheme;
  int world_size;
};

constexpr SchemeCase kSchemeCases[] = {
    {"ulysses", 2},       {"ulysses", 3},       {"ulysses", 6},       {"hybrid:2", 2},
    {"hybrid:2", 4},      {"hybrid:3", 6},      {"hybrid:2", 8},      {"hybrid:5", 10},
    {"hybrid:1", 3},      {"bidirectional", 2}, {"bidirectional", 3}, {"bidirectional", 7},
    {"pass-q", 2},        {"pass-q", 3},        {"pass-q", 8},        {"mesh:1x3", 3},
    {"mesh:3x1", 3},      {"mesh:2x2", 4},      {"mesh:2x3", 6},      {"mesh:4x3", 12},
    {"allgather:2", 2},   {"allgather:2", 5},   {"two-level:2", 6},   {"two-level:3", 6},
    {"bidirectional", 1}, {"pass-q", 1},        {"mesh:1x1", 1},      {"allgather:2", 1},
    {"ulysses:2", 2},     {"ulysses:3", 2},     {"ulysses:2", 3},     {"ulysses:6", 1},
    {"ulysses", 1},       {"two-level:1", 4},   {"two-level:2", 4},   {"two-level:4", 8},
    {"two-level:3", 3},   {"two-level:3", 9},   {"multi-ring:1", 3},  {"multi-ring:2", 4},
    {"multi-ring:2", 6},  {"multi-ring:4", 5},  {"multi-ring:3", 8},  {"multi-ring:6", 7},
    {kNeededRing, 2},     {kNeededRing, 3},     {kNeededRing, 8},     {kNeededRing, 1},
    {"groupcast", 2},     {"groupcast", 3},     {"groupcast", 8},     {"groupcast", 1},
    {"tree", 2},          {"tree", 3},          {"tree", 7},          {"tree", 8},
};

class SchemesOnThreads : public testing::TestWithParam<SchemeCase> {};

TEST_P(SchemesOnThreads, AgreeWithTheOracleAndTheirBooks) {
  // Six heads of two kv heads: shares are uneven from four ranks on, and kv heads shared from three.
  const AttentionShape shape{2, 6, 2, 61, 8};
  int turn = GetParam().world_size * 3 / 2;
  for (const char* mask : {"full", "causal", "causal+window:9", "prefix:20+documents:30,1,30"}) {
    const RingReference reference(shape, DType::f32, mask, default_softmax_scale(shape.head_dim),
                                  7);
    ++turn;
    for (const PartitionKind partition : kAllPartitions) {
      // Two of them, and on another number of ranks the other two.
      if ((turn + static_cast<int>(partition)) % 2 != 0) continue;
      Problem job =
          with_scheme(reference.config(partition, GetParam().world_size), GetParam().scheme);
      job.kv_buffers = 2 + static_cast<int>(partition);
      SCOPED_TRACE(testing::Message() << mask << ", " << name_of(partition) << ", "
                                      << job.scheme_name() << " on " << job.world_size);
      const RingRun run = run_on_threads(job, reference.inputs);
      reference.check(job, run);
      expect_books(job, run);
      if (HasFailure()) return;
    }
  }
}

// V near the largest number of f32, whose sums and products with dO overflow it, also where states are
// merged and delta travels. The last key outweighs all others.
TEST_P(SchemesOnThreads, LargeValuesComeOutFinite) {
  const AttentionShape shape{1, 6, 2, 61, 8};
  Tensors<float> in = random_tensors(shape, 8);
  for (float& x : in.v) x = std::clamp(x * 2e38f, -3e38f, 3e38f);
  for (float& x : in.q) x = 0.01f * std::abs(x) + 0.1f;
  for (std::size_t at = 0; at < in.k.size(); ++at) in.k[at] *= at / 8 % 61 == 60 ? 100.0f : 0.01f;
  const double scale = static_cast<float>(default_softmax_scale(shape.head_dim));
  for (const char* mask : {"full", "causal"}) {
    SCOPED_TRACE(mask);
    Problem job{.shape = shape,
                .softmax_scale = scale,
                .mask = MaskSpec::parse(mask),
                .world_size = GetParam().world_size,
                .backward = true};
    const RingRun run =
        run_on_threads(with_scheme(job, GetParam().scheme), {in.q, in.k, in.v, in.dout});
    expect_within_bounds(run.outputs, naive_with_bounds(shape, job.mask.for_seqlen(61), scale, in),
                         shape, DType::f32);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SchemesOnThreads, testing::ValuesIn(kSchemeCases),
                         [](const auto& given) {
                           std::string name = std::string(given.param.scheme) + "_on_" +
                                              std::to_string(given.param.world_size);
                           for (char& c : name)
                             if (c == ':' || c == '-') c = '_';
                           return name;
                         });

// What a rank sends where all ranks have equally many rows and heads, in blocks of its rows. (Where they
// have not, what is counted is what is sent: AgreeWithTheOracleAndTheirBooks.)
TEST(SchemesOnEvenRanks, SendWhatTheirFilesSay) {
  constexpr double n = 4, heads = 2 * 16 * 10, kv_heads = 2 * 8 * 10, d = 6, v = 5;
  const double q = heads * d * 2, dout = heads * v * 2, kv = kv_heads * (d + v) * 2;   // in bf16
  const double dq = heads * d * 4, out = heads * v * 4, dkv = kv_heads * (d + v) * 4;  // in f32
  const double state = heads * (4 * v + 12),
               rows = heads * 16;  // max, sum, output; max, sum, delta
  const double lse = heads * 4, others = n - 1,
               share = others / n;  // of heads, with each other rank
  const struct {
    const char* scheme;
    double messages, forward_bytes, backward_bytes;
  } cases[] = {
      {"ring", 3 * n - 2, others * kv, others * kv + n * dkv},
      {"bidirectional", 2 * (3 * n - 2), others * kv, others * kv + n * dkv},
      {"multi-ring:2", 2 * (3 * n - 2), others * kv, others * kv + n * dkv},
      {"allgather", 3 * others, others * kv, others * (kv + dkv)},
      {"allgather:2", 6 * others, others * kv, others * (kv + dkv)},
      {"pass-q", 4 * n + 6 * others, others * q + n * state, others * (q + dout + rows) + n * dq},
      {"tree", 10 * others, others * (q + state), others * (q + dout + rows + dq)},
      {"ulysses", 7 * others, share * (q + kv + out + lse), share * (dout + dq + dkv)},
      {"ulysses:2", 2 * 13 * others, share * (q + kv + state),
       share * (q + dout + kv + rows + dq + dkv)},
      // Half of the heads within pairs, and around the two pairs.
      {"hybrid:2", 7 + 2 * n, (q + kv + out + lse) / 2 + kv,
       (dout + dq + dkv) / 2 + kv + n / 2 * dkv},
      {"mesh:2x2", 9 + 2 + 2, q + state + kv, dout + rows + dq + kv + 2 * dkv},
      {"mesh:1x4", 9 * others, others * (q + state), others * (dout + rows + dq)},
      {"mesh:4x1", 3 * n - 2, others * kv, others * kv + n * dkv},
  };
  Problem job{
      .shape = {2, 16, 8, 40, 6, 5}, .dtype = DType::bf16, .world_size = 4, .backward = true};
  for (const auto& expected : cases)
    for (int rank = 0; rank < 4; ++rank) {
      const LoopCounts counts = count_loop(with_scheme(job, expected.scheme), rank);
      EXPECT_EQ(counts.messages, expected.messages) << expected.scheme;
      EXPECT_EQ(counts.forward_bytes, expected.forward_bytes) << expected.scheme;
      EXPECT_EQ(counts.backward_bytes, expected.backward_bytes) << expected.scheme;
    }
  // Blocks go to later ranks only.
  job.mask = MaskSpec::parse("causal");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count_loop(with_scheme(job, kNeededRing), rank).forward_bytes, (rank + 1) % 4 * kv);
    EXPECT_EQ(count_loop(with_scheme(job, "groupcast"), rank).forward_bytes, (3 - rank) * kv);
  }
}

TEST(SchemeNames, AreReadAndPrinted) {
  Problem job{.shape = {1, 4, 4, 16, 8}, .world_size = 8};
  for (const char* name :
       {"ring", "bidirectional", "multi-ring:3", "pass-q", "allgather", "allgather:2", "ulysses",
        "ulysses:2", "hybrid:2", "two-level:4", "mesh:2x4", "tree"})
    EXPECT_EQ(with_scheme(job, name).scheme_name(), name);
  for (const char* name :
       {"", "rings", "ring:2", "hybrid", "hybrid:", "hybrid:0", "hybrid:-2", "hybrid:2x",
        "two-level", "mesh", "mesh:4", "mesh:0x8", "mesh:2x", "allgather:", "allgather:0",
        "ulysses:0", "pass-q:1", "multi-ring", "multi-ring:0"})
    EXPECT_THROW(with_scheme(job, name), InputError) << name;
}

// The rings of all strides visit every rank, and share no link.
TEST(MultiRing, StridesLeadToAllRanksOverLinksOfTheirOwn) {
  for (int n = 2; n <= 40; ++n) {
    std::set<int> strides;
    for (int ring = 0; ring < most_rings(n); ++ring) {
      const int stride = stride_of_ring(n, ring);
      strides.insert(stride);
      std::set<int> visited;
      for (int hop = 0; hop < n; ++hop) visited.insert(hop * stride % n);
      EXPECT_EQ(std::ssize(visited), n) << stride;
    }
    EXPECT_EQ(std::ssize(strides), most_rings(n)) << n;
    EXPECT_LT(*strides.rbegin(), n);
  }
  EXPECT_EQ(most_rings(1), 1);
  EXPECT_EQ(most_rings(7), 6);
  EXPECT_EQ(most_rings(8), 4);
  EXPECT_EQ(most_rings(1'000'000'000), 400'000'000);  // at once
  EXPECT_EQ(most_rings(2'147'483'647), 2'147'483'646);
}

TEST(ShareOfHeads, CoversEveryHeadOnceWithItsKvHead) {
  for (Index heads_kv = 1; heads_kv <= 6; ++heads_kv)
    for (Index per_kv = 1; per_kv <= 5; ++per_kv)
      for (Index shares = 1; shares <= heads_kv * per_kv; ++shares) {
        const AttentionShape shape{1, heads_kv * per_kv, heads_kv, 1, 1};
        Index next = 0, pairs = 0;
        for (Index i = 0; i < shares; ++i) {
          const HeadShare share = share_of_heads(shape, shares, i);
          EXPECT_EQ(share.first, next);
          EXPECT_GE(share.num_heads, 1);
          ASSERT_EQ(share.num_heads % share.num_heads_kv, 0);
          for (Index h = 0; h < share.num_heads; ++h)
            EXPECT_EQ((share.first + h) / per_kv,
                      share.first_kv + h / (share.num_heads / share.num_heads_kv));
          next += share.num_heads;
          pairs += pairs_of_share(shape, 1001, share);
        }
        EXPECT_EQ(next, shape.num_heads);
        EXPECT_EQ(pairs, 1001);
      }
}

// The merged maximum is the larger one to the last bit, and two states without keys stay one.
TEST(Merges, KeepTheMaximumOfBothStates) {
  const float none = -std::numeric_limits<float>::infinity();
  float max_a[] = {0.75f, -3.5f, none, none}, max_b[] = {0.25f, -1.25f, 2.5f, none};
  double sum_a[] = {2, 1, 0, 0}, sum_b[] = {1, 3, 4, 0};
  float out_a[] = {2, 1, 0, 0}, out_b[] = {1, 3, 4, 0};
  CpuBackend backend({{1, 1, 1, 4, 1}, DType::f32, 1.0}, false, nullptr);
  backend.merge({}, {nullptr, nullptr, 4}, {max_a, sum_a, out_a, nullptr},
                {max_b, sum_b, out_b, nullptr}, nullptr);
  const double larger[] = {0.75, -1.25, 2.5, none};
  const double sums[] = {2 + std::exp(-0.5), std::exp(-2.25) + 3, 4, 0};
  for (int row = 0; row < 4; ++row) {
    EXPECT_EQ(max_a[row], larger[row]);
    EXPECT_DOUBLE_EQ(sum_a[row], sums[row]);
    EXPECT_FLOAT_EQ(out_a[row], static_cast<float>(sums[row]));
  }
}

}  // namespace
}  // namespace ringscope
