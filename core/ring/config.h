// What a caller asks for: the problem, how it is dealt out, and the tensors that go in and come out.
#pragma once

#include <optional>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/mask/mask_spec.h"
#include "core/partition/partition.h"
#include "core/ring/problem.h"
#include "core/ring/scheme.h"

namespace ringscope {

struct RingConfig {
  AttentionShape shape;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale;  // default: 1 / sqrt(head_dim)
  MaskSpec mask;
  PartitionKind partition = PartitionKind::contiguous;
  int world_size = 1;
  Scheme scheme = Scheme::ring;
  bool backward = false;

  double scale() const;                     // softmax_scale, or its default
  Partition partition_of_sequence() const;  // partition, with its seqlen and world_size
  RingProblem problem() const;              // points into this object's mask
};

// f32 tensors of the whole sequence, [batch, heads or heads-kv, seqlen, head_dim]; rounded to the
// run's dtype when they are scattered. dout may be empty: ones.
struct AttentionInputs {
  std::vector<float> q, k, v, dout;
};

struct AttentionOutputs {
  std::vector<float> out;         // [batch, heads, seqlen, head_dim]
  std::vector<float> lse;         // [batch, heads, seqlen]
  std::vector<float> dq, dk, dv;  // backward only
};

}  // namespace ringscope
