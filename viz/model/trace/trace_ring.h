// Turns the events of our own recordings into slices and checks every field. Sends are joined to
// receives by the "flow" in their args, and the file's flow events must say the same.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/model/trace/trace.h"
#include "viz/model/trace/trace_fields.h"
#include "viz/model/trace/trace_rows.h"

namespace ringscope::viz {

class RingEvents {
 public:
  // `dropped` counts the events that the recorder had no room for. If there are any, or if the run
  // failed, sends may lack their receives.
  RingEvents(RunInfo info, std::int64_t dropped);

  // Add one event, which ends at byte `end`. Throws InputError.
  void add(const EventFields& fields, std::uint64_t end);
  std::size_t slices() const { return count_; }
  // Return the recording after all events were added. Throws InputError.
  Trace finish();

 private:
  // A MessageEnd is what a send or receive slice says about its message.
  struct MessageEnd {
    std::int64_t id = 0;
    std::uint64_t at = 0;
    SliceId slice;
    bool recv = false;
  };
  struct FlowEvent {
    std::int64_t id = 0;
    std::int64_t ts = 0;
    std::uint64_t at = 0;
    std::int32_t rank = 0;
    bool finish = false;
  };

  void add_slice(ringscope::Lane lane, const EventFields& fields, std::uint64_t end);
  void add_span(const EventFields& fields, std::uint64_t end);
  void add_flow_event(bool finish, const EventFields& fields, std::uint64_t end);
  void add_sample(const EventFields& fields, std::uint64_t end);
  std::int32_t below_world_size(const EventFields& fields, Field field, std::uint64_t end) const;
  void make_rows();
  void join_messages();
  void check_flow_events();

  Trace trace_;
  const std::int64_t dropped_;
  const int world_size_;
  NameTable names_;
  std::vector<std::vector<Slice>> lanes_;  // [rank][lane]; slice.flow: 1 + index in messages_
  std::vector<std::vector<Slice>> model_;  // [rank]; empty if no rank has model spans
  std::vector<MessageEnd> messages_;
  std::vector<FlowEvent> flow_events_;
  std::size_t count_ = 0;
};

}  // namespace ringscope::viz
