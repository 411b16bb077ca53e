// Finds slices by what people type: parts of names, and fields such as `step:2`, `kind:wait`, `for:3`,
// `begin:250us`, `dur > 1ms`, `bytes>=4096`. A slice must match all words, or those on one side of an
// `or`; `not` turns the next word round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

struct SearchResult {
  std::vector<SliceId> slices;  // by begin; the first `limit`
  std::size_t total = 0;
  std::string_view complaint;  // what is accepted, if a word is not understood; else ""
};
SearchResult search(const Trace& trace, std::string_view words, std::size_t limit = 10000);

// Parse a time such as "1ms", "250us" or "3", which is of nanoseconds.
std::optional<double> duration_ns(std::string_view text);

// Return the first slice of a rank's lane, in a recording of ours, that `fits`.
template <class Fits>
std::optional<SliceId> find_slice(const Trace& trace, int rank, Lane lane, Fits&& fits) {
  const std::uint32_t row = trace.row_of(rank, lane);
  const std::span<const TraceEvent> slices = trace.slices(row);
  const auto found = std::find_if(slices.begin(), slices.end(), fits);
  if (found == slices.end()) return std::nullopt;
  return SliceId{row, static_cast<std::uint32_t>(found - slices.begin())};
}

// Return the longest slice of a lane that `fits`, the first of several, of `rank` or, if -1, of any.
template <class Fits>
std::optional<SliceId> longest_slice(const Trace& trace, int rank, Lane lane, Fits&& fits) {
  std::optional<SliceId> longest;
  for (int each = 0; each < trace.rank_count(); ++each) {
    if (rank >= 0 && each != rank) continue;
    const std::uint32_t row = trace.row_of(each, lane);
    const std::span<const TraceEvent> slices = trace.slices(row);
    for (std::uint32_t i = 0; i < slices.size(); ++i)
      if (fits(slices[i]) &&
          (!longest || slices[i].duration_ns() > trace.slice(*longest).duration_ns()))
        longest = SliceId{row, i};
  }
  return longest;
}

// Move to the neighbour of a slice in its row, or to the other end of its flow (onwards: to the
// receiver, then to what the receiving rank computes with it). Return whether there is one.
bool next_slice(const Trace& trace, SliceId& id);
bool previous_slice(const Trace& trace, SliceId& id);
bool follow_flow(const Trace& trace, SliceId& id, bool onwards);

}  // namespace ringscope::viz
