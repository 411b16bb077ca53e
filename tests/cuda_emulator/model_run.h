// What tests of rings on the host model share: a clean model, runs that may hang, what must be
// left, and engines whose ranks make a mistake.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/threads/rank.h"
#include "cuda/emulator/nccl_model.h"
#include "cuda/emulator/runtime.h"
#include "cuda/ring/run_on_gpu.h"
#include "tests/core/base/thrown.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/ring_harness.h"

namespace ringscope::cuda {

inline void reset_models() {
  model::reset_device();
  model::reset_nccl();
  cudaGetLastError();
}

class ModelTest : public testing::Test {
 protected:
  void SetUp() override { reset_models(); }
  void TearDown() override { reset_models(); }
};

// No memory, stream, event or communicator is left, and NCCL was used as it must be.
inline void expect_nothing_left(bool complaints_too = true) {
  EXPECT_EQ(model::live_allocations(), 0u);
  EXPECT_EQ(model::device_bytes(), 0u);
  EXPECT_EQ(model::live_handles(), 0u);
  EXPECT_EQ(model::pending_operations(), 0u);
  EXPECT_EQ(model::live_communicators(), 0u);
  if (!complaints_too) return;
  for (const std::string& complaint : model::nccl_complaints()) ADD_FAILURE() << complaint;
}

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

// Whether two runs' numbers are the same, but for rounding.
template <class Expected>
bool same_numbers(const AttentionOutputs& outputs, const Expected& expected) {
  return max_abs_error(outputs.out, expected.out) <= 1e-4 &&
         max_abs_error(outputs.dq, expected.dq) <= 1e-4 &&
         max_abs_error(outputs.dk, expected.dk) <= 1e-4 &&
         max_abs_error(outputs.dv, expected.dv) <= 1e-4;
}

// Which dependency a rank leaves out, or what else it does wrong. (finish_backward's dependency is
// not among them: by then nothing on the device comes after it.)
enum class Mistake {
  nothing,
  attends_before_arrival,
  backward_before_arrival,
  adds_before_arrival,
  sends_before_arrival,
  receives_before_consumed,
  gradient_sent_before_summed,
  send_not_grouped,
  hop_left_out
};

class MistakenBackend : public ForwardingBackend {
 public:
  MistakenBackend(BlockBackend& inner, Mistake mistake)
      : ForwardingBackend(inner), mistake_(mistake) {}

 private:
  Completion around(BlockOperation which, const StepInfo*, const Completion& after,
                    const Start& start) override {
    const bool is_left_out =
        (mistake_ == Mistake::attends_before_arrival && which == BlockOperation::attend) ||
        (mistake_ == Mistake::backward_before_arrival &&
         which == BlockOperation::attend_backward) ||
        (mistake_ == Mistake::adds_before_arrival && which == BlockOperation::add);
    return start(is_left_out ? nullptr : after);
  }

  Mistake mistake_;
};

class MistakenCommunicator : public ForwardingCommunicator {
 public:
  MistakenCommunicator(Communicator& inner, Mistake mistake)
      : ForwardingCommunicator(inner), mistake_(mistake) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    // A block's hop comes after {arrived, consumed}, a gradient's after {summed}.
    const bool is_block = hop.payload == Payload::kv;
    if (mistake_ == Mistake::gradient_sent_before_summed && !is_block)
      return ForwardingCommunicator::exchange(hop, {});
    if (is_block && after.size() == 2) {
      if (mistake_ == Mistake::sends_before_arrival)
        return ForwardingCommunicator::exchange(hop, {after.begin()[1]});
      if (mistake_ == Mistake::receives_before_consumed)
        return ForwardingCommunicator::exchange(hop, {after.begin()[0]});
    }
    if (mistake_ == Mistake::hop_left_out && rank() == 1 && hop.pass == Pass::backward &&
        is_block && hop.step == 0)
      return nullptr;
    if (mistake_ != Mistake::send_not_grouped) return ForwardingCommunicator::exchange(hop, after);
    Exchange sending = hop, receiving = hop;
    sending.from = receiving.to = Exchange::kNobody;
    return ForwardingCommunicator::exchange(receiving,
                                            {ForwardingCommunicator::exchange(sending, after)});
  }

 private:
  Mistake mistake_;
};

// Run on `engine`, whose ranks all make the mistake.
inline AttentionOutputs run_with_mistake(Engine& engine, const RingReference& problem,
                                         const Problem& config, Mistake mistake) {
  WrappedEngine wrapped(
      engine, [=](Rank&, Communicator& inner) { return MistakenCommunicator(inner, mistake); },
      [=](Rank&, BlockBackend& inner) { return MistakenBackend(inner, mistake); });
  return run_ranks(config, problem.inputs, wrapped).outputs;
}

}  // namespace ringscope::cuda
