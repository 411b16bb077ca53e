#include "viz/data/session/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/program.h"
#include "core/base/text.h"
#include "viz/data/session/format.h"

namespace ringscope::viz {
namespace {

const TraceLane& lane_of(const Trace& trace, SliceId id) {
  return trace.lanes[trace.rows[id.row].lane];
}

// Return the order of steps: those of the forward pass, then those of the backward pass.
std::int64_t order_of_step(const TraceEvent& slice) {
  return slice.step < 0 ? -1 : slice.step + (slice.pass == Pass::backward ? INT64_C(1) << 32 : 0);
}

std::int64_t number_for(const Trace& trace, SliceId id, SliceOrder order) {
  const TraceEvent& slice = trace.slice(id);
  switch (order) {
    case SliceOrder::kind:
      return static_cast<std::int64_t>(slice.lane);
    case SliceOrder::rank:
      return lane_of(trace, id).rank;
    case SliceOrder::step:
      return order_of_step(slice);
    case SliceOrder::owner:
      return slice.kv_owner;
    case SliceOrder::begin:
      return slice.begin_ns;
    case SliceOrder::duration:
      break;
  }
  return slice.duration_ns();
}

// Return words that find the slice first.
std::string words_that_find(const Trace& trace, SliceId id) {
  const TraceEvent& slice = trace.slice(id);
  std::string words = fmt::format("rank:{} kind:{} begin:{}ns", lane_of(trace, id).rank,
                                  name_of(slice.lane), slice.begin_ns - trace.begin_ns);
  const SearchResult found = search(trace, words, 1);
  if (found.slices.empty() || !(found.slices[0] == id))
    words += fmt::format(" dur<{}ns", slice.duration_ns() + 1);
  return words;
}

// Return the first document shown that is a prediction, or null.
const Document* shown_prediction(const Session& session) {
  for (const Document& shown : session.documents)
    if ((session.comparing || &shown == &session.document()) && !shown.predicted_from.empty())
      return &shown;
  return nullptr;
}

// Return the time of `rank` that is measured; on the step axis each has its own.
std::pair<std::int64_t, std::int64_t> measured_span(const Session& session, int rank) {
  const auto [from, to] = std::minmax(session.measure->from, session.measure->to);
  const Axis& axis = session.document().axis;
  return {axis.time_at(session.axis_mode, rank, from), axis.time_at(session.axis_mode, rank, to)};
}

}  // namespace

std::int64_t Selection::ns_of(const Trace& trace, SliceId id) const {
  const TraceEvent& slice = trace.slice(id);
  if (spans.empty()) return slice.duration_ns();
  const auto [from, to] = spans[static_cast<std::size_t>(trace.rank_of_row(id.row))];
  return ns_within(slice.begin_ns, slice.end_ns, from, to);
}

Selection selection_of(const Session& session) {
  const Trace& trace = session.document().trace;
  Selection result;
  if (!session.sought.text.empty()) {
    result.words = session.sought.text;
    result.slices = search(trace, session.sought.text, trace.slice_count).slices;
    return result;
  }
  const Measure measure = session.measure.value_or(Measure{});
  const int only = measure.ranks.empty() ? session.selected_rank : -1;  // a drag says its ranks
  result.words = only >= 0 ? trace.ranks[only].name : "all slices";
  if (measure.ranks.size() == 1)
    result.words = trace.ranks[measure.ranks[0]].name;
  else if (!measure.ranks.empty())
    result.words = counted(measure.ranks.size(), "rank");
  if (session.measure) {
    result.words += ", within what is measured";
    for (int rank = 0; rank < trace.rank_count(); ++rank)
      result.spans.push_back(measured_span(session, rank));
  }
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    const int rank = trace.rank_of_row(row);
    if ((only >= 0 && rank != only) || !measure.holds(rank)) continue;
    if (session.measure && trace.rows[row].depth > 0) continue;  // what it lies over counts
    const std::span<const TraceEvent> slices = trace.slices(row);
    for (std::uint32_t i = 0; i < slices.size(); ++i)
      if (!session.measure || result.ns_of(trace, {row, i}) > 0) result.slices.push_back({row, i});
  }
  sort_slices(trace, result.slices, SliceOrder::begin, false);
  return result;
}

void sort_slices(const Trace& trace, std::vector<SliceId>& slices, SliceOrder order,
                 bool descending) {
  std::stable_sort(slices.begin(), slices.end(), [&](SliceId a, SliceId b) {
    if (descending) std::swap(a, b);
    return number_for(trace, a, order) < number_for(trace, b, order);
  });
}

std::string csv_of(const Trace& trace, const std::vector<SliceId>& slices) {
  std::string text =
      "begin_ns,duration_ns,rank,lane,name,kind,pass,step,kv_owner,peer,processor_ns,pairs,flops,"
      "bytes\n";
  const auto unless = [](std::int64_t nothing, std::int64_t number) {
    return number == nothing ? std::string() : std::to_string(number);
  };
  for (const SliceId id : slices) {
    const TraceEvent& s = trace.slice(id);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", s.begin_ns - trace.begin_ns,
                        s.duration_ns(), lane_of(trace, id).rank,
                        csv_field(lane_of(trace, id).name), csv_field(std::string(trace.name(s))),
                        name_of(s.lane), s.step < 0 ? "" : name_of(s.pass), unless(-1, s.step),
                        unless(-1, s.kv_owner), unless(-1, s.peer()), unless(0, s.cpu_ns),
                        unless(0, s.pairs), unless(0, s.flops), unless(0, s.bytes));
  }
  return text;
}

std::vector<Spread> spreads_of(const Trace& trace, const Selection& selection, SliceOrder by) {
  std::map<std::int64_t, std::pair<std::string, std::vector<std::int64_t>>> groups;
  for (const SliceId id : selection.slices) {
    const TraceEvent& slice = trace.slice(id);
    const std::int64_t ns = selection.ns_of(trace, id);
    auto& [name, durations] = groups[number_for(trace, id, by)];
    if (durations.empty())
      name = by == SliceOrder::kind   ? std::string(name_of(slice.lane))
             : by == SliceOrder::rank ? trace.ranks[lane_of(trace, id).rank].name
             : by == SliceOrder::owner
                 ? slice.kv_owner < 0 ? "of no block" : fmt::format("KV {}", slice.kv_owner)
             : slice.step < 0 ? "outside of the ring"
                              : words_of_step(slice.pass, slice.step);
    durations.push_back(ns);
    groups[INT64_MAX].second.push_back(ns);
  }
  std::vector<Spread> spreads;
  for (auto& [key, group] : groups) {
    auto& [name, durations] = group;
    std::sort(durations.begin(), durations.end());
    const std::size_t count = durations.size();
    // Of an even number, the median is the middle between the two in the middle.
    spreads.push_back(
        {key == INT64_MAX ? "all" : name, static_cast<std::int64_t>(count), 0,
         durations[(count - 1) / 2] + (durations[count / 2] - durations[(count - 1) / 2]) / 2,
         durations[(9 * count + 9) / 10 - 1], durations.back()});
    for (const std::int64_t duration : durations) spreads.back().sum_ns += duration;
  }
  return spreads;
}

std::string csv_of(const std::vector<Spread>& spreads) {
  std::string text = "group,count,sum_ns,median_ns,90_percent_ns,most_ns\n";
  for (const Spread& s : spreads)
    text += fmt::format("{},{},{},{},{},{}\n", csv_field(s.name), s.count, s.sum_ns, s.median_ns,
                        s.most_last_ns, s.most_ns);
  return text;
}

std::vector<NamedOverlap> overlaps_of(const Document& document, bool by_layer) {
  const Trace& trace = document.trace;
  std::vector<NamedOverlap> found;
  NamedOverlap all{"sum of all", {}};
  const auto add = [&](std::string name, const std::vector<RankOverlap>& ranks) {
    found.push_back({std::move(name), {}});
    for (const RankOverlap& rank : ranks) found.back().overlap += rank;
    all.overlap += found.back().overlap;
  };
  for (std::size_t i = 0; by_layer && i < trace.layers.size(); ++i)
    add(words_of(trace.layers, i), trace.layers[i].overlaps);
  for (std::size_t rank = 0; !by_layer && rank < document.balance.overlaps.size(); ++rank) {
    const RankIdle& idle = document.idle.ranks[rank];
    if (!idle.recorded) continue;
    RankOverlap overlap = document.balance.overlaps[rank];
    overlap.compute = idle.compute;
    overlap.exposed = std::min(overlap.exposed, overlap.span - overlap.compute);
    add(trace.ranks[rank].name, {overlap});
  }
  if (!found.empty()) found.push_back(std::move(all));
  return found;
}

std::string csv_of(const std::vector<NamedOverlap>& overlaps) {
  std::string text = "group,compute_ns,communication_ns,overlapped_ns,exposed_ns,idle_ns,span_ns\n";
  for (const auto& [name, o] : overlaps)
    text += fmt::format("{},{},{},{},{},{},{}\n", csv_field(name), o.compute, o.communication,
                        o.overlapped(), o.exposed, o.idle(), o.span);
  return text;
}

std::array<std::int64_t, kLaneKinds> measured_times(const Session& session) {
  std::array<std::int64_t, kLaneKinds> times{};
  if (!session.measure) return times;
  const Document& document = session.document();
  for (std::uint32_t row = 0; row < document.trace.rows.size(); ++row) {
    const int rank = document.trace.rank_of_row(row);
    // What lies over another slice is a part of its time.
    if (!session.measure->holds(rank) || document.trace.rows[row].depth > 0) continue;
    std::int64_t sums[TimelineIndex::kClasses];
    const auto [from, to] = measured_span(session, rank);
    document.index.time_by_class(row, from, to, sums);
    const std::vector<TraceEvent>& samples = document.index.row(row).samples;
    for (std::size_t i = 0; i < samples.size(); ++i)
      times[static_cast<std::size_t>(samples[i].lane)] += sums[i];
  }
  return times;
}

std::vector<DurationBin> durations_of(const Trace& trace, const std::vector<SliceId>& slices,
                                      int bins) {
  if (slices.empty()) return {};
  const auto shorter = [&trace](SliceId a, SliceId b) {
    return trace.slice(a).duration_ns() < trace.slice(b).duration_ns();
  };
  const auto [least, most] = std::minmax_element(slices.begin(), slices.end(), shorter);
  const std::int64_t first = trace.slice(*least).duration_ns();
  const std::int64_t end = trace.slice(*most).duration_ns() + 1;
  const double from = std::log(static_cast<double>(std::max<std::int64_t>(first, 1)));
  const double ratio = (std::log(static_cast<double>(end)) - from) / bins;
  std::vector<DurationBin> found = {{first, end}};
  for (int i = 1; i < bins; ++i)
    if (const std::int64_t edge = std::llround(std::exp(from + i * ratio));
        edge > found.back().from_ns && edge < end) {
      found.back().to_ns = edge;
      found.push_back({edge, end});
    }
  for (const SliceId id : slices) {
    const std::int64_t duration = trace.slice(id).duration_ns();
    const auto bin = std::partition_point(
        found.begin(), found.end(), [&](const DurationBin& b) { return b.to_ns <= duration; });
    ++bin->counts[static_cast<std::size_t>(trace.slice(id).lane)];
  }
  return found;
}

std::vector<SliceId> slices_in(const Trace& trace, const std::vector<SliceId>& slices, Lane kind,
                               const DurationBin& bin) {
  constexpr std::size_t kMost = 10000;
  std::vector<SliceId> found;
  for (const SliceId id : slices) {
    const TraceEvent& slice = trace.slice(id);
    if (found.size() < kMost && slice.lane == kind && slice.duration_ns() >= bin.from_ns &&
        slice.duration_ns() < bin.to_ns)
      found.push_back(id);
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> view_of(
    const Session& session, const std::vector<const Document*>& recordings) {
  const Document& document = session.document();
  const bool several = session.comparing, steps = session.axis_mode == AxisMode::steps;
  const auto joined = [](const std::vector<int>& ranks) {
    return fmt::format("{}", fmt::join(ranks, ","));
  };
  // Keep every digit, because the last may decide on which side of a pixel a slice begins.
  const auto place = [&](double position) {
    return fmt::format("{}{}", position, steps ? "" : "ns");
  };
  std::vector<std::pair<std::string, std::string>> view = {{"axis", steps ? "steps" : "time"}};
  // What is kept of a prediction is in no file, but What if shows it beside its recording.
  const Document* const predicted = shown_prediction(session);
  if (predicted != nullptr)
    view.emplace_back("what-if", predicted->predicted_by);
  else if (session.what_if)
    view.emplace_back("what-if",
                      settings_of(session.what_if->unmoved_settings(), session.what_if->settings));
  else if (several && session.difference)
    view.emplace_back("difference", "");
  if (!session.story().empty() && !several)
    view.emplace_back("story", std::to_string(session.telling.shown ? session.telling.at + 1 : 0));
  if (session.panels.alone && !several) view.emplace_back("panel", name_of(*session.panels.alone));
  if (session.selected && predicted == nullptr)
    view.emplace_back("select", words_that_find(document.trace, *session.selected));
  const Trace& shown = predicted != nullptr ? predicted->trace : document.trace;
  if (!shown.layers.empty() && (!several || predicted != nullptr))
    view.emplace_back("layer", shown.layers[shown.layer].name());
  const TimelineView whole = fitted(session.length());
  if (session.view.begin != whole.begin || session.view.end != whole.end)
    view.emplace_back("range", place(session.view.begin) + ".." + place(session.view.end));
  if (!session.order.pinned.empty()) view.emplace_back("pin", joined(session.order.pinned));
  if (!session.order.folded.empty()) view.emplace_back("fold", joined(session.order.folded));
  for (std::size_t i = 0; i < recordings.size(); ++i)
    for (const Note& note : recordings[i]->notes)
      if (lies_within(recordings[i]->trace, note))  // it may have been another layer's
        view.emplace_back(
            "note", (recordings.size() > 1 ? fmt::format("{}/", i + 1) : "") + words_of_note(note));
  const std::string at = place(session.playback.position());
  // A whole number is the middle of a step.
  view.emplace_back("at", parse_number<int>(at) ? at + ".0" : at);
  view.emplace_back("theme", session.look.theme == Theme::light ? "light" : "dark");
  return view;
}

std::string record_command(const RunInfo& run, int rank, int step) {
  const std::string flag = " --record-tile ";
  std::string command = run.command;  // of one recording, which does not name its file
  if (run.backend != "cpu" || command.find(" run ") == command.npos) {
    constexpr Index kMost = 4096;  // takes a second
    command =
        fmt::format("ringscope run --random --world-size {} --seqlen {} --mask {} --partition {}",
                    run.world_size, std::min(run.shape.seqlen, kMost), run.mask, run.partition);
    if (run.shape.seqlen > kMost &&
        (run.mask.find(':') != run.mask.npos || run.partition.find(':') != run.partition.npos))
      command = fmt::format("ringscope run --random --world-size {} --mask causal", run.world_size);
  }
  if (const std::size_t at = command.find(flag); at != command.npos)
    command.erase(at, std::min(command.find(' ', at + flag.size()), command.size()) - at);
  return command + fmt::format(" --trace tile.json{}{}:{}", flag, rank, step);
}

std::string view_command(const Session& session) {
  // Of a prediction, show what was recorded, beside which What if predicts it again.
  const Document* const predicted = shown_prediction(session);
  std::vector<const Document*> recordings;
  for (const Document& each : session.documents)
    if (predicted != nullptr ? each.trace.path == predicted->predicted_from
                             : session.comparing || &each == &session.document())
      recordings.push_back(&each);
  if (predicted != nullptr && recordings.size() > 1) recordings.resize(1);
  std::string command = shell_word(own_command()) + " view";
  for (const Document* const each : recordings) {
    command += " " + shell_word(each->trace.path);
    for (const std::string& more : each->trace.more_paths) command += " " + shell_word(more);
  }
  for (const auto& [flag, value] : view_of(session, recordings))
    command += " --" + flag + (value.empty() ? "" : " " + shell_word(value));
  return command;
}

}  // namespace ringscope::viz
