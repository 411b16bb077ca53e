// Whether a backward kernel with something taken out is found out.
#pragma once

#include "tests/cuda_model/numbered_barriers.h"

namespace ringscope::cuda {
namespace {

// Whether some order of threads gives an error, or other bits than `right`.
[[maybe_unused]] bool found_wrong(const BackwardKernel& kernel, const StepCase& tested,
                                  const Tensors<float>& in, const BackwardRun& right) {
  for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                           model::ThreadOrder::shuffled})
    for (const bool async_late : {true, false}) {
      model::set_schedule({.order = order, .async_late = async_late});
      testing::TestPartResultArray failures;
      bool wrong = true;
      try {
        const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
        const BackwardRun run = run_backward(kernel, tested, in);
        wrong =
            failures.size() > 0 || run.dq != right.dq || run.dk != right.dk || run.dv != right.dv;
      } catch (const std::exception&) {
        model::reset_device();
      }
      model::set_schedule({});
      if (wrong) return true;
    }
  return false;
}

}  // namespace
}  // namespace ringscope::cuda
