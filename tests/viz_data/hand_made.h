// Traces without files, and sessions of them: made slice by slice, where a test knows the answer,
// or straight from a recording that was just made. Both give what the loader would give for the
// written recording.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ring/ring.h"
#include "core/trace/chrome_trace_reader.h"
#include "core/trace/trace.h"
#include "viz/data/session/session.h"

namespace ringscope::viz {

inline std::vector<std::string> texts_of(const std::vector<Finding>& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) texts.push_back(finding.text);
  return texts;
}

inline Trace trace_of(Recording recording, const std::string& path = "made.json") {
  if (!recording.info.travel) settle_waits(recording);
  return to_trace(std::move(recording), path);
}

// A recording made slice by slice. Owners follow from rank and step as in core/ring; a wait is for
// the rank before unless it says otherwise.
class HandMade {
 public:
  explicit HandMade(int world_size, const std::string& partition = "contiguous",
                    const std::string& mask = "full", const std::string& scheme = "ring",
                    std::int64_t seqlen = 64) {
    recording_.info.world_size = world_size;
    recording_.info.partition = partition;
    recording_.info.mask = mask;
    recording_.info.scheme = scheme;
    recording_.info.shape.seqlen = seqlen;
    recording_.events.resize(static_cast<std::size_t>(world_size));
  }

  HandMade& compute(int rank, int step, std::int64_t begin, std::int64_t end,
                    std::int64_t pairs = 1, Pass pass = Pass::forward) {
    TraceEvent& e = add(Lane::compute, rank, step, begin, end, pass);
    e.kv_owner = schedule(rank).owner(step);
    e.pairs = pairs;
    e.flops = (pass == Pass::forward ? 4 : 10) * pairs;
    e.cpu_ns = end - begin;
    return *this;
  }

  HandMade& wait(int rank, int step, std::int64_t begin, std::int64_t end,
                 Payload payload = Payload::kv, Pass pass = Pass::forward) {
    TraceEvent& e = add(Lane::wait, rank, step, begin, end, pass);
    e.payload = payload;
    e.kv_owner = schedule(rank).owner(step);
    e.waiting_for = schedule(rank).recv_rank();
    return *this;
  }
  // The wait for the sum that comes home at the end of a backward pass.
  HandMade& wait_home(int rank, std::int64_t begin, std::int64_t end) {
    const int last = recording_.info.world_size - 1;
    wait(rank, last, begin, end, Payload::dkv, Pass::backward);
    events(rank).back().kv_owner = rank;
    return *this;
  }

  // What rank `src` passes on at the end of step `step`: both slices, and their flow.
  HandMade& hop(int src, int step, std::pair<std::int64_t, std::int64_t> send,
                std::pair<std::int64_t, std::int64_t> recv, std::int64_t bytes = 100,
                Payload payload = Payload::kv, Pass pass = Pass::forward) {
    const RingSchedule ring = schedule(src);
    const bool scatter = recording_.info.scheme == "allgather" && payload == Payload::dkv;
    const int owner = ring.owner(scatter ? step + 1 : step), dst = ring.send_rank();
    ++flows_;
    for (const bool sends : {true, false}) {
      const auto [begin, end] = sends ? send : recv;
      TraceEvent& e =
          add(sends ? Lane::send : Lane::recv, sends ? src : dst, step, begin, end, pass);
      e.payload = payload;
      e.kv_owner = owner;
      e.bytes = bytes;
      e.src = src;
      e.dst = dst;
      e.flow = flows_;
    }
    return *this;
  }
  HandMade& hop(int src, int step, std::int64_t begin, std::int64_t end, std::int64_t bytes = 100,
                Payload payload = Payload::kv, Pass pass = Pass::forward) {
    return hop(src, step, {begin, end}, {begin, end}, bytes, payload, pass);
  }

  Recording& recording() { return recording_; }
  Trace trace() const { return trace_of(recording_); }

 private:
  RingSchedule schedule(int rank) const { return {rank, recording_.info.world_size}; }
  std::vector<TraceEvent>& events(int rank) { return recording_.events[rank]; }
  TraceEvent& add(Lane lane, int rank, int step, std::int64_t begin, std::int64_t end, Pass pass) {
    TraceEvent& e = events(rank).emplace_back();
    e.lane = lane;
    e.pass = pass;
    e.step = step;
    e.begin_ns = begin;
    e.end_ns = end;
    return e;
  }

  Recording recording_;
  std::int64_t flows_ = 0;
};

// Rank 0 is done with step 0 after 100 us and waits; rank 1 takes twice as long for it.
inline HandMade two_steps() {
  return HandMade(2)
      .compute(0, 0, 0, 100'000)
      .hop(0, 0, 10'000, 40'000)
      .wait(0, 1, 100'000, 250'000)
      .compute(0, 1, 250'000, 400'000)
      .compute(1, 0, 0, 200'000)
      .hop(1, 0, 20'000, 250'000)
      .compute(1, 1, 200'000, 400'000);
}

template <class... Traces>
std::vector<Document> documents_of(Traces&&... traces) {
  std::vector<Document> documents;
  (documents.push_back(make_document(std::forward<Traces>(traces))), ...);
  return documents;
}

template <class... Traces>
Session session_of(Traces&&... traces) {
  return Session(documents_of(std::forward<Traces>(traces)...));
}

}  // namespace ringscope::viz
