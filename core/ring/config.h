// What a caller asks for: the problem, and how it is dealt out.
#pragma once

#include <optional>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/mask/mask_spec.h"
#include "core/partition/partition.h"
#include "core/ring/faults.h"
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
  int kv_buffers = 2;  // of a ring, that KV blocks take turns in; more than 2 let ranks run ahead

  double timeout_s = 60;  // without a sign of life, or without progress (watch.h)
  std::optional<Injection> injection = std::nullopt;  // a fault on purpose

  // That a rank really has: no more than world_size; 0 in an all-gather.
  int used_kv_buffers() const;
  double scale() const;                     // softmax_scale, or its default
  Partition partition_of_sequence() const;  // partition, with its seqlen and world_size
  RingProblem problem() const;              // points into this object's mask
};

}  // namespace ringscope
