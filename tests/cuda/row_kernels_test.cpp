// The kernels around the steps, and the tables of intervals, against brute force.
#include "cuda/kernels/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/guarded_array.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RowKernels : public testing::Test {
 protected:
  void SetUp() override { skip_without_device({}); }
};

ForwardStep state_of(const StepShape& shape, GuardedArray<float>& row_max,
                     GuardedArray<double>& row_sum, GuardedArray<float>& out,
                     GuardedArray<float>& lse) {
  ForwardStep step;
  step.shape = shape;
  step.last = true;
  step.row_max = row_max.data();
  step.row_sum = row_sum.data();
  step.out = out.data();
  step.lse = lse.data();
  return step;
}

TEST_F(RowKernels, FinishDividesBySumsAndWritesLse) {
  const StepShape shape{.batch = 1, .heads = 3, .heads_kv = 1, .rows_q = 1, .head_dim = 37};
  GuardedArray<float> row_max(std::vector<float>{2.0f, -kInfinity, -50.0f}), lse(3);
  GuardedArray<double> row_sum(std::vector<double>{3.0, 0.0, 1.0});
  std::vector<float> accumulated(3 * 37);
  for (std::size_t i = 0; i < accumulated.size(); ++i) accumulated[i] = static_cast<float>(i);
  GuardedArray<float> out(accumulated);
  launch_finish(state_of(shape, row_max, row_sum, out, lse), nullptr);
  const std::vector<float> finished = out.download();
  for (int x = 0; x < 37; ++x) {
    EXPECT_EQ(finished[x], accumulated[x] / 3.0f);
    EXPECT_EQ(finished[37 + x], 0.0f) << "a row without keys";
    EXPECT_EQ(finished[74 + x], accumulated[74 + x]);
  }
  EXPECT_EQ(lse.download(),
            (std::vector<float>{static_cast<float>(2 + std::log(3.0)), -kInfinity, -50.0f}));
  EXPECT_TRUE(out.guards_intact() && lse.guards_intact());
}

TEST_F(RowKernels, FinishWithoutAnyStepIsTheEmptyRow) {
  const StepShape shape{.batch = 2, .heads = 2, .heads_kv = 1, .rows_q = 5, .head_dim = 8};
  GuardedArray<float> row_max(20), lse(20), out(160);  // NaN: the state is not to be read
  GuardedArray<double> row_sum(20);
  ForwardStep step = state_of(shape, row_max, row_sum, out, lse);
  step.first = true;
  launch_finish(step, nullptr);
  EXPECT_EQ(row_max.download(), std::vector<float>(20, -kInfinity));
  EXPECT_EQ(row_sum.download(), std::vector<double>(20, 0.0));
  EXPECT_EQ(lse.download(), std::vector<float>(20, -kInfinity));
  EXPECT_EQ(out.download(), std::vector<float>(160, 0.0f));

  // A sink joins where a pass ends, not where it begins.
  const GuardedArray<float> sinks(std::vector<float>{-3, 3});
  step.sink_logits = sinks.data();
  step.last = false;
  launch_finish(step, nullptr);
  EXPECT_EQ(row_sum.download(), std::vector<double>(20, 0.0));
  step.last = true;
  launch_finish(step, nullptr);
  EXPECT_EQ(row_sum.download(), std::vector<double>(20, 1.0));
  EXPECT_EQ(out.download(), std::vector<float>(160, 0.0f));
  for (int row = 0; row < 20; ++row)
    EXPECT_EQ(lse.download()[row], row / 5 % 2 == 0 ? -3.0f : 3.0f) << row;
}

TEST_F(RowKernels, DeltaIsTheRowwiseProduct) {
  constexpr int kRows = 21, kDim = 70;
  for (const DType dtype : kAllDTypes) {
    std::vector<float> out(kRows * kDim), expected(kRows);
    std::vector<std::byte> dout(kRows * kDim * bytes_of(dtype));
    for (int i = 0; i < kRows * kDim; ++i) {
      // Small integers, so that sums are exact in any order.
      const float gradient = static_cast<float>(i % 7 - 3);
      out[i] = static_cast<float>(i % 11 - 4);
      expected[i / kDim] += gradient * out[i];
      visit_dtype(dtype, [&]<class T>(T) {
        reinterpret_cast<T*>(dout.data())[i] = from_float<T>(gradient);
      });
    }
    const GuardedArray<float> device_out(out);
    const GuardedArray<std::byte> device_dout(dout);
    GuardedArray<float> delta(kRows);
    launch_delta(device_dout.data(), dtype, device_out.data(), delta.data(), kRows, kDim, nullptr);
    EXPECT_EQ(delta.download(), expected) << name_of(dtype);
    EXPECT_TRUE(delta.guards_intact());
  }
}

TEST_F(RowKernels, AddTakesAnyCount) {
  for (const Index count : {Index{0}, Index{1}, Index{255}, Index{1000}}) {
    std::vector<float> a(count), b(count), expected(count);
    for (Index i = 0; i < count; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(1000 - 3 * i);
      expected[i] = a[i] + b[i];
    }
    GuardedArray<float> into(a);
    const GuardedArray<float> from(b);
    launch_add(into.data(), from.data(), count, nullptr);
    EXPECT_EQ(into.download(), expected);
    EXPECT_TRUE(into.guards_intact());
  }
}

// Every mask and partition of the kernels' own cases, every rank and owner.
TEST_F(RowKernels, TablesHoldThePairsOfTheRegion) {
  for (const StepCase& tested : awkward_cases(DType::f32, {64})) {
    SCOPED_TRACE(to_string(tested));
    const MaskSpec spec = MaskSpec::parse(tested.mask);
    const Mask mask = spec.for_seqlen(tested.seqlen);
    const GuardedArray<Index> ends(
        std::vector<Index>(mask.document_ends, mask.document_ends + mask.num_documents));
    const Partition partition{tested.partition, tested.seqlen, tested.world_size};
    for (int rank = 0; rank < tested.world_size; ++rank)
      for (int owner = 0; owner < tested.world_size; ++owner) {
        Region region{mask, partition.rows_of(rank), partition.rows_of(owner)};
        const Index rows_q = region.queries.size(), rows_k = region.keys.size();
        GuardedArray<RowInterval> keys(rows_q), queries(rows_k);
        Region on_device = region;
        on_device.mask.document_ends = ends.data();
        launch_allowed_keys(on_device, keys.data(), nullptr);
        launch_allowed_queries(keys.data(), static_cast<int>(rows_q), queries.data(),
                               static_cast<int>(rows_k), nullptr);
        const auto of_row = keys.download(), of_key = queries.download();
        EXPECT_TRUE(keys.guards_intact() && queries.guards_intact());
        for (Index i = 0; i < rows_q; ++i)
          for (Index j = 0; j < rows_k; ++j) {
            const bool allowed = region.allowed_rows(i).contains(j);
            ASSERT_EQ(of_row[i].first <= j && j < of_row[i].last, allowed) << i << " " << j;
            ASSERT_EQ(of_key[j].first <= i && i < of_key[j].last, allowed) << i << " " << j;
          }
      }
  }
}

// Values of many blocks' strides, of which single ones differ, or are NaN in either.
TEST_F(RowKernels, ComparisonsFindSingleValues) {
  constexpr int kCount = 20'001;
  const std::vector<float> twos(kCount, 2.0f);
  const GuardedArray<float> others(twos);
  const auto compared = [&](int at, float value, float least_scale) {
    std::vector<float> values = twos;
    values[at] = value;
    return compare(GuardedArray<float>(values).data(), others.data(), DType::f32, kCount, 100,
                   least_scale);
  };
  const Comparison same = compared(0, 2, 1);
  EXPECT_EQ(same.squares, 4.0 * kCount);
  EXPECT_EQ(same.worst, 0);
  EXPECT_EQ(same.different, 0);
  EXPECT_EQ(same.nans, 0);
  for (const int at : {0, 12'345, kCount - 1}) {
    const Comparison larger = compared(at, 3, 3), none = compared(at, NAN, 2);
    EXPECT_EQ(larger.worst, 16) << "1 in units of 2^-7 (2 + 2 * 3)";
    EXPECT_EQ(larger.different, 1);
    EXPECT_FLOAT_EQ(compared(at, 3, 0.5f).worst, 128 / 6.0f) << "1 in units of 2^-7 (2 + 2 * 2)";
    EXPECT_EQ(none.worst, kInfinity);
    EXPECT_EQ(none.nans, 1);
    EXPECT_EQ(compared(at, kInfinity, 2).worst, kInfinity);
  }
  const GuardedArray<std::uint16_t> halves(std::vector<std::uint16_t>{0x3f80, 0x7fc0, 0x3f80});
  EXPECT_EQ(compare(halves.data(), halves.data(), DType::bf16, 3, 3, 1).nans, 1);
}

}  // namespace
}  // namespace ringscope::cuda
