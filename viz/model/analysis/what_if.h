// Predicts by simulation what would have been recorded with other settings. Small predictions are
// ready at once; larger ones run in the background while the last one stays.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

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

// ---
// what_if_words.cpp puts a prediction into words, and into figures beside the recording's.

// Return the changes, if any, in the order of the settings: "8 ranks", "zigzag", "bandwidth × 2".
std::vector<std::string> changes_of(const WhatIfSettings& from, const WhatIfSettings& to);

// Compare the prediction shown with the unmoved one: "8 ranks, zigzag: 11.5 ms instead of 35.1 ms,
// 3.05 times as fast." Without changes return trust_of(); "" before there is any prediction.
std::string headline_of(const WhatIf& what_if);

// Compare the unmoved prediction with the recording, which says by how much the model is off.
std::string trust_of(const WhatIf& what_if);

// A WhatIfFigure is one line of the table. Texts are "" where there is nothing to say yet.
struct WhatIfFigure {
  std::string name{}, recorded{}, unmoved{}, shown{};
  std::string change{};  // from `unmoved` to `shown`
  int better = 0;        // 1: shown is better than unmoved; -1: worse; 0: as good, or neither
};
std::vector<WhatIfFigure> figures_of(const WhatIf& what_if);

}  // namespace ringscope::viz
