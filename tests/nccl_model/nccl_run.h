// Runs of the ring over NCCL on the host model: its ranks, connections and streams are real, NCCL is
// cuda/model's stand-in. Kernels are those that the model runs fast.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <string>

#include "cuda/model/nccl_model.h"
#include "cuda/model/runtime.h"
#include "cuda/nccl/run_on_nccl.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope::cuda {

inline NcclOptions quick_options() {
  NcclOptions options;
  options.kernels = {3, 8};
  return options;
}

inline RingRun run(const RingReference& problem, const Problem& config) {
  return run_on_nccl(config, problem.inputs, {}, quick_options());
}

inline std::string described(const RingReference& problem, const Problem& config) {
  return problem.mask + ", seqlen " + std::to_string(problem.shape.seqlen) + ", " +
         std::string(name_of(config.partition)) + ", world_size " +
         std::to_string(config.world_size) + ", " + std::string(name_of(config.scheme));
}

inline void reset_models() {
  model::reset_device();
  model::reset_nccl();
  cudaGetLastError();
}

// No memory, stream, event or communicator is left, and NCCL was used as it must be.
inline void expect_nothing_left() {
  EXPECT_EQ(model::live_allocations(), 0u);
  EXPECT_EQ(model::live_handles(), 0u);
  EXPECT_EQ(model::pending_operations(), 0u);
  EXPECT_EQ(model::live_communicators(), 0u);
  for (const std::string& complaint : model::nccl_complaints()) ADD_FAILURE() << complaint;
}

class NcclTest : public testing::Test {
 protected:
  void SetUp() override { reset_models(); }
  void TearDown() override { reset_models(); }
};

// Ends the whole program when ranks hang: their threads cannot be taken back.
template <class F>
std::optional<RunError> error_of(F&& run) {
  auto running = std::async(std::launch::async, [&]() -> std::optional<RunError> {
    try {
      run();
    } catch (const RunError& error) {
      return error;
    }
    return std::nullopt;
  });
  if (running.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    ADD_FAILURE() << "ranks still running after 60 s";
    std::_Exit(1);
  }
  return running.get();
}

}  // namespace ringscope::cuda
