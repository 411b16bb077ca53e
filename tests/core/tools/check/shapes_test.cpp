// Outputs of attention with values of their own width, learned sinks, a softcap and fewer queries than
// keys: right ones are right, and the mistakes that only these know are named, by numbers of naive attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/tools/check/verdict.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {
namespace shapes_test {

// A causal problem on four ranks, and its answer with some change.
struct Made {
  AttentionShape shape{2, 4, 2, 40, 8, 6, 21, 9};
  CheckedProblem problem{
      shape,
      MaskSpec::parse("causal"),
      0.4,
      Partitions({PartitionKind::zigzag, 40, 4}, {PartitionKind::striped, 21, 4}, 9),
      {0.5f, -1.0f, 1.5f, 0.0f}};
  CheckedInputs inputs;

  Made() {
    const Tensors<double> in = converted<double>(random_tensors(shape, 3));
    inputs = {in.q, in.k, in.v, in.dout};
  }
  NaiveResult<double> answer() const { return oracle_of(problem, inputs, {}); }
  CheckVerdict checked(NaiveResult<double> mine, bool outputs_alone = true) const {
    if (outputs_alone) mine.dq = mine.dk = mine.dv = mine.dsink = {};
    return check_outputs(problem, inputs, answer(), mine, {});
  }
  void expect_named(const NaiveResult<double>& mine, const std::string& name) const {
    const CheckVerdict verdict = checked(mine);
    EXPECT_EQ(verdict.result, CheckResult::wrong) << name;
    ASSERT_FALSE(verdict.suspects.empty()) << name;
    EXPECT_EQ(name_of(verdict.suspects.front().mistake), name) << verdict.suspects.front().how;
    EXPECT_TRUE(verdict.suspects.front().is_sure()) << name;
  }
};

TEST(CheckShapes, RightOutputsAreRight) {
  const Made made;
  EXPECT_EQ(made.checked(made.answer(), false).result, CheckResult::exact);
}

TEST(CheckShapes, EveryTensorThatIsWrongIsFoundWrong) {
  const Made made;
  for (const Tensor tensor : output_tensors(true, true)) {
    NaiveResult<double> mine = made.answer();
    values_of(mine, tensor).front() *= 1.01;
    const CheckVerdict verdict = made.checked(mine, false);
    EXPECT_EQ(verdict.result, CheckResult::wrong) << name_of(tensor);
    for (const TensorCheck& check : verdict.tensors)
      EXPECT_EQ(check.passes(), check.tensor != tensor) << name_of(check.tensor);
  }
}

TEST(CheckShapes, NamesWhatBecameOfTheSink) {
  const Made made;
  Made other;
  other.problem.sink_logits.clear();
  made.expect_named(other.answer(), "sink-missing");

  other = {};
  for (float& sink : other.problem.sink_logits) sink += std::log(4.0f);
  made.expect_named(other.answer(), "sink-counted-per-rank");

  NaiveResult<double> mine = made.answer();
  const AttentionShape& s = made.shape;
  for (Index row = 0; row < s.batch * s.num_heads * s.queries(); ++row) {
    const Index head = row / s.queries();
    const double weight = std::exp(made.problem.sink_logits[head % s.num_heads] - mine.lse[row]);
    for (Index x = 0; x < s.value_dim(); ++x)
      mine.out[row * s.value_dim() + x] +=
          weight * made.inputs.v[head / s.group_size() * s.seqlen * s.value_dim() + x];
  }
  made.expect_named(mine, "sink-in-values");
}

// A cap that is missing, is another one, cuts scores off, or lacks its slope in the backward pass alone.
TEST(CheckShapes, NamesWhatIsWrongWithASoftcap) {
  Made made;
  made.problem.softcap = 1.5;
  EXPECT_EQ(made.checked(made.answer(), false).result, CheckResult::exact);
  made.expect_named(Made().answer(), "softcap");
  Made other;
  other.problem.softcap = 2.2;
  made.expect_named(other.answer(), "softcap");

  NaiveResult<double> mine = made.answer(), cut = mine;
  const AttentionShape& s = made.shape;
  std::ranges::fill(mine.dq, 0.0);
  std::ranges::fill(cut.out, 0.0);
  for (Index row = 0; row < s.batch * s.num_heads * s.queries(); ++row) {
    double sum = std::exp(made.problem.sink_logits[row / s.queries() % s.num_heads]);
    for (Index j = 0; j <= s.first_query() + row % s.queries(); ++j) {
      const Index key = row / s.queries() / s.group_size() * s.seqlen + j;
      double score = 0, by_out = 0;
      for (Index x = 0; x < s.head_dim; ++x)
        score += 0.4 * made.inputs.q[row * s.head_dim + x] * made.inputs.k[key * s.head_dim + x];
      const double cut_weight = std::exp(std::clamp(score, -1.5, 1.5));
      sum += cut_weight;
      for (Index x = 0; x < s.value_dim(); ++x) {
        const double value = made.inputs.v[key * s.value_dim() + x];
        by_out +=
            made.inputs.dout[row * s.value_dim() + x] * (value - mine.out[row * s.value_dim() + x]);
        cut.out[row * s.value_dim() + x] += cut_weight * value;
      }
      const double weight = std::exp(1.5 * std::tanh(score / 1.5) - mine.lse[row]);
      for (Index x = 0; x < s.head_dim; ++x)
        mine.dq[row * s.head_dim + x] +=
            0.4 * weight * by_out * made.inputs.k[key * s.head_dim + x];
    }
    cut.lse[row] = std::log(sum);
    for (Index x = 0; x < s.value_dim(); ++x) cut.out[row * s.value_dim() + x] /= sum;
  }
  made.expect_named(cut, "softcap");
  EXPECT_NE(made.checked(cut).suspects.at(0).how.find("cut off"), std::string::npos);
  const CheckVerdict verdict = made.checked(mine, false);
  ASSERT_FALSE(verdict.suspects.empty());
  EXPECT_NE(verdict.suspects[0].how.find("slope"), std::string::npos) << verdict.suspects[0].how;
}

TEST(CheckShapes, NamesPositionsAndWidths) {
  const Made made;
  for (const Index offset : {0, 8, 19}) {
    Made other;
    other.problem.shape.q_offset = offset;
    made.expect_named(other.answer(), "wrong-q-offset");
  }
  Made other;
  for (std::size_t at = 0; at < other.inputs.v.size(); ++at) {
    const std::size_t row = at / 6;
    other.inputs.v[at] = made.inputs.v[(row * 8 + at % 6) % made.inputs.v.size()];
  }
  made.expect_named(other.answer(), "value-width-of-keys");
}

}  // namespace shapes_test
}  // namespace ringscope
