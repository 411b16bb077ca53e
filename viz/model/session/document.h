// Holds one opened trace and everything that is computed from it once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/model/analysis/balance.h"
#include "viz/model/analysis/critical_path.h"
#include "viz/model/analysis/failure.h"
#include "viz/model/analysis/idle_time.h"
#include "viz/model/analysis/ring_moment.h"
#include "viz/model/mask/mask_painter.h"
#include "viz/model/timeline/axis.h"
#include "viz/model/timeline/timeline_painter.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

struct Document {
  Trace trace;
  Axis axis;
  TimelineIndex index;
  std::optional<MaskModel> mask;
  Balance balance;
  IdleReport idle;
  CriticalPath path;
  LinkHistory links;
  std::vector<SliceId> unfinished;  // waits that a failed run broke off
  std::vector<std::string>
      findings;  // about the idle times; computed once and shown in every frame
};

Document make_document(Trace trace);

}  // namespace ringscope::viz
