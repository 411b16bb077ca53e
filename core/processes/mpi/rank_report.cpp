#include "core/processes/mpi/rank_report.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"

namespace ringscope {

namespace {

// Two quartz clocks differ in rate by at most kMaxDrift, even while one of them is being adjusted.
// That difference changes by at most kMaxWander during a run, with temperature and adjustment.
constexpr double kMaxDrift = 600e-6;
constexpr double kMaxWander = 1e-6;

// A message may take a turn of the scheduler on a busy machine: more than the least are made only while
// they took less than kEnoughNs in all.
constexpr std::size_t kLeastTrips = 5, kMostTrips = 50;
constexpr std::int64_t kEnoughNs = 20'000'000;

}  // namespace

ClockReading read_clock(const std::vector<RoundTrip>& trips) {
  const RoundTrip& best = *std::ranges::min_element(
      trips, {}, [](const RoundTrip& trip) { return trip.answered - trip.asked; });
  const std::int64_t round_trip = best.answered - best.asked;
  const std::int64_t middle = best.asked + round_trip / 2;
  // The error is half the round trip, on rank 0's clock, and what integers round away.
  const double half = static_cast<double>(round_trip) / 2 * (1 + kMaxDrift);
  return {middle, best.reference - middle, static_cast<std::int64_t>(std::ceil(half)) + 1};
}

ClockMap::ClockMap(const ClockReading& before, const ClockReading& after)
    : before_(before), after_(after) {
  if (after.at > before.at)
    drift_ = static_cast<double>(after.offset - before.offset) /
             static_cast<double>(after.at - before.at);
}

std::int64_t ClockMap::offset_at(std::int64_t time) const {
  return before_.offset + std::llround(drift_ * static_cast<double>(time - before_.at));
}

// Between two readings that are wrong by at most e1 and e2, the line through them is wrong by at
// most the larger one. The clock is furthest from the line when its rate is w above the mean in one
// half and w below it in the other; the distance is w times half the duration.
std::int64_t ClockMap::error() const {
  const double duration = static_cast<double>(after_.at - before_.at);
  return std::max(before_.error, after_.error) +
         static_cast<std::int64_t>(std::ceil(kMaxWander * duration / 2)) + 1;
}

// Rank 0 serves the others one after the other, so no two disturb each other's round trips.
std::optional<ClockReading> exchange_clocks(int rank, int world_size, ProcessWait& wait) {
  if (rank == 0) {
    for (int peer = 1; peer < world_size; ++peer)
      for (std::int64_t is_last = 0; is_last == 0;) {
        wait.receive(&is_last, sizeof is_last, MPI_BYTE, peer, Tag::clock);
        const std::int64_t time = monotonic_ns();
        wait.send(&time, sizeof time, MPI_BYTE, peer, Tag::clock);
      }
    return std::nullopt;
  }
  std::vector<RoundTrip> trips;
  for (std::int64_t is_last = 0; is_last == 0;) {
    const std::size_t made = trips.size();
    is_last = made + 1 == kMostTrips ||
              (made + 1 >= kLeastTrips && trips[made - 1].answered - trips[0].asked > kEnoughNs);
    RoundTrip& trip = trips.emplace_back();
    MPI_Request answer =
        wait.begin_receive(&trip.reference, sizeof trip.reference, MPI_BYTE, 0, Tag::clock);
    trip.asked = monotonic_ns();
    wait.send(&is_last, sizeof is_last, MPI_BYTE, 0, Tag::clock);
    wait.until_complete(answer, 0);
    trip.answered = monotonic_ns();
  }
  return read_clock(trips);
}

namespace {

void shift(std::int64_t& time, const ClockMap& map, std::int64_t origin_ns,
           std::int64_t reference_origin_ns) {
  time = map.to_reference(origin_ns + time) - reference_origin_ns;
}

}  // namespace

std::string pack(const RankReport& report) {
  return bytes_of_value<RankTimes>(report) + pack(report.events);
}

RankReport unpack_rank_report(std::string_view bytes) {
  const RankTimes times = take_value<RankTimes>(bytes);
  return {times, unpack_rank_events(bytes)};
}

void add_report(RingRun& run, int rank, RankReport report, std::int64_t reference_origin_ns) {
  RankEvents& of_rank = report.events;
  if (report.before) {
    const ClockMap map(*report.before, *report.after);
    for (TraceEvent& event : of_rank.events) {
      shift(event.begin_ns, map, report.origin_ns, reference_origin_ns);
      shift(event.end_ns, map, report.origin_ns, reference_origin_ns);
    }
    for (SoftmaxSample& sample : of_rank.samples)
      shift(sample.at_ns, map, report.origin_ns, reference_origin_ns);
    run.recording.info.clock_offset_ns[rank] = -map.offset_at(report.origin_ns + report.begin_ns);
    of_rank.clock_error_ns += map.error();
  }
  run.peak_bytes[rank] = of_rank.peak_bytes;
  run.predicted_bytes[rank] = report.predicted_bytes;
  run.wall_s = std::max(run.wall_s, static_cast<double>(report.end_ns - report.begin_ns) * 1e-9);
  add_rank(run.recording, rank, std::move(of_rank));
}

}  // namespace ringscope
