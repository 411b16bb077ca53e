// Predicts by simulation what would have been recorded with other settings. Small predictions are
// ready at once; larger ones run in the background while the last one stays.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ring/problem_rows.h"
#include "core/tools/sim/scenario.h"
#include "viz/data/session/document.h"

namespace ringscope::viz {

// What a recording tells about its machine, as core/tools/explain fits it.
struct RunRates {
  std::string refusal;  // why nothing can be said; "" if all of this holds
  // The slow rank is as fast as the others in it.
  Scenario scenario;
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  int slow_rank = -1;  // the slowest one that is not like the others; -1: none
  double slowdown = 1;
  std::vector<std::string> remarks;  // where the rates come from, if that is unusual
};

// Return the rates. Refuses a trace that is no whole recording of ours or computed in no time.
RunRates rates_of_run(const Trace& trace);

// ---
// Defines what can be changed about a recorded run before it is predicted. Rates are factors of
// what the recording tells; the rest is named as on the command line.

struct WhatIfSettings {
  double bandwidth = 1, latency = 1, flops = 1;  // factors of the recorded run's
  int world_size = 1;
  PartitionKind partition = PartitionKind::contiguous;
  std::string mask;
  const Scheme* scheme = default_scheme();
  Pace pace = Pace::buffers;
  int kv_buffers = 2;
  int cores = 0;        // shared by the ranks; 0: each has its own
  double jitter = 0;    // see core/tools/sim/machine.h
  int slow_rank = 0;    // this rank takes
  double slowdown = 1;  // this many times as long

  bool operator==(const WhatIfSettings&) const = default;
};

// Return whether a scheme can be chosen, and is not just what was recorded.
bool is_offered(const Scheme* scheme);
// Name one that is offered, as in "ring in step".
std::string words_of_way(const Scheme* scheme, Pace pace);

inline constexpr int kMostRanks = 1024;
int most_ranks(const RunRates& rates);  // kMostRanks, or as many as there were if more

// What one setting says of several members.
template <class S>
struct WhatIfMask {
  S& settings;
};
template <class S>
struct WhatIfScheme {
  S& settings;
};
template <class S>
struct WhatIfPace {
  S& settings;
};
template <class S>
struct SharedCores {
  S& settings;
};
template <class S>
struct SlowRank {
  S& settings;
};
void read_value(WhatIfMask<WhatIfSettings>& to, std::string_view text, const MemberRow& row);
void read_value(WhatIfScheme<WhatIfSettings>& to, std::string_view text, const MemberRow& row);
void read_value(WhatIfPace<WhatIfSettings>& to, std::string_view text, const MemberRow& row);
void read_value(SharedCores<WhatIfSettings>& to, std::string_view text, const MemberRow& row);
void read_value(SlowRank<WhatIfSettings>& to, std::string_view text, const MemberRow& row);

// The settings with what they accept, which is what sliders reach, and what the sliders say.
template <class S, class F>
requires kIs<S, WhatIfSettings>
void describe(S& settings, F&& row) {
  constexpr Range kFactors = {1.0 / 64, 64, true, "a number from 1/64 to 64"};
  row(MemberRow("bandwidth", "X", "From a rank to the next, one way").in(kFactors),
      settings.bandwidth);
  row(MemberRow("latency", "X", "Of a message, besides its bytes").in(kFactors), settings.latency);
  row(MemberRow("flops", "X", "What the attention kernel reaches on a rank, forward").in(kFactors),
      settings.flops);
  row(MemberRow("world-size", "N", "world_size: how many ranks share the sequence"),
      settings.world_size);
  row(MemberRow("partition", "contiguous|striped|zigzag|fold"), settings.partition);
  row(MemberRow("mask", "MASK"), WhatIfMask<S>{settings});
  row(MemberRow("scheme", "ring|allgather|ulysses"), WhatIfScheme<S>{settings});
  row(MemberRow("kv-buffers", "K|in-step",
                "That a rank's blocks take turns in: more let it run further ahead")
          .in({2, 16}),
      WhatIfPace<S>{settings});
  row(MemberRow("cores", "C|own", "That ranks share, in equal parts, while they compute"),
      SharedCores<S>{settings});
  row(MemberRow("jitter", "X",
                "By so much a computation takes longer, on the average, each by chance")
          .in({0, 2, true, "a number from 0 to 2"}),
      settings.jitter);
  row(MemberRow("straggler", "RANK:SPEED", "One rank takes so many times as long to compute")
          .in({1.0 / 16, 1, true, "a number from 1/16 to 1"}),
      SlowRank<S>{settings});
}
// Return the row of that name.
MemberRow row_of(std::string_view name);

// Return the settings that predict the recorded run.
WhatIfSettings settings_of(const RunRates& rates);

// Change `settings` as in "bandwidth=2,world-size=8,partition=zigzag": bandwidth, latency and flops
// are factors of the recorded run's, and all else is as for `ringscope simulate` (cores=own: each
// rank has its own). Commas within a mask stay. Throws InputError that names the setting, its value
// and what would be accepted.
void apply(WhatIfSettings& settings, const RunRates& rates, std::string_view text);

// Check the text as far as possible without a recording. Throws for what no recording would accept.
void check_settings(std::string_view text);

// Return the run that the settings describe. Throws InputError for an invalid mask.
Scenario scenario_of(const RunRates& rates, const WhatIfSettings& settings);

// ---
// The prediction.

// Return the figures of a recording of ours. If some ranks have nothing recorded, as in a sample,
// the figures are of the others, and imbalance and balance ceiling are NaN.
Figures figures_of(const Document& recorded);

struct Prediction {
  WhatIfSettings settings;
  std::string refusal;  // why it can't be predicted; if set, the rest is empty
  Figures figures;
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
  const Figures& recorded() const { return recorded_; }
  const WhatIfSettings& unmoved_settings() const { return unmoved_settings_; }

  WhatIfSettings settings;  // may be changed by anyone

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

  bool begin(const WhatIfSettings& wanted);
  void take(Ready ready);

  std::shared_ptr<const RunRates> rates_;
  Figures recorded_;
  WhatIfSettings unmoved_settings_;
  Ready unmoved_, shown_;
  std::future<Ready> running_;
};

// ---
// A prediction in words, and in figures beside the recording's.

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
