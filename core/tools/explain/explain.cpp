#include "core/tools/explain/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/tools/explain/fitted_run.h"
#include "core/trace/rank_events.h"

namespace ringscope {
namespace {

constexpr int kMostRanksInSummary = 256;  // of a command, which should not wait for replays
constexpr double kAlike = 1.25;           // ranks or links so near to each other are one group
constexpr double kMostlyOwn = 0.85;       // of the cores' time: clocks are not exact
constexpr double kMostly = 0.6;           // of a loss: its cause may be said without the rest

std::string times_of(double factor) { return fmt::format("{:.2f} times", factor); }

// Name all of `names` but the first, at most four of them.
std::string others_of(std::vector<std::string> names) {
  const std::size_t others = names.size() - 1;
  if (others > 4) names.resize(5), names.push_back(fmt::format("{} more", others - 4));
  const std::string last = others > 1 ? " and " + names.back() : "";
  if (others > 1) names.pop_back();
  return fmt::format("{}{}", fmt::join(names.begin() + 1, names.end(), ", "), last);
}

// ---

class Explainer : private FittedRun {
 public:
  explicit Explainer(const Recording& recording) : FittedRun(recording), recording_(recording) {}

  Explanation explain() {
    Explanation result;
    const RunInfo& info = run_.info;
    result.wall_s = run_.wall_s;
    result.gathers = run_.gathers;
    if (info.failure) result.findings.push_back(fault());
    if (!info.is_whole()) return result;  // half a run says little about its machine
    wall_ = wall_of(base_);
    fit_ =
        wall_ > 0 ? std::clamp(1 - std::abs(wall_ - result.wall_s) / result.wall_s, 0.3, 1.0) : 0.3;
    // A replay that is longer than the run says what share of it would go.
    scale_ = wall_ > result.wall_s ? result.wall_s / wall_ : 1;
    healthy_ = base_;
    losses_.resize(n_);
    idle_ = idle_of(base_);
    for (const double idle : idle_) unexplained_.push_back(std::max(0.0, idle));
    for (const auto look : {&Explainer::sharing, &Explainer::slow_ranks, &Explainer::slow_links,
                            &Explainer::no_overlap, &Explainer::step_overhead,
                            &Explainer::late_start, &Explainer::jitter, &Explainer::imbalance}) {
      const std::size_t known = findings_.size();
      (this->*look)();
      if (findings_.size() == known) continue;
      const auto cause = static_cast<std::size_t>(findings_.back().cause);
      // What is no finding is charged with nothing.
      if (std::none_of(findings_.begin() + static_cast<std::ptrdiff_t>(known), findings_.end(),
                       [&](const Diagnosis& finding) { return is_found(finding); }))
        idle_ = idle_of(healthy_);
      else
        charge(healthy_, [cause](RankLosses& rank) -> double& { return rank.by_cause[cause]; });
    }
    result.findings = ranked();
    Durations without_hops = healthy_;
    ranges::fill(without_hops.hops, 0.0);
    const double with_hops = wall_of(healthy_);
    result.transfers_s = scale_ * std::max(0.0, with_hops - wall_of(without_hops));
    if (result.findings.size() > 1) {
      result.together_s = scale_ * (wall_ - with_hops);
      for (const Diagnosis& finding : result.findings) result.together_s -= finding.saved_s;
    }
    charge(without_hops, [](RankLosses& rank) -> double& { return rank.hops; });
    result.ranks = std::move(losses_);
    return result;
  }

  // Return the machine, on which a real rank or link is slow only if that is a finding. A simulated one
  // is as slow as it was given to be.
  MachineFit machine_as_explained() {
    if (run_.is_simulated() || n_ > kMostExplainedRanks) return machine();
    std::set<std::pair<int, int>> slow;
    for (const Diagnosis& finding : explain().findings)
      slow.insert(finding.alike.begin(), finding.alike.end());
    const auto is_slow = [&](int rank) { return slow.contains({rank, -1}); };
    const bool any = std::any_of(slow.begin(), slow.end(),
                                 [](const auto& suspect) { return suspect.second < 0; });
    for (int rank = 0; rank < n_; ++rank) {
      if (is_slow(rank)) continue;
      // Behind a slow rank, one that takes more processor time costs nothing, but is slow.
      if (!any) slowness_[rank] = std::min(slowness_[rank], 1.0);
      late_extra_[rank] = 0;
    }
    for_steps([&](std::size_t i, const RankStep& step) {
      if (!is_slow(step.rank)) fits_[i].extra = 0;
    });
    for (FittedLink& link : links_)
      if (!slow.contains({link.from, link.to})) link.slowness = 1;
    return machine();
  }

 private:
  bool is_found(const Diagnosis& finding) const {
    return scale_ * finding.saved_s >= kLeastShare * run_.wall_s && run_.wall_s > 0;
  }

  // Return the findings that cost enough, the most important first. Of what is slow for the same cause,
  // the slowest comes first: while it is there, the others cost nothing.
  std::vector<Diagnosis> ranked() {
    std::vector<std::pair<double, Diagnosis>> weighted;
    for (Diagnosis& finding : findings_) {
      if (!is_found(finding)) continue;
      finding.saved_s *= scale_;
      finding.share = finding.saved_s / run_.wall_s;
      const bool same = !weighted.empty() && weighted.back().second.cause == finding.cause;
      weighted.emplace_back(
          same ? std::min(weighted.back().first, finding.saved_s) : finding.saved_s,
          std::move(finding));
    }
    ranges::stable_sort(weighted, std::greater<>{}, &std::pair<double, Diagnosis>::first);
    std::vector<Diagnosis> result;
    for (auto& [weight, finding] : weighted) result.push_back(std::move(finding));
    return result;
  }

  // Return the recorded times with one thing set right by fix(times), as it is in healthy_ from now on.
  template <class Fix>
  Durations without(Fix&& fix) {
    Durations times = base_;
    fix(times), fix(healthy_);
    return times;
  }

  // Call f(row, step) for all computations.
  template <class F>
  void for_steps(F&& f) const {
    for (std::size_t i = 0; i < run_.steps.size(); ++i) f(i, run_.steps[i]);
  }

  // Return the seconds of the run with `times`, of which the last are often asked for again.
  double wall_of(const Durations& times) const {
    if (times != replayed_) {
      replayed_ = times;
      replayed_s_ = run_.replayed_s(times);
    }
    return replayed_s_;
  }

  // Add a finding with what the run takes less with `times`.
  void add(Diagnosis finding, const Durations& times, double doubt) {
    finding.saved_s = std::max(0.0, wall_ - wall_of(times));
    finding.confidence = fit_ * std::clamp(1 - doubt, 0.2, 1.0);
    findings_.push_back(std::move(finding));
  }

  // Return how long each rank does not compute in a replay. Work that a replay adds to a step is
  // computing, and so is what is left of the recorded work.
  std::vector<double> idle_of(const Durations& times) const {
    std::vector<double> idle(n_, wall_of(times));
    for_steps([&](std::size_t i, const RankStep& step) {
      idle[step.rank] -= std::min(computing(step), times.steps[i]) +
                         std::max(0.0, times.steps[i] - base_.steps[i]);
    });
    return idle;
  }

  // Charge `loss` of every rank with what it idles less in a replay than in the one before it, but all
  // losses of a rank with no more than it idled. (With less work, it may idle more.)
  template <class Loss>
  void charge(const Durations& times, Loss&& loss) {
    const std::vector<double> idle = idle_of(times);
    for (std::size_t rank = 0; rank < idle.size(); ++rank) {
      const double less = std::clamp(idle_[rank] - idle[rank], 0.0, unexplained_[rank]);
      loss(losses_[rank]) += less;
      unexplained_[rank] -= less;
    }
    idle_ = idle;
  }

  // ---
  // The causes. Each is removed from the recorded times alone.

  void sharing() {
    if (!shares_cores()) return;
    double spent = 0, lasted = 0;
    const Durations own_cores = without([&](Durations& times) {
      spent = lasted = 0;
      for_steps([&](std::size_t i, const RankStep& step) {
        spent += step.cpu, lasted += step.seconds;
        times.steps[i] = std::max(0.0, times.steps[i] - fits_[i].waited);
      });
    });
    add({.cause = Cause::shared_cores,
         .evidence = fmt::format(
             "{} ranks share {}: while they compute, they have one for {:.0f} % of the time.", n_,
             cores_ == 1 ? "1 core" : fmt::format("{} cores", cores_), 100 * spent / lasted)},
        own_cores, 0.05);
  }

  // A slow rank or link: how slow it is, its name among several, and how it is made as fast as most.
  struct Suspect {
    double slowness;
    std::pair<int, int> ends;  // as in Diagnosis::alike
    std::string name;
    std::function<void(Durations&)> mend;
    Diagnosis finding;
  };

  // Add a finding for each group that is about as slow. Its others are said by `one` or `several`.
  void accuse(std::vector<Suspect> slow, const char* one, const char* several) {
    ranges::stable_sort(slow, std::greater<>{}, &Suspect::slowness);
    Durations times = base_;
    double before = wall_;
    const std::size_t first = findings_.size();
    for (std::size_t i = 0; i < slow.size();) {
      Diagnosis finding = slow[i].finding;
      std::vector<std::string> names;
      for (const double most = slow[i].slowness;
           i < slow.size() && most <= kAlike * slow[i].slowness; names.push_back(slow[i++].name)) {
        slow[i].mend(times), slow[i].mend(healthy_);
        finding.alike.push_back(slow[i].ends);
      }
      if (names.size() > 1)
        finding.evidence +=
            fmt::format(fmt::runtime(names.size() == 2 ? one : several), others_of(names));
      add(std::move(finding), times, 0.05);
      double saved = std::max(0.0, before - (wall_ - findings_.back().saved_s));
      before -= saved;
      // What costs far more than something slower is no cause of its own: both hold the run up together.
      for (; findings_.size() > first + 1 && saved > 10 * findings_.rbegin()[1].saved_s;
           findings_.pop_back()) {
        Diagnosis& slower = findings_.rbegin()[1];
        saved += slower.saved_s;
        const auto& alike = findings_.back().alike;
        slower.alike.insert(slower.alike.end(), alike.begin(), alike.end());
      }
      findings_.back().saved_s = saved;
    }
  }

  void slow_ranks() {
    std::vector<Suspect> slow;
    double mean = 0, count = 0;
    for_steps([&](std::size_t, const RankStep& step) {
      if (step.known) mean += should(step), ++count;
    });
    mean /= std::max(1.0, count);
    for (int rank = 0; rank < n_; ++rank) {
      const double factor = slowness_[rank], loss = loss_[rank];
      if (!(factor > 1 || loss > 0)) continue;
      slow.push_back({std::max(factor, 1.0) + loss / std::max(mean, 1e-12),
                      {rank, -1},
                      fmt::format("{}", rank),
                      [=, this](Durations& times) { speed_up(times, rank); },
                      {.cause = Cause::slow_rank, .rank = rank}});
      slow.back().finding.evidence =
          factor <= 1 ? fmt::format("Rank {} takes {} more at each step than its pairs need.", rank,
                                    seconds_text(loss))
                      : fmt::format("Rank {} takes {} as long as most for the same pairs.", rank,
                                    times_of(factor));
    }
    accuse(std::move(slow), " Rank {} is about as slow.", " Ranks {} are about as slow.");
  }

  // Have ranks that slept share the cores with the others.
  void wake(Durations& times) const {
    if (!sleepers_.empty() && !shares_cores() && n_ > known_cores_) times.cores = known_cores_;
  }

  // Make a slow rank as fast as the others.
  void speed_up(Durations& times, int rank) const {
    if (sleepers_.contains(rank)) wake(times);
    times.begins[rank] -= late_extra_[rank];
    for_steps([&](std::size_t i, const RankStep& step) {
      if (step.rank != rank || !step.known) return;
      double& time = times.steps[i];
      const double extra = fits_[i].extra, fixed = fixed_of(step) + fits_[i].waited;
      if (extra > 0) time = std::max(time - extra, std::min(time, should(step)));
      if (slowness_[rank] > 1 && time > fixed) time = (time - fixed) / slowness_[rank] + fixed;
    });
  }

  void slow_links() {
    std::map<std::pair<int, int>, double> factors;  // by both ends
    for (const FittedLink& link : links_)
      if (double& most = factors[{link.from, link.to}]; link.slowness > 1)
        most = std::max(most, link.slowness);
    std::vector<Suspect> slow;
    for (const auto& [ends, factor] : factors) {
      if (!(factor > 1)) continue;
      const auto [from, to] = ends;
      const auto mend = [this, both = ends](Durations& times) {
        for (const FittedLink& link : links_)
          for (const std::size_t hop : link.hops)
            if (std::pair(link.from, link.to) == both) times.hops[hop] /= link.slowness;
      };
      slow.push_back({factor,
                      ends,
                      fmt::format("{} to {}", from, to),
                      mend,
                      {.cause = Cause::slow_link, .from = from, .to = to}});
      slow.back().finding.evidence =
          fmt::format("Rank {} takes {} as long as most links for the same bytes to rank {}.", from,
                      times_of(factor), to);
    }
    // Where just the links between nodes are slow, the others are said as such.
    const int nodes = run_.info.machine ? run_.info.machine->nodes : 1;
    const auto joins_nodes = [&](const std::pair<int, int>& ends) {
      return nodes > 1 && ends.first * nodes / n_ != ends.second * nodes / n_;
    };
    const bool by_nodes =
        !slow.empty() && std::all_of(factors.begin(), factors.end(), [&](const auto& link) {
          return (link.second > 1) == joins_nodes(link.first);
        });
    const char* const others = by_nodes ? " So do all other links between nodes." : " So do {}.";
    accuse(std::move(slow), others, others);
  }

  // Say what hops cost that could run beside attention and do not. Where blocks are gathered, that is
  // the scheme.
  void no_overlap() {
    const std::vector<int>&forward = run_.turns[0], &backward = run_.turns[1];
    if ((forward.empty() && backward.empty()) || run_.gathers) return;
    std::string where = forward.empty() ? "" : numbers_text("step", forward);
    if (!backward.empty())
      where += (where.empty() ? "" : ", and ") + numbers_text("backward step", backward);
    Diagnosis finding{.cause = Cause::no_overlap};
    finding.evidence = fmt::format(
        "At {}, hops and attention take turns: while a rank's hops are on their way, for up to {} "
        "in all, it computes nothing.",
        where, seconds_text(run_.turns_s));
    if (const std::string& because = run_.info.turns_because; !because.empty())
      finding.evidence += " " + because;
    add(std::move(finding), without([&](Durations& times) {
          times.hops_beside = true;
          for_steps([&](std::size_t i, const RankStep& step) {
            times.steps[i] = std::max(0.0, times.steps[i] - step.in_turn);
          });
          for (int rank = 0; rank < n_; ++rank) times.begins[rank] -= run_.begin_in_turn[rank];
        }),
        0.05);
  }

  void step_overhead() {
    if (!(fixed_ > 0)) return;
    add({.cause = Cause::step_overhead,
         .evidence = fmt::format("Every step costs {} besides its pairs.", seconds_text(fixed_))},
        without([&](Durations& times) {
          for_steps([&](std::size_t i, const RankStep& step) {
            const double fixed = run_.is_simulated() ? fixed_of(step) : fixed_;
            times.steps[i] = std::max(0.0, times.steps[i] - fixed);
          });
        }),
        0.05);
  }

  // Return how much longer than it should a computation took.
  double excess(std::size_t i) const {
    const RankStep& step = run_.steps[i];
    if (!step.known) return 0;
    const StepFit& fit = fits_[i];
    if (run_.is_simulated()) return base_.steps[i] - fit.waited - expected(step);
    // What is not processor time was not spent on pairs. Where cores are shared, the scheduler took
    // it, unless other programs had a part of the cores, too.
    const double given = given_ < kMostlyOwn ? 1 : given_;
    const double own = step.cpu > 0 ? step.cpu / given : pair_s_[of(step.pass)] * step.work;
    return std::max(
        0.0, std::max(0.0, step.seconds - own) + step.gap - fit.waited - fit.usual_gap - fit.extra);
  }

  // Ranks begin late where what is lost by chance is little beside that.
  void late_start() {
    double chance = 0, sum = 0;
    std::vector<std::pair<double, int>> ranks;
    // Simulated chance is a part of all steps, so that only one rank may be told from it.
    const double most = quantile_of(late_, 1), least = run_.is_simulated() ? 0.99 * most : taken_;
    for (int rank = 0; rank < n_; ++rank)
      if (const double by = late_[rank]; by > least)
        ranks.emplace_back(-by, rank), sum += by;
      else
        chance += by;
    for_steps([&](std::size_t i, const RankStep&) { chance += std::max(0.0, excess(i)); });
    if (n_ < 2 || ranks.empty() || most < kLeastShare * run_.wall_s) return;
    if (chance > (run_.is_simulated() ? 0.25 : kMostly) * sum) return;
    ranges::sort(ranks);
    std::vector<std::string> names;
    for (const auto& [by, rank] : ranks)
      names.push_back(fmt::format("{} ({})", rank, seconds_text(-by)));
    Diagnosis finding{.cause = Cause::late_start, .rank = ranks[0].second};
    finding.evidence =
        fmt::format("Rank {} begins {} late, and is as fast as the others from then on.",
                    finding.rank, seconds_text(most));
    if (names.size() > 1)
      finding.evidence +=
          fmt::format(fmt::runtime(names.size() == 2 ? " So does rank {}." : " So do ranks {}."),
                      others_of(names));
    add(std::move(finding), without([&](Durations& times) {
          for (const auto& [by, rank] : ranks) times.begins[rank] += by;
        }),
        chance / (sum + chance));
    for (const auto& [by, rank] : ranks) late_[rank] = 0;
  }

  // Say that `what` take longer than they should, of whose time `share` is beyond that.
  static std::string longer_text(const char* what, double share) {
    if (share > 0.99) return fmt::format("{} should take almost no time.", what);
    return fmt::format("{} take {:.0f} % longer than they should, unequally from step to step.",
                       what, 100 * share / (1 - share));
  }

  void jitter() {
    const bool simulated = run_.is_simulated();
    double total = 0, all = 0, hops = 0, all_hops = 0;
    std::vector<double> by_rank(n_), off;
    const auto lose = [&](int rank, double seconds, double of_all) {
      total += std::abs(seconds), all += of_all;
      if (seconds > taken_ || simulated) by_rank[rank] += std::abs(seconds);
    };
    for_steps([&](std::size_t i, const RankStep& step) {
      // A nanosecond is what rounding adds.
      off.push_back(std::abs(excess(i)) > 2e-9 ? excess(i) : 0);
      lose(step.rank, off[i], base_.steps[i]);
    });
    for (int rank = 0; rank < n_; ++rank) lose(rank, late_[rank], late_[rank]);
    const Durations steady = without([&](Durations& times) {
      wake(times);
      for (std::size_t i = 0; i < off.size(); ++i)
        times.steps[i] = std::max(0.0, times.steps[i] - off[i]);
      for (std::size_t rank = 0; rank < late_.size(); ++rank) times.begins[rank] -= late_[rank];
      hops = all_hops = 0;
      for (const FittedLink& link : links_)
        for (const std::size_t i : link.hops) {
          const double before = run_.hops[i].seconds,
                       after = link.steady * run_.alone_s(run_.hops[i]);
          all_hops += before, hops += std::max(0.0, before - after);
          // A slow link is mended in some times, and in others it is not.
          if (simulated)
            times.hops[i] = std::min(
                times.hops[i], times.hops[i] < 0.999 * before ? after / link.slowness : after);
        }
    });
    const double computing = total / std::max(all, 1e-12),
                 hopping = simulated ? hops / std::max(all_hops, 1e-12) : 0;
    if (computing < 0.003 && hopping < 0.003) return;
    Diagnosis finding{.cause = Cause::jitter};
    const auto most = ranges::max_element(by_rank);
    if (n_ > 1 && *most > (n_ > 2 ? kMostly : 0.8) * total && computing > hopping)
      finding.rank = static_cast<int>(most - by_rank.begin());
    finding.evidence = computing >= hopping ? longer_text("Computations", computing)
                                            : longer_text("Hops", hopping);
    blame_others(finding, total);
    add(std::move(finding), steady, 0.1);
    // With a sample of the ranks, the slowest of each step may not be among them, but without jitter
    // all steps are as long as in the sample.
    const double missing = run_.is_whole ? 0 : run_.wall_s - wall_;
    if (missing > 0.02 * run_.wall_s) findings_.back().saved_s += missing;
  }

  // Blame other programs if most of what was lost by chance is time off the processor that a scheduler
  // explains: it gives a thread at least a tenth of a core.
  void blame_others(Diagnosis& finding, double lost_by_chance) const {
    double others = 0, off = 0, lasted = 0;
    for_steps([&](std::size_t i, const RankStep& step) {
      const double lost = shares_cores() ? step.cpu / given_ - step.cpu : step.seconds - step.cpu;
      if (step.cpu > 0 && lost <= taken_ + 9 * step.cpu)
        others += std::clamp(lost, 0.0, std::max(0.0, excess(i)));
      off += step.seconds - step.cpu, lasted += step.seconds;
    });
    finding.by_others = taken_ > 0 && others > 0.5 * lost_by_chance;
    if (!finding.by_others) return;
    finding.evidence =
        fmt::format("Ranks were off the processor for {} of the {} that their computing took.",
                    seconds_text(off), seconds_text(lasted));
    if (shares_cores())
      finding.evidence = fmt::format("They had {:.0f} % of the cores' time while ranks computed.",
                                     100 * (1 - given_));
  }

  void imbalance() {
    double work[2] = {}, count[2] = {}, mean = 0;
    std::map<int, double> pairs;  // of the first pass, by rank, where they are known
    for_steps([&](std::size_t, const RankStep& step) {
      if (!run_.has_work(step)) return;
      work[of(step.pass)] += step.work, ++count[of(step.pass)];
      if (step.pass == Pass::backward && run_.has(Pass::forward)) return;
      pairs[step.rank] += step.pairs, mean += step.pairs;
    });
    if (!(work[0] + work[1] > 0)) return;
    const Durations even = without([&](Durations& times) {
      times.attends_all = run_.leaves_out();
      for_steps([&](std::size_t i, const RankStep& step) {
        if (!run_.has_work(step)) return;
        RankStep usual = step;
        usual.work = usual.pairs = work[of(step.pass)] / count[of(step.pass)];
        times.steps[i] = std::max(0.0, times.steps[i] - expected(step)) + expected(usual);
      });
    });
    mean /= static_cast<double>(pairs.size());
    const auto [least, most] =
        ranges::minmax_element(pairs, {}, [](const auto& of_rank) { return of_rank.second; });
    Diagnosis finding{
        .cause = Cause::imbalance,
        .evidence = "All ranks have equally many pairs in all, but not step by step."};
    if (most->second > 1.02 * mean) {
      finding.rank = most->first;
      finding.evidence =
          fmt::format("Rank {} has {} the mean pairs, rank {} has {}.", most->first,
                      times_of(most->second / mean), least->first,
                      least->second > 0 ? times_of(least->second / mean) + " the mean" : "none");
    }
    if (std::ssize(pairs) < n_)
      finding.evidence += fmt::format(" The mean is of the {} recorded ranks.", pairs.size());
    add(std::move(finding), even, 0.05);
  }

  // ---

  // Return what a failed run lost: the time from its last progress to its end. Nobody is to blame for
  // ranks that wait for each other in a circle.
  Diagnosis fault() const {
    const RunEnd& end = *run_.info.failure;
    std::int64_t first = INT64_MAX, last = INT64_MIN, progress = INT64_MIN,
                 silent_since = INT64_MAX;
    int silent = -1;
    std::vector<int> awaited(n_, -1);  // by whom each rank waits for at last
    for (std::size_t rank = 0; rank < awaited.size(); ++rank) {
      std::int64_t seen = INT64_MIN, until = INT64_MIN;
      for (const TraceEvent& e : recording_.events[rank]) {
        const bool waits = e.lane == Lane::wait;
        first = std::min(first, e.begin_ns);
        last = std::max(last, e.end_ns);
        if (!waits) progress = std::max(progress, e.end_ns);
        seen = std::max(seen, waits ? e.begin_ns : e.end_ns);
        if (e.end_ns >= until) until = e.end_ns, awaited[rank] = waits ? e.waiting_for : -1;
      }
      if (seen < silent_since) silent_since = seen, silent = static_cast<int>(rank);
    }
    int rank = 0;
    for (int hop = 0; hop < n_ && rank >= 0 && rank < n_; ++hop)
      rank = awaited[rank] == rank ? -1 : awaited[rank];
    const bool is_circle = rank >= 0 && rank < n_;
    Diagnosis finding{.cause = Cause::fault,
                      .rank = is_circle       ? -1
                              : end.rank >= 0 ? end.rank
                                              : silent};
    finding.saved_s = 1e-9 * static_cast<double>(last - std::max(progress, first));
    finding.share = run_.wall_s > 0 ? finding.saved_s / run_.wall_s : 0;
    finding.confidence = end.rank >= 0 ? 0.95 : 0.5;
    finding.evidence = fmt::format("The run failed: {}.", end.message);
    return finding;
  }

  const Recording& recording_;
  Durations healthy_;  // without any of the causes
  double wall_ = 0, fit_ = 1, scale_ = 1;
  std::vector<Diagnosis> findings_;
  std::vector<RankLosses> losses_;
  std::vector<double> idle_;         // of the last replay that was charged
  std::vector<double> unexplained_;  // of each rank's idling
  mutable Durations replayed_;
  mutable double replayed_s_ = 0;
};

}  // namespace

MachineFit fitted_machine(const Recording& recording) {
  MachineFit fit = Explainer(recording).machine_as_explained();
  if (recording.info.backend == "sim") fit.scenario.granularity = recorded_tile(recording.info);
  const bool backward = fit.scenario.job.backward;
  fit.scenario.job = recorded_job(recording.info);
  fit.scenario.job.backward = backward;
  return fit;
}

Explanation explain(const Recording& recording) {
  const auto& events = recording.events;
  const int alone = only_rank_of(recording);
  if (alone >= 0 && recording.info.backend != "sim" && recording.info.is_whole())
    throw InputError(
        fmt::format("rank {} of {} alone is recorded; the folder with all ranks' files accepted",
                    alone, events.size()));
  if (recording.info.world_size > kMostExplainedRanks)
    throw InputError(fmt::format("{} ranks are recorded; up to {} accepted",
                                 recording.info.world_size, kMostExplainedRanks));
  const std::optional<RunEnd>& failure = recording.info.failure;
  if (failure && ranges::all_of(events, [](const auto& of_rank) { return of_rank.empty(); })) {
    Explanation nothing;
    nothing.findings.push_back(
        {.cause = Cause::fault,
         .rank = failure->rank,
         .confidence = 0.95,
         .evidence =
             fmt::format("The run failed: {}. Nothing was recorded of it.", failure->message)});
    return nothing;
  }
  return Explainer(recording).explain();
}

std::string headline_of(const Diagnosis& finding) {
  const int rank = finding.rank;
  std::string held_up = "Steps take longer at random";
  if (finding.by_others)
    held_up = fmt::format("Other programs hold {} up",
                          rank < 0 ? "the ranks" : fmt::format("rank {}", rank));
  else if (rank >= 0)
    held_up = fmt::format("Rank {} is held up now and then", rank);
  const std::string subjects[kCauseCount] = {
      "Ranks have unequal work",
      fmt::format("Rank {} is slow", rank),
      fmt::format("The link from rank {} to rank {} is slow", finding.from, finding.to),
      "Ranks share cores",
      "Every step has an overhead",
      held_up,
      fmt::format("Rank {} starts late", rank),
      "Hops do not overlap with attention",
      rank < 0 ? "The run failed" : fmt::format("Rank {} failed", rank)};
  const std::string& subject = subjects[static_cast<int>(finding.cause)];
  if (finding.cause == Cause::fault) return subject;
  return fmt::format("{}, which costs {} ({:.0f} % of the wall time)", subject,
                     seconds_text(finding.saved_s), 100 * finding.share);
}

std::string sentence_of(const Diagnosis& finding) {
  std::string text = finding.cause == Cause::fault && finding.rank < 0
                         ? finding.evidence
                         : fmt::format("{}. {}", headline_of(finding), finding.evidence);
  if (finding.cause == Cause::fault && finding.saved_s > 0)
    text += fmt::format(" Ranks waited in vain for the last {} of the run.",
                        seconds_text(finding.saved_s));
  return text;
}

std::string largest_loss(const Recording& recording) {
  const auto& events = recording.events;
  if (events.empty() || recording.info.world_size > kMostRanksInSummary ||
      ranges::any_of(events, [](const auto& rank) { return rank.empty(); }))
    return "";
  const Explanation why = explain(recording);
  return why.findings.empty() ? "" : headline_of(why.findings[0]);
}

}  // namespace ringscope
