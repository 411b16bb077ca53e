// The run beside the recorded one: what would have been recorded with other settings, by simulation.
// Small ones are ready at once; larger ones are worked on in the background, while the last one
// stays.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "viz/model/analysis/what_if_settings.h"
#include "viz/model/session/document.h"

namespace ringscope::viz {

// Seconds and shares of a run, recorded or foretold; of ranks: the mean one, where nothing else is
// said.
struct RunFigures {
  double wall_s = 0;
  double busy = 0;  // share of the ranks' time in which they compute
  double wait_s = 0;
  double exposed_s = 0;  // communication, of the rank with the most
  double imbalance = 1, balance_ceiling = 1;
};

// Of a recording of ours. Where some ranks have nothing recorded, as in a sample of many, of the
// others; how ranks stand to each other is then not known: NaN.
RunFigures figures_of(const Document& recorded);

struct Prediction {
  WhatIfSettings settings;
  std::string refusal;  // why it can't be; then there is nothing else
  RunFigures figures;
  // What the timeline needs: trace, axis and index. Of many ranks a sample, under their own names.
  Document document;
  bool whole = false;  // all ranks are in `document`
};

// Never throws for what a setting asks for. `name` tells its trace from others.
Prediction predict(const RunRates& rates, const WhatIfSettings& settings, const std::string& name);

class WhatIf {
 public:
  // `recorded` is looked at only here.
  explicit WhatIf(const Document& recorded);

  const RunRates& rates() const { return *rates_; }
  const std::string& refusal() const { return rates_->refusal; }  // "": all of this works
  const RunFigures& recorded() const { return recorded_; }
  const WhatIfSettings& unmoved_settings() const { return unmoved_settings_; }

  WhatIfSettings settings;  // changed by whoever likes

  // Puts settings within their bounds, takes what is ready, and begins what is due; then either
  // shown() is of `settings`, or pending().
  void update();
  bool pending() const { return running_.valid(); }
  // Until nothing is pending.
  void finish();

  // With the settings of the recorded run; null until it is ready.
  const Prediction* unmoved() const { return unmoved_.get(); }
  // The last one that is ready; null before the first.
  const Prediction* shown() const { return shown_.get(); }

 private:
  using Ready = std::shared_ptr<const Prediction>;

  bool begin(const WhatIfSettings& wanted);
  void take(Ready ready);

  std::shared_ptr<const RunRates> rates_;
  RunFigures recorded_;
  WhatIfSettings unmoved_settings_;
  Ready unmoved_, shown_;
  std::future<Ready> running_;
};

}  // namespace ringscope::viz
