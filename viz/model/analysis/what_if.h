// Predicts by simulation what would have been recorded with other settings. Small predictions are
// ready at once; larger ones run in the background while the last one stays.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "viz/model/analysis/what_if_settings.h"
#include "viz/model/session/document.h"

namespace ringscope::viz {

// RunFigures are seconds and shares of a recorded or predicted run. They are of the mean rank
// unless something else is said.
struct RunFigures {
  double wall_s = 0;
  double busy = 0;  // share of the ranks' time in which they compute
  double wait_s = 0;
  double exposed_s = 0;  // communication, of the rank with the most
  double imbalance = 1, balance_ceiling = 1;
};

// Return the figures of a recording of ours. If some ranks have nothing recorded, as in a sample,
// the figures are of the others, and imbalance and balance ceiling are NaN.
RunFigures figures_of(const Document& recorded);

struct Prediction {
  WhatIfSettings settings;
  std::string refusal;  // why it can't be predicted; if set, the rest is empty
  RunFigures figures;
  // It holds trace, axis and index for the timeline. Many ranks are sampled under their own names.
  Document document;
  bool whole = false;  // all ranks are in `document`
};

// Predict. Never throws for what a setting asks for. `name` tells the trace from others.
Prediction predict(const RunRates& rates, const WhatIfSettings& settings, const std::string& name);

class WhatIf {
 public:
  // `recorded` is used only here.
  explicit WhatIf(const Document& recorded);

  const RunRates& rates() const { return *rates_; }
  const std::string& refusal() const { return rates_->refusal; }  // "": all of this works
  const RunFigures& recorded() const { return recorded_; }
  const WhatIfSettings& unmoved_settings() const { return unmoved_settings_; }

  WhatIfSettings settings;  // may be changed by anyone

  // Put the settings within their bounds, take what is ready, and begin what is due. Afterwards
  // either shown() is for `settings`, or pending() holds.
  void update();
  bool pending() const { return running_.valid(); }
  // Wait until nothing is pending.
  void finish();

  // Return the prediction for the recorded run's settings; null until it is ready.
  const Prediction* unmoved() const { return unmoved_.get(); }
  // Return the last prediction that is ready; null before the first.
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
