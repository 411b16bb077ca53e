#include "viz/window/open_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "viz/data/session/format.h"
#include "viz/data/session/notes.h"
#include "viz/data/session/search.h"

namespace ringscope::viz {

std::optional<double> place_on_axis(const Session& session, std::string_view text) {
  return session.axis_mode == AxisMode::steps ? parse_number<double>(text) : duration_ns(text);
}

namespace {

namespace fs = std::filesystem;

void require_step(const Trace& trace, int step, int steps, bool in_backward) {
  if (step < steps) return;
  const std::string accepted = steps > 0     ? fmt::format("an integer from 0 to {}", steps - 1)
                               : in_backward ? "no back: with a trace that has no backward pass"
                                             : "no --step with a trace that has no ring steps";
  throw InputError(fmt::format("{}{}' given for '{}'; accepted: {}",
                               in_backward ? "--at: 'back:" : "--step: '", step, trace.path,
                               accepted));
}

// Show the part of the axis that "FROM..TO" names.
void zoom_to(Session& session, const std::string& range) {
  const std::size_t dots = std::min(range.find(".."), range.size());
  const auto from = place_on_axis(session, std::string_view(range).substr(0, dots));
  const auto to =
      place_on_axis(session, std::string_view(range).substr(std::min(dots + 2, range.size())));
  if (!from || !to || !(*from >= 0) || !(*to > *from))
    throw InputError(fmt::format(
        "--range: '{}' given; accepted: FROM..TO, of {}", range,
        session.axis_mode == AxisMode::steps ? "steps, as 2..3.5" : "times, as 1.5ms..2ms"));
  session.rank_map.shown = false;
  session.view = between(*from, *to, session.length(), session.axis_mode);
}

// Select the first slice that the words find.
void select_found(Session& session, std::string words) {
  std::replace(words.begin(), words.end(), ',', ' ');
  const SearchResult found = search(session.document().trace, words, 1);
  if (!found.complaint.empty())
    throw InputError(fmt::format("--select: '{}' given; accepted: {}", words, found.complaint));
  if (found.slices.empty())
    throw InputError(fmt::format("--select: '{}' is not in '{}'; accepted: words that find a slice",
                                 words, session.document().trace.path));
  session.reveal(found.slices[0]);
}

void require_paragraph(const Session& session, int paragraph) {
  const std::size_t told = session.comparing ? 0 : session.story().size();
  if (paragraph <= static_cast<int>(told)) return;
  const std::string accepted = session.comparing ? "no --story with several recordings"
                               : told == 0
                                   ? "no --story with a trace that has none"
                                   : fmt::format("an integer from 1 to {}, 0 for no story", told);
  throw InputError(fmt::format("--story: '{}' given for '{}'; accepted: {}", paragraph,
                               session.document().trace.path, accepted));
}

void require_panels(const Session& session) {
  if (!session.comparing && session.document().trace.is_ring) return;
  throw InputError(fmt::format(
      "--panel: given for {}; accepted: with one recording of ringscope",
      session.comparing ? "several recordings" : "'" + session.document().trace.path + "'"));
}

// Show the what-if panel with `settings`, and wait for its prediction.
void open_what_if(Session& session, const std::string& settings) {
  const auto refuse = [](const std::string& why, const std::string& accepted) {
    throw InputError(fmt::format("--what-if: {}; accepted: {}", why, accepted));
  };
  if (session.documents.size() > 1) refuse("given for several traces", "it with one recording");
  session.show_what_if(true);
  WhatIf& what_if = *session.what_if;
  if (!what_if.refusal().empty())
    refuse(fmt::format("'{}' given. {}", session.document().trace.path,
                       what_if.refusal().substr(0, what_if.refusal().size() - 1)),
           "a whole recording of ringscope");
  apply(what_if.settings, what_if.unmoved_settings(), settings);
  what_if.finish();
  session.view = fitted(session.length());
}

// Put the notes of the files beside the recordings, and then those of `options`, on the recordings. What
// is wrong with a file is said, but keeps no recording from being opened.
void add_notes(Session& session, const ViewOptions& options) {
  std::vector<const Trace*> recordings;
  for (Document& document : session.documents) {
    Trace& trace = document.trace;
    const std::size_t notices = trace.notices.size();
    document.notes = saved_notes_within(trace);
    if (trace.notices.size() > notices) session.wishes.said = trace.notices.back();
    recordings.push_back(&trace);
  }
  require_within(options.notes, recordings);
  for (const auto& [number, note] : options.notes) session.put(number - 1, note);
}

}  // namespace

void require_openable(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto refuse = [&path](const std::string& why) {
      throw InputError(fmt::format("'{}': {}; accepted: a trace file", path, why));
    };
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) refuse(error ? error.message() : "no such file");
    if (fs::is_directory(status)) refuse("is a directory");
    if (fs::is_regular_file(status) && fs::file_size(path, error) == 0 && !error)
      refuse("is empty");
  }
}

Session recorded_session(const std::vector<Recording>& recordings) {
  std::vector<Document> documents;
  for (const Recording& recording : recordings) {
    std::ostringstream text;
    write_chrome_trace(text, recording);
    documents.push_back(make_document(parse_trace(text.str(), recording.info.partition)));
  }
  return Session(std::move(documents));
}

Session open_session(const std::vector<std::string>& paths, const ViewOptions& options,
                     LoadProgress* progress) {
  std::vector<Document> documents;
  std::vector<Trace> traces = load_traces(paths, progress);
  if (options.layer) choose_layer(traces, *options.layer);
  for (Trace& trace : traces) documents.push_back(make_document(std::move(trace)));
  Session session(std::move(documents));
  add_notes(session, options);
  if (options.theme) session.look.theme = theme_of(*options.theme);
  if (options.story) {
    require_paragraph(session, *options.story);
    session.telling.shown = *options.story > 0;
    if (session.telling.shown)
      session.tell(*options.story - 1);
    else
      session.select(std::nullopt);
  }
  if (options.difference) {
    if (session.comparison.differences.size() < 2)
      throw InputError(
          "--difference: given for what can't be compared; accepted: with several "
          "recordings of ringscope, of as many ranks");
    session.show_difference(true);
  }
  if (options.panel) {
    require_panels(session);
    session.show_alone(options.panel);
  }
  if (options.what_if) open_what_if(session, *options.what_if);
  const auto set_axis = [&] {
    if (options.axis)
      session.set_axis_mode(*options.axis == "time" ? AxisMode::time : AxisMode::steps);
  };
  set_axis();
  if (options.select) select_found(session, *options.select);
  if (options.zoom) commands::focus_selection(session);
  if (options.range) zoom_to(session, *options.range);
  const int ranks = session.document().trace.rank_count();
  for (const auto& [flag, given] :
       {std::pair("--pin", &options.order.pinned), {"--fold", &options.order.folded}})
    if (!given->empty() && *std::max_element(given->begin(), given->end()) >= ranks)
      throw InputError(fmt::format("{}: '{}' given for '{}'; accepted: ranks from 0 to {}", flag,
                                   fmt::join(*given, ","), session.document().trace.path,
                                   ranks - 1));
  session.order = options.order;
  session.panels.table = options.table;
  session.panels.bare = options.bare;
  if (const auto& at = options.at_ns ? options.at_ns : options.at_steps) {
    const Document& shown = session.document();
    if (options.at_steps && shown.axis.steps() == 0) require_step(shown.trace, 0, 0, false);
    session.set_axis_mode(options.at_ns ? AxisMode::time : AxisMode::steps);
    session.playback.pause();
    session.seek(*at);
    set_axis();
  }
  if (!options.step) return session;
  const auto begin = [&](const Document& document) {
    return options.in_backward ? document.axis.forward_steps() : 0;
  };
  for (const Document& document : session.documents)
    require_step(document.trace, *options.step, document.axis.steps() - begin(document),
                 options.in_backward);
  session.seek_step(begin(session.document()) + *options.step);
  set_axis();  // steps are sought on their own axis
  return session;
}

}  // namespace ringscope::viz
