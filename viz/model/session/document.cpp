#include "viz/model/session/document.h"

#include <utility>

namespace ringscope::viz {

Document make_document(Trace trace) {
  Document document;
  document.trace = std::move(trace);
  const Trace& made = document.trace;
  document.axis = Axis(made);
  document.index = TimelineIndex(made);
  document.mask = mask_model(made);
  document.balance = balance_of(made);
  document.idle = idle_of(made);
  document.path = critical_path_of(made);
  document.links = LinkHistory(made);
  document.unfinished = unfinished_waits(made);
  document.findings = findings(made, document.idle);
  return document;
}

}  // namespace ringscope::viz
