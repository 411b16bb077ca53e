// What is selected, for people and for other programs: which slices, their sums by kind, rank or
// step, the slices as CSV, and the command that shows the same view again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/session/session.h"

namespace ringscope::viz {

// The slices that are selected: what the search finds, else the outermost ones that lie in the measured
// span, also in part, and those of the selected rank. `words` says which.
struct Selection {
  std::string words;
  std::vector<SliceId> slices;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      spans{};  // by rank, what is measured; or empty

  // Return how long a slice lasts within what is measured.
  std::int64_t ns_of(const Trace& trace, SliceId id) const;
};
Selection selection_of(const Session& session);

// Sort by what a column of the table shows. Equal slices keep their order.
enum class SliceOrder : std::uint8_t { kind, rank, step, owner, begin, duration };
void sort_slices(const Trace& trace, std::vector<SliceId>& slices, SliceOrder order,
                 bool descending);

// Return all that is known about the slices as CSV, times in nanoseconds from the trace's begin, with
// a line of names. What a slice does not have is empty.
std::string csv_of(const Trace& trace, const std::vector<SliceId>& slices);

// The times of some slices within what is measured: of one kind, rank, step or owner. Nine tenths of
// them last no longer than most_last_ns.
struct Spread {
  std::string name;
  std::int64_t count = 0, sum_ns = 0, median_ns = 0, most_last_ns = 0, most_ns = 0;
};
// Return the spreads by kind, rank, step or owner, in that order. The last is that of all slices.
std::vector<Spread> spreads_of(const Trace& trace, const Selection& selection, SliceOrder by);

std::string csv_of(const std::vector<Spread>& spreads);

// How computing and communication overlap on a rank, or on all ranks in a layer. In a training step
// computing is also what a rank does outside of the ring, as in IdleReport.
struct NamedOverlap {
  std::string name;
  RankOverlap overlap;
};
// Return the overlaps of the ranks that were recorded, or of a profile's layers. The last is that of all.
std::vector<NamedOverlap> overlaps_of(const Document& document, bool by_layer);

std::string csv_of(const std::vector<NamedOverlap>& overlaps);

// Return a command that records the tile of a rank's step: that of the recording, if a run on threads made
// it, or one like it.
std::string record_command(const RunInfo& run, int rank, int step);

// Return how long the slices of each kind last within what is measured, on its ranks.
std::array<std::int64_t, kLaneKinds> measured_times(const Session& session);

// A histogram's bin: how many slices of each kind last from from_ns to less than to_ns.
struct DurationBin {
  std::int64_t from_ns = 0, to_ns = 0;
  std::array<std::int64_t, kLaneKinds> counts{};
};
// Return `bins` bins of about equal ratios, as far as durations are apart; none for no slices.
std::vector<DurationBin> durations_of(const Trace& trace, const std::vector<SliceId>& slices,
                                      int bins = 32);
// Return the slices of a kind in a bin, at most as many as a search finds.
std::vector<SliceId> slices_in(const Trace& trace, const std::vector<SliceId>& slices, Lane kind,
                               const DurationBin& bin);

// Return what shows the same moment, selection, range and axis, and the notes on `recordings`, which are
// opened in this order: flags of `ringscope view` without their dashes, which are parameters of the
// viewer's address in a browser, and their values.
std::vector<std::pair<std::string, std::string>> view_of(
    const Session& session, const std::vector<const Document*>& recordings);
// Return the command of a shell that shows the same recordings, moment, selection, range and axis.
std::string view_command(const Session& session);

}  // namespace ringscope::viz
