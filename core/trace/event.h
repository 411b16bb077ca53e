// Everything that a recording holds. Only data is here; readers and writers are in other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/names.h"
#include "core/problem/shape.h"

namespace ringscope {

// What an event is about. A rank of ours has a lane for each of the first four. Only traces of others
// have `communication`, a message that is neither a send nor a receive (such as an all-gather), and
// `other`, which is no message.
enum class Lane : std::uint8_t { compute, send, recv, wait, communication, other };
constexpr auto names_of(Lane) {
  return list_of({"compute", "send", "recv", "wait", "communication", "other"});
}
inline constexpr Lane kAllLanes[] = {Lane::compute, Lane::send, Lane::recv, Lane::wait};
inline constexpr int kLaneKinds = 6;

enum class Pass : std::uint8_t { forward, backward };
constexpr auto names_of(Pass) { return list_of({"forward", "backward"}); }
inline constexpr auto kAllPasses = kAllOf<Pass>;

// Return the FLOPs of a pair of one query head. Forward, a pair is in two products of as many
// multiply-adds, two FLOPs each: Q K^T of head_dim, and P V of head_dim_v. Backward, it is in five: S
// again, dQ, dK; and dV, dP.
constexpr std::int64_t flops_of_a_pair(const AttentionShape& shape, Pass pass) {
  const Index d = shape.head_dim, d_v = shape.value_dim();
  return pass == Pass::forward ? 2 * (d + d_v) : 6 * d + 4 * d_v;
}

// ---
// What a rank does around attention in a recorded training step, part by part, on a lane of its
// own. The spans of one rank nest or don't overlap.
// `attention` is all of a layer's attention: norm, projections, and the ring, which is a span of
// its own inside it.
enum class ModelPart : std::uint8_t { embedding, attention, ring, mlp, head, reduction, update };
constexpr auto names_of(ModelPart) {
  return list_of(
      {"embedding", "attention", "ring", "MLP", "head and loss", "gradient reduction", "AdamW"});
}

// The category of the spans, and the name of their lane, which follows a rank's other lanes.
inline constexpr std::string_view kModelLane = "model";
inline constexpr int kModelTid = 4;

struct ModelSpan {
  ModelPart part = ModelPart::embedding;
  Pass pass = Pass::forward;
  std::int32_t layer = -1;  // -1: belongs to no layer
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;  // reduction, update: sent by the rank

  int tid() const { return kModelTid; }
  bool operator==(const ModelSpan&) const = default;
};

// The part of a training run that a recording shows.
struct RecordedLayer {
  std::int64_t train_step = 0;  // counted from 1
  std::int32_t layer = 0;       // the layer whose ring is recorded slice by slice
  std::int32_t layers = 1;

  bool operator==(const RecordedLayer&) const = default;
};

// ---
// What the warps of a kernel do on some multiprocessors, as the kernel itself stamps it (`run
// --kernel-trace`). Each role on a multiprocessor has a lane, in which no spans overlap.
// A part ends when the role goes on to the next. A consumer waits for its turn at the tensor cores
// (`turn`) or for K; `scores` and `output` are what it then waits for of S = Q K^T and O += P V,
// whose products may run under other parts too. `fetch` is the producer's: until a copy has begun.
// Backward, `wait` is for the block's own K and V, and gradients are until the products are there
// (`weight_gradients`: dP) or, of S, until dS is where the product dQ = dS K finds it.
enum class KernelPart : std::uint8_t {
  fetch,
  prologue,
  wait,
  turn,
  scores,
  softmax,
  output,
  wait_queries,
  wait_out_gradients,
  weight_gradients,
  score_gradients,
  value_gradients,
  key_gradients,
  query_gradients,
  epilogue
};
constexpr auto names_of(KernelPart) {
  return list_of({"fetch", "prologue", "wait K", "turn", "S", "softmax", "PV", "wait Q", "wait dO",
                  "dP", "dS", "dV", "dK", "dQ", "epilogue"});
}
inline constexpr auto kAllKernelParts = kAllOf<KernelPart>;

// The category of the spans. The lane of role r on multiprocessor m is thread kKernelTid + 4 m + r.
inline constexpr std::string_view kKernelLane = "kernel part";
inline constexpr int kKernelTid = 8;
inline constexpr std::int32_t kKernelRoles = 4;           // at most, of a block
inline constexpr std::int32_t kMostMultiprocessors = 16;  // that are stamped

struct KernelSpan {
  KernelPart part = KernelPart::fetch;
  std::int32_t multiprocessor = 0;
  std::int32_t role = 0;  // 0: the producer; r: consumer r - 1
  std::int32_t step = 0;  // ring step of the pass
  std::int32_t matrix = 0;
  std::int32_t row_tile = 0;   // -1: of the whole item, which is a tile of keys (backward)
  std::int32_t key_tile = -1;  // -1: of the whole item, which is a tile of query rows
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t ticks = 0;  // of the kernel's clock: nanoseconds, on the model of a GPU its steps
  Pass pass = Pass::forward;

  // Return the tile of the item, and the one that visits it, or -1.
  std::int32_t own_tile() const { return pass == Pass::forward ? row_tile : key_tile; }
  std::int32_t visitor() const { return pass == Pass::forward ? key_tile : row_tile; }
  int tid() const { return kKernelTid + kKernelRoles * multiprocessor + role; }
  bool operator==(const KernelSpan&) const = default;
};

// ---
// A story accompanies a recording: paragraphs in order, each of which may point at slices of the
// run. A reader that does not know stories passes over it.

// The picture of a recording that a paragraph is about.
enum class Figure : std::uint8_t { timeline, ring, mask, balance, softmax, links, tile };
constexpr auto names_of(Figure) {
  return list_of({"timeline", "ring", "mask", "balance", "softmax", "links", "tile"});
}
inline constexpr auto kAllFigures = kAllOf<Figure>;

// Return all values of the type of `value` that a recording of ours has.
template <class E>
constexpr const auto& all_like(E /*value*/) {
  return kAllOf<E>;
}
constexpr const auto& all_like(Lane /*value*/) { return kAllLanes; }

// One paragraph and what it points at: the slices that match all given values of pass, step, rank
// and lane. With none given, it is about the whole run.
struct StoryStep {
  // UTF-8, 1 to kMaxStoryText bytes. `code`, **strong** and *emphasis* are rendered as such. An
  // empty line begins a new block, and a line that begins with "- " is a list item.
  std::string text;
  std::optional<Pass> pass = std::nullopt;
  int step = -1;  // ring step, below world_size; -1: all
  int rank = -1;  // below world_size; -1: all
  std::optional<Lane> lane = std::nullopt;
  std::optional<Figure> figure = std::nullopt;  // where to look

  bool operator==(const StoryStep&) const = default;
};

// A story beyond these limits is neither written nor read.
inline constexpr std::size_t kMaxStorySteps = 200;
inline constexpr std::size_t kMaxStoryText = 2000;

// ---
// What a run records: slices of time on four lanes per rank, and what each slice was about. All
// times are nanoseconds after the recording's base time.

// What a message holds: a KV block, or the gradient that travels with one.
enum class Payload : std::uint8_t { kv, dkv };
constexpr auto names_of(Payload) { return list_of({"kv", "dkv"}); }

// What goes from rank to rank while others are attended: K and V; queries, and after them what has been
// computed for them, while K and V stay; queries along the rows of a grid and K and V along its columns;
// or rows of each rank's own heads. In all but the first, ranks attend for other ranks' queries too.
enum class Travels : std::uint8_t { blocks, queries, both, heads };
constexpr auto names_of(Travels) { return list_of({"blocks", "queries", "both", "heads"}); }

// What a run's ranks send each other, for those who show or name it.
struct Travel {
  Travels what = Travels::blocks;
  bool is_gathered = false;  // all has come before anything is attended, and moves no more
  bool visits_all = false;   // at step t, rank r has the block of owner r - t, attended or not
  int group = 0;             // consecutive ranks: a row of the grid, or those that exchange heads

  bool moves_queries() const { return what == Travels::queries || what == Travels::both; }
  // Return whether each of so many ranks attends its heads for all rows, rather than blocks of rows.
  bool shares_heads(int ranks) const { return what == Travels::heads && group >= ranks; }
  // Return whether the slowest of so many ranks at a step holds up the others there.
  bool shares_steps(int ranks) const { return !moves_queries() && !shares_heads(ranks); }
  // Name what a message carries.
  std::string_view name_of(Pass pass, Payload payload, int src, int dst) const {
    const bool within = group > 0 && src / group == dst / group;
    if (what == Travels::heads && within) return "heads";
    if (what != Travels::queries && !(what == Travels::both && within))
      return payload == Payload::kv ? "KV" : "dKV";
    if (payload == Payload::kv) return "Q";
    return pass == Pass::forward ? "O" : "dQ";
  }

  bool operator==(const Travel&) const = default;
};

// One slice of a lane, from the recorder up to the picture. Fields that its lane does not use keep
// their defaults.
struct TraceEvent {
  Lane lane = Lane::compute;
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;  // send, recv, wait: what was moved or waited for
  std::int8_t part = -1;          // viewer: of a training step or a kernel; -1 elsewhere
  std::int32_t step = 0;          // -1 outside of a ring, as is the owner
  std::int32_t kv_owner = 0;
  std::uint32_t name = 0;  // viewer: index in Trace::names
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  // compute
  std::int64_t pairs = 0;       // unmasked query-key pairs, the same for every batch entry and head
  std::int64_t flops = 0;       // over all batch entries and heads
  std::int64_t tiles_full = 0;  // over all batch entries and heads, like the next two
  std::int64_t tiles_partial = 0;
  std::int64_t tiles_skipped = 0;
  std::int64_t cpu_ns = 0;  // processor time that the rank's thread spent inside the slice
  // send, recv
  std::int64_t bytes = 0;
  std::int32_t src = 0;
  std::int32_t dst = 0;
  // Joins a send slice to its recv slice; unique per recording, 0: none. Viewer: 1 + index in
  // Trace::flows.
  std::int64_t flow = 0;
  std::int64_t moved_ns = 0;  // how long the message was on its way; 0: as long as the slice
  // wait
  std::int32_t waiting_for = 0;  // a rank

  std::int64_t duration_ns() const { return end_ns - begin_ns; }
  // Return the rank that a message goes to or comes from, or that is waited for; -1: none.
  std::int32_t peer() const {
    if (lane == Lane::send) return dst;
    if (lane == Lane::recv) return src;
    return lane == Lane::wait ? waiting_for : -1;
  }
  bool operator==(const TraceEvent&) const = default;
};

// The online-softmax state of one query row after one step (batch entry 0, head 0). lse covers the
// keys seen so far and is -inf before the first. lse_error is its distance from the final value (0
// when both are -inf), or -1 where the rank does not know that: it attends a part of the row, or failed.
struct SoftmaxSample {
  std::int32_t rank = 0;
  std::int32_t step = 0;
  std::int64_t query = 0;  // global position
  std::int64_t at_ns = 0;
  float row_max = 0;
  float row_sum = 0;
  float lse = 0;
  float lse_error = 0;

  bool operator==(const SoftmaxSample&) const = default;
};

// The numbers of a small tile of one step, as a run on CPUs had them (batch entry 0, head 0): the first
// query rows that attend any of the block's keys, the first of these keys, and the first columns of V and
// out_accum, which do not depend on each other. core/trace/tile.h computes what lies in between.
struct RecordedTile {
  static constexpr Index kMost = 6;  // rows, keys, columns
  std::int32_t rank = 0, step = 0, kv_owner = 0;
  float softmax_scale = 1;
  std::vector<std::int64_t> queries = {}, keys = {};  // global positions
  std::vector<float> q = {}, k = {};                  // [queries, head_dim], [keys, head_dim]
  std::vector<float> v = {};                          // [keys, columns]
  std::vector<float> scores = {};  // [queries, keys]: scaled, capped, -inf where masked
  // The rows' state before the step, and after all keys of the block: row_max and row_sum [queries],
  // out_accum [queries, columns].
  std::vector<float> row_max_before = {}, row_sum_before = {}, out_before = {};
  std::vector<float> row_max = {}, row_sum = {}, out_accum = {};
  std::vector<float> out = {};  // [queries, columns]: the output; empty if the run failed before

  bool operator==(const RecordedTile&) const = default;
};

// How a failed run ended. -1 means unknown.
struct RunEnd {
  std::string message;
  int rank = -1;
  int step = -1;

  bool operator==(const RunEnd&) const = default;
};

// The machine of a run, as far as it is known. Rates are 0 where they are not.
struct RunMachine {
  // Names of a rank's hardware, of links inside a node and between nodes.
  std::string device = {}, link = {}, between = {};
  int nodes = 1;
  int cores = 0;                   // that the ranks share; 0: each has its own, or it is unknown
  std::int64_t forward_flops = 0;  // FLOP/s that a rank's kernel should reach
  std::int64_t backward_flops = 0;
  std::int64_t tile_rows = 1, tile_keys = 1;  // what the kernel computes whole

  bool operator==(const RunMachine&) const = default;
};

// The facts that the events alone do not give. Strings use the command line's spellings.
struct RunInfo {
  std::string backend = "cpu";
  std::string partition = "contiguous";
  std::string mask = "full";
  // Of a ranges mask: its slices (MaskSpec::slice_numbers). Of a partition that is not a fixed one:
  // its runs (PartitionSpec::numbers). Otherwise empty.
  std::vector<std::int64_t> mask_slices, partition_runs;
  std::string partition_q;  // of the queries, if they have their own; and its runs, likewise
  std::vector<std::int64_t> partition_q_runs;
  std::string scheme = "ring";
  std::optional<Travel> travel;  // what the scheme sends; older recordings do not say it
  std::string hops;              // "needed" where no more is sent than ranks need, or empty
  std::string dtype = "f32";
  int kv_buffers = 0;  // ring only: how many the blocks rotate through; 0: not given, means two
  AttentionShape shape;
  int sink_logits = 0;           // 1: a learned sink joins each row's sum
  std::optional<float> softcap;  // C: a score s counts as C tanh(s / C)
  int world_size = 1;
  std::int64_t base_time_ns = 0;              // system clock, since 1970
  std::vector<std::int64_t> clock_offset_ns;  // one per rank, already subtracted from its events
  std::vector<std::int64_t> clock_error_ns;   // one per rank, bounds what is left
  // One per rank: stamps that found their kernel's buffer full. Empty where none were taken.
  std::vector<std::int64_t> dropped_stamps;
  std::optional<RunEnd> failure;
  // A profile's part from the midst of a longer run, so ranks begin when they come to it. Not written.
  bool is_midway = false;
  // A profile that gives neither lengths nor heads: `shape` stands for them. Not written.
  bool lacks_shape = false;
  // A profile's reason why hops do not run beside attention, if one is seen. Not written.
  std::string turns_because = {};
  std::optional<RecordedLayer> training;  // of a training step: which ring this is
  std::optional<RunMachine> machine;
  std::string command;  // the command line that made the recording; "" if it is not known
  // Where the file comes from, by key: version, commit, command, seed, machine, time. Empty if the
  // file does not say.
  std::vector<std::pair<std::string, std::string>> origin;

  // Return whether the recording is of a run from its beginning to its end.
  bool is_whole() const { return !failure; }

  bool operator==(const RunInfo&) const = default;
};

// A whole run. events[rank] is in order of recording.
struct Recording {
  RunInfo info;
  std::vector<std::vector<TraceEvent>> events = {};
  std::vector<SoftmaxSample> samples = {};
  std::vector<std::int64_t> dropped = {};  // one per rank: events lost to a full buffer
  std::vector<StoryStep> story = {};       // the text that accompanies it; usually empty
  // For a training step: one list per rank, ordered by begin; of two spans that begin together, the
  // longer comes first. Otherwise it is empty.
  std::vector<std::vector<ModelSpan>> model = {};
  // Where kernels stamped what they did: one list per rank. Otherwise it is empty.
  std::vector<std::vector<KernelSpan>> kernel = {};
  std::optional<RecordedTile> tile = {};  // if the run was asked for one

  bool operator==(const Recording&) const = default;
};

// Both ends of a message, as indices of events of their ranks.
struct RecordedMessage {
  struct End {
    std::size_t rank = 0, index = 0;
  } send, recv;
};
// Return the messages by flow. One that lacks an end, because its event was dropped, is left out.
std::vector<RecordedMessage> messages_of(const Recording& recording);

}  // namespace ringscope
