// The ring against the f64 oracle, forward and backward: every partition x mask kind x world_size x
// seqlen (also shorter than world_size), and each of them with every dtype and group of query heads.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/core/ring/ring_case.h"

namespace ringscope {
namespace {

constexpr Index kLong = 2 * kTileKeys + 7;

// dtype, seqlen, query heads for each kv head
class RingGrid : public testing::TestWithParam<std::tuple<DType, Index, Index>> {};

TEST_P(RingGrid, AgreesWithTheOracle) {
  const auto [dtype, seqlen, group] = GetParam();
  // No two sizes alike where it is cheap, so that no two axes can be mistaken for each other.
  const Index batch = seqlen < 200 ? 2 : 1, heads_kv = seqlen < 200 ? 3 : 1;
  const AttentionShape shape{batch, heads_kv * group, heads_kv, seqlen, 8};
  const std::vector<std::string> masks = masks_for(seqlen);
  for (Index mask = 0; mask < std::ssize(masks); ++mask) {
    SCOPED_TRACE(masks[mask]);
    const std::uint64_t seed = 1000 + seqlen * 10 + group;
    const RingReference reference(shape, dtype, masks[mask], default_softmax_scale(shape.head_dim),
                                  seed);
    expect_accurate(reference.single, reference.oracle, dtype);
    for (const PartitionKind partition : kAllPartitions)
      for (const int world_size : {1, 2, 3, 4, 5, 7, 8, 16}) {
        // How values are stored and which ranks they pass do not meet anywhere, and neither do the
        // ranks and the group of heads: each deal of a mask over so many ranks meets every dtype and
        // every group, in a third of their pairs. 16 ranks take more time than all the others together.
        const Index turn = mask + static_cast<int>(partition) + world_size + seqlen;
        if ((turn + static_cast<int>(dtype) + group / 2) % 3 != 0) continue;
        if (world_size == 16 && (dtype != DType::f32 || group != 2 || seqlen == 64)) continue;
        // Of rows beyond a tile two rings are enough: of more keys than a tile has, and of more queries.
        if (seqlen == kLong && world_size != 2 && world_size != 8) continue;
        reference.check(reference.config(partition, world_size));
      }
  }
}

std::string name_of_grid(const testing::TestParamInfo<RingGrid::ParamType>& tested) {
  return std::string(name_of(std::get<0>(tested.param))) + "_seqlen" +
         std::to_string(std::get<1>(tested.param)) + "_group" +
         std::to_string(std::get<2>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(All, RingGrid,
                         testing::Combine(testing::ValuesIn(kAllDTypes),
                                          testing::Values<Index>(1, 2, 7, 64, 129),
                                          testing::Values<Index>(1, 2, 4)),
                         name_of_grid);
INSTANTIATE_TEST_SUITE_P(Long, RingGrid,
                         testing::Values(std::tuple(DType::f32, kLong, 1),
                                         std::tuple(DType::bf16, kLong, 2),
                                         std::tuple(DType::f16, kLong, 4)),
                         name_of_grid);

}  // namespace
}  // namespace ringscope
