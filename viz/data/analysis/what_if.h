// Predicts by simulation what would have been recorded with other settings. Small predictions are
// ready at once; larger ones run in the background while the last one stays.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/describe.h"
#include "core/tools/sim/scenario.h"
#include "viz/data/session/document.h"

namespace ringscope::viz {

// What a recording tells about its machine, as core/tools/explain fits it.
struct RunRates {
  std::string refusal;  // why nothing can be said; "" if all of this holds
  Scenario scenario;    // the recorded run
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  std::vector<std::string> remarks;  // where the rates come from, if that is unusual
};

// Return the rates. Refuses a trace that is no whole recording of ours or computed in no time.
RunRates rates_of_run(const Trace& trace);

// ---
// What is predicted is the recorded run's scenario, changed by sliders or by text. In text, rates are
// factors of what the recording tells; the rest is as for `ringscope simulate`.

// Return whether a scheme can be chosen, and is not just what was recorded.
bool is_offered(const Scheme* scheme);
// Name one that is offered, as in "ring in step".
std::string words_of_way(const Scheme* scheme, Pace pace);

inline constexpr int kMostRanks = 1024;
int most_ranks(const Scenario& recorded);  // kMostRanks, or as many as there were if more

std::vector<std::string> names_of_links();  // that can join nodes

// Return the slowest rank; rank 0 at speed 1 where none is slower than the others.
Straggler slowest_of(const Scenario& scenario);
// Let a rank compute at this speed. At 1 it is like the others.
void set_speed(Scenario& scenario, const Straggler& rank);

// Return the row of a setting: what it accepts, which is what its slider reaches, and what that says.
const MemberRow& row_of(std::string_view name);

// Return the settings in which `wanted` differs from `recorded`, as apply() takes them; "" for none.
std::string settings_of(const Scenario& recorded, const Scenario& wanted);

// Change `wanted` as in "bandwidth=2,world-size=8,partition=zigzag" (cores=own: each rank has its own).
// Commas within a mask stay. Throw InputError that names the setting, its value and what would be
// accepted.
void apply(Scenario& wanted, const Scenario& recorded, std::string_view text);

// Check the text as far as possible without a recording. Throw for what no recording would accept.
void check_settings(std::string_view text);

// ---
// The prediction.

// Return the figures of a recording of ours. If some ranks have nothing recorded, as in a sample,
// the figures are of the others, and imbalance and balance ceiling are NaN.
Figures figures_of(const Document& recorded);

struct Prediction {
  Scenario settings;
  std::string refusal;  // why it can't be predicted; if set, the rest is empty
  Figures figures;
  // It holds trace, axis and index for the timeline. Many ranks are sampled under their own names.
  Document document;
  bool whole = false;  // all ranks are in `document`
};

// Predict. Never throws for what a setting asks for. `name` tells the trace from others.
Prediction predict(const RunRates& rates, const Scenario& settings, const std::string& name);

class WhatIf {
 public:
  // `recorded` is used only here.
  explicit WhatIf(const Document& recorded);

  const RunRates& rates() const { return *rates_; }
  const std::string& refusal() const { return rates_->refusal; }  // "": all of this works
  const Figures& recorded() const { return recorded_; }
  const Scenario& unmoved_settings() const { return rates_->scenario; }

  Scenario settings;  // may be changed by anyone

  // Take what is ready, and begin what is due. Afterwards either shown() is for `settings`, or
  // pending() holds.
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

  bool begin(const Scenario& wanted);
  void take(Ready ready);

  std::shared_ptr<const RunRates> rates_;
  Figures recorded_;
  Ready unmoved_, shown_;
  std::future<Ready> running_;
};

// ---
// A prediction in words, and in figures beside the recording's.

// Return the changes, if any, in the order of the settings: "8 ranks", "zigzag", "bandwidth × 2".
std::vector<std::string> changes_of(const Scenario& from, const Scenario& to);

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
