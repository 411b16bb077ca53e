// Defines what is asked for (Problem), the same as every rank knows it (RingProblem), and the
// schemes by which blocks get around. It says nothing about the machine.
#pragma once

#include <optional>
#include <string_view>

#include "core/attention/views.h"
#include "core/base/dtype.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "core/problem/shape.h"
#include "core/ring/faults.h"

namespace ringscope {

// ring and allgather are those of core/ring/ring.h. ulysses exchanges sequence shares for head
// shares and back, by two all-to-alls per pass (S3, related work; S1, part one, 7.2 calls its ring
// an all-to-all, but a ring is point-to-point). In two_level, every step of a ring of nodes is a
// ring of the ranks inside each node (core/ring/two_level.h).
enum class Scheme { ring, allgather, ulysses, two_level };

// The schemes that need no nodes, and those that run; the others are planned and simulated.
inline constexpr Scheme kAllSchemes[] = {Scheme::ring, Scheme::allgather, Scheme::ulysses};
inline constexpr Scheme kRunSchemes[] = {Scheme::ring, Scheme::allgather};

constexpr std::string_view name_of(Scheme scheme) {
  constexpr std::string_view names[] = {"ring", "allgather", "ulysses", "two-level"};
  return names[static_cast<int>(scheme)];
}

// Return the scheme of kRunSchemes that `text` names. Throw an InputError that lists them.
Scheme parse_scheme(std::string_view text);

// ---
// One attention problem on a ring. It is the same on all ranks and enough to compute any rank's
// rows, regions and message sizes, so none of that is ever sent.

struct RingProblem {
  AttentionParams params;
  Mask mask;
  Partition partition;
  int nodes = 1;  // two_level

  Index rows(int rank) const { return partition.rows_of(rank).size(); }
  // Return what `rank`'s queries may attend of `owner`'s keys.
  Region region(int rank, int owner) const {
    return {mask, partition.rows_of(rank), partition.rows_of(owner)};
  }
  // Return the bytes of an owner's KV block (K, V; storage type) or of its gradient (dK, dV; f32).
  Index kv_bytes(int owner) const {
    return 2 * kv_values(params, rows(owner)) * bytes_of(params.dtype);
  }
  Index gradient_bytes(int owner) const { return 2 * kv_values(params, rows(owner)) * 4; }
};

// --- A Problem says what to compute and how it is distributed. Runs, plans and simulations all
// take it.

struct Problem {
  AttentionShape shape;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale = std::nullopt;  // default: 1 / sqrt(head_dim)
  MaskSpec mask = {};
  PartitionSpec partition = {};  // dealt out before it is used, if it is not a fixed one
  int world_size = 1;
  Scheme scheme = Scheme::ring;
  bool backward = false;
  int kv_buffers = 2;  // ring only: buffers that KV blocks rotate through; > 2 let ranks run ahead
  int nodes = 1;       // two_level: each has world_size / nodes ranks
  Index layers = 1;    // the bill of a backward pass keeps the forward state of each

  double timeout_s = 60;  // seconds without a sign of life or progress (core/run/watchdog.h)
  std::optional<Injection> injection = std::nullopt;  // a deliberate fault

  // Return the KV buffers that a rank really has: at most world_size, and 0 in an all-gather.
  int used_kv_buffers() const;
  double scale() const;  // softmax_scale, or its default
  Partition partition_of_sequence() const { return partition.of(shape.seqlen, world_size); }
  // Deal the positions out as the partition says; a searched one waits for its search. Throw
  // InputError as PartitionSpec::deal_out.
  void deal_out() { partition.deal_out(mask.for_seqlen(shape.seqlen), world_size); }
  RingProblem ring_problem() const;  // points into this object's mask and partition
  // two_level. Throw an InputError when nodes don't divide world_size.
  int ranks_a_node() const;
  Index rows(int rank) const { return partition_of_sequence().rows_of(rank).size(); }
  double max_rows() const { return static_cast<double>(partition_of_sequence().max_rows()); }
  double storage_bytes() const { return bytes_of(dtype); }  // of a value of Q, K, V
};

}  // namespace ringscope
