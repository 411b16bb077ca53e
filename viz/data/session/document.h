// Holds one opened trace and everything that is computed from it once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/analysis/balance.h"
#include "viz/data/analysis/critical_path.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/analysis/ring_moment.h"
#include "viz/data/mask/mask_painter.h"
#include "viz/data/session/notes.h"
#include "viz/data/timeline/axis.h"
#include "viz/data/timeline/timeline_painter.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// Return a number that no other document of this process has.
inline std::uint64_t next_document_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

struct Document {
  std::uint64_t number = next_document_number();  // by which caches know it
  Trace trace;
  // Of a prediction: the recording's path, and the settings of What if that predict it from there.
  std::string predicted_from, predicted_by;
  Axis axis;
  TimelineIndex index;
  std::optional<MaskModel> mask;
  AttendedOrder attended;
  WorkTable balance;
  IdleReport idle;
  LinkHistory links;
  std::vector<SliceId> unfinished;  // waits that a failed run broke off
  Explanation why;
  std::vector<Finding> findings;  // computed once and shown in every frame
  std::vector<Note> notes;        // as put_note() orders them
  mutable std::optional<CriticalPath> known_path;

  // Return the critical path, which is sought when it is first asked for.
  const CriticalPath& path() const {
    if (!known_path) known_path = critical_path_of(trace);
    return *known_path;
  }
};

inline Document make_document(Trace trace) {
  Document document;
  document.trace = std::move(trace);
  const Trace& made = document.trace;
  document.axis = Axis(made);
  document.index = TimelineIndex(made);
  document.mask = mask_model(made);
  document.attended = AttendedOrder(made);
  document.balance = balance_of(made);
  document.why = explanation_of(made);
  document.idle = idle_of(made, document.why);
  document.links = LinkHistory(made);
  document.unfinished = unfinished_waits(made);
  document.findings = findings(made, document.why, document.idle, document.balance);
  return document;
}

}  // namespace ringscope::viz
