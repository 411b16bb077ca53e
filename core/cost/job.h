// What is to be computed and how it is dealt out: everything that the closed forms of this folder
// depend on, and nothing about the machine. Like a RingConfig, with one scheme more.
//
// All amounts are doubles: exact up to 2^53, and unable to overflow for any shape that validate()
// lets pass. Amounts are those of one layer's attention, where nothing else is said.
#pragma once

#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/shape.h"
#include "core/trace/event.h"

namespace ringscope {

// ring and allgather as in core/ring. ulysses: two all-to-alls a pass, which deal the heads out
// instead of the sequence and back again (S3, related work; S1, part one, 7.2 calls its ring an
// all-to-all, which it is not: a ring is point-to-point). two_level: a ring of nodes whose every
// step is a ring of ranks inside the nodes (core/sim/two_level.h).
enum class JobScheme { ring, allgather, ulysses, two_level };

// Those that need no nodes.
inline constexpr JobScheme kAllJobSchemes[] = {JobScheme::ring, JobScheme::allgather,
                                               JobScheme::ulysses};

constexpr std::string_view name_of(JobScheme scheme) {
  constexpr std::string_view names[] = {"ring", "allgather", "ulysses", "two-level"};
  return names[static_cast<int>(scheme)];
}

struct Job {
  AttentionShape shape;
  DType dtype = DType::f32;
  MaskSpec mask = {};
  PartitionKind partition = PartitionKind::contiguous;
  int world_size = 1;
  JobScheme scheme = JobScheme::ring;
  bool backward = false;
  int kv_buffers = 2;  // of a ring, that blocks take turns in: at least 2
  int nodes = 1;       // two_level: of world_size / nodes ranks each
  Index layers = 1;    // with backward, what each keeps from its forward pass adds up

  Partition partition_of_sequence() const { return {partition, shape.seqlen, world_size}; }
  // two_level. Throws InputError when nodes don't divide world_size.
  int ranks_a_node() const {
    if (nodes >= 1 && world_size % nodes == 0) return world_size / nodes;
    throw InputError("nodes: " + std::to_string(nodes) + " given for " +
                     std::to_string(world_size) + " ranks; accepted: a number that divides them");
  }
  double max_rows() const { return static_cast<double>(partition_of_sequence().max_rows()); }
  double storage_bytes() const { return bytes_of(dtype); }  // of a value of Q, K, V
};

// Values in `rows` rows of a tensor with the queries' heads, with the keys' heads, and of one value
// a row and query head.
inline double query_values(const AttentionShape& s, double rows) {
  return static_cast<double>(s.batch) * static_cast<double>(s.num_heads) * rows *
         static_cast<double>(s.head_dim);
}
inline double kv_values(const AttentionShape& s, double rows) {
  return query_values(s, rows) / static_cast<double>(s.group_size());
}
inline double row_values(const AttentionShape& s, double rows) {
  return query_values(s, rows) / static_cast<double>(s.head_dim);
}

}  // namespace ringscope
