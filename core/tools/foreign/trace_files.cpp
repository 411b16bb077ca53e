#include "core/tools/foreign/trace_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"
#include "core/tools/foreign/kineto.h"
#include "core/trace/chrome_trace_reader.h"
#include "core/trace/rank_events.h"
#include "core/trace/trace_fields.h"

namespace ringscope {
namespace {

// ---
// The dialect of PyTorch's profiler (Kineto). The kernel of an NCCL collective carries in its args
// "Collective name", "dtype", "In msg nelems", "Out msg nelems" and, for point-to-point, "Src Rank"
// or "Dst Rank", which is the peer's rank in the job. Where the profiler can't tell, because grouped
// sends and receives are one kernel, only the kernel's name says that it communicates.

// Of events on a device's stream, so that their lane is a stream, and of others.
constexpr std::string_view kDeviceCategories[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                  "gpu_user_annotation"};
constexpr std::string_view kHostCategories[] = {"cuda_runtime", "cuda_driver", "cpu_op",
                                                "user_annotation", "python_function"};

template <class Categories>
bool is_among(std::string_view category, const Categories& all) {
  return ranges::find(all, category) != std::end(all);
}

bool is_nccl_kernel(std::string_view name) {
  return name.find("ncclDevKernel") != name.npos || name.find("ncclKernel") != name.npos;
}

std::int32_t rank_or_unknown(std::optional<std::int64_t> rank) {
  return rank && *rank >= 0 && *rank <= INT32_MAX ? static_cast<std::int32_t>(*rank) : -1;
}

// What other programs say of a slice: a third of a TraceEvent, because there may be millions of them.
struct ForeignSlice {
  Lane lane = Lane::other;
  std::uint32_t name = 0;
  std::int64_t begin_ns = 0, end_ns = 0, bytes = 0;
  std::int32_t src = -1, dst = -1;

  TraceEvent in_trace() const {
    TraceEvent slice = plain_slice();
    slice.lane = lane;
    slice.name = name;
    slice.begin_ns = begin_ns;
    slice.end_ns = end_ns;
    slice.bytes = bytes;
    slice.src = src;
    slice.dst = dst;
    return slice;
  }
};

// Set kind, peer and bytes of a device slice.
void describe_device_slice(std::string_view category, std::string_view name,
                           const TraceFields& fields, ForeignSlice& slice) {
  if (category != "kernel") {
    slice.bytes = std::max<std::int64_t>(fields.any_integer(EventField::bytes).value_or(0), 0);
    return;
  }
  slice.lane = Lane::compute;
  const std::string_view collective = fields.text_or_empty(EventField::collective);
  if (collective.empty() && !is_nccl_kernel(name)) return;
  slice.lane = Lane::communication;
  slice.bytes = message_bytes(fields);
  if (collective == "send") {
    slice.lane = Lane::send;
    slice.dst = rank_or_unknown(fields.any_integer(EventField::dst_rank));
  } else if (collective == "recv") {
    slice.lane = Lane::recv;
    slice.src = rank_or_unknown(fields.any_integer(EventField::src_rank));
  }
}

// ---
// Turns the events of traces that are not ours into slices: slices from X events and from pairs of
// B and E, names and order from metadata. It counts and ignores what is odd but harmless, and refuses
// what would put a slice in the wrong place.

class ForeignEvents {
 public:
  void add(const TraceFields& fields) {
    const std::string_view phase = fields.text_or_empty(EventField::ph);
    if (phase == "X" || phase == "B" || phase == "E") add_slice(fields, phase[0]);
    if (phase == "M") add_metadata(fields);
  }
  std::size_t slices() const { return count_; }
  bool from_profiler() const { return from_profiler_; }

  // Return the trace after all events were added. If `rank` is set, all processes belong to it.
  Trace finish(std::optional<std::int64_t> rank, std::uint64_t end) {
    if (count_ == 0)
      fail_at(end, "no slices found; events of phase \"X\", or \"B\" with \"E\", accepted");
    close_edges();
    make_rows(rank);
    measure_extent(trace_);
    trace_.names = names_.take();
    return std::move(trace_);
  }

 private:
  // An Id is a process or thread as the file names it, by number or by text.
  struct Id {
    std::int64_t number = 0;
    std::string text;  // if empty, the number counts
    bool operator==(const Id&) const = default;
    bool operator<(const Id& other) const {
      return std::tie(number, text) < std::tie(other.number, other.text);
    }
    std::string name() const { return text.empty() ? std::to_string(number) : text; }
    // Return the number, and `otherwise` for what is named by text.
    std::int64_t number_or(std::int64_t otherwise) const {
      return text.empty() ? number : otherwise;
    }
  };
  struct Process {
    Id id;
    std::string name = {};
    std::int64_t sort_index = 0;
  };
  // An Edge is a B or E event.
  struct Edge {
    ForeignSlice slice;  // begins at the edge's time
    bool begins = false;
  };
  struct Thread {
    std::uint32_t process = 0;
    Id id;
    std::string name = {};
    std::int64_t sort_index = 0;
    bool device = false;
    std::deque<ForeignSlice> slices = {};  // grows without moving what it has
    std::vector<Edge> edges = {};
  };

  static Id id_of(const TraceFields& fields, EventField field) {
    if (const auto number = fields.any_integer(field)) return {*number, {}};
    return {0, fields.any_text(field)};
  }

  std::uint32_t process_of(const TraceFields& fields) {
    const Id id = id_of(fields, EventField::pid);
    const auto [found, is_new] = process_numbers_.try_emplace(id, processes_.size());
    if (is_new) processes_.push_back({id});
    return found->second;
  }

  Thread& thread_of(const TraceFields& fields) {
    // Try the last event's thread first, because it is the most likely one.
    if (last_thread_ < threads_.size()) {
      Thread& last = threads_[last_thread_];
      const Id& pid = processes_[last.process].id;
      if (last.id.text.empty() && pid.text.empty() &&
          fields.any_integer(EventField::pid) == pid.number &&
          fields.any_integer(EventField::tid) == last.id.number)
        return last;
    }
    const std::uint32_t process = process_of(fields);
    const Id id = id_of(fields, EventField::tid);
    const auto [found, is_new] =
        thread_numbers_.try_emplace(std::pair{process, id}, threads_.size());
    if (is_new) threads_.push_back({process, id});
    return threads_[last_thread_ = found->second];
  }

  void add_slice(const TraceFields& fields, char phase) {
    ForeignSlice slice;
    const auto begin = fields.any_time(EventField::ts);
    if (!begin) fail_at(fields.end(), "ts missing");
    slice.begin_ns = slice.end_ns = *begin;
    Thread& thread = thread_of(fields);
    if (phase != 'E') {
      const std::string_view category = fields.text_or_empty(EventField::cat);
      const std::string_view name = fields.text_or_empty(EventField::name);
      slice.name = names_.number_of(name);
      const bool is_device = is_among(category, kDeviceCategories);
      from_profiler_ = from_profiler_ || is_device || is_among(category, kHostCategories);
      if (is_device) {
        thread.device = true;
        describe_device_slice(category, name, fields, slice);
      }
      ++count_;
    }
    if (phase == 'X') {
      slice.end_ns += fields.any_time(EventField::dur).value_or(0);
      fields.require_end(slice.end_ns);
      thread.slices.push_back(slice);
    } else {
      thread.edges.push_back({slice, phase == 'B'});
    }
    last_ns_ = std::max(last_ns_, slice.end_ns);
  }

  void add_metadata(const TraceFields& fields) {
    const std::string_view what = fields.text_or_empty(EventField::name);
    const std::string_view name = fields.text_or_empty(EventField::given_name);
    const std::int64_t index = fields.any_integer(EventField::sort_index).value_or(0);
    if (what == "process_name")
      processes_[process_of(fields)].name = name;
    else if (what == "process_sort_index")
      processes_[process_of(fields)].sort_index = index;
    else if (what == "thread_name")
      thread_of(fields).name = name.substr(0, name.find_last_not_of(' ') + 1);
    else if (what == "thread_sort_index")
      thread_of(fields).sort_index = index;
  }

  // Make slices of B and E events, thread by thread. An E ends the B that began last.
  void close_edges() {
    std::size_t without_begin = 0, without_end = 0;
    for (Thread& thread : threads_) {
      ranges::stable_sort(thread.edges, {}, [](const Edge& e) { return e.slice.begin_ns; });
      std::vector<ForeignSlice> open;
      for (const Edge& edge : thread.edges) {
        if (edge.begins) {
          open.push_back(edge.slice);
        } else if (open.empty()) {
          ++without_begin;
        } else {
          open.back().end_ns = edge.slice.begin_ns;
          thread.slices.push_back(open.back());
          open.pop_back();
        }
      }
      without_end += open.size();
      for (ForeignSlice& slice : open) {
        slice.end_ns = last_ns_;
        thread.slices.push_back(slice);
      }
      thread.edges = {};
    }
    if (without_begin > 0)
      trace_.notices.push_back(
          fmt::format("{} \"E\" events without a \"B\" are left out", without_begin));
    if (without_end > 0)
      trace_.notices.push_back(
          fmt::format("{} \"B\" events without an \"E\" are drawn to the end", without_end));
  }

  void make_rows(std::optional<std::int64_t> rank) {
    std::vector<std::uint32_t> threads;
    std::vector<std::size_t> counts(
        processes_.size());  // of each process's slices, or of the rank's
    std::int64_t first_device = -1;
    bool many_devices = false;
    for (std::uint32_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i].slices.empty()) continue;
      threads.push_back(i);
      counts[rank ? 0 : threads_[i].process] += threads_[i].slices.size();
      if (!threads_[i].device) continue;
      many_devices = many_devices || (first_device >= 0 && threads_[i].process != first_device);
      first_device = threads_[i].process;
    }
    // Put device streams before the threads of their rank, because users look for them.
    ranges::sort(threads, [&](std::uint32_t a, std::uint32_t b) {
      const Thread &x = threads_[a], &y = threads_[b];
      const Process &p = processes_[x.process], &q = processes_[y.process];
      const bool x_last = rank && !x.device, y_last = rank && !y.device;
      return std::tie(x_last, p.sort_index, p.id, x.sort_index, x.id) <
             std::tie(y_last, q.sort_index, q.id, y.sort_index, y.id);
    });
    std::int64_t present = -1;  // index of the process at hand
    for (const std::uint32_t i : threads) {
      Thread& thread = threads_[i];
      const Process& process = processes_[thread.process];
      const std::string pid = process.id.name(), tid = thread.id.name();
      const bool is_new = rank ? trace_.ranks.empty() : thread.process != present;
      present = thread.process;
      if (is_new) {
        trace_.events.emplace_back().reserve(counts[rank ? 0 : present]);
        trace_.ranks.push_back({.pid = rank ? *rank : process.id.number_or(present),
                                .name = rank ? fmt::format("rank {}", *rank)
                                        : process.name.empty()
                                            ? pid
                                            : fmt::format("{} {}", process.name, pid),
                                .first_lane = static_cast<std::uint32_t>(trace_.lanes.size())});
      }
      std::string name = thread.device         ? fmt::format("stream {}", tid)
                         : thread.name.empty() ? fmt::format("thread {}", tid)
                                               : thread.name;
      if (thread.device && rank && many_devices) name = fmt::format("GPU {} {}", pid, name);
      std::vector<TraceEvent>& events = trace_.events.back();
      const std::size_t first = events.size();
      const std::deque<ForeignSlice> slices = std::exchange(thread.slices, {});
      ranges::transform(slices, std::back_inserter(events), &ForeignSlice::in_trace);
      append_lane(trace_, thread.id.number_or(i), std::move(name), first, slices.size());
    }
  }

  Trace trace_;
  NameTable names_;
  std::vector<Process> processes_;
  std::deque<Thread> threads_;
  std::map<Id, std::uint32_t> process_numbers_;
  std::map<std::pair<std::uint32_t, Id>, std::uint32_t> thread_numbers_;
  std::uint32_t last_thread_ = 0;
  std::int64_t last_ns_ = 0;  // when the last slice or edge ends
  bool from_profiler_ = false;
  std::size_t count_ = 0;
};

// ---
// Reads files.

// What one file says of its trace and of the job that it comes from.
struct LoadedTrace {
  Trace trace;
  std::optional<Recording> of_rank;  // of one rank of several; then the trace holds its path alone
  TraceFile file;                    // without the recording, which the trace holds
  bool profiler = false;     // PyTorch's profiler wrote it; with a rank it has one RankTrack
  RankProfile profile = {};  // what it has of a ring
};

// What was read of a file up to now.
struct FileEvents {
  TraceFile file;
  ForeignEvents foreign;
  ProfileEvents profile;

  std::size_t slices() const { return file.slices + foreign.slices(); }
};

// A file whose reading is reported, chunk by chunk.
class WatchedFile : public FileSource {
 public:
  WatchedFile(const InputFile& file, const FileEvents& events, LoadProgress& progress)
      : FileSource(file),
        events_(events),
        progress_(progress),
        bytes_before_(progress.bytes_done),
        slices_before_(progress.slices) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = FileSource::read(to, size);
    progress_.bytes_done = bytes_before_ + done();
    progress_.slices = slices_before_ + static_cast<std::int64_t>(events_.slices());
    if (progress_.cancel) throw InputError("loading was cancelled");
    return count;
  }

 private:
  const FileEvents& events_;
  LoadProgress& progress_;
  const std::int64_t bytes_before_, slices_before_;
};

// `is_alone`: no other file may be of the same job, so no ring is looked for.
LoadedTrace load_text(TextSource& text, FileEvents& events, const std::string& path, bool is_alone,
                      std::size_t chunk = kTraceChunk) {
  const auto other = [&](const TraceFields& fields) {
    events.foreign.add(fields);
    if (!is_alone) events.profile.add(fields);
  };
  TraceFile& file = events.file;
  read_trace(text, file, other, 0, chunk);
  LoadedTrace loaded;
  if (!is_alone && file.how == HowWhole::whole && file.recording &&
      only_rank_of(*file.recording) >= 0) {
    loaded.of_rank = std::move(*file.recording);
    loaded.trace.path = path;
  } else if (file.recording) {
    loaded.trace = to_trace(std::move(*file.recording), file.messages, path);
    loaded.trace.is_part = file.how == HowWhole::part;
  } else {
    loaded.profiler = events.foreign.from_profiler();
    loaded.profile = events.profile.finish(file, path);
    loaded.trace = events.foreign.finish(loaded.profiler ? file.rank : std::nullopt, file.end);
    loaded.trace.path = path;
  }
  if (file.how != HowWhole::whole)
    loaded.trace.notices.push_back("the file is cut off: what is whole was read");
  loaded.file = std::move(file);
  return loaded;
}

LoadedTrace load_file(const std::string& path, bool is_alone, LoadProgress& progress) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "recorded trace");
    FileEvents events;
    WatchedFile text(file, events, progress);
    return load_text(text, events, path, is_alone);
  });
}

// ---
// The files of one job's ranks become one trace.

// Append the slices of `from`, which has no flows, to those of `to`, and renumber their rows, lanes and
// names.
void append_trace(Trace& to, Trace from, std::int64_t shift_ns, NameTable& names) {
  const auto first_row = static_cast<std::uint32_t>(to.rows.size());
  const auto first_lane = static_cast<std::uint32_t>(to.lanes.size());
  const auto first_rank = static_cast<std::uint32_t>(to.ranks.size());
  std::vector<std::uint32_t> name_of;
  for (const std::string& name : from.names) name_of.push_back(names.number_of(name));
  for (RankTrack& rank : from.ranks) {
    rank.first_lane += first_lane;
    to.ranks.push_back(std::move(rank));
  }
  for (TraceLane& lane : from.lanes) {
    lane.rank += first_rank;
    lane.first_row += first_row;
    to.lanes.push_back(std::move(lane));
  }
  for (TraceRow& row : from.rows) {
    row.lane += first_lane;
    to.rows.push_back(row);
  }
  for (std::vector<TraceEvent>& slices : from.events) {
    for (TraceEvent& slice : slices) {
      slice.begin_ns += shift_ns;
      slice.end_ns += shift_ns;
      slice.name = name_of[slice.name];
    }
    to.events.push_back(std::move(slices));
  }
  for (const std::string& notice : from.notices)
    to.notices.push_back(fmt::format("{}: {}", from.path, notice));
}

void join_messages(Trace& trace) {
  struct Ends {
    std::vector<SliceId> sends, recvs;
  };
  // By {from, to} and, in recordings of ours, by what is sent.
  std::map<std::tuple<std::int64_t, std::int64_t, Pass, Payload, int, int>, Ends> messages;
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    const std::int64_t rank = trace.ranks[trace.rank_of_row(row)].pid;
    for (std::uint32_t i = 0; i < trace.rows[row].count; ++i) {
      const TraceEvent& slice = trace.slice({row, i});
      if (slice.peer() < 0) continue;
      const auto ends = [&](std::int64_t from, std::int64_t to) -> Ends& {
        return messages[{from, to, slice.pass, slice.payload, slice.step, slice.kv_owner}];
      };
      if (slice.lane == Lane::send) ends(rank, slice.peer()).sends.push_back({row, i});
      if (slice.lane == Lane::recv) ends(slice.peer(), rank).recvs.push_back({row, i});
    }
  }
  const auto begin_of = [&](SliceId id) { return trace.slice(id).begin_ns; };
  for (auto& [message, ends] : messages) {
    if (ends.sends.size() != ends.recvs.size()) {
      if (!trace.is_ring)
        trace.notices.push_back(fmt::format(
            "{} sends of rank {} to rank {}, but {} receives: not joined", ends.sends.size(),
            std::get<0>(message), std::get<1>(message), ends.recvs.size()));
      continue;
    }
    ranges::stable_sort(ends.sends, {}, begin_of);
    ranges::stable_sort(ends.recvs, {}, begin_of);
    for (std::size_t k = 0; k < ends.sends.size(); ++k) {
      const SliceId from = ends.sends[k], to = ends.recvs[k];
      trace.flows.push_back({from, to});
      const auto flow = static_cast<std::uint32_t>(trace.flows.size());
      for (const SliceId end : {from, to}) trace.slices(end.row)[end.index].flow = flow;
    }
  }
}

// Return whether two files seem to come from different ranks of one job.
bool of_one_job(const LoadedTrace& first, const LoadedTrace& second) {
  const TraceFile &a = first.file, &b = second.file;
  if (first.of_rank && second.of_rank)
    return is_rank_of_run(*first.of_rank, *second.of_rank) &&
           only_rank_of(*first.of_rank) != only_rank_of(*second.of_rank);
  return first.profiler && second.profiler && a.rank && b.rank && a.world_size && b.world_size &&
         *a.world_size == *b.world_size && *a.rank != *b.rank &&
         a.base_time_ns.has_value() == b.base_time_ns.has_value();
}

// Return the ring that the profiles of a job's ranks show in a layer (none: the median one), or none, with
// the reasons in `why_not`.
std::optional<Trace> ring_of(const std::shared_ptr<const std::vector<RankProfile>>& profiles,
                             std::optional<std::size_t> layer, std::vector<std::string>& why_not) {
  InferredRing inferred = infer_ring(*profiles, layer);
  if (!inferred.recording) {
    why_not = std::move(inferred.notes);
    return std::nullopt;
  }
  settle_waits(*inferred.recording);
  Trace ring = to_trace(std::move(*inferred.recording), profiles->front().path);
  ring.notices.insert(ring.notices.end(), inferred.notes.begin(), inferred.notes.end());
  for (std::size_t i = 1; i < profiles->size(); ++i) ring.more_paths.push_back((*profiles)[i].path);
  ring.layers = std::move(inferred.layers);
  ring.layer = inferred.shown;
  ring.of_layer = [profiles](std::size_t other) {
    std::vector<std::string> none;
    return ring_of(profiles, other, none).value();
  };
  return ring;
}

// Join the recordings of a run's ranks, which don't know each other's messages. All files of a
// folder go by its name.
Trace join_ranks(std::vector<LoadedTrace> files, bool are_all) {
  Recording& run = *files[0].of_rank;
  std::string path = files[0].trace.path;
  const auto folder = std::filesystem::path(path).parent_path();
  are_all = are_all && std::ssize(files) == run.info.world_size && !folder.empty();
  std::vector<std::string> others;
  for (std::size_t i = 1; i < files.size(); ++i) {
    others.push_back(files[i].trace.path);
    are_all = are_all && std::filesystem::path(files[i].trace.path).parent_path() == folder;
    join_rank(run, std::move(*files[i].of_rank));
  }
  if (are_all) path = folder.string();
  return with_path_in_errors(path, [&] {
    Trace trace = to_trace(std::move(run), path);
    if (const int all = trace.info.world_size; files.size() > 1 && std::ssize(files) < all)
      trace.notices.push_back(fmt::format("{} of {} ranks' files are there", files.size(), all));
    if (!are_all) trace.more_paths = std::move(others);
    join_messages(trace);
    return trace;
  });
}

std::optional<Trace> ring_of(std::vector<LoadedTrace>& files, std::vector<std::string>& why_not) {
  const auto profiles = std::make_shared<std::vector<RankProfile>>();
  bool attends = false;
  for (LoadedTrace& file : files) {
    attends = attends || !file.profile.attention[0].empty() || !file.profile.attention[1].empty();
    profiles->push_back(std::move(file.profile));
  }
  return attends ? ring_of(profiles, std::nullopt, why_not) : std::nullopt;
}

// Merge the files (at least one) of a job onto one axis: ranks in order, times moved to the
// earliest base time. The k-th send of r to s is joined to the k-th receive of s from r if there
// are equally many of both. If the files show a ring, the trace is its recording. Throws InputError
// if base times are too far apart.
Trace merge_ranks(std::vector<LoadedTrace> files) {
  if (files.size() == 1) {
    Trace& only = files[0].trace;
    const auto& world_size = files[0].file.world_size;
    if (!only.is_ring && world_size.value_or(1) > 1)
      only.notices.push_back(fmt::format(
          "1 of {} ranks' files is there, and a ring is told by all of them", *world_size));
    return std::move(only);
  }
  Trace merged;
  if (auto ring = ring_of(files, merged.notices)) return std::move(*ring);
  const auto base = [](const LoadedTrace& file) { return file.file.base_time_ns.value_or(0); };
  std::int64_t earliest = INT64_MAX;
  for (const LoadedTrace& file : files) earliest = std::min(earliest, base(file));
  merged.path = files[0].trace.path;
  for (std::size_t i = 1; i < files.size(); ++i) merged.more_paths.push_back(files[i].trace.path);
  const bool aligned = files[0].file.base_time_ns.has_value();
  ranges::stable_sort(files, {}, [](const LoadedTrace& each) { return *each.file.rank; });
  NameTable names;
  for (LoadedTrace& file : files) {
    std::int64_t shift = 0, last = 0;
    if (__builtin_sub_overflow(base(file), earliest, &shift) ||
        __builtin_add_overflow(file.trace.end_ns, shift, &last) || last > kMaxTraceNs)
      throw InputError(fmt::format(
          "{}: {} given for baseTimeNanoseconds, but {} in another rank's file; one time for all "
          "accepted",
          file.trace.path, base(file), earliest));
    append_trace(merged, std::move(file.trace), shift, names);
  }
  merged.names = names.take();
  if (!aligned)
    merged.notices.push_back(
        "the files lack baseTimeNanoseconds: the ranks' clocks are taken to agree");
  join_messages(merged);
  measure_extent(merged);
  return merged;
}

void refuse_different_world_sizes(const std::vector<Trace>& traces) {
  const Trace* first = nullptr;
  for (const Trace& trace : traces) {
    if (!trace.is_ring) continue;
    if (first == nullptr) first = &trace;
    const int given = trace.info.world_size, before = first->info.world_size;
    if (given != before)
      throw InputError(
          fmt::format("{}: world_size {} given, but {} in {}; recordings of one "
                      "world_size accepted",
                      trace.path, given, before, first->path));
  }
}

}  // namespace

Trace load_trace(const std::string& path, LoadProgress* progress) {
  return std::move(load_traces({path}, progress)[0]);
}

Trace parse_trace(std::string_view text, const std::string& path, std::size_t chunk) {
  return with_path_in_errors(path, [&] {
    FileEvents events;
    MemorySource source(text);
    return load_text(source, events, path, true, chunk).trace;
  });
}

std::vector<Trace> load_traces(const std::vector<std::string>& paths, LoadProgress* progress) {
  LoadProgress unwatched;
  LoadProgress& watched = progress != nullptr ? *progress : unwatched;
  std::int64_t total = 0;
  for (const std::string& path : paths)
    total += with_path_in_errors(path, [&] { return InputFile(path, "recorded trace").size(); });
  watched.bytes_total = total;
  // Group the files that make one trace together, in the order of each group's first file.
  std::vector<std::vector<LoadedTrace>> groups;
  for (const std::string& path : paths) {
    if (std::ifstream(path, std::ios::binary).get() == 0x80)  // where a pickle begins
      throw InputError(path +
                       ": a dump of NCCL's flight recorder given; a trace accepted "
                       "(`ringscope explain` reads dumps)");
    LoadedTrace file = load_file(path, paths.size() == 1, watched);
    const auto joins = [&](const std::vector<LoadedTrace>& group) {
      return ranges::all_of(group,
                            [&](const LoadedTrace& other) { return of_one_job(file, other); });
    };
    auto group = ranges::find_if(groups, joins);
    if (group == groups.end()) group = groups.emplace(groups.end());
    if (groups.size() > kMostRecordings)
      throw InputError(fmt::format("{}: recording {} given; accepted: up to {}, which are compared",
                                   path, groups.size(), kMostRecordings));
    group->push_back(std::move(file));
  }
  std::vector<Trace> traces;
  for (auto& group : groups) {
    const bool are_all = group.size() == paths.size();
    traces.push_back(group[0].of_rank ? join_ranks(std::move(group), are_all)
                                      : merge_ranks(std::move(group)));
  }
  refuse_different_world_sizes(traces);
  return traces;
}

void choose_layer(std::vector<Trace>& traces, std::string_view name) {
  for (Trace& trace : traces) {
    const auto wanted = ranges::find_if(
        trace.layers, [&](const ProfiledLayer& layer) { return layer.name() == name; });
    if (wanted == trace.layers.end())
      throw InputError(
          fmt::format("--layer: '{}' given for '{}'; accepted: {}", name, trace.path,
                      trace.layers.empty()
                          ? "no --layer with a trace that is no ring's profile"
                          : fmt::format("ITERATION:LAYER, from {} to {}",
                                        trace.layers.front().name(), trace.layers.back().name())));
    trace = trace.of_layer(wanted - trace.layers.begin());
  }
}

}  // namespace ringscope
