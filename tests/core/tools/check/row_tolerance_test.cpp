// Rows are judged by what they are made of: hostile inputs, with what attention in f32 makes of them,
// which is right, and with outputs that are wrong in all rows or in one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/tools/check/verdict.h"

namespace ringscope {
namespace row_tolerance_test {

using Tensors = NaiveResult<double>;

constexpr AttentionShape kShape{1, 2, 1, 96, 16};
constexpr Index kSpoilt = 72;  // the row that is spoilt alone

// Multiply row `row` of a tensor, or all rows (-1), of each head.
void multiply(std::vector<double>& tensor, double factor, Index row = -1) {
  for (Index i = 0; i < std::ssize(tensor); ++i)
    if (row < 0 || i / kShape.head_dim % kShape.seqlen == row) tensor[i] *= factor;
}

struct Hostile {
  const char* name;
  const char* mask;
  std::function<void(CheckedInputs&)> change;
  // Where dq and dk are little but rounding, because their terms cancel or are as small as f32 stores,
  // nobody can tell that one of their rows is wrong; and where no query attends another rank's key, no
  // block can be missing.
  bool gradients_cancel = false, is_local = false;
};

const std::vector<Hostile> kHostile = {
    {"plain", "causal", [](CheckedInputs&) {}},
    {"a large row of Q", "full", [](CheckedInputs& in) { multiply(in.q, 3e4, 0); }},
    {"a large row of V", "causal+window:16", [](CheckedInputs& in) { multiply(in.v, 1e6, 0); }},
    {"a large row of dO", "full", [](CheckedInputs& in) { multiply(in.dout, 1e6, 0); }},
    {"a large row of K", "causal", [](CheckedInputs& in) { multiply(in.k, 1e4, 7); }, true},
    {"one key per row", "window:1",
     [](CheckedInputs& in) {
       for (auto* tensor : {&in.q, &in.k, &in.v, &in.dout}) multiply(*tensor, 10);
     },
     true, true},
    {"saturated softmax", "causal",
     [](CheckedInputs& in) {
       multiply(in.q, 64);
       multiply(in.k, 64);
     },
     true},
    {"equal V", "causal",
     [](CheckedInputs& in) {
       for (Index i = 0; i < std::ssize(in.v); ++i) in.v[i] = in.v[i % kShape.head_dim];
     },
     true},
    {"V near 1e-38", "full", [](CheckedInputs& in) { multiply(in.v, 1e-38); }},
    {"V near 1e-40", "full", [](CheckedInputs& in) { multiply(in.v, 1e-40); }, true},
    {"V and dO near 1e-20", "full",
     [](CheckedInputs& in) {
       multiply(in.v, 1e-20);
       multiply(in.dout, 1e-20);
     },
     true},
    {"gradients below 1e-45", "full",
     [](CheckedInputs& in) {
       multiply(in.v, 1e-23);
       multiply(in.dout, 1e-23);
     },
     true}};

void store(std::vector<double>& values, DType dtype) { values = stored_as(dtype, values); }

struct Case {
  CheckedProblem problem;
  CheckedInputs inputs;
  Tensors oracle, right;
  DType dtype;

  Case(const Hostile& hostile, DType stored) : dtype(stored) {
    problem = {kShape, MaskSpec::parse(hostile.mask), 0.25,
               Partition{PartitionKind::contiguous, kShape.seqlen, 4}};
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    for (auto* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.dout}) {
      const bool is_kv = tensor == &inputs.k || tensor == &inputs.v;
      tensor->resize((is_kv ? kShape.num_heads_kv : kShape.num_heads) * kShape.seqlen *
                     kShape.head_dim);
      for (double& x : *tensor) x = normal(random);
    }
    hostile.change(inputs);
    for (auto* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.dout}) store(*tensor, dtype);
    oracle = oracle_of(problem, inputs, {});
    const auto in_f32 = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    const auto made = naive_attention<float>(kShape, problem.mask.for_seqlen(kShape.seqlen),
                                             problem.softmax_scale, in_f32(inputs.q).data(),
                                             in_f32(inputs.k).data(), in_f32(inputs.v).data(),
                                             in_f32(inputs.dout).data());
    for (const Tensor tensor : output_tensors(true)) {
      const std::vector<float>& values = values_of(made, tensor);
      std::vector<double>& to = values_of(right, tensor);
      to.assign(values.begin(), values.end());
      if (tensor != Tensor::lse) store(to, dtype);
    }
  }

  CheckVerdict verdict_of(const Tensors& mine) const {
    return check_outputs(problem, inputs, oracle, mine, {.threads = 2, .dtype = dtype});
  }
  bool is_wrong(const Tensors& mine) const { return verdict_of(mine).result == CheckResult::wrong; }
  bool finds(Mistake mistake) const {
    Tensors made = make_mistake(problem, inputs, {mistake});
    for (const Tensor tensor : output_tensors(true))
      store(values_of(made, tensor), tensor == Tensor::lse ? DType::f32 : dtype);
    return is_wrong(made);
  }
  // Expect that the last head's row of each tensor is found when it is multiplied, and named.
  void expect_spoilt_rows_found(double factor, bool gradients_cancel) const {
    for (const Tensor tensor : output_tensors(true)) {
      if (gradients_cancel && (tensor == Tensor::dq || tensor == Tensor::dk)) continue;
      Tensors mine = right;
      const Index head = heads_of(kShape, tensor) - 1, width = width_of(kShape, tensor);
      for (Index c = 0; c < width; ++c)
        values_of(mine, tensor)[(head * kShape.seqlen + kSpoilt) * width + c] *= factor;
      const CheckVerdict verdict = verdict_of(mine);
      EXPECT_EQ(verdict.result, CheckResult::wrong) << name_of(tensor) << " times " << factor;
      for (const TensorCheck& check : verdict.tensors)
        if (check.tensor == tensor) {
          EXPECT_EQ(check.worst.head, head) << check.name();
          EXPECT_EQ(check.worst.row, kSpoilt) << check.name();
        }
    }
  }
};

TEST(RowTolerance, CallsRightOutputsOfHostileInputsExact) {
  for (const Hostile& hostile : kHostile) {
    const Case c(hostile, DType::f32);
    for (const TensorCheck& check : c.verdict_of(c.right).tensors)
      EXPECT_TRUE(check.is_exact) << hostile.name << ": " << check.name() << " is off by "
                                  << check.worst.error << " in " << check.worst.place()
                                  << ", tolerance " << check.worst.tolerance;
  }
}

TEST(RowTolerance, FindsWrongOutputsOfHostileInputs) {
  for (const Hostile& hostile : kHostile) {
    SCOPED_TRACE(hostile.name);
    const Case c(hostile, DType::f32);
    c.expect_spoilt_rows_found(0, hostile.gradients_cancel);
    c.expect_spoilt_rows_found(1.01, hostile.gradients_cancel);
    if (hostile.is_local) continue;
    EXPECT_TRUE(c.finds(Mistake::own_block_only));
    EXPECT_TRUE(c.finds(Mistake::gradient_one_hop_short));
  }
}

// In 16 bits a row is told from zeros, and from one that is a tenth too long.
TEST(RowTolerance, JudgesRowsOf16BitsByThemselves) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (std::size_t i = 0; i < 4; ++i) {
      if (dtype == DType::f16 && i >= 1) continue;  // large rows are infinite in f16
      const Hostile& hostile = kHostile[i];
      SCOPED_TRACE(std::string(hostile.name) + " in " + std::string(name_of(dtype)));
      const Case c(hostile, dtype);
      EXPECT_EQ(c.verdict_of(c.right).result, CheckResult::rounding);
      c.expect_spoilt_rows_found(0, false);
      c.expect_spoilt_rows_found(1.1, false);
      EXPECT_TRUE(c.finds(Mistake::own_block_only));
      EXPECT_TRUE(c.finds(Mistake::gradient_one_hop_short));
    }
}

// NaN stands for what is not known, and fails.
TEST(RowTolerance, NanIsWorseThanAnything) {
  const Case c(kHostile[0], DType::f32);
  Tensors mine = c.right;
  mine.out[kSpoilt * kShape.head_dim + 3] = std::nan("");
  EXPECT_EQ(c.verdict_of(mine).tensors[0].worst.row, kSpoilt);
  EXPECT_TRUE(c.is_wrong(mine));
  const WorstRow unknown{.row = 1, .error = 1, .tolerance = std::nan("")};
  EXPECT_FALSE(unknown.passes());
  WorstRow worst{.row = 2, .error = 1e9, .tolerance = 1};
  worst.take_if_worse(unknown);
  EXPECT_EQ(worst.row, 1);
}

}  // namespace row_tolerance_test
}  // namespace ringscope
