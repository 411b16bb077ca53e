// Finds the ring in other programs' profiles: traces of PyTorch's profiler (Kineto), one file per rank.
// Attention and transfers are known by parts of their names; who held which block when is inferred
// from their order. The result is a recording as our own runs make it, so that everything that
// explains those explains it, too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace/chrome_trace_reader.h"
#include "core/trace/trace.h"

namespace ringscope {

// One attention or transfer of a profile. Nanoseconds after the file's base time.
struct ProfiledSpan {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t order = 0;    // of the launch: a kernel's correlation, or begin_ns
  std::int64_t bytes = 0;    // 0: unknown
  std::size_t name = 0;      // the hash of its kernel's name
  std::int64_t stream = -1;  // of a kernel
  Pass pass = Pass::forward;
  // Of an attention whose inputs were recorded: the rows of Q and of K and V, and whether it is
  // causal (1) or not (0). -1: unknown.
  int q_rows = -1, k_rows = -1, causal = -1;
  bool sends = true, receives = true;  // a transfer
  std::int64_t sent_ns = 0;            // of a send and a receive: when the send ended
  // An all-to-all: how many of its split sizes are not 0; 0: unknown; -1: it is none. With one, it moves
  // a block to the group's rank `to` and another one here from `from`, so it is a hop.
  int splits = -1, to = -1, from = -1;
};

// What one rank's file says.
struct RankProfile {
  std::string path;
  int rank = -1, world_size = 0;
  std::int64_t base_time_ns = 0;
  std::vector<ProfiledSpan> attention[2], transfers[2];  // [on a device]
  std::vector<ProfiledSpan> gathers[2];                  // [on a device]
  int swaps[2] = {};                      // all-to-alls among more than two ranks [on a device]
  int sends_to = -1, receives_from = -1;  // the peers of most sends and receives that are named
  std::int64_t sent_bytes = 0;            // of all sends that say so
  AttentionShape shape{1, 1, 1, 0, 1};    // of the rank's rows; seqlen 0: not recorded
  Index most_keys = 0;                    // of an attention
  std::map<std::string, int> others;      // kernels that were not understood, and how many of each
  // Why kernels may take turns: when the host waited for the device, other messages, and whether the
  // launches of attention kernels last until these end.
  std::vector<ProfiledSpan> host_waits, other_messages;
  bool launches_block = false;
  std::vector<std::int64_t> iterations;  // when the profiler's steps began
  std::set<std::int64_t> processes[2];   // or devices, whose attention it has
  bool has_shapes = false;               // of operations' inputs
  bool cut_short = false;
};

// Return the rank that a file's name gives, as in rank3.pt.trace.json or trace_rank-3.json.gz; -1: none.
int rank_in_name(const std::string& path);

// Return the bytes of the message that an NCCL kernel moves, or 0 if its arguments do not say.
std::int64_t message_bytes(const TraceFields& fields);

// Gathers what matters of a file's events.
class ProfileEvents {
 public:
  // Kernels whose names have one of these parts are attention as well.
  explicit ProfileEvents(std::vector<std::string> attention = {})
      : attention_(std::move(attention)) {}
  void add(const TraceFields& fields);
  // Return the profile of the file that was read.
  RankProfile finish(const TraceFile& file, std::string path);

 private:
  RankProfile profile_;
  std::vector<std::string> attention_;
  void add_peer(const TraceFields& fields, std::string_view name, std::string_view collective);
  bool add_call(const TraceFields& fields, std::string_view name, const ProfiledSpan& span);
  void add_runtime_call(const TraceFields& fields, std::string_view category);
  void describe(std::vector<ProfiledSpan*> notes, std::vector<ProfiledSpan> calls);
  void sort_transfers();
  void add_shape(const TraceFields& fields, std::string_view name, ProfiledSpan& span);

  // Names that say nothing of a ring, on a device or not, and where they are counted (null: nowhere).
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int*, Hash, std::equal_to<>> dull_[2];
  std::map<int, int> peers_[2];  // of sends, of receives
  // Calls on the host that start sends, gathers and all-to-alls; the latter on three levels, of which
  // some tell their split sizes.
  std::vector<ProfiledSpan> send_calls_, gather_calls_, swap_calls_[3];
  std::unordered_map<std::int64_t, std::int64_t> launches_;  // by correlation: when they ended
};

// Return the parts of names by which a forward attention is known.
std::string attention_names();

// Read a file; of one that is cut off, what is whole. Kernels whose names have a part of `attention`
// are attention as well. Return none for a recording of ours. Throw InputError that names `path`.
std::optional<RankProfile> read_profile(const std::string& path,
                                        const std::vector<std::string>& attention = {});

// Read the text of a whole file.
std::optional<RankProfile> parse_profile(std::string_view text, const std::string& path);

struct InferredRing {
  std::optional<Recording> recording;      // none if there is no ring to be seen
  std::vector<std::string> notes;          // what was inferred, how surely, or why nothing was
  std::vector<ProfiledLayer> layers = {};  // all of them, in their order
  std::size_t shown = 0;                   // the one that was recorded
};

// Find the ring in the profiles of a job's ranks: of guesses how many kernels a rank runs for its own block,
// for those of lower ranks and of higher ones, the one whose order of kernels and transfers fits is taken.
// One layer is shown, by its index in `layers`, or else the median one. Rows a rank, and bytes, that no file
// gives are placeholders, because only ratios matter.
InferredRing infer_ring(const std::vector<RankProfile>& ranks,
                        std::optional<std::size_t> layer = std::nullopt);

}  // namespace ringscope
