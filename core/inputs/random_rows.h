// Rows drawn from N(0, 1) by their global position: what a rank gets does not depend on how the
// sequence is dealt out, and nobody has to hold more than he asked for.
#pragma once

#include <cstdint>

#include "core/base/shape.h"
#include "core/ring/rows.h"

namespace ringscope {

// Element i of a tensor in C order is normal(seed, tensor, i) as f32. dO is ones.
class RandomRows : public RowSource {
 public:
  RandomRows(const AttentionShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {}
  void get(const RowsOfHead& piece, float* to) override;

 private:
  AttentionShape shape_;
  std::uint64_t seed_;
};

}  // namespace ringscope
