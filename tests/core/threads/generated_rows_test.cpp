// Ranks that make their own rows: whatever the partition, the world size and the pieces, they get
// those of the whole tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/problem/partition.h"
#include "core/threads/generated_rows.h"

namespace ringscope {
namespace {

const AttentionShape kShape{2, 4, 2, 61, 9};
constexpr std::uint64_t kSeed = 7;

std::string text_of_windows() {
  std::string text;
  for (int i = 0; text.size() < 2 * 61; ++i) text += "ring " + std::to_string(i * i) + ", ";
  return text.substr(0, 2 * 61);
}

std::unique_ptr<RowSource> make_rows(bool from_text) {
  if (from_text) return std::make_unique<TextRows>(kShape, text_of_windows());
  return std::make_unique<RandomRows>(kShape, kSeed);
}

// Row by row in the order of the sequence.
std::vector<float> whole(RowSource& rows, Tensor tensor) {
  const LocalRows all = Partition{PartitionKind::contiguous, kShape.seqlen, 1}.rows_of(0);
  std::vector<float> values(
      static_cast<std::size_t>(heads_of(kShape, tensor) * kShape.seqlen * kShape.head_dim));
  float* to = values.data();
  for (Index head = 0; head < heads_of(kShape, tensor); ++head)
    for (Index row = 0; row < kShape.seqlen; ++row, to += kShape.head_dim)
      rows.get({tensor, head, all, row, row + 1}, to);
  return values;
}

class GeneratedRows : public testing::TestWithParam<bool> {};

TEST_P(GeneratedRows, OfEveryRankAreThoseOfTheWhole) {
  for (const Tensor tensor : {Tensor::q, Tensor::k, Tensor::v, Tensor::dout}) {
    const std::vector<float> expected = whole(*make_rows(GetParam()), tensor);
    for (const PartitionKind kind : kAllPartitions)
      for (const int world_size : {1, 2, 3, 5, 64}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(tensor) << ", " << name_of(kind) << ", " << world_size << " ranks");
        std::vector<float> got(expected.size(), -1000);
        for (int rank = 0; rank < world_size; ++rank) {
          const std::unique_ptr<RowSource> source = make_rows(GetParam());
          const LocalRows rows = Partition{kind, kShape.seqlen, world_size}.rows_of(rank);
          std::vector<float> piece(static_cast<std::size_t>(piece_values(kShape)));
          for_each_piece(kShape, tensor, rows, [&](const RowsOfHead& part) {
            source->get(part, piece.data());
            for (Index row = part.first; row < part.end; ++row)
              std::copy_n(piece.data() + (row - part.first) * kShape.head_dim, kShape.head_dim,
                          got.data() + (part.head * kShape.seqlen + rows.global_position(row)) *
                                           kShape.head_dim);
          });
        }
        EXPECT_EQ(got, expected);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, GeneratedRows, testing::Bool(), [](const auto& text) {
  return std::string(text.param ? "Text" : "Random");
});

TEST(RandomRows, AreTheNumbersOfTheirSeedByPosition) {
  RandomRows rows(kShape, kSeed);
  for (const auto& [tensor, stream] : {std::pair{Tensor::q, RandomTensor::q},
                                       {Tensor::k, RandomTensor::k},
                                       {Tensor::v, RandomTensor::v}}) {
    const std::vector<float> values = whole(rows, tensor);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], static_cast<float>(normal(kSeed, stream, static_cast<Index>(i))));
  }
}

// A window's rows do not depend on those that were asked for before.
TEST(TextRows, ComeInAnyOrder) {
  TextRows rows(kShape, text_of_windows());
  const LocalRows all = Partition{PartitionKind::contiguous, kShape.seqlen, 1}.rows_of(0);
  const std::vector<float> expected = whole(rows, Tensor::k);
  std::vector<float> row(static_cast<std::size_t>(kShape.head_dim));
  for (const Index head : {3, 0, 2, 1})
    for (const Index at : {60, 0, 17}) {
      rows.get({Tensor::k, head, all, at, at + 1}, row.data());
      EXPECT_TRUE(std::equal(row.begin(), row.end(),
                             expected.begin() + (head * kShape.seqlen + at) * kShape.head_dim));
    }
}

// Heads of a group share the keys' features, and each adds its own to all of them. At position 0 nothing
// turns, which would mix two dimensions.
TEST(TextRows, QueriesOfAGroupDifferInEveryDimension) {
  TextRows rows(kShape, text_of_windows());
  const std::vector<float> queries = whole(rows, Tensor::q);
  for (Index x = 0; x < kShape.head_dim; ++x)
    EXPECT_NE(queries[x], queries[kShape.seqlen * kShape.head_dim + x]) << x;
}

}  // namespace
}  // namespace ringscope
