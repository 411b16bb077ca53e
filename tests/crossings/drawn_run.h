// Runs drawn at random, on which two parts of the project are held against each other: every scheme, deal,
// mask and pass, whole blocks or what is needed of them, with and without buffers to run ahead.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/tools/sim/scenario.h"

namespace ringscope {

// How many runs are drawn: few unless RINGSCOPE_CROSSINGS asks for more.
inline int drawn_runs() {
  const char* const asked = std::getenv("RINGSCOPE_CROSSINGS");
  return asked != nullptr ? std::max(1, std::atoi(asked)) : 200;
}

class DrawnRuns {
 public:
  explicit DrawnRuns(unsigned seed) : random_(seed) {}

  // Return a run on a machine whose ranks and links are alike.
  Scenario next() {
    Scenario drawn;
    Problem& job = drawn.job;
    job.world_size = pick({1, 2, 3, 4, 6, 8});
    const int n = job.world_size;
    job.shape = {.batch = 1 + below(2),
                 .num_heads = 8,
                 .num_heads_kv = pick({2, 8}),
                 .seqlen = Index{n} * (24 + below(40)) + below(5),
                 .head_dim = 16};
    job.dtype = below(2) == 0 ? DType::f32 : DType::bf16;
    const int half = static_cast<int>(job.shape.seqlen / 2);
    job.mask = MaskSpec::parse(
        pick<std::string>({"full", "causal", "causal", "causal+window:30", "window:20", "prefix:40",
                           "causal+documents:" + std::to_string(half) + "," +
                               std::to_string(static_cast<int>(job.shape.seqlen) - half)}));
    job.partition = kAllPartitions[below(4)];
    std::vector<std::string> schemes = {
        "ring",   "ring",          "ring",      "allgather", "ulysses",
        "pass-q", "bidirectional", "groupcast", "tree",      "mesh:1x" + std::to_string(n)};
    if (n % 2 == 0)
      schemes.insert(schemes.end(), {"two-level:2", "hybrid:2", "mesh:2x" + std::to_string(n / 2)});
    if (n > 2) schemes.insert(schemes.end(), {"multi-ring:2", "allgather:2"});
    set_scheme(job, schemes[below(static_cast<int>(schemes.size()))]);
    if (job.scheme_name() == "ring") job.hops = kAllHops[below(2)];
    job.backward = below(2) == 0;
    if (below(2) == 0) {
      drawn.pace = Pace::buffers;
      job.kv_buffers = 2 + below(3);
    }
    // From hops that are hidden to such that take longer than a step.
    const double rows = static_cast<double>(job.shape.seqlen) / n;
    drawn.rates = {.forward_flops = 1e9,
                   .backward_flops = 0.8e9,
                   .bytes_per_s = 1e9 / rows * pick({20.0, 4.0, 0.5}),
                   .latency_s = 1e-6};
    return drawn;
  }

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937 random_;
};

inline std::string text_of(const Scenario& drawn) {
  const Problem& job = drawn.job;
  return job.scheme_name() + ", hops " + std::string(name_of(job.hops)) + ", " + job.mask.name() +
         ", " + job.partition.name() + ", " + std::to_string(job.world_size) + " ranks, seqlen " +
         std::to_string(job.shape.seqlen) + (job.backward ? ", backward, " : ", ") +
         (drawn.pace == Pace::in_step ? "in step" : std::to_string(job.kv_buffers) + " buffers");
}

}  // namespace ringscope
