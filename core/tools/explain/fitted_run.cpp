#include "core/tools/explain/fitted_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/ranges.h"
#include "core/tools/explain/explain.h"

namespace ringscope {

namespace {

// The thresholds below are no fits: each separates two things of different size, and the range behind
// it is that in which the tests of explain pass, found by changing one of them at a time.

// A simulated rank that is less slow costs less than is worth a finding (1.002 to 1.024).
constexpr double kLeastSlowness = 1 + kLeastShare;
// Times of one real kernel vary by 5 to 15 % from rank to rank, and more for reasons (1.05 to 1.5).
constexpr double kLeastSlownessOfReal = 1.2;
// So many real computations of a rank must agree that it is slow; two agree by chance in one of four
// pairs of ranks (2 to 6).
constexpr std::size_t kLeastToTell = 4;
// Standard errors of a median: chance goes beyond five in one of two million (2 to 10).
constexpr double kBeyondChance = 5;
// Processor time over time of a thread that has a core to itself: the system takes a few per cent from
// it, and two threads on one core have half (0.5 to 0.99). Simulated, only rounding to nanoseconds
// takes anything (0.99 to 0.9999).
constexpr double kOwnCore = 0.9;
constexpr double kWholly = 0.999;
// Of the time of the cores that ranks share: where they got less, other programs had most of it, and
// how many cores there are says nothing (0.2 to 0.8).
constexpr double kBusyCores = 0.4;
// Of a pass: chance below a third of a finding's least share is none (0.0003 to 0.03).
constexpr double kLeastJitter = kLeastShare / 3;
// Seconds for which a scheduler may keep a thread from its core at a time, per thread on that core, and
// for two at least: Linux gives each of a few 3 to 8 ms in turn, and other programs have theirs.
constexpr double kTaken = 0.01;
// A rank that sleeps on purpose does so for as long each time, but for what its timer adds
// (0.05 to 0.6).
constexpr double kAlikeLoss = 0.2;

using Groups = std::vector<std::vector<double>>;

// The lower one of two in the middle, because what holds ranks up lengthens times.
double low_median(const std::vector<double>& values) { return quantile_of(values, 0.5); }

// Return the least that a time takes which chance only lengthens, from draws of it. The least of n
// exponential draws is 1/n of their mean too large.
double least_of(const std::vector<double>& values) {
  const double least = quantile_of(values, 0);
  if (values.size() < 2) return least;
  const double bias =
      (median_of(values) - least) / (std::log(2.0) * static_cast<double>(values.size()));
  return std::max(0.0, least - bias);
}

// Return the standard error of a median of one, from how far the values of these groups are from
// their group's median.
double scatter_of(const Groups& groups) {
  std::vector<double> off, lone;
  for (const auto& group : groups)
    if (group.size() == 1) lone.push_back(group[0]);
  const double usual = median_of(lone);
  for (const auto& group : groups) {
    // Of groups of one, only the others tell how far chance goes, if they are enough.
    if (group.size() == 1) off.push_back(lone.size() < 4 ? 0 : std::abs(group[0] - usual));
    // A group of two says less than half about its scatter.
    const double scale = group.size() > 2 ? 1.0 : 2.0, middle = median_of(group);
    for (std::size_t i = 0; i < group.size() && group.size() > 1; ++i)
      off.push_back(scale * std::abs(group[i] - middle));
  }
  return 1.4826 * 1.25 * quantile_of(off, 0.5);
}

// Return whether two times differ by more than rounding.
bool differ(double a, double b) { return std::max(a, b) > 1.001 * std::min(a, b) + 2e-9; }

// Return how many times as long as `usual` each group takes, by its median, or 1 where chance may be
// the reason. `scatter` is that of one time by chance.
std::vector<double> slowness_of(const Groups& groups, double usual, double scatter, double least,
                                std::size_t enough) {
  std::vector<double> result;
  for (const auto& times : groups) {
    const double factor = usual > 0 && times.size() >= enough ? median_of(times) / usual : 1;
    const double error = scatter / std::sqrt(std::max(1.0, static_cast<double>(times.size())));
    const bool tells = std::abs(factor - 1) * usual >= kBeyondChance * error &&
                       (factor < 1 || quantile_of(times, 0) >= (1 + factor) / 2 * usual);
    result.push_back(tells && std::abs(std::log(factor)) > std::log(least) ? factor : 1);
  }
  return result;
}

}  // namespace

FittedRun::FittedRun(const Recording& recording)
    : run_(recording),
      n_(run_.ranks),
      fits_(run_.steps.size()),
      slowness_(n_, 1),
      loss_(n_),
      late_(n_),
      late_extra_(n_) {
  if (!run_.info.is_whole()) return;  // half a run says little about its machine
  for (std::size_t rank = 0; rank < late_.size() && !run_.info.is_midway; ++rank)
    late_[rank] = run_.begins[rank] - quantile_of(run_.begins, 0);
  find_sharing();
  fit_pace();
  fit_gaps();
  fit_slowness();
  if (!run_.is_simulated()) fit_losses();
  take_base();
  std::map<std::tuple<Pass, Payload, Way>, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < run_.hops.size(); ++i) {
    const RecordedHop& hop = run_.hops[i];
    base_.hops.push_back(hop.seconds);
    kinds[{hop.pass, hop.payload, hop.way}].push_back(i);
  }
  for (const auto& [kind, hops] : kinds) fit_links(hops);
}

// Find out whether ranks shared cores: most then have less processor time than they compute, and
// there are fewer cores than ranks. A real rank that has a core for far less of the time sleeps.
void FittedRun::find_sharing() {
  const bool simulated = run_.is_simulated();
  std::vector<double> cpu(n_), lasted(n_), count(n_), shares;
  for (const RankStep& step : run_.steps)
    if (step.pairs > 0)
      cpu[step.rank] += step.cpu, lasted[step.rank] += step.seconds, ++count[step.rank];
  for (std::size_t rank = 0; rank < cpu.size(); ++rank)
    if (lasted[rank] > 0) shares.push_back(cpu[rank] / lasted[rank]);
  const double usual = median_of(shares);
  if (usual > 0 && !simulated && !run_.is_profile()) taken_ = 2 * kTaken;
  for (int rank = 0; rank < n_ && taken_ > 0; ++rank) {
    const double own = cpu[rank] / usual, time = lasted[rank];
    if (own < 0.5 * time && time - own > taken_ * count[rank]) sleepers_.insert(rank);
  }
  known_cores_ = run_.info.machine ? run_.info.machine->cores : 0;
  // Of a simulation with many ranks, those that are recorded stand for all.
  const int ranks = simulated ? n_ : static_cast<int>(shares.size() - sleepers_.size());
  if (!(usual > 0) || usual >= (simulated ? kWholly : kOwnCore)) return;
  const int cores =
      known_cores_ > 0 ? known_cores_ : std::max(1, static_cast<int>(std::lround(ranks * usual)));
  // Who loses a core although there are enough lost it to another program.
  const double share = static_cast<double>(cores) / ranks;  // while all compute
  if (share >= 1 || (!simulated && usual < kBusyCores * share)) return;
  cores_ = cores;
  given_ = simulated ? 1 : std::min(1.0, usual / share);
  if (taken_ > 0) taken_ = kTaken * std::max(2.0, 1 / share);
  for (std::size_t i = 0; i < fits_.size(); ++i) {
    const RankStep& step = run_.steps[i];
    if (!step.known) continue;
    if (sleepers_.contains(step.rank))
      fits_[i].slept = std::max(0.0, step.seconds - step.cpu / usual);
    fits_[i].waited = std::max(0.0, step.seconds - fits_[i].slept - computing(step));
  }
}

// Return the rate that a simulation was given, 0 if there is none.
double FittedRun::given_flops(Pass pass) const {
  const auto& machine = run_.info.machine;
  if (!run_.is_simulated() || !machine) return 0;
  return static_cast<double>(pass == Pass::forward ? machine->forward_flops
                                                   : machine->backward_flops);
}

bool FittedRun::is_large(const RankStep& step) const {
  return step.known && step.work > 0 && step.work >= large_;
}

// Fit what a rank takes for a pair when nothing holds it up, and for a simulated step besides: what
// every step takes longer than its pairs at the least.
void FittedRun::fit_pace() {
  std::vector<double> works;
  for (const RankStep& step : run_.steps)
    if (step.known && step.work > 0) works.push_back(step.work);
  large_ = 0.25 * median_of(works);
  for (const Pass pass : kAllPasses) {
    if (const double flops = given_flops(pass); flops > 0) {
      pair_s_[of(pass)] = run_.flops_a_pair(pass) / flops;
      continue;
    }
    Groups paces(n_);
    std::vector<double> of_ranks;
    for (const RankStep& step : run_.steps)
      if (step.pass == pass && is_large(step))
        paces[step.rank].push_back(computing(step) / step.work);
    for (const auto& mine : paces)
      if (!mine.empty()) of_ranks.push_back(run_.is_simulated() ? least_of(mine) : median_of(mine));
    pair_s_[of(pass)] = low_median(of_ranks);
  }
  if (!run_.is_simulated()) return;
  std::vector<double> rest;
  for (const RankStep& step : run_.steps)
    if (step.known && step.pairs > 0)
      rest.push_back((computing(step) - pair_s_[of(step.pass)] * step.work) / step.parts);
  const double least = quantile_of(rest, 0), bias = least - least_of(rest);
  // A nanosecond is what rounding adds.
  if (least - bias > 4 * bias + 2e-9) fixed_ = least - bias;
}

// Fit what most real ranks do after a step besides, such as adding gradients up.
void FittedRun::fit_gaps() {
  if (run_.is_simulated()) return;
  Groups gaps(n_);
  std::map<std::pair<Pass, int>, std::vector<double>> of_steps;
  for (const RankStep& step : run_.steps) {
    if (!step.known) continue;
    gaps[step.rank].push_back(step.gap);
    of_steps[{step.pass, step.step}].push_back(step.gap);
  }
  std::vector<double> of_ranks;
  for (auto& mine : gaps) {
    if (!mine.empty()) mine.pop_back();  // nothing comes after a rank's last step
    if (!mine.empty()) of_ranks.push_back(quantile_of(mine, 0.25));
  }
  fixed_ = low_median(of_ranks);
  for (std::size_t i = 0; i < fits_.size(); ++i) {
    const RankStep& step = run_.steps[i];
    const std::vector<double>& all = of_steps[{step.pass, step.step}];
    const bool tells = taken_ > 0 && !shares_cores() && all.size() > 1;
    fits_[i].usual_gap = std::max(fixed_, tells ? low_median(all) : 0);
  }
}

// Find ranks that take longer than others for the same pairs: by processor time, where it is known.
void FittedRun::fit_slowness() {
  const bool simulated = run_.is_simulated();
  std::map<std::pair<Pass, int>, std::vector<std::pair<double, int>>> of_steps;
  for (const RankStep& step : run_.steps) {
    const double pairs = pair_s_[of(step.pass)] * step.work;
    if (!is_large(step) || !(pairs > 0)) continue;
    const double own = step.cpu > 0 ? step.cpu / given_ : computing(step);
    const double seconds = simulated ? computing(step) - fixed_of(step) : own;
    of_steps[{step.pass, step.step}].emplace_back(seconds / pairs, step.rank);
  }
  Groups of_ranks(n_);
  for (auto& [step, ranks] : of_steps) {
    ranges::sort(ranks);
    // Real blocks at the edge of the mask take longer for their pairs, on all ranks at the same step.
    const double most = simulated ? 1 : ranks[(ranks.size() - 1) / 2].first;
    if ((simulated || ranks.size() > 1) && most > 0)
      for (const auto& [pace, rank] : ranks) of_ranks[rank].push_back(pace / most);
  }
  std::vector<double> middles;
  for (const auto& mine : of_ranks)
    if (!mine.empty()) middles.push_back(median_of(mine));
  const double usual = low_median(middles);
  // Where the rate is known and a rank takes 1 without chance, most take so much more by chance.
  const bool knows_rate = given_flops(run_.has(Pass::forward) ? Pass::forward : Pass::backward) > 0;
  const double scatter = std::max(scatter_of(of_ranks), knows_rate ? usual - 1 : 0);
  slowness_ = simulated ? slowness_of(of_ranks, usual, scatter, kLeastSlowness, 1)
                        : slowness_of(of_ranks, usual, scatter, kLeastSlownessOfReal, kLeastToTell);
  // A slow rank is as slow both times where chance has no other rank to show itself.
  for (std::size_t rank = 0; rank < of_ranks.size() && simulated; ++rank)
    if (of_ranks[rank].size() == 2 && differ(of_ranks[rank][0], of_ranks[rank][1]))
      slowness_[rank] = 1;
}

// Find real ranks that lose about as much time at most steps, in computations, or before each message
// that they send. What a scheduler may take at once is chance.
void FittedRun::fit_losses() {
  const auto& steps = run_.steps;
  std::vector<double> lost(steps.size()), within = lost, sums(n_), count(n_), most(n_);
  double mean = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const RankStep& step = steps[i];
    mean += should(step) / static_cast<double>(steps.size());
    if (!step.known) continue;
    const double off = shares_cores() ? 0 : std::max(0.0, step.seconds - step.cpu);
    within[i] =
        std::max(0.0, computing(step) + fits_[i].slept - expected(step) - (off > taken_ ? 0 : off));
    lost[i] = std::max(0.0, step.gap - fits_[i].usual_gap) + within[i];
    sums[step.rank] += lost[i], count[step.rank] += step.pairs > 0;
    most[step.rank] = std::max(most[step.rank], lost[i]);
  }
  const double usual = low_median(sums);
  for (int r = 0; r < n_; ++r) {
    if (!(sums[r] + late_[r] - usual >
          std::max(0.5 * usual, (kLeastSlownessOfReal - 1) * mean * count[r])))
      continue;
    // A profile shows its calls too, which are short.
    const double little = run_.is_profile() ? 0.5 * most[r] : taken_;
    std::vector<double> losses = run_.pauses[r];
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].rank == r) losses.push_back(within[i]);
    std::erase_if(losses, [&](double loss) { return loss <= little; });
    const double unit = median_of(losses);
    const auto alike = ranges::count_if(
        losses, [&](double loss) { return std::abs(loss - unit) <= kAlikeLoss * unit; });
    if (static_cast<double>(alike) <
        std::max({0.75 * static_cast<double>(losses.size()), 0.5 * count[r], 2.0}))
      continue;
    loss_[r] = unit;
    if (late_[r] > 0.5 * unit && quantile_of(losses, 1) < 1.5 * unit) late_extra_[r] = late_[r];
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].rank == r && lost[i] > 0.5 * unit) fits_[i].extra = lost[i];
  }
}

// Take the recorded times. Ranks that were not recorded take what they should, as much longer as
// the others do where these share cores. A simulated rank that is late begins with a long step.
void FittedRun::take_base() {
  base_.begins = run_.begins;
  for (int rank = 0; rank < n_; ++rank) base_.begins[rank] += run_.begin_in_turn[rank];
  std::vector<double> longer;
  for (std::size_t rank = 0; rank < late_.size(); ++rank) late_[rank] -= late_extra_[rank];
  for (std::size_t i = 0; i < fits_.size(); ++i) {
    const RankStep& step = run_.steps[i];
    const double gap = step.gap - fixed_ - fits_[i].extra;
    if (shares_cores() && gap > 0 && gap < taken_) fits_[i].waited += gap;
    if (step.known && expected(step) > 0)
      longer.push_back((step.seconds + step.gap) / expected(step));
  }
  const double unseen = shares_cores() ? median_of(longer) : 1;
  for (std::size_t i = 0; i < fits_.size(); ++i) {
    const RankStep& step = run_.steps[i];
    if (!step.known) fits_[i].waited = (unseen - 1) * expected(step);
    base_.steps.push_back(step.known ? step.seconds + step.gap + step.in_turn
                                     : unseen * expected(step));
    if (!run_.is_simulated() || step.step > 0 || step.pass == Pass::backward) continue;
    const double late = std::max(0.0, base_.steps[i] - fits_[i].waited - expected(step));
    base_.steps[i] -= late, base_.begins[step.rank] += late, late_[step.rank] += late;
  }
}

// ---
// Links.

// Fit the links of one pass, payload and way by the pace of their hops: what they take of their time
// on a link inside a node, if a simulation says that, or else per byte.
void FittedRun::fit_links(const std::vector<std::size_t>& hops) {
  const bool simulated = run_.is_simulated();
  const int nodes = run_.info.machine ? run_.info.machine->nodes : 1;
  const bool has_one_link = run_.link && nodes <= 1 && run_.info.machine->between.empty();
  std::map<int, FittedLink> links;  // by sender
  std::map<std::pair<int, double>, double> by_size;
  bool varies = false;  // whether chance plays a part
  for (const std::size_t i : hops) {
    const RecordedHop& hop = run_.hops[i];
    if (!hop.known || !(hop.bytes > 0)) continue;
    const double pace = hop.seconds / run_.alone_s(hop);
    FittedLink& link = links[hop.from];
    link.from = hop.from, link.to = hop.to;
    link.hops.push_back(i);
    link.paces.push_back(pace);
    const auto [same, is_new] = by_size.emplace(std::pair(hop.from, hop.bytes), hop.seconds);
    varies = varies || (!is_new && differ(same->second, hop.seconds));
  }
  if (links.empty()) return;
  std::vector<double> middles, alike;
  Groups groups;
  for (const auto& [from, link] : links) {
    middles.push_back(median_of(link.paces));
    groups.push_back(link.paces);
  }
  ranges::sort(middles);
  // Of hops that are alone on their links, hardly two are alike by chance.
  std::size_t kinds = 1;
  for (std::size_t i = 1; i < middles.size(); ++i) kinds += middles[i] > 1.001 * middles[i - 1];
  varies = varies || 2 * kinds > middles.size();
  double usual = simulated ? quantile_of(middles, 0.25) : median_of(middles);
  double scatter = varies || !simulated ? scatter_of(groups) : 0;
  if (has_one_link && varies) scatter = std::max(scatter, median_of(middles) - 1);
  // Where all links of a kind join nodes, a link inside a node is as slow as its name says.
  if (run_.link && !varies) usual = std::min(usual, 1.0);
  // Links that are alike say together what chance leaves.
  for (const auto& mine : groups)
    if (median_of(mine) < 1.5 * usual) alike.insert(alike.end(), mine.begin(), mine.end());
  // Where one link is the rule and hops vary, two hops tell no slow link from chance.
  const std::vector<double> slowness =
      simulated
          ? slowness_of(groups, usual, scatter, kLeastSlowness, has_one_link && varies ? 3 : 1)
          : slowness_of(groups, usual, scatter, 2 * kLeastSlownessOfReal - 1, kLeastToTell);
  std::size_t next = 0;
  double steady = std::numeric_limits<double>::infinity();
  for (auto& [from, link] : links) {
    const double middle = median_of(link.paces);
    link.slowness = std::max(1.0, slowness[next++]);
    link.steady = varies ? least_of(link.paces) : quantile_of(link.paces, 1);
    if (link.slowness == 1 && middle < 1.5 * usual && varies)
      link.steady = std::min(link.steady, least_of(alike));
    if (has_one_link) link.steady = std::min(link.steady, link.slowness);
    steady = std::min(steady, link.steady);
    // Of an all-to-all, a message to another node is the slow one.
    if (link.slowness > 1 && run_.sends_to_all() && nodes > 1) link.to = (from + n_ / nodes) % n_;
    links_.push_back(std::move(link));
  }
  // A hop of a rank that was not recorded takes what the steadiest of its kind takes.
  for (const std::size_t i : hops)
    if (const RecordedHop& hop = run_.hops[i]; !hop.known && !run_.is_whole)
      base_.hops[i] = run_.alone_s(hop) * steady;
}

// ---
// What the run says of its machine, in the terms of a simulation.

MachineFit FittedRun::machine() const {
  MachineFit fit;
  Scenario& scenario = fit.scenario;
  scenario.job.backward = run_.has(Pass::backward);
  double pace = 1;
  scenario.jitter = jitter(pace);
  const auto rate = [&](Pass pass) {
    if (const double given = given_flops(pass); given > 0) return given;
    const double pair_s = pair_s_[of(pass)] * pace;
    return pair_s > 0 ? run_.flops_a_pair(pass) / pair_s : 0;
  };
  const double forward = rate(Pass::forward), backward = rate(Pass::backward);
  scenario.rates.forward_flops = forward > 0 ? forward : backward;
  scenario.rates.backward_flops = backward > 0 ? backward : forward;
  scenario.step_s = fixed_;
  scenario.cores = shares_cores() ? cores_ : known_cores_;
  fit.interrupted = shares_cores();
  std::vector<double> pairs(slowness_.size()), lost = late_extra_;
  for (std::size_t i = 0; i < run_.steps.size(); ++i) {
    const RankStep& step = run_.steps[i];
    pairs[step.rank] += step.known ? pair_s_[of(step.pass)] * step.work : 0;
    lost[step.rank] += fits_[i].extra;
  }
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    if (!(pairs[rank] > 0)) continue;
    // What a rank loses does not vary, but simulated jitter is in proportion to all that it takes.
    const double slowness =
        slowness_[rank] + lost[rank] / (pairs[rank] * pace * (1 + scenario.jitter));
    if (slowness != 1)
      scenario.stragglers.push_back({static_cast<int>(rank), 1 / std::max(slowness, 1e-3)});
  }
  take_links(fit);
  return fit;
}

// Return by what share of their pairs' time computations take longer by chance, 0 for next to none,
// and set the share of the fitted pace that they take without. Real paces are medians, so chance is
// a part of them: an exponential one, whose mean is as large as its standard deviation.
double FittedRun::jitter(double& pace) const {
  double should = 0, took = 0, squares = 0, spent = 0;
  for (std::size_t i = 0; i < run_.steps.size(); ++i) {
    const RankStep& step = run_.steps[i];
    if (!step.known || fits_[i].extra > 0) continue;
    const double pairs = expected(step) - fixed_of(step), time = computing(step) - fixed_of(step);
    if (!(pairs > 0)) continue;
    should += pairs;
    took += time;
    squares += time * time / pairs;
    spent += step.cpu;
  }
  if (!(should > 0)) return 0;
  const double mean = took / should;
  if (!run_.is_simulated())
    pace = std::max({mean - std::sqrt(std::max(0.0, squares / should - mean * mean)),
                     std::min(mean, spent / should), 1e-3 * mean});
  if (mean > (1 + kLeastJitter) * pace) return mean / pace - 1;
  if (!run_.is_simulated()) pace = mean;
  return 0;
}

void FittedRun::take_links(MachineFit& fit) const {
  Rates& rates = fit.scenario.rates;
  fit.link_slowness.assign(n_, 0);
  double should = 0, off = 0;
  std::map<std::pair<Pass, Payload>, double> largest;
  for (const RecordedHop& hop : run_.hops)
    largest[{hop.pass, hop.payload}] = std::max(largest[{hop.pass, hop.payload}], hop.bytes);
  std::map<double, std::vector<double>> by_size;  // of usual links, for as large a hop
  for (const FittedLink& link : links_) {
    // Chance makes a link slow for blocks of one kind, but not for all.
    if (double& slow = fit.link_slowness[link.from]; link.to == (link.from + 1) % n_)
      slow = slow > 0 ? std::min(slow, link.slowness) : link.slowness;
    for (std::size_t i = 0; i < link.hops.size(); ++i) {
      const RecordedHop& hop = run_.hops[link.hops[i]];
      const double most = largest[{hop.pass, hop.payload}];
      if (link.slowness == 1) by_size[most].push_back(hop.seconds * most / hop.bytes);
      should += link.steady * run_.alone_s(hop);
      off += hop.seconds - link.steady * run_.alone_s(hop);
    }
  }
  for (double& slow : fit.link_slowness) slow = std::max(slow, 1.0);
  if (!run_.is_whole || quantile_of(fit.link_slowness, 1) == 1) fit.link_slowness.clear();
  if (run_.is_simulated() && off > kLeastJitter * should && should > 0)
    fit.scenario.hop_jitter = off / should;
  rates.bytes_per_s = 0;
  if (run_.link) {
    rates.bytes_per_s = run_.link->bytes_per_s;
    rates.latency_s = run_.link->latency_s;
    return;
  }
  if (by_size.empty()) return;
  // The latency is where a line through the least times of the smallest and the largest hops begins,
  // unless chance may be the reason.
  const auto& [low, at_low] = *by_size.begin();
  const auto& [high, at_high] = *by_size.rbegin();
  if (high > low) {
    const double slope = (least_of(at_high) - least_of(at_low)) / (high - low);
    const double doubt = (2e-9 + (median_of(at_low) - quantile_of(at_low, 0)) +
                          (median_of(at_high) - quantile_of(at_high, 0))) /
                         (high - low) * low;
    const double fixed = least_of(at_low) - slope * low;
    if (slope > 0 && fixed >= 4 * doubt) rates.latency_s = fixed;
  }
  double bytes = 0, seconds = 0;
  for (const auto& [size, times] : by_size) {
    bytes += size;
    const double usual = fit.scenario.hop_jitter > 0 ? least_of(times) : median_of(times);
    seconds += std::max(0.0, usual - rates.latency_s);  // chance may make it shorter
  }
  rates.bytes_per_s = bytes / seconds;
}

}  // namespace ringscope
