// A small model, something to train it on, and replicas of it on rank threads: what the tests of
// whole models share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/problem/mask.h"
#include "core/ring/wire_counter.h"
#include "core/training/rank_threads.h"
#include "core/training/replica.h"

namespace ringscope {

struct ModelCase {
  ModelShape shape;
  Index batch = 2;
  Index seqlen = 13;
  std::string mask = "causal";
  LossKind kind = LossKind::mean;
  std::uint64_t seed = 1;
  Index chunks = 1;

  // Odd sizes, on purpose.
  static ModelCase small() {
    return {.shape = {.layers = 2,
                      .width = 12,
                      .num_heads = 4,
                      .num_heads_kv = 2,
                      .head_dim = 4,
                      .hidden = 10,
                      .vocab = 17,
                      .tied_head = true}};
  }

  // A text that there is something to learn about: a byte follows from the one before it, but for
  // one in eight.
  std::vector<std::uint8_t> windows(std::uint64_t step = 0) const {
    const auto vocab = static_cast<std::uint64_t>(shape.vocab);
    std::vector<std::uint8_t> bytes(1);
    for (Index i = 1; i < batch * (seqlen + 1); ++i) {
      const std::uint64_t drawn = random_bits(seed + step, 9, static_cast<std::uint64_t>(i));
      const std::uint64_t byte = drawn % 8 == 0 ? drawn / 8 : 3u * bytes.back() + 1u;
      bytes.push_back(static_cast<std::uint8_t>(byte % vocab));
    }
    return bytes;
  }
};

// Compare numbers that come through some thirty sums and products, one behind the other, each of which
// rounds by up to 2^-24 of what is the size of the largest one. `terms` is the size of the terms where
// they cancel and their sum says nothing about it.
template <class Number>
void expect_rounded_alike(const float* found, const std::vector<Number>& expected,
                          const std::string& what, double terms = 0, double slack = 0) {
  double largest = terms, error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(std::isfinite(found[i]) && std::isfinite(expected[i])) << what;
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    error = std::max(error, std::abs(static_cast<double>(found[i]) - expected[i]));
  }
  EXPECT_LE(error, 32 * 0x1p-24 * largest + slack) << what;
}

// A replica with what it needs to live.
struct TestReplica {
  TestReplica(const ModelCase& a_case, PartitionKind partition, Communicator& comm)
      : weights(a_case.shape),
        counting(comm),
        replica(weights,
                attention_problem(a_case.shape, a_case.batch, a_case.seqlen,
                                  MaskSpec::parse(a_case.mask), partition, comm.world_size()),
                counting, a_case.seed, a_case.kind, nullptr, a_case.chunks) {}

  ModelWeights weights;
  WireCounter counting;
  Replica replica;
  std::vector<double> losses;  // by step
};

using Replicas = std::vector<std::unique_ptr<TestReplica>>;

// Runs `work` on a replica a rank.
inline Replicas run_replicas(const ModelCase& a_case, PartitionKind partition, int world_size,
                             const std::function<void(TestReplica&)>& work) {
  return run_rank_threads(
      world_size,
      [&](Communicator& comm) { return std::make_unique<TestReplica>(a_case, partition, comm); },
      work);
}

// The loss and gradients of one batch, on every rank.
inline Replicas gradients_of(const ModelCase& a_case, PartitionKind partition, int world_size) {
  const std::vector<std::uint8_t> windows = a_case.windows();
  return run_replicas(a_case, partition, world_size, [&](TestReplica& rank) {
    rank.losses.push_back(rank.replica.loss_and_gradients(windows.data()));
  });
}

}  // namespace ringscope
