// Defines what is asked for (Problem), and the same as every rank knows it (RingProblem). It says nothing
// about the machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/attention/views.h"
#include "core/base/dtype.h"
#include "core/base/names.h"
#include "core/problem/mask.h"
#include "core/problem/needed.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "core/problem/shape.h"
#include "core/ring/faults.h"
#include "core/ring/scheme.h"
#include "core/trace/event.h"

namespace ringscope {

// Return the stride of ring `ring` of a multi-ring on n ranks, of at most most_rings(n): the numbers
// below n without a divisor in common with it, 1, n - 1, the next one, n minus that, and so on.
int stride_of_ring(int n, int ring);
int most_rings(int n);

// Return share `share` of the heads, of `shares` in all, which are at most num_heads. Where there are
// enough kv heads, a share has whole ones, as evenly as they divide; otherwise several shares have the
// same kv head and divide its query heads.
HeadShare share_of_heads(const AttentionShape& shape, Index shares, Index share);

// Return the pairs of a block that count for a share of the heads: where ranks divide the heads, a
// block's pairs are divided with them, and the shares of all heads add up to the block's pairs.
Index pairs_of_share(const AttentionShape& shape, Index pairs, const HeadShare& share);

// ---
// One attention problem on a ring. It is the same on all ranks and enough to compute any rank's
// rows, regions and message sizes, so none of that is ever sent.

// What a block's hops carry in a ring: all of it, or the rows that a rank further on still needs.
enum class Hops { all, needed };
constexpr auto names_of(Hops) { return list_of({"all", "needed"}); }
inline constexpr auto kAllHops = kAllOf<Hops>;

// The blocks of all ranks in parts (core/problem/needed.h), where a rank's is not sent as a whole.
struct PartedBlocks {
  std::vector<std::vector<BlockPart>> of_owner;
  int hops = 0;                // that the part which travels farthest makes
  std::vector<int> messages;   // by distance: the most messages that a cast's rank needs of another
  std::size_t most_parts = 0;  // of a block

  PartedBlocks(const Mask& mask, const Partitions& deal, PartOrder order);
  // Return how many rows of an owner's block make its hop number `hop` > 0 around a ring. They are
  // its first parts, and all rows if `hop` is 0.
  Index rows(int owner, int hop) const;
};

struct RingProblem {
  AttentionParams params;
  Mask mask;
  Partitions partition;
  const Scheme* scheme = default_scheme();
  SchemeNumbers numbers = {1, 0};                        // as in Problem
  int nodes = 1;                                         // as in Problem
  std::shared_ptr<const PartedBlocks> parted = nullptr;  // null: blocks are sent whole

  RankLayout layout() const { return layout_of(*scheme, partition.world_size, numbers); }
  // Return in how many shares of the heads a rank's tensors lie, one share after the other.
  int head_shares() const { return layout().head_shares(); }
  HeadShare heads_of(int share) const { return share_of_heads(params, head_shares(), share); }

  // Return in how many parts of the rows a rank's K and V lie, one part after the other.
  int row_parts() const { return layout().row_parts; }

  // Return the rows of a rank's keys, and of its queries.
  Index rows(int rank) const { return partition.rows_of(rank).size(); }
  Index query_rows(int rank) const { return partition.queries.rows_of(rank).size(); }
  // Return what `rank`'s queries may attend of `owner`'s keys, or of some of them.
  Region region(int rank, int owner) const { return region(rank, partition.rows_of(owner)); }
  Region region(int rank, const LocalRows& keys) const {
    return {mask, partition.queries_of(rank), keys};
  }
  // Return the bytes of a row of a KV block (K, V; storage type) or of its gradient (dK, dV; f32).
  Index row_bytes(Payload payload) const {
    return block_values(params, 1) * (payload == Payload::kv ? bytes_of(params.dtype) : 4);
  }
  // Return the values in K and V of an owner's rows and so many kv heads, or in their gradients.
  Index kv_values_of(Index kv_heads, int owner) const {
    return params.batch * kv_heads * rows(owner) * (params.head_dim + params.value_dim());
  }
  Index kv_bytes(int owner) const { return rows(owner) * row_bytes(Payload::kv); }
  // Return what of it makes hop number `hop` > 0 of a ring, which has so many hops in all.
  Index kv_bytes(int owner, int hop) const {
    return parted ? parted->rows(owner, hop) * row_bytes(Payload::kv) : kv_bytes(owner);
  }
  int hops() const { return parted ? parted->hops : partition.world_size - 1; }
  Index gradient_bytes(int owner) const { return rows(owner) * row_bytes(Payload::dkv); }
  // Return how many blocks, parts of them or shares of their heads a rank attends in a pass, at most.
  int blocks_attended() const {
    if (parted) return partition.world_size * static_cast<int>(parted->most_parts);
    return partition.world_size * row_parts() * head_shares();
  }
  // Return whether a rank attends for other ranks' queries as well as its own.
  bool attends_for_others() const {
    return partition.world_size > 1 && scheme->travels != Travels::blocks;
  }
};

// A step of a rank, of whose first tile the numbers are recorded (RecordedTile).
struct TilePlace {
  int rank = 0, step = 0;
};

// --- A Problem says what to compute and how it is distributed. Runs, plans and simulations all
// take it.

struct Problem {
  AttentionShape shape;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale = std::nullopt;  // default: 1 / sqrt(head_dim)
  std::vector<float> sink_logits = {};                 // [heads], or empty: no learned sinks
  double softcap = 0;                                  // of scores, as in AttentionParams
  MaskSpec mask = {};
  PartitionSpec partition = {};  // dealt out before it is used, if it is not a fixed one
  std::optional<PartitionSpec> partition_q =
      std::nullopt;                // likewise, of queries; none: as keys are
  bool is_q_by_partition = false;  // partition_q is a copy of partition, dealt out to fewer queries
  int world_size = 1;
  const Scheme* scheme = default_scheme();
  SchemeNumbers numbers = {1, 0};  // of the scheme; the second is 0 if it was not given
  Hops hops = Hops::all;           // where the scheme asks for them
  bool backward = false;
  int kv_buffers = 2;  // that KV blocks rotate through, where they do; > 2 let ranks run ahead
  int nodes = 1;       // of the machine: each has world_size / nodes ranks
  Index layers = 1;    // the bill of a backward pass keeps the forward state of each
  std::vector<double> speeds = {};  // of the ranks, for which a searched partition is dealt out;
                                    // empty: all alike

  double timeout_s = 60;  // seconds without a sign of life or progress (core/threads/watchdog.h)
  std::optional<Injection> injection = std::nullopt;      // a deliberate fault
  std::optional<TilePlace> recorded_tile = std::nullopt;  // on threads alone

  // Return the KV buffers that blocks rotate through: at most world_size, and 0 where they don't.
  int used_kv_buffers() const;
  // Return whether blocks travel in parts: in a group cast, and in a ring with `needed` hops that are
  // worth it.
  bool parts_blocks() const;
  double scale() const;  // softmax_scale, or its default
  // Return the scheme with its numbers, as set_scheme() reads it.
  std::string scheme_name() const;
  RankLayout layout() const { return layout_of(*scheme, world_size, numbers); }
  // Return in how many slices the scheme's numbers have heads travel, also for one rank.
  int slices() const { return scheme->layout ? scheme->layout(world_size, numbers).slices : 1; }
  // Return around how many rings a rank sends at once, 0 in schemes without a number of them.
  int rings() const { return scheme->rings != nullptr ? scheme->rings(*this) : 0; }
  // Return whether KV blocks rotate through buffers, so that ranks may run ahead of each other.
  bool rotates_blocks() const {
    return scheme->course == Course::steps || scheme->course == Course::turns;
  }
  Partition partition_of_sequence() const { return partition.of(shape.seqlen, world_size); }
  // Return how keys and queries are dealt out.
  Partitions partitions() const;
  bool deals_queries_apart() const { return partition_q.has_value() || !shape.is_square(); }
  // Return what all queries may attend of all keys.
  Region whole_region() const;
  // Partitions the positions out as the partitions say; a searched one waits for its search. Throw
  // InputError as PartitionSpec::deal_out.
  void deal_out();
  bool has_sinks() const { return !sink_logits.empty(); }
  RingProblem ring_problem() const;  // points into this object's mask, partition and sinks
  // two_level. Throw an InputError when nodes don't divide world_size.
  int ranks_a_node() const;
  // Return the rows of a rank's keys, and the most of any rank; and those of queries.
  Index rows(int rank) const { return partition_of_sequence().rows_of(rank).size(); }
  double max_rows() const { return static_cast<double>(partition_of_sequence().max_rows()); }
  Index query_rows(int rank) const { return partitions().queries.rows_of(rank).size(); }
  double max_query_rows() const { return static_cast<double>(partitions().queries.max_rows()); }
  double storage_bytes() const { return bytes_of(dtype); }  // of a value of Q, K, V
};

// Set the job's scheme and its numbers from `text`, one of scheme_names(); mesh:RxC also asks for a
// world_size of R C, which check_scheme() compares. Throw InputError.
void set_scheme(Problem& job, std::string_view text);

// Return why the scheme can't run `job` whatever the memory, and what would be accepted: its numbers or
// the nodes don't fit the ranks, or the ranks the heads. Return none when it can.
std::optional<std::string> why_refused(const Problem& job);
// Throw that as an InputError.
void check_scheme(const Problem& job);

// Return a recording without events, which describes the run. Clock offsets are zero, and its base
// time is now.
Recording empty_recording(const Problem& config, std::string_view backend);

}  // namespace ringscope
