#include "core/explain/fitted_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace ringscope {

double quantile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}
double median_of(const std::vector<double>& values) {
  if (values.size() % 2 == 1 || values.empty()) return quantile_of(values, 0.5);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[sorted.size() / 2 - 1] + sorted[sorted.size() / 2]) / 2;
}
double least_of(const std::vector<double>& values) {
  const double least = quantile_of(values, 0);
  if (values.size() < 2) return least;
  const double bias =
      (median_of(values) - least) / (std::log(2.0) * static_cast<double>(values.size()));
  return std::max(0.0, least - bias);
}
double fixed_part(const std::vector<double>& at_low, double low, const std::vector<double>& at_high,
                  double high) {
  if (!(high > low)) return 0;
  const double slope = (least_of(at_high) - least_of(at_low)) / (high - low);
  const double doubt = (2e-9 + (median_of(at_low) - quantile_of(at_low, 0)) +
                        (median_of(at_high) - quantile_of(at_high, 0))) /
                       (high - low) * low;
  const double fixed = least_of(at_low) - slope * low;
  return slope > 0 && fixed >= 4 * doubt ? fixed : 0;
}

namespace {

constexpr double kLeastSlowness = 1.008;  // of a rank or link that is called slow, simulated
constexpr double kLeastSlownessOfReal = 1.2;
constexpr std::size_t kLeastToTell = 4;  // real computations or hops that tell this
constexpr double kPlainlySlow = 4;       // times as long as usual: two real hops tell this
constexpr double kBeyondChance = 5;      // standard errors
constexpr double kOwnCore = 0.9;         // least processor time of a computation with its own core
constexpr double kWholly = 0.999;        // the same of a simulated one
constexpr double kAsleep = 0.6;          // a rank that gets less of its share sleeps
constexpr double kMostlyAsleep = 0.4;    // the same for half of its computations
constexpr double kBusyCores = 0.4;       // least use of cores that are said to be shared
constexpr double kNowAndThen = 0.01;     // share of the time that is ignored
constexpr double kHeldUp = 1.5;  // what a rank loses, of what most lose, from which it is held up
constexpr double kTaken = 0.02;  // seconds for which a scheduler may take the core from a thread
constexpr int kMostSharedRanks = 512;  // the simulator's limit

// How long computations ran at once, from when each begins (+1) and ends (-1), in nanoseconds.
class AtOnce {
 public:
  AtOnce(const std::vector<std::pair<std::int64_t, int>>& changes, int ranks)
      : seconds_(static_cast<std::size_t>(ranks) + 1) {
    int busy = 0;
    for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
      busy = std::clamp(busy + changes[i].second, 0, ranks);
      seconds_[static_cast<std::size_t>(busy)] +=
          1e-9 * static_cast<double>(changes[i + 1].first - changes[i].first);
    }
  }

  // Return the processor time that so many cores could give meanwhile, if each recorded rank stands
  // for `ranks`.
  double capacity(int cores, double ranks = 1) const {
    double sum = 0;
    for (std::size_t k = 1; k < seconds_.size(); ++k)
      sum += seconds_[k] * std::min(ranks * static_cast<double>(k), static_cast<double>(cores));
    return sum;
  }
  // Return the number of cores whose capacity is nearest to `spent` seconds.
  int cores_for(double spent) const {
    int cores = 1;
    while (cores + 1 < static_cast<int>(seconds_.size()) &&
           std::abs(capacity(cores + 1) - spent) < std::abs(capacity(cores) - spent))
      ++cores;
    return cores;
  }
  // Return the most computations that ran at once for more than a moment.
  int most() const {
    std::size_t most = seconds_.size() - 1;
    for (double at_least = seconds_[most]; most > 1 && at_least < kNowAndThen * capacity(1);)
      at_least += seconds_[--most];
    return static_cast<int>(most);
  }

 private:
  std::vector<double> seconds_;  // [count]
};

bool is_computation(const TraceEvent& e) {
  return e.lane == Lane::compute && e.end_ns > e.begin_ns && e.pairs > 0;
}

double low_median(const std::vector<double>& values) { return quantile_of(values, 0.5); }

// Return the standard error of a median of `count` values that scatter like `values`.
double scatter_of(const std::vector<std::vector<double>>& groups) {
  std::vector<double> off, lone;
  for (const auto& group : groups)
    if (group.size() == 1) lone.push_back(group[0]);
  const double usual = median_of(lone);
  for (const auto& group : groups) {
    // Of groups of one, only the others tell how far chance goes, if they are enough.
    if (group.size() == 1) off.push_back(lone.size() < 4 ? 0 : std::abs(group[0] - usual));
    if (group.size() < 2) continue;
    const double middle = median_of(group);
    // A group of two says less than half about its scatter.
    const double scale = group.size() > 2 ? 1.0 : 2.0;
    for (const double value : group) off.push_back(scale * std::abs(value - middle));
  }
  return 1.4826 * 1.25 * quantile_of(off, 0.5);
}

// Return whether two times differ by more than rounding.
bool differ(double least, double most) { return most > 1.001 * least + 2e-9; }

using ByRank = std::vector<std::vector<double>>;

// Return what each rank's median is above that of most, and 0 where chance may be the reason. If
// `alone` is what a rank has without chance, most have so much more by chance.
std::vector<double> distances(const ByRank& of_ranks, double& usual, double alone = 0) {
  std::vector<double> middles;
  for (const auto& mine : of_ranks)
    if (!mine.empty()) middles.push_back(median_of(mine));
  usual = low_median(middles);
  const double chance = alone > 0 ? usual - alone : 0;
  const double scatter = std::max(scatter_of(of_ranks), chance);
  std::vector<double> result;
  for (const auto& mine : of_ranks) {
    const double off = mine.empty() ? 0 : median_of(mine) - usual;
    const double error = scatter / std::sqrt(std::max(1.0, static_cast<double>(mine.size())));
    result.push_back(std::abs(off) < kBeyondChance * error ? 0 : off);
  }
  return result;
}

// Return what a rank loses at a time if it loses about as much again and again, otherwise 0. Fewer
// than four losses may differ by the share `few`, others by `many`.
double steady_loss(std::vector<double> losses, double few = 0.1, double many = 0.15) {
  std::sort(losses.begin(), losses.end());
  // One that is much longer than all others is a late start.
  if (losses.size() > 2 && losses.back() > 1.5 * losses[losses.size() - 2]) losses.pop_back();
  const double most = losses.empty() ? 0 : losses.back();
  std::erase_if(losses, [&](double loss) { return loss <= 0.1 * most; });
  if (losses.size() < 2) return 0;
  const double middle = median_of(losses), off = (losses.size() < 4 ? few : many) * middle;
  const auto alike = std::count_if(losses.begin(), losses.end(),
                                   [&](double loss) { return std::abs(loss - middle) <= off; });
  return static_cast<double>(alike) >= 0.75 * static_cast<double>(losses.size()) ? middle : 0;
}

}  // namespace

FittedRun::FittedRun(const Recording& recording)
    : recording_(recording), times_(recording), n_(times_.ranks()) {
  if (!times_.info().is_whole()) return;  // half a run says little about its machine
  find_sharing();
  take_base();
  fit_computing();
  fit_hops();
}

// Find out whether ranks shared cores: computations then have less processor time than wall time,
// and all cores are busy while more ranks than cores compute. A rank that sleeps leaves them idle.
void FittedRun::find_sharing() {
  double spent = 0, lasted = 0;
  int computing = 0, recorded = 0;  // ranks
  std::vector<std::pair<std::int64_t, int>> changes;
  const auto collect = [&] {
    spent = lasted = 0, computing = recorded = 0, changes.clear();
    for (std::size_t rank = 0; rank < recording_.events.size(); ++rank) {
      const auto& events = recording_.events[rank];
      const std::size_t before = changes.size();
      recorded += !events.empty();
      for (const TraceEvent& e : events) {
        if (!is_computation(e) || sleepers_.contains(static_cast<int>(rank))) continue;
        spent += 1e-9 * static_cast<double>(e.cpu_ns);
        lasted += 1e-9 * static_cast<double>(e.end_ns - e.begin_ns);
        changes.emplace_back(e.begin_ns, 1);
        changes.emplace_back(e.end_ns, -1);
      }
      computing += changes.size() > before;
    }
    std::sort(changes.begin(), changes.end());  // ends come before begins of the same moment
  };
  collect();
  const bool exact = times_.is_simulated();
  if (spent > 0 && !exact && !times_.is_profile()) taken_ = kTaken;
  int cores = times_.info().machine ? times_.info().machine->cores : 0;
  const bool interrupted = spent > 0 && spent < (exact ? kWholly : kOwnCore) * lasted;
  // Who loses a core although there are enough sleeps, or lost it to another program.
  if (!interrupted || cores >= n_) cores_in_turn_ = cores;
  if (!interrupted && (cores > 0 || exact)) return;
  if (interrupted && cores > 0 && taken_ > 0) {
    find_sleepers(cores, changes);
    if (!sleepers_.empty()) collect();
    if (computing <= cores) return void(cores_in_turn_ = cores);
  }
  const AtOnce at_once(changes, n_);
  if (!interrupted) {
    // Computations too short to be interrupted look whole, but those of so many ranks never overlap.
    if (at_once.most() < computing) cores_in_turn_ = at_once.most();
    return;
  }
  if (cores == 0) cores = at_once.cores_for(spent);
  const double each = static_cast<double>(n_) / std::max(1, recorded);
  const double capacity = at_once.capacity(cores, each) / each;
  if (cores >= n_ || (!exact && spent < kBusyCores * capacity)) return;
  cores_ = cores;
  given_ = exact ? 1 : std::min(1.0, spent / capacity);
}

// Find ranks that have far less than their share of the cores while they compute: they sleep.
void FittedRun::find_sleepers(int cores, const std::vector<std::pair<std::int64_t, int>>& changes) {
  std::vector<double> fair{0};  // [change]: what a rank that computed all the time had got by then
  int busy = 0;
  for (std::size_t i = 1; i < changes.size(); ++i) {
    busy += changes[i - 1].second;
    const double share = busy > 0 ? std::min(1.0, static_cast<double>(cores) / busy) : 0;
    fair.push_back(fair.back() +
                   1e-9 * share * static_cast<double>(changes[i].first - changes[i - 1].first));
  }
  const auto fair_at = [&](std::int64_t ns) {
    const auto at = std::upper_bound(changes.begin(), changes.end(), std::pair(ns, 2));
    return fair[static_cast<std::size_t>(at - changes.begin()) - 1];
  };
  const auto fair_share = [&](const TraceEvent& e) {
    return fair_at(e.end_ns) - fair_at(e.begin_ns);
  };
  std::vector<double> all;  // what each computation got of its share
  for (const auto& events : recording_.events)
    for (const TraceEvent& e : events)
      if (is_computation(e))
        all.push_back(1e-9 * static_cast<double>(e.cpu_ns) / std::max(fair_share(e), 1e-12));
  const double usual = std::min(1.0, median_of(all));
  for (std::size_t rank = 0; rank < recording_.events.size(); ++rank) {
    double lost = 0, spent = 0;
    std::vector<double> mine[2], shares;
    for (const TraceEvent& e : recording_.events[rank]) {
      if (e.lane != Lane::compute || e.step < 0 || e.step >= n_) continue;
      const double lasted = 1e-9 * static_cast<double>(e.end_ns - e.begin_ns),
                   cpu = 1e-9 * static_cast<double>(e.cpu_ns);
      const double got = is_computation(e) ? fair_share(e) : lasted;
      const double slept = std::max(0.0, lasted - cpu * lasted / std::max(got, 1e-12));
      auto& by_step = mine[of(e.pass)];
      by_step.resize(times_.steps(e.pass).size());
      by_step[at(static_cast<int>(rank), e.step)] += slept;
      if (is_computation(e) || lasted > taken_)
        shares.push_back(cpu / std::max(got, 1e-12)), lost += got - cpu, spent += cpu;
    }
    // A rank that loses its core now and then has its share the rest of the time.
    const bool always = quantile_of(shares, 0.75) < kAsleep * usual,
               mostly = median_of(shares) < kMostlyAsleep && lost > kAsleep * (lost + spent);
    if (!((always || mostly) && lost > taken_)) continue;
    sleepers_.insert(static_cast<int>(rank));
    for (const Pass pass : kAllPasses) {
      slept_[of(pass)].resize(times_.steps(pass).size());
      for (std::size_t i = 0; i < mine[of(pass)].size(); ++i)
        slept_[of(pass)][i] += mine[of(pass)][i];
    }
  }
}

void FittedRun::take_base() {
  base_.cores = shares_cores() && n_ <= kMostSharedRanks ? cores_ : 0;
  for_steps([&](Pass pass, std::size_t, const RankStep& step) {
    const std::size_t i = base_.steps[of(pass)].size();
    base_.steps[of(pass)].push_back(base_.cores > 0 ? alone(step) + slept(pass, i) : step.all());
  });
  for_hops([&](Pass pass, Payload payload, Way way, const std::vector<RecordedHop>& hops) {
    auto& table = hops_of(base_, pass, payload, way);
    for (const RecordedHop& hop : hops)
      table.push_back(hop.known ? hop.seconds : std::numeric_limits<double>::quiet_NaN());
  });
}

// Return the rate that a simulation was given, 0 if there is none.
double FittedRun::given_flops(Pass pass) const {
  const auto& machine = times_.info().machine;
  if (!times_.is_simulated() || !machine) return 0;
  return static_cast<double>(pass == Pass::forward ? machine->forward_flops
                                                   : machine->backward_flops);
}

// Fit what a rank takes for a pair, and for a step besides, when nothing holds it up.
void FittedRun::fit_computing() {
  const bool simulated = times_.is_simulated();
  std::vector<std::vector<double>> around(static_cast<std::size_t>(n_));
  for_steps([&](Pass, std::size_t i, const RankStep& step) {
    if (step.known) around[static_cast<std::size_t>(rank_of(i))].push_back(step.around - step.lead);
  });
  for (auto& mine : around)
    if (!mine.empty()) mine.pop_back();  // nothing comes after a rank's last step
  if (!simulated) {
    std::vector<double> of_ranks;
    for (const auto& mine : around)
      if (!mine.empty())
        of_ranks.push_back(!shares_cores() && quantile_of(mine, 0.75) < 2 * quantile_of(mine, 0.25)
                               ? median_of(mine)
                               : least_of(mine));
    fixed_ = low_median(of_ranks);
  }
  for (const Pass pass : kAllPasses) {
    if (!times_.has(pass)) continue;
    if (const double flops = given_flops(pass); flops > 0) {
      pair_s_[of(pass)] = times_.flops_a_pair(pass) / flops;
      knows_rates_ = true;
      continue;
    }
    std::vector<double> of_ranks;
    for (const auto& mine : paces(pass, 0))
      if (!mine.empty()) of_ranks.push_back(simulated ? least_of(mine) : median_of(mine));
    pair_s_[of(pass)] = low_median(of_ranks);
  }
  if (simulated) fit_step();
  fit_gaps();
  fit_ranks();
  // Ranks that were not recorded take what they should, and who shares cores waits for them also
  // between computations.
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    base_step(base_, pass, i) -= waited_for_core(pass, i, step);
    if (!step.known) base_step(base_, pass, i) = expected(pass, i, step);
  });
}

// Fit what most real ranks do after each step besides, such as adding gradients up.
void FittedRun::fit_gaps() {
  const auto n = static_cast<std::size_t>(n_);
  for (const Pass pass : kAllPasses)
    for (std::size_t at = 0; at < n && times_.has(pass); ++at) {
      std::vector<double> gaps;
      for (std::size_t i = at; i < n * n; i += n)
        if (const RankStep& step = times_.steps(pass)[i]; step.known)
          gaps.push_back(step.around - step.lead);
      const bool tells = taken_ > 0 && !shares_cores() && gaps.size() > 1;
      gaps_[of(pass)].push_back(std::max(fixed_, tells ? low_median(gaps) : 0));
    }
}

// Return the seconds per pair of every rank's computations beyond `fixed` seconds a step. Small
// ones are left out.
std::vector<std::vector<double>> FittedRun::paces(Pass pass, double fixed) const {
  std::vector<double> works;
  for (const RankStep& step : times_.steps(pass))
    if (step.known && step.work > 0) works.push_back(step.work);
  const double enough = 0.25 * median_of(works);
  std::vector<std::vector<double>> result(static_cast<std::size_t>(n_));
  for (std::size_t i = 0; i < times_.steps(pass).size(); ++i) {
    const RankStep& step = times_.steps(pass)[i];
    if (!step.known || step.work <= 0 || step.work < enough) continue;
    result[static_cast<std::size_t>(rank_of(i))].push_back(
        ((times_.is_simulated() ? alone(step) : computing(step)) - fixed) / step.work);
  }
  return result;
}

// Fit what a simulated step costs besides its pairs: what every step takes longer than its pairs
// at the least or, where the rates are unknown, where a line through the least times begins.
void FittedRun::fit_step() {
  std::vector<double> rest;
  if (knows_rates_) {
    for_steps([&](Pass pass, std::size_t, const RankStep& step) {
      if (step.known && step.pairs > 0)
        rest.push_back((alone(step) - pair_s_[of(pass)] * step.work) / step.parts);
    });
    if (rest.empty()) return;
    const double least = quantile_of(rest, 0);
    const double bias =
        (median_of(rest) - least) / (std::log(2.0) * static_cast<double>(rest.size()));
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
  const double fixed = fixed_part(at_low, low, at_high, high);
  if (!(fixed > 0)) return;
  fixed_ = fixed;
  for (const Pass each : kAllPasses) {
    std::vector<double> of_ranks;
    for (const auto& mine : paces(each, fixed_))
      if (!mine.empty()) of_ranks.push_back(least_of(mine));
    if (!of_ranks.empty()) pair_s_[of(each)] = low_median(of_ranks);
  }
}

double FittedRun::should(Pass pass, const RankStep& step) const {
  return pair_s_[of(pass)] * step.work + fixed_of(step);
}

// Return how long a rank that shares cores had none between two computations.
double FittedRun::waited_for_core(Pass pass, std::size_t i, const RankStep& step) const {
  const double off = step.around - step.lead - fixed_ - extra_[of(pass)][i];
  return base_.cores > 0 && taken_ > 0 && off > 0 && off < taken_ ? off : 0;
}

// Return what a computation takes on its rank without chance.
double FittedRun::expected(Pass pass, std::size_t i, const RankStep& step) const {
  const auto rank = static_cast<std::size_t>(rank_of(i));
  return pair_s_[of(pass)] * step.work * slowness_[rank] + fixed_of(step) + extra_[of(pass)][i];
}

// Find ranks that are slower than others: by a factor, and real ones by time that they lose at every
// step.
void FittedRun::fit_ranks() {
  slowness_.assign(static_cast<std::size_t>(n_), 1);
  loss_.assign(static_cast<std::size_t>(n_), 0);
  for (const Pass pass : kAllPasses) extra_[of(pass)].assign(times_.steps(pass).size(), 0);
  fit_factors();
  if (!times_.is_simulated()) fit_extras();
}

void FittedRun::fit_factors() {
  std::vector<double> works;
  for_steps([&](Pass, std::size_t, const RankStep& step) {
    if (step.known && step.work > 0) works.push_back(step.work);
  });
  const double enough = 0.25 * median_of(works);
  ByRank of_ranks(static_cast<std::size_t>(n_));
  // Real blocks at the edge of the mask take longer for their pairs, on all ranks at the same step.
  std::map<std::pair<Pass, std::size_t>, std::vector<std::pair<double, int>>> of_steps;
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    if (!step.known || step.work < enough || !(pair_s_[of(pass)] * step.work > 0)) return;
    const double seconds =
        times_.is_simulated() ? alone(step) - step.lead - fixed_of(step) : own(step);
    of_steps[{pass, i % static_cast<std::size_t>(n_)}].emplace_back(
        seconds / (pair_s_[of(pass)] * step.work), rank_of(i));
  });
  for (auto& [step, ranks] : of_steps) {
    std::sort(ranks.begin(), ranks.end());
    const double most = times_.is_simulated() ? 1 : ranks[(ranks.size() - 1) / 2].first;
    if ((times_.is_simulated() || ranks.size() > 1) && most > 0)
      for (const auto& [pace, rank] : ranks)
        of_ranks[static_cast<std::size_t>(rank)].push_back(pace / most);
  }
  double usual = 0;
  const std::vector<double> off = distances(of_ranks, usual, knows_rates_ ? 1 : 0);
  for (std::size_t rank = 0; rank < off.size(); ++rank) {
    const double factor = usual > 0 ? 1 + off[rank] / usual : 1;
    if (of_ranks[rank].size() < (times_.is_simulated() ? 1 : kLeastToTell)) continue;
    // A slow rank is never as fast as the others, but one that chance holds up is.
    if (factor > 1 && quantile_of(of_ranks[rank], 0) < (1 + factor) / 2) continue;
    const double least = times_.is_simulated() ? kLeastSlowness : kLeastSlownessOfReal;
    if (std::abs(std::log(factor)) > std::log(least)) slowness_[rank] = factor;
  }
}

// A rank loses time either between its computations, again and again as much, or in each of them.
void FittedRun::fit_extras() {
  double mean = 0, count = 0;
  std::vector<double> lost(static_cast<std::size_t>(n_));  // between computations
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    mean += should(pass, step), ++count;
    if (step.known)
      lost[static_cast<std::size_t>(rank_of(i))] +=
          std::max(0.0, step.around - late_by(step) - fixed_);
  });
  const double usual = low_median(lost);
  const double enough = (kLeastSlownessOfReal - 1) * mean / std::max(1.0, count);
  for (int rank = 0; rank < n_; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (lost[r] < kHeldUp * usual || !(lost[r] - usual > enough * count / n_)) continue;
    std::vector<double> gaps = times_.gaps(rank);
    // What a profile shows of a call is short beside what a rank loses.
    const bool profile = times_.is_profile();
    std::sort(gaps.begin(), gaps.end());
    const double little = profile && gaps.size() > 1 ? 0.5 * gaps[gaps.size() - 2] : taken_;
    std::erase_if(gaps, [&](double gap) { return gap <= little; });
    // Messages that a rank sends at once may each be late.
    const double least = quantile_of(gaps, 0);
    for (double& gap : gaps) gap /= profile ? 1.0 : std::max(1.0, std::round(gap / least));
    loss_[r] = profile ? steady_loss(gaps, 0.25, 0.25) : steady_loss(gaps, 0.15);
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      // What is much longer before the first step is a late start.
      const double start = step.lead > 1.5 * loss_[r] ? late_by(step) : 0;
      const double extra = step.around - start - fixed_;
      if (rank_of(i) == rank && extra > 0.5 * loss_[r] && loss_[r] > 0) extra_[of(pass)][i] = extra;
    });
  }
  // Sleeps are as long in both passes, but what a slow processor loses is not.
  ByRank all(lost.size()), by_pass[2] = {all, all};
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    if (!step.known) return;
    const double off = shares_cores() ? 0 : std::max(0.0, step.seconds - step.cpu);
    for (ByRank* losses : {&all, &by_pass[of(pass)]})
      (*losses)[static_cast<std::size_t>(rank_of(i))].push_back(
          computing(step) + slept(pass, i) -
          pair_s_[of(pass)] * step.work * slowness_[static_cast<std::size_t>(rank_of(i))] -
          (off > taken_ ? 0 : off));
  });
  double usual_loss = 0;
  const std::vector<double> off = distances(all, usual_loss);
  for (std::size_t rank = 0; rank < off.size(); ++rank) {
    const double always = steady_loss(all[rank]);
    double extra[2], least = off[rank];
    for (const Pass pass : kAllPasses) {
      extra[of(pass)] = always > 0 ? always : steady_loss(by_pass[of(pass)][rank]);
      if (times_.has(pass)) least = std::min(least, extra[of(pass)]);
    }
    if (!(least > enough)) continue;
    loss_[rank] = std::max(loss_[rank], extra[0]);
    for_steps([&](Pass pass, std::size_t i, const RankStep&) {
      if (rank_of(i) == static_cast<int>(rank)) extra_[of(pass)][i] += extra[of(pass)] - usual_loss;
    });
  }
}

// ---
// Links.

void FittedRun::fit_hops() {
  const auto& machine = times_.info().machine;
  has_one_link_ = times_.link() && machine->nodes <= 1 && machine->between.empty();
  for_hops([&](Pass pass, Payload payload, Way way, const std::vector<RecordedHop>& hops) {
    double most = 0, most_s = 0;  // the size of the largest hop, and what it takes inside a node
    for (const RecordedHop& hop : hops)
      if (hop.known)
        most = std::max(most, size_of(hop)), most_s = std::max(most_s, times_.alone_s(hop));
    std::vector<LinkTimes> links(static_cast<std::size_t>(n_));
    bool varies = false;  // whether chance plays a part
    std::map<std::pair<int, double>, double> by_size;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const RecordedHop& hop = hops[i];
      if (!hop.known || !(hop.bytes > 0)) continue;
      const int from = static_cast<int>(i % static_cast<std::size_t>(n_));
      LinkTimes& link = links[static_cast<std::size_t>(from)];
      link = {pass, payload, way, from, hop.to, most, std::move(link.seconds), 0};
      link.seconds.push_back(hop.seconds * most / size_of(hop));
      const auto [same, is_new] = by_size.emplace(std::pair(from, hop.bytes), hop.seconds);
      varies = varies || (!is_new && differ(std::min(same->second, hop.seconds),
                                            std::max(same->second, hop.seconds)));
    }
    std::vector<double> middles;
    std::vector<std::vector<double>> groups;
    for (LinkTimes& link : links) {
      if (link.seconds.empty()) continue;
      link.middle = median_of(link.seconds);
      middles.push_back(link.middle);
      groups.push_back(link.seconds);
    }
    if (middles.empty()) return;
    // Of hops that are alone on their links, hardly two are alike by chance.
    std::vector<double> sorted = middles;
    std::sort(sorted.begin(), sorted.end());
    const auto kinds = std::unique(sorted.begin(), sorted.end(),
                                   [](double a, double b) { return !differ(a, b); }) -
                       sorted.begin();
    varies = varies || 2 * kinds > static_cast<std::ptrdiff_t>(middles.size());
    double scatter = varies || !times_.is_simulated() ? scatter_of(groups) : 0,
           usual = quantile_of(middles, 0.25);
    if (has_one_link_ && varies) scatter = std::max(scatter, median_of(middles) - most_s);
    // Where all links of a kind join nodes, a link inside a node is as slow as its name says.
    if (times_.link() && !varies) usual = std::min(usual, most_s);
    auto& table = hops_of(base_, pass, payload, way);
    const auto n = static_cast<std::size_t>(n_);
    std::vector<double> of_step;
    for (std::size_t i = 0; i < table.size() && !times_.is_whole(); ++i) {
      // A hop of a rank that was not recorded takes as long as most do at its step.
      if (i % n == 0) {
        of_step.clear();
        for (std::size_t k = i; k < i + n; ++k)
          if (hops[k].known) of_step.push_back(hops[k].seconds);
      }
      const bool last = i / n + 1 >= n;
      if (std::isnan(table[i]) && !(last && payload == Payload::kv))
        table[i] = of_step.empty() ? usual : quantile_of(of_step, 0.25);
    }
    const bool simulated = times_.is_simulated();
    const double least = simulated ? kLeastSlowness : 2 * kLeastSlownessOfReal - 1;
    if (!simulated) usual = median_of(middles);
    // Links that are alike say together what chance leaves.
    std::vector<double> alike;
    for (const LinkTimes& link : links)
      if (link.middle < 1.5 * usual)
        alike.insert(alike.end(), link.seconds.begin(), link.seconds.end());
    for (LinkTimes& link : links) {
      if (link.seconds.empty()) continue;
      const double error = scatter / std::sqrt(static_cast<double>(link.seconds.size()));
      // Where one link is the rule and hops vary, two hops tell no slow link from chance.
      // A real slow link is never as fast as the others.
      const bool tells = simulated ? !(has_one_link_ && varies && link.seconds.size() < 3)
                                   : quantile_of(link.seconds, 0) >
                                         usual * (link.seconds.size() >= kLeastToTell ? least
                                                  : link.seconds.size() > 1
                                                      ? kPlainlySlow
                                                      : std::numeric_limits<double>::infinity());
      const bool slow =
          tells && link.middle > least * usual && link.middle - usual >= kBeyondChance * error;
      double steady = varies ? least_of(link.seconds) : quantile_of(link.seconds, 1);
      if (!slow && link.middle < 1.5 * usual && varies) steady = std::min(steady, least_of(alike));
      const double slowness = slow ? link.middle / std::max(usual, 1e-12) : 1;
      if (has_one_link_) steady = std::min(steady, most_s * slowness);
      // Of an all-to-all, a message to another node is the slow one.
      if (slow && times_.info().scheme == name_of(Scheme::ulysses) && machine && machine->nodes > 1)
        link.to = (link.from + n_ / machine->nodes) % n_;
      links_.push_back({link, slowness, steady});
    }
  });
}

}  // namespace ringscope
