#include "core/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/explain/run_times.h"

namespace ringscope {
namespace {

constexpr double kLeastSlowness = 1.03;  // of a rank or link that is called slow, simulated
constexpr double kLeastSlownessOfReal = 1.2;
constexpr double kAlike = 1.25;        // ranks or links so near to each other are one group
constexpr double kBeyondChance = 5;    // standard errors
constexpr double kOwnCore = 0.9;       // least processor time of a computation with its own core
constexpr double kBusyCores = 0.75;    // least use of cores that are said to be shared
constexpr int kMostSharedRanks = 512;  // the simulator's limit
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Return the value below which `share` of the values lie. The values are put in another order.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}
double median(const std::vector<double>& values) {
  if (values.size() % 2 == 1 || values.empty()) return quantile(values, 0.5);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[sorted.size() / 2 - 1] + sorted[sorted.size() / 2]) / 2;
}
double low_median(const std::vector<double>& values) { return quantile(values, 0.5); }

// Return the least that a time takes which chance only lengthens, from draws of it. The least of n
// exponential draws is 1/n of their mean too large.
double least_of(const std::vector<double>& values) {
  const double least = quantile(values, 0);
  if (values.size() < 2) return least;
  const double bias =
      (median(values) - least) / (std::log(2.0) * static_cast<double>(values.size()));
  return std::max(0.0, least - bias);
}

// Return the standard error of a median of `count` values that scatter like `values`.
double scatter_of(const std::vector<std::vector<double>>& groups) {
  std::vector<double> off;
  for (const auto& group : groups) {
    const double middle = median(group);
    // A group of two says less than half about its scatter.
    const double scale = group.size() > 2 ? 1.0 : 2.0;
    for (const double value : group) off.push_back(scale * std::abs(value - middle));
  }
  return 1.4826 * 1.25 * quantile(off, 0.5);
}

std::string times_of(double factor) { return fmt::format("{:.2f} times", factor); }

std::string ms_of(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

// ---

class Explainer {
 public:
  explicit Explainer(const Recording& recording)
      : recording_(recording), times_(recording), n_(times_.ranks()), replay_(times_) {}

  Explanation explain() {
    Explanation result;
    result.wall_s = times_.wall_s();
    if (times_.info().failure) {
      result.findings.push_back(fault());
      return result;
    }
    find_sharing();
    take_base();
    fit_computing();
    fit_hops();
    wall_ = replay_.wall_s(base_);
    fit_ = wall_ > 0 ? std::clamp(1 - std::abs(wall_ - times_.wall_s()) / times_.wall_s(), 0.3, 1.0)
                     : 0.3;
    healthy_ = base_;
    sharing();
    slow_ranks();
    slow_links();
    step_overhead();
    late_start();
    jitter();
    imbalance();
    for (Diagnosis& finding : findings_) {
      finding.share = times_.wall_s() > 0 ? finding.saved_s / times_.wall_s() : 0;
      if (finding.share >= kLeastShare) result.findings.push_back(std::move(finding));
    }
    std::stable_sort(result.findings.begin(), result.findings.end(),
                     [](const Diagnosis& a, const Diagnosis& b) { return a.saved_s > b.saved_s; });
    ReplayTimes without_hops = healthy_;
    for (auto& by_payload : without_hops.hops)
      for (auto& by_way : by_payload)
        for (auto& table : by_way) std::fill(table.begin(), table.end(), 0.0);
    result.exposed_s = std::max(0.0, replay_.wall_s(healthy_) - replay_.wall_s(without_hops));
    return result;
  }

 private:
  using Steps = std::vector<double>;

  std::size_t at(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(n_) +
           static_cast<std::size_t>(column);
  }
  // Call f(pass, index, step) for all computations, recorded or not.
  template <class F>
  void for_steps(F&& f) const {
    for (const Pass pass : kAllPasses)
      for (std::size_t i = 0; i < times_.steps(pass).size(); ++i) f(pass, i, times_.steps(pass)[i]);
  }
  template <class F>
  void for_hops(F&& f) const {
    for (const Pass pass : kAllPasses)
      for (const Payload payload : kAllPayloads)
        for (const Way way : {Way::ring, Way::between_nodes})
          if (!times_.hops(pass, payload, way).empty())
            f(pass, payload, way, times_.hops(pass, payload, way));
  }
  int rank_of(std::size_t index) const { return static_cast<int>(index) / n_; }
  static std::size_t of(Pass pass) { return static_cast<std::size_t>(pass); }

  double& base_step(ReplayTimes& times, Pass pass, std::size_t i) {
    return times.steps[of(pass)][i];
  }
  std::vector<double>& hops_of(ReplayTimes& times, Pass pass, Payload payload, Way way) const {
    return times.hops[of(pass)][static_cast<std::size_t>(payload)][static_cast<std::size_t>(way)];
  }

  // Add a finding if the run takes less time with `without`.
  void add(Diagnosis finding, const ReplayTimes& without, double noise_share) {
    finding.saved_s = std::max(0.0, wall_ - replay_.wall_s(without));
    finding.confidence = fit_ * std::clamp(1 - noise_share, 0.2, 1.0);
    findings_.push_back(std::move(finding));
  }

  // ---
  // What the machine does when nothing is wrong.

  // Find out whether ranks shared cores: computations then have less processor time than wall time,
  // and all cores are busy while more ranks than cores compute. A rank that sleeps leaves them idle.
  void find_sharing() {
    double spent = 0, lasted = 0;
    std::vector<std::pair<std::int64_t, int>> changes;
    for (const auto& events : recording_.events)
      for (const TraceEvent& e : events) {
        if (e.lane != Lane::compute || e.end_ns <= e.begin_ns || e.pairs <= 0) continue;
        spent += 1e-9 * static_cast<double>(e.cpu_ns);
        lasted += 1e-9 * static_cast<double>(e.end_ns - e.begin_ns);
        changes.emplace_back(e.begin_ns, 1);
        changes.emplace_back(e.end_ns, -1);
      }
    if (!(spent > 0) || spent >= kOwnCore * lasted) return;
    std::sort(changes.begin(), changes.end());
    std::vector<double> at_once(static_cast<std::size_t>(n_) + 1);
    int busy = 0;
    for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
      busy = std::clamp(busy + changes[i].second, 0, n_);
      at_once[static_cast<std::size_t>(busy)] +=
          1e-9 * static_cast<double>(changes[i + 1].first - changes[i].first);
    }
    const auto capacity = [&](int cores) {
      double sum = 0;
      for (int k = 1; k <= n_; ++k)
        sum += at_once[static_cast<std::size_t>(k)] * std::min(k, cores);
      return sum;
    };
    int cores = times_.info().machine ? times_.info().machine->cores : 0;
    if (cores == 0) {
      cores = 1;
      while (cores < n_ &&
             std::abs(capacity(cores + 1) - spent) < std::abs(capacity(cores) - spent))
        ++cores;
    }
    if (cores >= n_ || spent < kBusyCores * capacity(cores)) return;
    cores_ = cores;
    given_ = std::min(1.0, spent / capacity(cores));
  }

  bool shares_cores() const { return cores_ > 0; }

  // Return what a computation takes on a core of its own.
  double alone(const RankStep& step) const {
    return shares_cores() ? step.cpu / given_ + step.around : step.all();
  }

  void take_base() {
    base_.cores = shares_cores() && n_ <= kMostSharedRanks ? cores_ : 0;
    for_steps([&](Pass pass, std::size_t, const RankStep& step) {
      base_.steps[of(pass)].push_back(base_.cores > 0 ? alone(step) : step.all());
    });
    for_hops([&](Pass pass, Payload payload, Way way, const std::vector<RecordedHop>& hops) {
      auto& table = hops_of(base_, pass, payload, way);
      for (const RecordedHop& hop : hops) table.push_back(hop.known ? hop.seconds : kNan);
    });
  }

  // Fit what a rank takes for a pair, and for a step besides, when nothing holds it up.
  void fit_computing() {
    const bool simulated = times_.is_simulated();
    const auto& machine = times_.info().machine;
    std::vector<std::vector<double>> around(static_cast<std::size_t>(n_));
    for_steps([&](Pass, std::size_t i, const RankStep& step) {
      if (step.known)
        around[static_cast<std::size_t>(rank_of(i))].push_back(step.around - step.lead);
    });
    if (!simulated) {
      std::vector<double> of_ranks;
      for (const auto& mine : around)
        if (!mine.empty()) of_ranks.push_back(median(mine));
      fixed_ = low_median(of_ranks);
    }
    for (const Pass pass : kAllPasses) {
      if (!times_.has(pass)) continue;
      const double flops =
          !machine ? 0
                   : static_cast<double>(pass == Pass::forward ? machine->forward_flops
                                                               : machine->backward_flops);
      if (simulated && flops > 0) {
        pair_s_[of(pass)] = times_.flops_a_pair(pass) / flops;
        knows_rates_ = true;
        continue;
      }
      std::vector<double> of_ranks;
      for (const auto& mine : paces(pass, simulated ? 0 : fixed_))
        if (!mine.empty()) of_ranks.push_back(simulated ? least_of(mine) : median(mine));
      pair_s_[of(pass)] = low_median(of_ranks);
    }
    if (simulated) fit_step();
    fit_ranks();
    // Ranks that were not recorded take what they should.
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (!step.known) base_step(base_, pass, i) = expected(pass, i, step);
    });
  }

  // Return the seconds per pair of every rank's computations beyond `fixed` seconds a step. Small
  // ones are left out.
  std::vector<std::vector<double>> paces(Pass pass, double fixed) const {
    std::vector<double> works;
    for (const RankStep& step : times_.steps(pass))
      if (step.known && step.work > 0) works.push_back(step.work);
    const double enough = 0.25 * median(works);
    std::vector<std::vector<double>> result(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < times_.steps(pass).size(); ++i) {
      const RankStep& step = times_.steps(pass)[i];
      if (!step.known || step.work <= 0 || step.work < enough) continue;
      result[static_cast<std::size_t>(rank_of(i))].push_back((alone(step) - fixed) / step.work);
    }
    return result;
  }

  // Fit what a simulated step costs besides its pairs: what every step takes longer than its pairs
  // at the least or, where the rates are unknown, where a line through the least times begins.
  void fit_step() {
    std::vector<double> rest;
    if (knows_rates_) {
      for_steps([&](Pass pass, std::size_t, const RankStep& step) {
        if (step.known && step.pairs > 0)
          rest.push_back(alone(step) - pair_s_[of(pass)] * step.work);
      });
      if (rest.empty()) return;
      const double least = quantile(rest, 0);
      const double bias =
          (low_median(rest) - least) / (std::log(2.0) * static_cast<double>(rest.size()));
      // A nanosecond is what rounding adds.
      if (least - bias > 4 * bias + 2e-9) fixed_ = least - bias;
      return;
    }
    const Pass pass = Pass::forward;
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const RankStep& step : times_.steps(pass))
      if (step.known && step.pairs > 0)
        low = std::min(low, step.work), high = std::max(high, step.work);
    if (!(high > low)) return;
    std::vector<double> at_low, at_high;
    for (const RankStep& step : times_.steps(pass)) {
      if (!step.known || step.pairs <= 0) continue;
      if (step.work - low < 0.1 * (high - low)) at_low.push_back(alone(step));
      if (high - step.work < 0.1 * (high - low)) at_high.push_back(alone(step));
    }
    const double slope = (least_of(at_high) - least_of(at_low)) / (high - low);
    const double doubt =
        (2e-9 + (median(at_low) - quantile(at_low, 0)) + (median(at_high) - quantile(at_high, 0))) /
        (high - low) * low;
    const double fixed = least_of(at_low) - slope * low;
    if (!(slope > 0) || fixed < 4 * doubt) return;
    fixed_ = fixed;
    for (const Pass each : kAllPasses) {
      std::vector<double> of_ranks;
      for (const auto& mine : paces(each, fixed_))
        if (!mine.empty()) of_ranks.push_back(least_of(mine));
      if (!of_ranks.empty()) pair_s_[of(each)] = low_median(of_ranks);
    }
  }

  double should(Pass pass, const RankStep& step) const {
    const bool has_step = !times_.is_simulated() || step.pairs > 0;
    return pair_s_[of(pass)] * step.work + (has_step ? fixed_ : 0);
  }

  // Return what a computation takes on its rank without chance.
  double expected(Pass pass, std::size_t i, const RankStep& step) const {
    const auto rank = static_cast<std::size_t>(rank_of(i));
    const bool has_step = !times_.is_simulated() || step.pairs > 0;
    return pair_s_[of(pass)] * step.work * slowness_[rank] + (has_step ? fixed_ : 0) + extra_[rank];
  }

  // Find ranks that are slower than others: simulated ones by a factor, real ones also by time that
  // they lose at every step.
  void fit_ranks() {
    slowness_.assign(static_cast<std::size_t>(n_), 1);
    extra_.assign(static_cast<std::size_t>(n_), 0);
    std::vector<std::vector<double>> of_ranks(static_cast<std::size_t>(n_));
    double mean = 0, count = 0;
    std::vector<double> works;
    for_steps([&](Pass, std::size_t, const RankStep& step) {
      if (step.known && step.work > 0) works.push_back(step.work);
    });
    const double enough = 0.25 * median(works);
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (!step.known) return;
      auto& mine = of_ranks[static_cast<std::size_t>(rank_of(i))];
      const double time = alone(step) - step.lead;
      if (!times_.is_simulated()) {
        mine.push_back(time - should(pass, step));
        mean += should(pass, step), ++count;
      } else if (step.work >= enough && step.work > 0) {
        mine.push_back((time - fixed_) / (pair_s_[of(pass)] * step.work));
      }
    });
    const double scatter = scatter_of(of_ranks);
    std::vector<double> middles;
    for (const auto& mine : of_ranks)
      if (!mine.empty()) middles.push_back(median(mine));
    const double usual = low_median(middles);
    for (int rank = 0; rank < n_; ++rank) {
      const auto& mine = of_ranks[static_cast<std::size_t>(rank)];
      if (mine.empty()) continue;
      const double off = median(mine) - usual;
      const double error = scatter / std::sqrt(static_cast<double>(mine.size()));
      if (std::abs(off) < kBeyondChance * error) continue;
      if (times_.is_simulated()) {
        const double factor = usual > 0 ? median(mine) / usual : 1;
        if (std::abs(std::log(factor)) > std::log(kLeastSlowness))
          slowness_[static_cast<std::size_t>(rank)] = factor;
      } else if (off > (kLeastSlownessOfReal - 1) * mean / std::max(1.0, count)) {
        extra_[static_cast<std::size_t>(rank)] = off;
      }
    }
    rank_scatter_ = scatter;
  }

  // ---
  // Links.

  // What a link takes for the hops of one kind.
  struct LinkTimes {
    Pass pass;
    Payload payload;
    Way way;
    int from, to;
    std::vector<double> seconds;  // for as many bytes as the largest hop of the kind has
    double middle = 0;
  };

  void fit_hops() {
    for_hops([&](Pass pass, Payload payload, Way way, const std::vector<RecordedHop>& hops) {
      double most = 0;
      for (const RecordedHop& hop : hops)
        if (hop.known) most = std::max(most, hop.bytes);
      std::vector<LinkTimes> links(static_cast<std::size_t>(n_));
      for (std::size_t i = 0; i < hops.size(); ++i) {
        const RecordedHop& hop = hops[i];
        if (!hop.known || !(hop.bytes > 0)) continue;
        const int from = static_cast<int>(i % static_cast<std::size_t>(n_));
        LinkTimes& link = links[static_cast<std::size_t>(from)];
        link = {pass, payload, way, from, hop.to, std::move(link.seconds), 0};
        link.seconds.push_back(hop.seconds * most / hop.bytes);
      }
      std::vector<double> middles;
      std::vector<std::vector<double>> groups;
      for (LinkTimes& link : links) {
        if (link.seconds.empty()) continue;
        link.middle = median(link.seconds);
        middles.push_back(link.middle);
        groups.push_back(link.seconds);
      }
      if (middles.empty()) return;
      const double usual = quantile(middles, 0.25), scatter = scatter_of(groups);
      auto& table = hops_of(base_, pass, payload, way);
      for (std::size_t i = 0; i < table.size(); ++i) {
        // A hop of a rank that was not recorded takes as long as most do.
        const bool last = i / static_cast<std::size_t>(n_) + 1 >= static_cast<std::size_t>(n_);
        if (std::isnan(table[i]) && !times_.is_whole() && !(last && payload == Payload::kv))
          table[i] = usual;
      }
      const double least = times_.is_simulated() ? kLeastSlowness : 2 * kLeastSlownessOfReal - 1;
      for (LinkTimes& link : links) {
        if (link.seconds.empty()) continue;
        const double error = scatter / std::sqrt(static_cast<double>(link.seconds.size()));
        const bool slow =
            link.middle > least * usual && link.middle - usual >= kBeyondChance * error;
        links_.push_back({link, slow ? link.middle / std::max(usual, 1e-12) : 1});
      }
    });
  }

  struct FittedLink {
    LinkTimes link;
    double slowness = 1;
  };

  // Return the slowness of the link from `from` to `to`, the largest of all kinds of hops.
  double slowness_of(int from, int to) const {
    double most = 1;
    for (const FittedLink& fitted : links_)
      if (fitted.link.from == from && fitted.link.to == to) most = std::max(most, fitted.slowness);
    return most;
  }

  // ---
  // The causes, each removed alone; healthy_ is without all of them.

  void sharing() {
    if (!shares_cores()) return;
    ReplayTimes without = base_;
    without.cores = 0;
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (step.known) base_step(without, pass, i) = alone(step);
    });
    healthy_ = without;
    double spent = 0, lasted = 0;
    for_steps([&](Pass, std::size_t, const RankStep& step) {
      spent += step.cpu, lasted += step.seconds;
    });
    add({.cause = Cause::shared_cores,
         .evidence =
             fmt::format("{} ranks share {} {}: while they compute, they have one for {:.0f} "
                         "% of the time.",
                         n_, cores_, cores_ == 1 ? "core" : "cores", 100 * spent / lasted)},
        without, 0.05);
  }

  // Split ids, sorted by falling slowness, into groups that are about as slow as each other.
  static std::vector<std::vector<std::size_t>> groups_of(const std::vector<double>& slowness) {
    std::vector<std::vector<std::size_t>> groups;
    double first = 0;
    for (std::size_t i = 0; i < slowness.size(); ++i) {
      if (groups.empty() || first > kAlike * slowness[i]) {
        groups.emplace_back();
        first = slowness[i];
      }
      groups.back().push_back(i);
    }
    return groups;
  }

  static std::string others_of(const std::vector<std::string>& names) {
    if (names.size() < 2) return "";
    const std::size_t shown = std::min<std::size_t>(names.size() - 1, 4);
    std::string text;
    for (std::size_t i = 1; i <= shown; ++i)
      text += fmt::format("{}{}",
                          i == 1                                    ? ""
                          : i == shown && shown + 1 == names.size() ? " and "
                                                                    : ", ",
                          names[i]);
    if (shown + 1 < names.size()) text += fmt::format(" and {} more", names.size() - 1 - shown);
    return text;
  }

  void slow_ranks() {
    std::vector<std::pair<double, int>> slow;
    double mean = 0, count = 0;
    for_steps([&](Pass pass, std::size_t, const RankStep& step) {
      if (step.known) mean += should(pass, step), ++count;
    });
    mean /= std::max(1.0, count);
    for (int rank = 0; rank < n_; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (slowness_[r] > 1) slow.emplace_back(slowness_[r], rank);
      if (extra_[r] > 0) slow.emplace_back(1 + extra_[r] / std::max(mean, 1e-12), rank);
    }
    std::sort(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
      return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
    });
    std::vector<double> factors;
    for (const auto& [factor, rank] : slow) factors.push_back(factor);
    ReplayTimes without = base_;
    double before = wall_;
    for (const auto& group : groups_of(factors)) {
      std::vector<std::string> names;
      for (const std::size_t i : group) {
        const int rank = slow[i].second;
        names.push_back(fmt::format("{}", rank));
        speed_up(without, rank);
        speed_up(healthy_, rank);
      }
      const auto& [factor, rank] = slow[group.front()];
      const double extra = extra_[static_cast<std::size_t>(rank)];
      Diagnosis finding{.cause = Cause::slow_rank, .rank = rank};
      finding.evidence =
          extra > 0 ? fmt::format("Rank {} loses {} at every step that the others don't lose.",
                                  rank, ms_of(extra))
                    : fmt::format("Rank {} takes {} as long as most for the same pairs.", rank,
                                  times_of(factor));
      if (names.size() > 1)
        finding.evidence +=
            fmt::format(" {} {} about as slow.",
                        names.size() == 2 ? "Rank " + names[1] : "Ranks " + others_of(names),
                        names.size() == 2 ? "is" : "are");
      const double after = replay_.wall_s(without);
      add(std::move(finding), without, 0.05);
      findings_.back().saved_s = std::max(0.0, before - after);
      before = after;
    }
  }

  // Make a slow rank as fast as the others.
  void speed_up(ReplayTimes& times, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (rank_of(i) != rank || !step.known) return;
      double& time = base_step(times, pass, i);
      const double fixed = step.pairs > 0 ? fixed_ : 0;
      if (extra_[r] > 0) time = std::max(time - extra_[r], std::min(time, should(pass, step)));
      if (slowness_[r] > 1 && time > fixed) time = (time - fixed) / slowness_[r] + fixed;
    });
  }

  void slow_links() {
    struct Slow {
      double factor;
      int from, to;
    };
    std::vector<Slow> slow;
    for (const FittedLink& fitted : links_) {
      if (!(fitted.slowness > 1)) continue;
      const auto same = std::find_if(slow.begin(), slow.end(), [&](const Slow& s) {
        return s.from == fitted.link.from && s.to == fitted.link.to;
      });
      if (same == slow.end()) {
        slow.push_back({fitted.slowness, fitted.link.from, fitted.link.to});
      } else {
        same->factor = std::max(same->factor, fitted.slowness);
      }
    }
    std::stable_sort(slow.begin(), slow.end(), [](const Slow& a, const Slow& b) {
      // Equal links differ by rounding.
      return std::abs(a.factor - b.factor) > 1e-3 * a.factor ? a.factor > b.factor
                                                             : a.from < b.from;
    });
    std::vector<double> factors;
    for (const Slow& link : slow) factors.push_back(link.factor);
    ReplayTimes without = base_;
    double before = wall_;
    for (const auto& group : groups_of(factors)) {
      std::vector<std::string> names;
      for (const std::size_t i : group) {
        names.push_back(fmt::format("{} to {}", slow[i].from, slow[i].to));
        widen(without, slow[i].from, slow[i].to);
        widen(healthy_, slow[i].from, slow[i].to);
      }
      const Slow& worst = slow[group.front()];
      Diagnosis finding{.cause = Cause::slow_link, .from = worst.from, .to = worst.to};
      finding.evidence = fmt::format(
          "The link from rank {} to rank {} takes {} as long as most for the same bytes.",
          worst.from, worst.to, times_of(worst.factor));
      if (names.size() > 1)
        finding.evidence += fmt::format(
            " {} {}.", names.size() == 2 ? "So does the link from" : "So do the links from",
            others_of(names));
      const double after = replay_.wall_s(without);
      add(std::move(finding), without, 0.05);
      findings_.back().saved_s = std::max(0.0, before - after);
      before = after;
    }
  }

  void widen(ReplayTimes& times, int from, int to) {
    for (const FittedLink& fitted : links_) {
      const LinkTimes& link = fitted.link;
      if (link.from != from || link.to != to || !(fitted.slowness > 1)) continue;
      auto& table = hops_of(times, link.pass, link.payload, link.way);
      for (std::size_t i = static_cast<std::size_t>(from); i < table.size();
           i += static_cast<std::size_t>(n_))
        table[i] /= fitted.slowness;
    }
  }

  void step_overhead() {
    if (!(fixed_ > 0)) return;
    const auto remove = [&](ReplayTimes& times) {
      for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
        double& time = base_step(times, pass, i);
        if (!times_.is_simulated() || step.pairs > 0) time = std::max(0.0, time - fixed_);
      });
    };
    ReplayTimes without = base_;
    remove(without);
    remove(healthy_);
    add({.cause = Cause::step_overhead,
         .evidence = fmt::format("Every step costs {} besides its pairs.", ms_of(fixed_))},
        without, 0.05);
  }

  // Return how much longer than it should a computation took.
  double excess(Pass pass, std::size_t i, const RankStep& step) const {
    if (!step.known) return 0;
    if (times_.is_simulated()) return alone(step) - expected(pass, i, step);
    // What is not processor time was not spent on pairs. Where cores are shared, the scheduler took
    // it, and only what lies between computations is left to chance.
    const auto rank = static_cast<std::size_t>(rank_of(i));
    const double lost = shares_cores() ? 0 : std::max(0.0, step.seconds - step.cpu);
    return std::max(0.0, lost + step.around - fixed_ - extra_[rank]);
  }

  void late_start() {
    double total = 0, most = 0;
    std::size_t where = 0;
    const Pass pass = Pass::forward;
    for_steps([&](Pass each, std::size_t i, const RankStep& step) {
      const double off = std::max(0.0, excess(each, i, step));
      total += off;
      if (each == pass && off > most) most = off, where = i;
    });
    if (most < kLeastShare * times_.wall_s() || total - most > 0.25 * most) return;
    const bool first = static_cast<int>(where % static_cast<std::size_t>(n_)) == 0;
    ReplayTimes without = base_;
    for (ReplayTimes* times : {&without, &healthy_})
      base_step(*times, pass, where) = std::max(0.0, base_step(*times, pass, where) - most);
    once_ = where;
    add({.cause = first ? Cause::late_start : Cause::jitter,
         .rank = rank_of(where),
         .evidence =
             first ? fmt::format("Rank {} begins {} late, and is as fast as the others from "
                                 "then on.",
                                 rank_of(where), ms_of(most))
                   : fmt::format("Rank {} is held up once, for {} at step {}.", rank_of(where),
                                 ms_of(most), where % static_cast<std::size_t>(n_))},
        without, total > 0 ? (total - most) / total : 0);
  }

  void jitter() {
    double total = 0, all = 0;
    std::vector<double> by_rank(static_cast<std::size_t>(n_));
    ReplayTimes without = base_;
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      const double off = pass == Pass::forward && once_ == i ? 0 : excess(pass, i, step);
      if (times_.is_simulated() ? std::abs(off) <= 2e-9 : off <= 0) return;
      total += std::abs(off);
      by_rank[static_cast<std::size_t>(rank_of(i))] += std::abs(off);
      for (ReplayTimes* times : {&without, &healthy_}) {
        double& time = base_step(*times, pass, i);
        time = std::max(0.0, time - off);
      }
    });
    for_steps([&](Pass pass, std::size_t i, const RankStep&) { all += base_.steps[of(pass)][i]; });
    const double computing = total / std::max(all, 1e-12);
    double hop_share = 0;
    if (times_.is_simulated()) hop_share = steady_hops(without);
    if (computing < 0.003 && hop_share < 0.003) return;
    Diagnosis finding{.cause = Cause::jitter};
    const auto most = std::max_element(by_rank.begin(), by_rank.end());
    if (total > 0 && *most > 0.6 * total && n_ > 2 && computing > hop_share)
      finding.rank = static_cast<int>(most - by_rank.begin());
    if (computing >= hop_share) {
      finding.evidence = fmt::format(
          "Computations take {:.0f} % longer than they should, unequally from step to step.",
          100 * total / std::max(all - total, 1e-12));
    } else {
      finding.evidence =
          fmt::format("Hops take {:.0f} % longer than they should, unequally from step to step.",
                      100 * hop_share / std::max(1 - hop_share, 1e-12));
    }
    add(std::move(finding), without, 0.1);
    // With a sample of the ranks, the slowest of each step may not be among them, but without jitter
    // all steps are as long as in the sample.
    if (!times_.is_whole()) {
      const double missing = times_.wall_s() - wall_;
      if (missing > 0.02 * times_.wall_s()) findings_.back().saved_s += missing;
    }
  }

  // Give every hop what its link takes at the least. Return the share of all hops' time that goes.
  double steady_hops(ReplayTimes& without) {
    double total = 0, all = 0;
    std::vector<ReplayTimes*> both{&without, &healthy_};
    for (const FittedLink& fitted : links_) {
      const LinkTimes& link = fitted.link;
      // Hops between nodes of a two-level ring are shown where the lane is free.
      if (times_.ranks_a_node() > 0) continue;
      const double least = least_of(link.seconds);
      for (ReplayTimes* times : both) {
        auto& table = hops_of(*times, link.pass, link.payload, link.way);
        const auto& hops = times_.hops(link.pass, link.payload, link.way);
        double most = 0;
        for (const RecordedHop& hop : hops) most = std::max(most, hop.bytes);
        for (std::size_t i = static_cast<std::size_t>(link.from); i < table.size();
             i += static_cast<std::size_t>(n_)) {
          if (!hops[i].known || !(hops[i].bytes > 0)) continue;
          const double steady = least * hops[i].bytes / most;
          const double rate = times == &healthy_ ? 1 / fitted.slowness : 1;
          if (times == &without) {
            all += hops[i].seconds;
            total += std::max(0.0, hops[i].seconds - steady);
          }
          table[i] = std::min(table[i], steady * rate);
        }
      }
    }
    return total / std::max(all, 1e-12);
  }

  void imbalance() {
    ReplayTimes without = base_;
    std::vector<double> by_rank(static_cast<std::size_t>(n_));
    double all = 0;
    for (const Pass pass : kAllPasses) {
      const auto& steps = times_.steps(pass);
      if (steps.empty()) continue;
      double mean = 0;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        mean += steps[i].work / static_cast<double>(steps.size());
        by_rank[static_cast<std::size_t>(rank_of(i))] += steps[i].pairs;
        all += steps[i].pairs;
      }
      RankStep even;
      even.work = even.pairs = mean;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const double now = expected(pass, i, steps[i]), then = expected(pass, i, even);
        for (ReplayTimes* times : {&without, &healthy_}) {
          double& time = base_step(*times, pass, i);
          // Whatever else holds a computation up does so in proportion to it.
          time = !(now > 0) || steps[i].work <= 0 ? time - now + then
                 : times_.is_simulated()          ? time * then / now
                                                  : std::max(0.0, time - now) + then;
        }
      }
    }
    if (!(all > 0)) return;
    const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
    const double mean = all / n_;
    Diagnosis finding{.cause = Cause::imbalance, .rank = static_cast<int>(most - by_rank.begin())};
    if (*most > 1.02 * mean) {
      finding.evidence = fmt::format("Rank {} has {} the mean pairs, rank {} has {}.", finding.rank,
                                     times_of(*most / mean), least - by_rank.begin(),
                                     *least > 0 ? times_of(*least / mean) + " the mean" : "none");
    } else {
      finding.rank = -1;
      finding.evidence = "All ranks have as many pairs in all, but not step by step.";
    }
    add(std::move(finding), without, 0.05);
  }

  // ---

  // Return what a failed run lost: the time from its last progress to its end.
  Diagnosis fault() const {
    const RunEnd& end = *times_.info().failure;
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = INT64_MIN,
                 progress = INT64_MIN;
    int silent = -1;
    std::int64_t silent_since = std::numeric_limits<std::int64_t>::max();
    for (std::size_t rank = 0; rank < recording_.events.size(); ++rank) {
      std::int64_t seen = INT64_MIN;
      for (const TraceEvent& e : recording_.events[rank]) {
        first = std::min(first, e.begin_ns);
        last = std::max(last, e.end_ns);
        if (e.lane != Lane::wait) progress = std::max(progress, e.end_ns);
        seen = std::max(seen, e.lane == Lane::wait ? e.begin_ns : e.end_ns);
      }
      if (seen < silent_since) silent_since = seen, silent = static_cast<int>(rank);
    }
    Diagnosis finding{.cause = Cause::fault, .rank = end.rank >= 0 ? end.rank : silent};
    finding.saved_s = 1e-9 * static_cast<double>(last - std::max(progress, first));
    finding.share = times_.wall_s() > 0 ? finding.saved_s / times_.wall_s() : 0;
    finding.confidence = end.rank >= 0 ? 0.95 : 0.5;
    finding.evidence = fmt::format("The run failed: {}.", end.message);
    return finding;
  }

  const Recording& recording_;
  RunTimes times_;
  int n_;
  Replay replay_;
  ReplayTimes base_, healthy_;
  double wall_ = 0, fit_ = 1;
  int cores_ = 0;  // that ranks share; 0: each has its own
  double given_ = 1;
  double pair_s_[2] = {}, fixed_ = 0;
  bool knows_rates_ = false;
  double rank_scatter_ = 0;
  std::vector<double> slowness_, extra_;  // by rank
  std::vector<FittedLink> links_;
  std::size_t once_ = SIZE_MAX;  // the forward computation that was held up once
  std::vector<Diagnosis> findings_;
};

}  // namespace

Explanation explain(const Recording& recording) { return Explainer(recording).explain(); }

std::string sentence_of(const Diagnosis& finding) {
  const auto subject = [&]() -> std::string {
    switch (finding.cause) {
      case Cause::imbalance:
        return "Ranks have unequal work";
      case Cause::slow_rank:
        return fmt::format("Rank {} is slow", finding.rank);
      case Cause::slow_link:
        return fmt::format("The link from rank {} to rank {} is slow", finding.from, finding.to);
      case Cause::shared_cores:
        return "Ranks share cores";
      case Cause::step_overhead:
        return "Every step has an overhead";
      case Cause::jitter:
        return finding.rank >= 0 ? fmt::format("Rank {} is held up now and then", finding.rank)
                                 : "Steps take longer at random";
      case Cause::late_start:
        return fmt::format("Rank {} starts late", finding.rank);
      case Cause::fault:
        return finding.rank >= 0 ? fmt::format("Rank {} failed", finding.rank) : "The run failed";
    }
    return "";
  };
  if (finding.cause == Cause::fault)
    return fmt::format("{}. {} Nothing happened in the last {} of the run.", subject(),
                       finding.evidence, ms_of(finding.saved_s));
  return fmt::format("{}, which costs {} ({:.0f} % of the time). {}", subject(),
                     ms_of(finding.saved_s), 100 * finding.share, finding.evidence);
}

}  // namespace ringscope
