// What the threads of the model's tests share.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace ringscope::cuda::model {

inline const std::vector<Schedule> schedules = {
    {ThreadOrder::ascending, true, 1},  {ThreadOrder::ascending, false, 1},
    {ThreadOrder::descending, true, 1}, {ThreadOrder::shuffled, true, 1},
    {ThreadOrder::shuffled, false, 2},  {ThreadOrder::shuffled, true, 3}};

class Simt : public testing::Test {
 protected:
  void TearDown() override { set_schedule({}); }
};

// The message of the ModelError that the kernel ends with; empty when it ends well.
inline std::string error_of(dim3 block, std::size_t shared, const std::function<void()>& kernel,
                            dim3 grid = 1) {
  try {
    run_grid(grid, block, shared, kernel);
  } catch (const ModelError& error) {
    return error.what();
  }
  return "";
}

// The kernel ends with a ModelError that says `part`; empty: it ends well.
inline void expect_error(const std::string& part, dim3 block, std::size_t shared,
                         const std::function<void()>& kernel, dim3 grid = 1) {
  const std::string error = error_of(block, shared, kernel, grid);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, part, error);
  EXPECT_EQ(error.empty(), part.empty()) << error;
}

}  // namespace ringscope::cuda::model
