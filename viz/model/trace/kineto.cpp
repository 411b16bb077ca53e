#include "viz/model/trace/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "viz/model/trace/trace_rows.h"

namespace ringscope::viz {
namespace {

constexpr std::string_view kDeviceCategories[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                  "gpu_user_annotation"};
constexpr std::string_view kHostCategories[] = {"cuda_runtime", "cuda_driver", "cpu_op",
                                                "user_annotation", "python_function"};

// c10's type names and the bytes per value.
struct TypeSize {
  std::string_view name;
  std::int64_t bytes;
};
constexpr TypeSize kTypeSizes[] = {
    {"Float", 4},  {"BFloat16", 2}, {"Half", 2},   {"Double", 8},        {"Long", 8},
    {"Int", 4},    {"Short", 2},    {"Char", 1},   {"Byte", 1},          {"Bool", 1},
    {"UInt16", 2}, {"UInt32", 4},   {"UInt64", 8}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};

std::int64_t size_of_type(std::string_view name) {
  for (const TypeSize& type : kTypeSizes)
    if (type.name == name) return type.bytes;
  return 0;
}

bool is_nccl_kernel(std::string_view name) {
  return name.find("ncclDevKernel") != std::string_view::npos ||
         name.find("ncclKernel") != std::string_view::npos;
}

// Return the message's size in bytes, or 0 if it is unknown.
std::int64_t message_bytes(const TraceFields& fields) {
  const std::int64_t values = std::max(fields.any_integer(Field::nelems_in).value_or(0),
                                       fields.any_integer(Field::nelems_out).value_or(0));
  std::int64_t bytes = 0;
  const std::int64_t size = size_of_type(fields.text_or_empty(Field::value_type));
  if (values < 0 || __builtin_mul_overflow(values, size, &bytes)) return 0;
  return bytes;
}

std::int32_t rank_or_unknown(std::optional<std::int64_t> rank) {
  return rank && *rank >= 0 && *rank <= std::numeric_limits<std::int32_t>::max()
             ? static_cast<std::int32_t>(*rank)
             : -1;
}

// Append the slices of `from` to those of `to`, and renumber their rows, lanes, names and flows.
void append_trace(Trace& to, Trace from, std::int64_t shift_ns, NameTable& names) {
  const auto first_row = static_cast<std::uint32_t>(to.rows.size());
  const auto first_lane = static_cast<std::uint32_t>(to.lanes.size());
  const auto first_rank = static_cast<std::uint32_t>(to.ranks.size());
  const auto first_flow = static_cast<std::uint32_t>(to.flows.size());
  std::vector<std::uint32_t> name_of;
  for (const std::string& name : from.names) name_of.push_back(names.number_of(name));
  for (RankTrack& rank : from.ranks) {
    rank.first_lane += first_lane;
    to.ranks.push_back(std::move(rank));
  }
  for (Lane& lane : from.lanes) {
    lane.rank += first_rank;
    lane.first_row += first_row;
    to.lanes.push_back(std::move(lane));
  }
  for (Row& row : from.rows) {
    row.lane += first_lane;
    for (Slice& slice : row.slices) {
      slice.begin_ns += shift_ns;
      slice.end_ns += shift_ns;
      slice.name = name_of[slice.name];
      if (slice.flow != 0) slice.flow += first_flow;
    }
    to.rows.push_back(std::move(row));
  }
  for (Flow flow : from.flows) {
    flow.from.row += first_row;
    flow.to.row += first_row;
    to.flows.push_back(flow);
  }
  for (const std::string& notice : from.notices)
    to.notices.push_back(fmt::format("{}: {}", from.path, notice));
}

// Messages lists the ends of all messages from one rank to another in order of time.
struct Messages {
  std::vector<SliceId> sends, recvs;
};

void join_messages(Trace& trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, Messages> messages;  // by {from, to}
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    const std::int64_t rank = trace.ranks[trace.rank_of_row(row)].pid;
    for (std::uint32_t i = 0; i < trace.rows[row].slices.size(); ++i) {
      const Slice& slice = trace.rows[row].slices[i];
      if (slice.peer < 0) continue;
      if (slice.kind == Kind::send) messages[{rank, slice.peer}].sends.push_back({row, i});
      if (slice.kind == Kind::recv) messages[{slice.peer, rank}].recvs.push_back({row, i});
    }
  }
  const auto by_begin = [&](SliceId a, SliceId b) {
    return trace.slice(a).begin_ns < trace.slice(b).begin_ns;
  };
  for (auto& [ranks, ends] : messages) {
    if (ends.sends.size() != ends.recvs.size()) {
      trace.notices.push_back(
          fmt::format("{} sends of rank {} to rank {}, but {} receives: not joined",
                      ends.sends.size(), ranks.first, ranks.second, ends.recvs.size()));
      continue;
    }
    std::stable_sort(ends.sends.begin(), ends.sends.end(), by_begin);
    std::stable_sort(ends.recvs.begin(), ends.recvs.end(), by_begin);
    for (std::size_t k = 0; k < ends.sends.size(); ++k) {
      const SliceId from = ends.sends[k], to = ends.recvs[k];
      trace.flows.push_back({from, to});
      // A message replaces the launch flow that the slice may have, because it matters more.
      const auto flow = static_cast<std::uint32_t>(trace.flows.size());
      trace.rows[from.row].slices[from.index].flow = flow;
      trace.rows[to.row].slices[to.index].flow = flow;
    }
  }
}

}  // namespace

bool is_device_category(std::string_view category) {
  return std::find(std::begin(kDeviceCategories), std::end(kDeviceCategories), category) !=
         std::end(kDeviceCategories);
}

bool is_profiler_category(std::string_view category) {
  return is_device_category(category) ||
         std::find(std::begin(kHostCategories), std::end(kHostCategories), category) !=
             std::end(kHostCategories);
}

void describe_device_slice(std::string_view category, std::string_view name,
                           const TraceFields& fields, Slice& slice) {
  if (category != "kernel") {
    slice.bytes = std::max<std::int64_t>(fields.any_integer(Field::bytes).value_or(0), 0);
    return;
  }
  slice.kind = Kind::compute;
  const std::string_view collective = fields.text_or_empty(Field::collective);
  if (collective.empty() && !is_nccl_kernel(name)) return;
  slice.kind = Kind::communication;
  slice.bytes = message_bytes(fields);
  if (collective == "send") {
    slice.kind = Kind::send;
    slice.peer = rank_or_unknown(fields.any_integer(Field::dst_rank));
  } else if (collective == "recv") {
    slice.kind = Kind::recv;
    slice.peer = rank_or_unknown(fields.any_integer(Field::src_rank));
  }
}

bool of_one_job(const LoadedTrace& a, const LoadedTrace& b) {
  return a.profiler && b.profiler && a.rank && b.rank && a.world_size && b.world_size &&
         *a.world_size == *b.world_size && *a.rank != *b.rank &&
         a.base_time_ns.has_value() == b.base_time_ns.has_value();
}

Trace merge_ranks(std::vector<LoadedTrace> files) {
  if (files.size() == 1) return std::move(files[0].trace);
  const auto base = [](const LoadedTrace& file) { return file.base_time_ns.value_or(0); };
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const LoadedTrace& file : files) earliest = std::min(earliest, base(file));
  Trace merged;
  merged.path = files[0].trace.path;
  const bool aligned = files[0].base_time_ns.has_value();
  std::stable_sort(files.begin(), files.end(),
                   [](const LoadedTrace& a, const LoadedTrace& b) { return *a.rank < *b.rank; });
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

}  // namespace ringscope::viz
