#include "viz/model/trace/trace_foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "core/base/error.h"
#include "core/foreign/kineto.h"

namespace ringscope::viz {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// Return `otherwise` for what the file names by text, and `number` for the rest.
std::int64_t number_or(std::int64_t number, const std::string& text, std::int64_t otherwise) {
  return text.empty() ? number : otherwise;
}

// ---
// The dialect of PyTorch's profiler (Kineto). The kernel of an NCCL collective carries in its args
// "Collective name", "dtype", "In msg nelems", "Out msg nelems" and, for point-to-point, "Src Rank"
// or "Dst Rank", which is the peer's rank in the job. Where the profiler can't tell, because grouped
// sends and receives are one kernel, only the kernel's name says that it communicates.

constexpr std::string_view kDeviceCategories[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                  "gpu_user_annotation"};
constexpr std::string_view kHostCategories[] = {"cuda_runtime", "cuda_driver", "cpu_op",
                                                "user_annotation", "python_function"};

bool is_nccl_kernel(std::string_view name) {
  return name.find("ncclDevKernel") != std::string_view::npos ||
         name.find("ncclKernel") != std::string_view::npos;
}

std::int32_t rank_or_unknown(std::optional<std::int64_t> rank) {
  return rank && *rank >= 0 && *rank <= std::numeric_limits<std::int32_t>::max()
             ? static_cast<std::int32_t>(*rank)
             : -1;
}

// Return whether events of this category run on a device's stream, so that their lane is a stream.
bool is_device_category(std::string_view category) {
  return std::find(std::begin(kDeviceCategories), std::end(kDeviceCategories), category) !=
         std::end(kDeviceCategories);
}

// Return whether only this profiler uses the category.
bool is_profiler_category(std::string_view category) {
  return is_device_category(category) ||
         std::find(std::begin(kHostCategories), std::end(kHostCategories), category) !=
             std::end(kHostCategories);
}

// Set kind, peer and bytes of a device slice.
void describe_device_slice(std::string_view category, std::string_view name,
                           const TraceFields& fields, Slice& slice) {
  if (category != "kernel") {
    slice.bytes = std::max<std::int64_t>(fields.any_integer(EventField::bytes).value_or(0), 0);
    return;
  }
  slice.kind = Kind::compute;
  const std::string_view collective = fields.text_or_empty(EventField::collective);
  if (collective.empty() && !is_nccl_kernel(name)) return;
  slice.kind = Kind::communication;
  slice.bytes = message_bytes(fields);
  if (collective == "send") {
    slice.kind = Kind::send;
    slice.peer = rank_or_unknown(fields.any_integer(EventField::dst_rank));
  } else if (collective == "recv") {
    slice.kind = Kind::recv;
    slice.peer = rank_or_unknown(fields.any_integer(EventField::src_rank));
  }
}

}  // namespace

void ForeignEvents::add(const TraceFields& fields) {
  const std::string_view phase = fields.text_or_empty(EventField::ph);
  if (phase.size() != 1) return;
  switch (phase[0]) {
    case 'X':
    case 'B':
    case 'E':
      return add_slice(fields, phase[0]);
    case 'M':
      return add_metadata(fields);
    default:
      return;
  }
}

ForeignEvents::Id ForeignEvents::id_of(const TraceFields& fields, EventField field) {
  if (const auto number = fields.any_integer(field)) return {*number, {}};
  return {0, fields.any_text(field)};
}

std::uint32_t ForeignEvents::process_of(const TraceFields& fields) {
  Id id = id_of(fields, EventField::pid);
  const auto [found, is_new] =
      process_numbers_.try_emplace(id, static_cast<std::uint32_t>(processes_.size()));
  if (is_new) processes_.push_back({.id = std::move(id), .name = {}, .sort_index = 0});
  return found->second;
}

std::uint32_t ForeignEvents::thread_of(const TraceFields& fields) {
  // Try the last event's thread first, because it is the most likely one.
  if (last_thread_ < threads_.size()) {
    const Thread& last = threads_[last_thread_];
    const Id& pid = processes_[last.process].id;
    if (last.id.text.empty() && pid.text.empty() &&
        fields.any_integer(EventField::pid) == pid.number &&
        fields.any_integer(EventField::tid) == last.id.number)
      return last_thread_;
  }
  const std::uint32_t process = process_of(fields);
  Id id = id_of(fields, EventField::tid);
  const auto [found, is_new] = thread_numbers_.try_emplace(
      std::pair{process, id}, static_cast<std::uint32_t>(threads_.size()));
  if (is_new) {
    threads_.emplace_back();
    threads_.back().process = process;
    threads_.back().id = std::move(id);
  }
  last_thread_ = found->second;
  return found->second;
}

void ForeignEvents::add_slice(const TraceFields& fields, char phase) {
  Slice slice;
  const auto begin = fields.any_time(EventField::ts);
  if (!begin) fail_at(fields.end(), "ts missing");
  slice.begin_ns = slice.end_ns = *begin;
  Thread& thread = threads_[thread_of(fields)];
  if (phase != 'E') {
    const std::string_view category = fields.text_or_empty(EventField::cat);
    const std::string_view name = fields.text_or_empty(EventField::name);
    slice.name = names_.number_of(name);
    from_profiler_ = from_profiler_ || is_profiler_category(category);
    if (is_device_category(category)) {
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

void ForeignEvents::add_metadata(const TraceFields& fields) {
  const std::string_view what = fields.text_or_empty(EventField::name);
  const std::string_view name = fields.text_or_empty(EventField::given_name);
  const std::int64_t index = fields.any_integer(EventField::sort_index).value_or(0);
  if (what == "process_name") {
    processes_[process_of(fields)].name = name;
  } else if (what == "process_sort_index") {
    processes_[process_of(fields)].sort_index = index;
  } else if (what == "thread_name") {
    threads_[thread_of(fields)].name = trimmed(std::string(name));
  } else if (what == "thread_sort_index") {
    threads_[thread_of(fields)].sort_index = index;
  }
}

Trace ForeignEvents::finish(std::optional<std::int64_t> rank, std::uint64_t end) {
  if (count_ == 0)
    fail_at(end, "no slices found; events of phase \"X\", or \"B\" with \"E\", accepted");
  close_edges();
  make_rows(rank);
  measure_extent(trace_);
  trace_.names = names_.take();
  return std::move(trace_);
}

// Make slices of B and E events, thread by thread. An E ends the B that began last.
void ForeignEvents::close_edges() {
  std::size_t without_begin = 0, without_end = 0;
  for (Thread& thread : threads_) {
    std::stable_sort(thread.edges.begin(), thread.edges.end(), [](const Edge& a, const Edge& b) {
      return a.slice.begin_ns < b.slice.begin_ns;
    });
    std::vector<Slice> open;
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
    for (Slice& slice : open) {
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

void ForeignEvents::make_rows(std::optional<std::int64_t> rank) {
  // Put device streams before the threads of their rank, because users look for them.
  const auto order = [&](std::uint32_t a, std::uint32_t b) {
    const Thread &x = threads_[a], &y = threads_[b];
    const Process &p = processes_[x.process], &q = processes_[y.process];
    const bool x_last = rank && !x.device, y_last = rank && !y.device;
    return std::tie(x_last, p.sort_index, p.id, x.sort_index, x.id) <
           std::tie(y_last, q.sort_index, q.id, y.sort_index, y.id);
  };
  std::vector<std::uint32_t> threads;
  std::int64_t first_device = -1;
  bool many_devices = false;
  for (std::uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].slices.empty()) continue;
    threads.push_back(i);
    if (!threads_[i].device) continue;
    many_devices = many_devices || (first_device >= 0 && threads_[i].process != first_device);
    first_device = threads_[i].process;
  }
  std::sort(threads.begin(), threads.end(), order);
  std::int64_t present = -1;  // index of the process at hand
  for (const std::uint32_t i : threads) {
    Thread& thread = threads_[i];
    const Process& process = processes_[thread.process];
    const std::string pid =
        process.id.text.empty() ? fmt::format("{}", process.id.number) : process.id.text;
    const bool is_new = rank ? trace_.ranks.empty() : thread.process != present;
    present = thread.process;
    if (is_new)
      trace_.ranks.push_back(
          {.pid = rank ? *rank : number_or(process.id.number, process.id.text, present),
           .name = rank                   ? fmt::format("rank {}", *rank)
                   : process.name.empty() ? pid
                                          : fmt::format("{} {}", process.name, pid),
           .first_lane = static_cast<std::uint32_t>(trace_.lanes.size()),
           .lanes = 0});
    const std::string tid =
        thread.id.text.empty() ? fmt::format("{}", thread.id.number) : thread.id.text;
    std::string name = thread.device         ? fmt::format("stream {}", tid)
                       : thread.name.empty() ? fmt::format("thread {}", tid)
                                             : thread.name;
    if (thread.device && rank && many_devices) name = fmt::format("GPU {} {}", pid, name);
    std::int64_t overlap = -1;
    append_lane(trace_, trace_.ranks.size() - 1, number_or(thread.id.number, thread.id.text, i),
                std::move(name), thread.slices.take_rows(overlap));
  }
}

}  // namespace ringscope::viz
