// A Job says what to compute and how it is distributed. It holds all that the closed forms of this
// folder depend on, except the machine. It resembles a RingConfig with two more schemes.
//
// All amounts are doubles: they are exact up to 2^53 and can't overflow for any shape that
// validate() accepts. They count one layer's attention unless a comment says otherwise.
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

// ring and allgather are those of core/ring. ulysses exchanges sequence shares for head shares and
// back, by two all-to-alls per pass (S3, related work; S1, part one, 7.2 calls its ring an
// all-to-all, but a ring is point-to-point). In two_level, every step of a ring of nodes is a ring
// of the ranks inside each node (core/sim/two_level.h).
enum class JobScheme { ring, allgather, ulysses, two_level };

// The schemes that need no nodes.
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
  int kv_buffers = 2;  // ring: number of KV buffers that blocks rotate through, at least 2
  int nodes = 1;       // two_level: each has world_size / nodes ranks
  Index layers = 1;    // with backward, each keeps tensors of its forward pass in memory

  Partition partition_of_sequence() const { return {partition, shape.seqlen, world_size}; }
  // Return world_size / nodes (two_level). Throw InputError when nodes do not divide world_size.
  int ranks_a_node() const {
    if (nodes >= 1 && world_size % nodes == 0) return world_size / nodes;
    throw InputError("nodes: " + std::to_string(nodes) + " given for " +
                     std::to_string(world_size) + " ranks; accepted: a number that divides them");
  }
  double max_rows() const { return static_cast<double>(partition_of_sequence().max_rows()); }
  double storage_bytes() const { return bytes_of(dtype); }  // per value of Q, K, V
};

// Return the number of values in `rows` rows of Q (query_values), of K or V (kv_values), and of a
// tensor with one value per row and query head (row_values).
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
