// Cases that nobody thought of. The seed is new every time and printed; RINGSCOPE_TEST_SEED repeats
// it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/schemes.h"

namespace ringscope {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  Index between(Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(engine_);
  }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
  // Small sizes often, large ones sometimes.
  Index size(Index most) { return between(1, between(1, most)); }
  template <class Values>
  auto one_of(const Values& values) {
    return values[between(0, std::ssize(values) - 1)];
  }

  std::string mask(Index seqlen) {
    std::vector<std::string> parts;
    if (chance(0.5)) parts.push_back("causal");
    if (chance(0.25)) parts.push_back("prefix:" + std::to_string(between(0, seqlen + 2)));
    if (chance(0.3)) {
      parts.push_back("window:" + std::to_string(size(seqlen + 2)));
      if (chance(0.5)) parts.push_back("sink:" + std::to_string(size(seqlen)));
    }
    if (chance(0.2)) parts.push_back("ranges:" + slices(seqlen));
    if (chance(0.3)) {
      std::string lengths;
      for (Index left = seqlen; left > 0;) {
        const Index length = size(left);
        lengths += (lengths.empty() ? "" : ",") + std::to_string(length);
        left -= length;
      }
      parts.push_back("documents:" + lengths);
    }
    if (parts.empty()) return "full";
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : "+") + part;
    return text;
  }

  // Write a file of slices that don't overlap. Return its path.
  std::string slices(Index seqlen) {
    const std::string path = file_name("slices");
    std::ofstream file(path);
    for (Index q0 = 0, band = 0; q0 < seqlen; q0 += band) {
      band = size(seqlen - q0);
      for (Index k0 = between(0, seqlen / 2), width = 0; k0 < seqlen; k0 += width + between(0, 3)) {
        width = size(seqlen - k0);
        const char* const kinds[] = {"full", "causal", "inverse"};
        file << q0 << ' ' << q0 + band << ' ' << k0 << ' ' << k0 + width << ' ' << one_of(kinds)
             << '\n';
      }
    }
    return path;
  }

  // Any scheme that the ranks and heads allow; a ring and a gathering in half of the cases.
  std::string scheme(const AttentionShape& shape, int n) {
    if (chance(0.5)) return std::string(name_of(one_of(kRunSchemes)));
    std::vector<std::string> schemes{"bidirectional", "pass-q", "groupcast", "tree"};
    for (int rings = 1; rings <= most_rings(n); ++rings)
      schemes.push_back("multi-ring:" + std::to_string(rings));
    if (n <= shape.num_heads) schemes.push_back("ulysses");
    for (int chunks = 2; chunks <= shape.num_heads / n; ++chunks)
      schemes.push_back("ulysses:" + std::to_string(chunks));
    for (int slices = 2; slices <= shape.num_heads_kv; ++slices)
      schemes.push_back("allgather:" + std::to_string(slices));
    for (int part = 1; part <= n; ++part) {
      if (n % part != 0) continue;
      schemes.push_back("two-level:" + std::to_string(part));
      schemes.push_back("mesh:" + std::to_string(part) + "x" + std::to_string(n / part));
      if (part <= shape.num_heads) schemes.push_back("hybrid:" + std::to_string(part));
    }
    return schemes[static_cast<std::size_t>(between(0, std::ssize(schemes) - 1))];
  }

  // Any partition of a sequence with this mask; of a file, too.
  PartitionSpec partition(const MaskSpec& mask, Index seqlen, int world_size) {
    PartitionSpec drawn = one_of(kAllPartitions);
    if (mask.for_seqlen(seqlen).num_documents > 0 && chance(0.5)) {
      drawn = PartitionSpec::parse(chance(0.5) ? "documents:zigzag" : "documents:contiguous");
    } else if (chance(0.4)) {
      std::vector<DealtRun> runs;
      const Index longest = size(seqlen);
      for (Index left = seqlen; left > 0; left -= runs.back().count)
        runs.push_back({static_cast<int>(between(0, world_size - 1)), min_of(left, size(longest))});
      const Assignment assignment(runs, world_size);
      const std::string path = file_name("ranks") + ".npy";
      AtomicFile file(path);
      write_partition(file, {PartitionKind::dealt, seqlen, world_size, &assignment});
      file.commit();
      drawn = PartitionSpec::parse("file:" + path);
    }
    drawn.deal_out(mask.for_seqlen(seqlen), world_size);
    return drawn;
  }

 private:
  // Files stay, because a failure prints a command that reads them; the next case replaces them.
  static std::string file_name(const std::string& what) {
    return testing::TempDir() + "ringscope_" + what + "_" + std::to_string(::getpid());
  }

  std::mt19937_64 engine_;
};

// Shapes of today's models, too, and now and then many rows or ranks. Each allowed pair is computed once.
TEST(RingRandom, AgreesWithTheOracle) {
  const std::uint64_t seed = drawn_seed();
  Draw draw(seed);
  for (int n = 0; n < (kThreadSanitizer ? 25 : 80); ++n) {
    const bool is_large = draw.chance(0.25);
    const Index heads_kv = draw.between(1, 3), seqlen = draw.size(is_large ? 600 : 200);
    Problem job{.shape = {draw.between(1, 2), heads_kv * draw.between(1, 4), heads_kv, seqlen,
                          draw.size(40), draw.size(is_large ? 80 : 40)},
                .dtype = draw.one_of(kAllDTypes),
                .mask = MaskSpec::parse(draw.mask(seqlen)),
                .world_size = static_cast<int>(draw.size(is_large ? 20 : 8)),
                .hops = draw.one_of(kAllHops),
                .backward = true};
    job.kv_buffers = static_cast<int>(1 + draw.size(5));
    job.softmax_scale =
        default_softmax_scale(job.shape.head_dim) * static_cast<float>(draw.between(1, 12)) / 4.0f;
    if (draw.chance(0.7)) job.shape.seqlen_q = draw.size(seqlen);
    if (draw.chance(0.4)) job.shape.q_offset = draw.between(0, seqlen - job.shape.queries());
    job.shape = plainest(job.shape);
    if (draw.chance(0.4)) {
      job.partition_q = draw.one_of(kAllPartitions);
      job.partition = draw.partition(job.mask, seqlen, job.world_size);
    } else {
      job.partition = draw.one_of(kAllPartitions);
      if (draw.chance(0.4)) job.partition = PartitionSpec::parse("striped:3");
    }
    job.deal_out();
    set_scheme(job, draw.scheme(job.shape, job.world_size));
    const Tensors<float> in = random_tensors(job.shape, static_cast<std::uint64_t>(n), job.dtype);
    for (Index h = 0; n % 3 > 0 && h < job.shape.num_heads; ++h)
      job.sink_logits.push_back(static_cast<float>(draw.between(-30, 50)) / 10.0f);
    if (n % 4 == 0) job.softcap = static_cast<double>(draw.between(1, 100)) / 8;
    const RingRun run = run_on_threads(job, {in.q, in.k, in.v, in.dout});
    const NaiveResult<double> right = naive_with_bounds(
        job.shape, job.mask.for_seqlen(seqlen), job.scale(), in, job.sink_logits, job.softcap);
    expect_within_bounds(run.outputs, right, job.shape, job.dtype);
    expect_books(job, run);
    if (HasFailure())
      FAIL() << job.scheme_name() << ", case " << n << " of RINGSCOPE_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace ringscope
