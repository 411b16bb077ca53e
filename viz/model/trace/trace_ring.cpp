#include "viz/model/trace/trace_ring.h"

#include <algorithm>
#include <tuple>

#include "core/base/error.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kLanes = std::size(kAllLanes);

bool lane_of(std::string_view category, ringscope::Lane& lane) {
  for (const ringscope::Lane each : kAllLanes)
    if (category == name_of(each)) {
      lane = each;
      return true;
    }
  return false;
}

void set_times(Slice& slice, const EventFields& fields, std::uint64_t end) {
  slice.begin_ns = fields.time(Field::ts, end);
  slice.end_ns = slice.begin_ns + fields.time(Field::dur, end);
  if (slice.end_ns > kMaxTraceNs)
    fail_at(
        fields.at(Field::dur),
        fmt::format("dur ends later than {} microseconds after the base time", kMaxTraceNs / 1000));
}

// Return the ModelPart that a span such as "MLP 2 (backward)" is named after, or -1.
std::int8_t part_of(std::string_view name) {
  for (const ModelPart part : kAllModelParts)
    if (name.starts_with(name_of(part))) return static_cast<std::int8_t>(part);
  return -1;
}

}  // namespace

RingEvents::RingEvents(RunInfo info, std::int64_t dropped)
    : dropped_(dropped),
      world_size_(info.world_size),
      lanes_(kLanes * static_cast<std::size_t>(world_size_)) {
  trace_.run = std::move(info);
}

void RingEvents::add(const EventFields& fields, std::uint64_t end) {
  const std::string_view phase = fields.text_or_empty(Field::ph);
  const std::string_view category = fields.text_or_empty(Field::cat);
  ringscope::Lane lane{};
  if (phase == "X") {
    if (lane_of(category, lane)) add_slice(lane, fields, end);
    if (category == kModelLane) add_span(fields, end);
  } else if (category == "flow" && (phase == "s" || phase == "f")) {
    add_flow_event(phase == "f", fields, end);
  } else if (category == "softmax" && phase == "i") {
    add_sample(fields, end);
  }
}

std::int32_t RingEvents::below_world_size(const EventFields& fields, Field field,
                                          std::uint64_t end) const {
  return static_cast<std::int32_t>(fields.integer(field, 0, world_size_ - 1, end));
}

void RingEvents::add_slice(ringscope::Lane lane, const EventFields& fields, std::uint64_t end) {
  Slice slice{.name = names_.number_of(fields.string(Field::name, end)),
              .kind = static_cast<Kind>(lane)};
  const std::int32_t rank = below_world_size(fields, Field::pid, end);
  const int tid = static_cast<int>(lane);
  fields.integer(Field::tid, tid, tid, end);
  set_times(slice, fields, end);
  slice.pass = fields.choice(Field::pass, Pass::forward, Pass::backward, end);
  slice.step = below_world_size(fields, Field::step, end);
  slice.kv_owner = below_world_size(fields, Field::kv_owner, end);
  const auto count = [&](Field field) { return fields.integer(field, 0, INT64_MAX, end); };
  if (lane == ringscope::Lane::compute) {
    slice.pairs = count(Field::pairs);
    slice.flops = count(Field::flops);
    slice.tiles_full = count(Field::tiles_full);
    slice.tiles_partial = count(Field::tiles_partial);
    slice.tiles_skipped = count(Field::tiles_skipped);
    slice.cpu_ns = fields.time(Field::cpu_us, end);
  } else {
    slice.payload = fields.choice(Field::payload, Payload::kv, Payload::dkv, end);
    if (lane == ringscope::Lane::wait) {
      slice.peer = below_world_size(fields, Field::waiting_for, end);
    } else {
      slice.bytes = count(Field::bytes);
      const std::int32_t src = below_world_size(fields, Field::src, end);
      const std::int32_t dst = below_world_size(fields, Field::dst, end);
      const bool recv = lane == ringscope::Lane::recv;
      slice.peer = recv ? src : dst;
      if ((recv ? dst : src) != rank)
        fields.refuse(recv ? Field::dst : Field::src, fmt::format("its pid, {},", rank));
      const std::int64_t flow = count(Field::flow);
      if (flow != 0) {
        messages_.push_back({.id = flow, .at = fields.at(Field::flow), .slice = {}, .recv = recv});
        slice.flow = static_cast<std::uint32_t>(messages_.size());
      }
    }
  }
  lanes_[kLanes * static_cast<std::size_t>(rank) + static_cast<std::size_t>(lane)].push_back(slice);
  ++count_;
}

void RingEvents::add_span(const EventFields& fields, std::uint64_t end) {
  const std::string_view name = fields.string(Field::name, end);
  Slice slice{.name = names_.number_of(name), .part = part_of(name)};
  const std::int32_t rank = below_world_size(fields, Field::pid, end);
  fields.integer(Field::tid, kModelTid, kModelTid, end);
  set_times(slice, fields, end);
  slice.pass = fields.choice(Field::pass, Pass::forward, Pass::backward, end);
  if (fields.has(Field::bytes)) {
    slice.kind = Kind::communication;
    slice.bytes = fields.integer(Field::bytes, 0, INT64_MAX, end);
  }
  model_.resize(static_cast<std::size_t>(world_size_));
  model_[static_cast<std::size_t>(rank)].push_back(slice);
  ++count_;
}

void RingEvents::add_flow_event(bool finish, const EventFields& fields, std::uint64_t end) {
  FlowEvent event{.id = fields.integer(Field::id, 1, INT64_MAX, end),
                  .ts = fields.time(Field::ts, end),
                  .at = fields.at(Field::id),
                  .rank = below_world_size(fields, Field::pid, end),
                  .finish = finish};
  const int tid = static_cast<int>(finish ? ringscope::Lane::recv : ringscope::Lane::send);
  fields.integer(Field::tid, tid, tid, end);
  flow_events_.push_back(event);
}

void RingEvents::add_sample(const EventFields& fields, std::uint64_t end) {
  trace_.samples.push_back(
      {.rank = below_world_size(fields, Field::pid, end),
       .step = below_world_size(fields, Field::step, end),
       .query = fields.integer(Field::query, 0, trace_.run->shape.seqlen - 1, end),
       .at_ns = fields.time(Field::ts, end),
       .row_max = fields.real(Field::row_max, end),
       .row_sum = fields.real(Field::row_sum, end),
       .lse = fields.real(Field::lse, end),
       .lse_error = fields.real(Field::lse_error, end)});
}

Trace RingEvents::finish() {
  make_rows();
  join_messages();
  check_flow_events();
  trace_.names = names_.take();
  measure_extent(trace_);
  if (dropped_ > 0)
    trace_.notices.push_back(
        fmt::format("{} event{} found the recorder's buffer full and {} missing", dropped_,
                    dropped_ == 1 ? "" : "s", dropped_ == 1 ? "is" : "are"));
  return std::move(trace_);
}

void RingEvents::make_rows() {
  for (int rank = 0; rank < world_size_; ++rank) {
    trace_.ranks.push_back({.pid = rank,
                            .name = fmt::format("rank {}", rank),
                            .first_lane = static_cast<std::uint32_t>(trace_.lanes.size()),
                            .lanes = 0});
    const auto append = [&](std::size_t tid, std::string_view name, std::vector<Slice> slices) {
      sort_slices(slices);
      std::int64_t overlap = -1;
      auto rows = rows_of(std::move(slices), overlap);
      if (overlap >= 0)
        throw InputError(fmt::format(
            "ts: the slice of rank {} that begins at {} ns on lane {} lies half over an earlier "
            "one; slices that nest or don't overlap accepted",
            rank, overlap, name));
      append_lane(trace_, static_cast<std::int64_t>(tid), std::string(name), std::move(rows));
    };
    const auto r = static_cast<std::size_t>(rank);
    for (const ringscope::Lane lane : kAllLanes) {
      const auto tid = static_cast<std::size_t>(lane);
      append(tid, name_of(lane), std::move(lanes_[kLanes * r + tid]));
    }
    if (!model_.empty()) append(kModelTid, kModelLane, std::move(model_[r]));
  }
  for (std::uint32_t row = 0; row < trace_.rows.size(); ++row) {
    auto& slices = trace_.rows[row].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i)
      if (slices[i].flow != 0) messages_[slices[i].flow - 1].slice = {row, i};
  }
}

void RingEvents::join_messages() {
  const auto before = [](const MessageEnd& a, const MessageEnd& b) {
    return std::tie(a.id, a.recv, a.at) < std::tie(b.id, b.recv, b.at);
  };
  std::sort(messages_.begin(), messages_.end(), before);
  for (std::size_t i = 0; i < messages_.size();) {
    const MessageEnd& first = messages_[i];
    const bool more = i + 1 < messages_.size() && messages_[i + 1].id == first.id;
    trace_.rows[first.slice.row].slices[first.slice.index].flow = 0;
    if (!more) {
      if (dropped_ == 0 && !trace_.run->failure)
        fail_at(first.at, fmt::format("{} given for flow; one that a {} slice has as well accepted",
                                      first.id, first.recv ? "send" : "recv"));
      ++i;
      continue;
    }
    const MessageEnd& second = messages_[i + 1];
    if (first.recv || !second.recv ||
        (i + 2 < messages_.size() && messages_[i + 2].id == first.id)) {
      const MessageEnd& again = first.recv || !second.recv ? second : messages_[i + 2];
      fail_at(again.at, fmt::format("{} given for flow a second time; one send and one recv slice "
                                    "with it accepted",
                                    first.id));
    }
    Slice& send = trace_.rows[first.slice.row].slices[first.slice.index];
    Slice& recv = trace_.rows[second.slice.row].slices[second.slice.index];
    const std::int64_t sender = trace_.lanes[trace_.rows[first.slice.row].lane].rank;
    const std::int64_t receiver = trace_.lanes[trace_.rows[second.slice.row].lane].rank;
    if (send.peer != receiver || recv.peer != sender)
      fail_at(second.at, fmt::format("{} given for flow from rank {} to {} and by rank {} from {}; "
                                     "two ends of one message accepted",
                                     first.id, sender, send.peer, receiver, recv.peer));
    trace_.flows.push_back({first.slice, second.slice});
    send.flow = recv.flow = static_cast<std::uint32_t>(trace_.flows.size());
    i += 2;
  }
}

// Check that flow events come in pairs and that each stands inside the slice that it binds to. A
// file may have none, because the slices say everything.
void RingEvents::check_flow_events() {
  const auto before = [](const FlowEvent& a, const FlowEvent& b) {
    return std::tie(a.id, a.finish, a.at) < std::tie(b.id, b.finish, b.at);
  };
  if (!std::is_sorted(flow_events_.begin(), flow_events_.end(), before))
    std::sort(flow_events_.begin(), flow_events_.end(), before);
  auto message = messages_.begin();
  for (std::size_t i = 0; i < flow_events_.size(); ++i) {
    const FlowEvent& event = flow_events_[i];
    const bool is_first = i == 0 || flow_events_[i - 1].id != event.id;
    const bool is_last = i + 1 == flow_events_.size() || flow_events_[i + 1].id != event.id;
    if (is_first && (event.finish || is_last))
      fail_at(event.at,
              fmt::format("{} given for id of an \"{}\" event only; one \"s\" and one \"f\" "
                          "accepted",
                          event.id, event.finish ? "f" : "s"));
    if (!is_first && (!event.finish || flow_events_[i - 1].finish))
      fail_at(event.at, fmt::format("{} given for id of a second \"{}\" event; one accepted",
                                    event.id, event.finish ? "f" : "s"));
    while (message != messages_.end() &&
           (message->id < event.id || (message->id == event.id && message->recv < event.finish)))
      ++message;
    const bool found =
        message != messages_.end() && message->id == event.id && message->recv == event.finish;
    const Slice* const slice = found ? &trace_.slice(message->slice) : nullptr;
    if (slice == nullptr ||
        trace_.rank_of_row(message->slice.row) != static_cast<std::uint32_t>(event.rank) ||
        event.ts < slice->begin_ns || event.ts > slice->end_ns)
      fail_at(event.at,
              fmt::format("{} given for id of an \"{}\" event at {} ns on rank {}; the flow "
                          "of a {} slice there accepted",
                          event.id, event.finish ? "f" : "s", event.ts, event.rank,
                          event.finish ? "recv" : "send"));
  }
}

}  // namespace ringscope::viz
