#include "core/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/explain/fitted_run.h"

namespace ringscope {
namespace {

constexpr int kMostRanksInSummary = 256;  // of a command, which should not wait for replays
constexpr double kAlike = 1.25;           // ranks or links so near to each other are one group

std::string times_of(double factor) { return fmt::format("{:.2f} times", factor); }

// ---

class Explainer : private FittedRun {
 public:
  explicit Explainer(const Recording& recording) : FittedRun(recording), replay_(times_) {}

  Explanation explain() {
    Explanation result;
    result.wall_s = times_.wall_s();
    result.goes_on = times_.info().live_ns.has_value();
    if (result.goes_on)
      result.notes.push_back(
          times_.info().training
              ? "The training goes on. This is what was recorded of its latest step."
              : fmt::format("The run goes on. This is what was recorded in its first {}.",
                            seconds_text(1e-9 * static_cast<double>(*times_.info().live_ns))));
    if (times_.info().failure) result.findings.push_back(fault());
    if (!times_.info().is_whole()) return result;  // half a run says little about its machine
    wall_ = replay_.wall_s(base_);
    fit_ = wall_ > 0 ? std::clamp(1 - std::abs(wall_ - times_.wall_s()) / times_.wall_s(), 0.3, 1.0)
                     : 0.3;
    healthy_ = base_;
    losses_.resize(static_cast<std::size_t>(n_));
    idle_ = idle_of(base_);
    for (const auto look : {&Explainer::sharing, &Explainer::slow_ranks, &Explainer::slow_links,
                            &Explainer::step_overhead, &Explainer::late_start, &Explainer::jitter,
                            &Explainer::imbalance}) {
      const std::size_t known = findings_.size();
      (this->*look)();
      if (findings_.size() == known) continue;
      const auto cause = static_cast<std::size_t>(findings_.back().cause);
      charge(healthy_, [cause](RankLosses& rank) -> double& { return rank.by_cause[cause]; });
    }
    // Of what is slow for the same cause, the slowest comes first: while it is there, the others
    // cost nothing.
    std::vector<double> weights;  // of result.findings, which they sort
    double weight = 0;
    std::optional<Cause> last;
    for (Diagnosis& finding : findings_) {
      // A replay that is longer than the run says what share of it would go.
      if (wall_ > times_.wall_s()) finding.saved_s *= times_.wall_s() / wall_;
      finding.share = times_.wall_s() > 0 ? finding.saved_s / times_.wall_s() : 0;
      if (finding.share < kLeastShare) continue;
      weight = last == finding.cause ? std::min(weight, finding.saved_s) : finding.saved_s;
      last = finding.cause;
      const auto at = std::upper_bound(weights.begin(), weights.end(), weight, std::greater<>());
      const auto place = at - weights.begin();
      weights.insert(at, weight);
      result.findings.insert(result.findings.begin() + place, std::move(finding));
    }
    ReplayTimes without_hops = healthy_;
    for (auto& by_payload : without_hops.hops)
      for (auto& by_way : by_payload)
        for (auto& table : by_way) std::fill(table.begin(), table.end(), 0.0);
    result.exposed_s = std::max(0.0, replay_.wall_s(healthy_) - replay_.wall_s(without_hops));
    if (wall_ > times_.wall_s()) result.exposed_s *= times_.wall_s() / wall_;
    charge(without_hops, [](RankLosses& rank) -> double& { return rank.hops; });
    result.ranks = std::move(losses_);
    return result;
  }

 private:
  // Add a finding if the run takes less time with `without`.
  void add(Diagnosis finding, const ReplayTimes& without, double noise_share) {
    finding.saved_s = std::max(0.0, wall_ - replay_.wall_s(without));
    finding.confidence = fit_ * std::clamp(1 - noise_share, 0.2, 1.0);
    findings_.push_back(std::move(finding));
  }

  // Return how long each rank does not compute in a replay. Work that a replay adds to a step is
  // computing, and so is what is left of the recorded work.
  std::vector<double> idle_of(const ReplayTimes& times) const {
    std::vector<double> idle(static_cast<std::size_t>(n_), replay_.wall_s(times));
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      const double computing = shares_cores() ? step.cpu / given_ : step.seconds;
      const double now = times.steps[of(pass)][i], before = base_.steps[of(pass)][i];
      idle[static_cast<std::size_t>(rank_of(i))] -=
          std::min(computing, now) + std::max(0.0, now - before);
    });
    return idle;
  }

  // Charge `loss` of every rank with what it idles less in a replay than in the one before it.
  template <class Loss>
  void charge(const ReplayTimes& times, Loss&& loss) {
    const std::vector<double> idle = idle_of(times);
    for (std::size_t rank = 0; rank < idle.size(); ++rank)
      loss(losses_[rank]) += std::max(0.0, idle_[rank] - idle[rank]);
    idle_ = idle;
  }

  // ---
  // The causes, each removed alone; healthy_ is without all of them.

  void sharing() {
    if (!shares_cores()) return;
    ReplayTimes without = base_;
    without.cores = 0;
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (step.known)
        base_step(without, pass, i) =
            computing(step) + slept(pass, i) +
            std::min(step.around, step.lead + fixed_ + extra_[of(pass)][i]);
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

  static std::string others_of(std::vector<std::string> names) {
    const std::size_t others = names.size() - 1;
    if (others > 4) names.resize(5), names.push_back(fmt::format("{} more", others - 4));
    const std::string last = others > 1 ? " and " + names.back() : "";
    if (others > 1) names.pop_back();
    return fmt::format("{}{}", fmt::join(names.begin() + 1, names.end(), ", "), last);
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
      if (slowness_[r] > 1 || loss_[r] > 0)
        slow.emplace_back(std::max(slowness_[r], 1.0) + loss_[r] / std::max(mean, 1e-12), rank);
    }
    std::sort(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
      return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
    });
    std::vector<double> factors;
    for (const auto& [factor, rank] : slow) factors.push_back(factor);
    remove_groups(
        factors, [&](ReplayTimes& times, std::size_t i) { speed_up(times, slow[i].second); },
        [&](const std::vector<std::size_t>& group) {
          std::vector<std::string> names;
          for (const std::size_t i : group) names.push_back(fmt::format("{}", slow[i].second));
          const int rank = slow[group.front()].second;
          const double factor = slowness_[static_cast<std::size_t>(rank)],
                       extra = loss_[static_cast<std::size_t>(rank)];
          Diagnosis finding{.cause = Cause::slow_rank, .rank = rank};
          finding.evidence =
              factor <= 1 ? fmt::format("Rank {} loses {} again and again, and the others do not.",
                                        rank, seconds_text(extra))
                          : fmt::format("Rank {} takes {} as long as most for the same pairs.",
                                        rank, times_of(factor));
          if (names.size() > 1)
            finding.evidence +=
                fmt::format(" {} {} about as slow.",
                            names.size() == 2 ? "Rank " + names[1] : "Ranks " + others_of(names),
                            names.size() == 2 ? "is" : "are");
          return finding;
        });
  }

  // Add a finding for each group of ids that are about as slow. fix(times, i) makes one as fast as
  // the others, and describe(group) returns the finding.
  template <class Fix, class Describe>
  void remove_groups(const std::vector<double>& slowness, Fix&& fix, Describe&& describe) {
    ReplayTimes without = base_;
    double before = wall_;
    const std::size_t first = findings_.size();
    for (const auto& group : groups_of(slowness)) {
      for (const std::size_t i : group)
        for (ReplayTimes* times : {&without, &healthy_}) fix(*times, i);
      const double after = replay_.wall_s(without);
      add(describe(group), without, 0.05);
      double saved = std::max(0.0, before - after);
      before = after;
      // What costs far more than something slower is no cause of its own: both hold the run up together.
      for (; findings_.size() > first + 1 && saved > 10 * findings_.rbegin()[1].saved_s;
           findings_.pop_back())
        saved += findings_.rbegin()[1].saved_s;
      findings_.back().saved_s = saved;
    }
  }

  // Have ranks that slept share the cores with the others.
  void wake(ReplayTimes& times) const {
    if (n_ > cores_in_turn_) times.cores = std::max(cores_, cores_in_turn_);
  }

  // Make a slow rank as fast as the others.
  void speed_up(ReplayTimes& times, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (sleepers_.contains(rank)) wake(times);
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      if (rank_of(i) != rank || !step.known) return;
      double& time = base_step(times, pass, i);
      const double fixed = step.pairs > 0 ? fixed_of(step) : 0;
      if (const double extra = extra_[of(pass)][i]; extra > 0)
        time = std::max(time - extra, std::min(time, should(pass, step)));
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
    remove_groups(
        factors, [&](ReplayTimes& times, std::size_t i) { widen(times, slow[i].from, slow[i].to); },
        [&](const std::vector<std::size_t>& group) {
          std::vector<std::string> names;
          for (const std::size_t i : group)
            names.push_back(fmt::format("{} to {}", slow[i].from, slow[i].to));
          const Slow& worst = slow[group.front()];
          Diagnosis finding{.cause = Cause::slow_link, .from = worst.from, .to = worst.to};
          finding.evidence = fmt::format(
              "The link from rank {} to rank {} takes {} as long as most for the same bytes.",
              worst.from, worst.to, times_of(worst.factor));
          if (names.size() > 1)
            finding.evidence += fmt::format(
                " {} {}.", names.size() == 2 ? "So does the link from" : "So do the links from",
                others_of(names));
          return finding;
        });
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
    ReplayTimes without = base_;
    for (ReplayTimes* times : {&without, &healthy_})
      for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
        base_step(*times, pass, i) = std::max(0.0, base_step(*times, pass, i) - fixed_of(step));
      });
    add({.cause = Cause::step_overhead,
         .evidence = fmt::format("Every step costs {} besides its pairs.", seconds_text(fixed_))},
        without, 0.05);
  }

  // Return how much longer than it should a computation took.
  double excess(Pass pass, std::size_t i, const RankStep& step) const {
    if (!step.known) return 0;
    if (times_.is_simulated()) return alone(step) - expected(pass, i, step);
    // What is not processor time was not spent on pairs. Where cores are shared, the scheduler took
    // it, and only what a rank slept, and what lies between computations, is left to chance.
    const double own = step.cpu > 0 ? step.cpu : pair_s_[of(pass)] * step.work;
    const double lost = shares_cores() ? slept(pass, i) : std::max(0.0, step.seconds - own);
    const double usual = gaps_[of(pass)][i % static_cast<std::size_t>(n_)];
    return std::max(
        0.0, lost + step.around - usual - extra_[of(pass)][i] - waited_for_core(pass, i, step));
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
    const double others = times_.is_simulated() ? 0.25 : 0.6;
    if (n_ < 2 || !(most > taken_) || most < kLeastShare * times_.wall_s()) return;
    if (total - most > others * most) return late_starts(total, others);
    // Who has begun to compute is no longer late, but a simulated delay is a part of a step.
    const bool first = where % static_cast<std::size_t>(n_) == 0 &&
                       (times_.is_simulated() || times_.steps(pass)[where].lead > 0.5 * most);
    ReplayTimes without = base_;
    for (ReplayTimes* times : {&without, &healthy_})
      base_step(*times, pass, where) = std::max(0.0, base_step(*times, pass, where) - most);
    once_ = where;
    const double held = first ? held_up_by(rank_of(where), most) : 0;
    add({.cause = first ? Cause::late_start : Cause::jitter,
         .rank = rank_of(where),
         .evidence =
             first ? late_text(rank_of(where), most)
                   : fmt::format("Rank {} is held up once, for {} at step {}.", rank_of(where),
                                 seconds_text(most), where % static_cast<std::size_t>(n_))},
        without, total > 0 ? (total - most) / total : 0);
    findings_.back().saved_s += held;
  }

  // Return how much longer the run takes because a rank that begins so late posts its first hops late.
  double held_up_by(int rank, double late) {
    const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(n_);
    if (times_.graph() != nullptr || times_.is_profile()) return 0;
    ReplayTimes held = base_;
    const double until = std::min(late, times_.posted()[r]);
    auto& hops = hops_of(held, Pass::forward, Payload::kv, Way::ring);
    if (hops.size() < n) return 0;
    for (const std::size_t from : {r, (r + n - 1) % n}) hops[from] += until;
    return std::max(0.0, replay_.wall_s(held) - wall_);
  }

  static std::string late_text(int rank, double by) {
    return fmt::format("Rank {} begins {} late, and is as fast as the others from then on.", rank,
                       seconds_text(by));
  }

  // Several profiled ranks begin late. They are told from chance if that is nearly all that was lost.
  void late_starts(double total, double others) {
    if (!times_.is_profile()) return;
    const auto n = static_cast<std::size_t>(n_);
    const auto& steps = times_.steps(Pass::forward);
    std::vector<std::pair<double, int>> late;
    double sum = 0, first = std::numeric_limits<double>::infinity();
    for (std::size_t rank = 0; rank < n; ++rank) first = std::min(first, steps[rank * n].lead);
    for (std::size_t rank = 0; rank < n; ++rank)
      if (const double by = steps[rank * n].lead - first - extra_[of(Pass::forward)][rank * n];
          by > taken_)
        late.emplace_back(-by, static_cast<int>(rank)), sum += by;
    if (late.empty() || total - sum > others * sum) return;
    std::sort(late.begin(), late.end());
    late_.resize(n);
    ReplayTimes without = base_;
    std::vector<std::string> names;
    for (const auto& [by, rank] : late) {
      late_[static_cast<std::size_t>(rank)] = -by;
      for (ReplayTimes* times : {&without, &healthy_}) {
        double& time = base_step(*times, Pass::forward, static_cast<std::size_t>(rank) * n);
        time = std::max(0.0, time + by);
      }
      names.push_back(fmt::format("{} ({})", rank, seconds_text(-by)));
    }
    std::string evidence = late_text(late[0].second, -late[0].first);
    if (names.size() > 1)
      evidence +=
          fmt::format(" So {} {}.", names.size() == 2 ? "does rank" : "do ranks", others_of(names));
    add({.cause = Cause::late_start, .rank = late[0].second, .evidence = std::move(evidence)},
        without, (total - sum) / total);
  }

  // Say that `what` take longer than they should, of whose time `share` is beyond that.
  static std::string longer_text(const char* what, double share) {
    if (share > 0.99) return fmt::format("{} should take almost no time.", what);
    return fmt::format("{} take {:.0f} % longer than they should, unequally from step to step.",
                       what, 100 * share / (1 - share));
  }

  void jitter() {
    double total = 0, all = 0;
    std::vector<double> by_rank(static_cast<std::size_t>(n_));
    ReplayTimes without = base_;
    for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
      double off = pass == Pass::forward && once_ == i ? 0 : excess(pass, i, step);
      if (step.lead > 0 && !late_.empty())
        off = std::max(0.0, off - late_[static_cast<std::size_t>(rank_of(i))]);
      all += base_step(base_, pass, i);
      if (times_.is_simulated() ? std::abs(off) <= 2e-9 : off <= 0) return;
      total += std::abs(off);
      if (off > taken_ || times_.is_simulated())
        by_rank[static_cast<std::size_t>(rank_of(i))] += std::abs(off);
      for (ReplayTimes* times : {&without, &healthy_}) {
        double& time = base_step(*times, pass, i);
        time = std::max(0.0, time - off);
      }
    });
    if (!sleepers_.empty()) wake(without), wake(healthy_);
    const double computing = total / std::max(all, 1e-12);
    double hop_share = 0;
    if (times_.is_simulated()) hop_share = steady_hops(without);
    if (computing < 0.003 && hop_share < 0.003) return;
    Diagnosis finding{.cause = Cause::jitter};
    const auto most = std::max_element(by_rank.begin(), by_rank.end());
    if (n_ > 1 && *most > (n_ > 2 ? 0.6 : 0.8) * total && computing > hop_share)
      finding.rank = static_cast<int>(most - by_rank.begin());
    if (computing >= hop_share) {
      finding.evidence = longer_text("Computations", total / std::max(all, 1e-12));
    } else {
      finding.evidence = longer_text("Hops", hop_share);
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
      for (ReplayTimes* times : both) {
        auto& table = hops_of(*times, link.pass, link.payload, link.way);
        const auto& hops = times_.hops(link.pass, link.payload, link.way);
        for (std::size_t i = static_cast<std::size_t>(link.from); i < table.size();
             i += static_cast<std::size_t>(n_)) {
          if (!hops[i].known || !(hops[i].bytes > 0)) continue;
          const double steady = fitted.steady * size_of(hops[i]) / link.largest;
          const double rate = times == &healthy_ ? 1 / fitted.slowness : 1;
          if (times == &without) {
            all += hops[i].seconds;
            total += std::max(0.0, hops[i].seconds - steady);
          }
          table[i] = std::min(table[i], steady * rate);
        }
      }
    }
    // Hops that nobody recorded take what the steadiest of their kind takes.
    for (const FittedLink& fitted : links_) {
      const LinkTimes& link = fitted.link;
      const auto& hops = times_.hops(link.pass, link.payload, link.way);
      for (ReplayTimes* times : both) {
        auto& table = hops_of(*times, link.pass, link.payload, link.way);
        for (std::size_t i = 0; i < hops.size() && !times_.is_whole(); ++i)
          if (!hops[i].known) table[i] = std::min(table[i], fitted.steady);
      }
    }
    return total / std::max(all, 1e-12);
  }

  // Give all hops the time of a block of mean size, where each takes one and blocks differ.
  void even_blocks(ReplayTimes& times) {
    const std::string& scheme = times_.info().scheme;
    if (scheme != name_of(Scheme::ring) && !scheme.starts_with(name_of(Scheme::allgather)) &&
        !scheme.starts_with(name_of(Scheme::two_level)))
      return;
    for_hops([&](Pass pass, Payload payload, Way way, const std::vector<RecordedHop>& hops) {
      double sum = 0, most = 0;
      int count = 0;
      for (const RecordedHop& hop : hops)
        if (hop.known) sum += hop.bytes, most = std::max(most, hop.bytes), ++count;
      if (!(most * count > 1.02 * sum)) return;
      RecordedHop even;
      auto& table = hops_of(times, pass, payload, way);
      for (std::size_t i = 0; i < hops.size(); ++i) {
        even.bytes = sum / count, even.messages = hops[i].messages;
        if (hops[i].known && hops[i].bytes > 0)
          table[i] *= times_.alone_s(even) / times_.alone_s(hops[i]);
      }
    });
  }

  void imbalance() {
    ReplayTimes without = base_;
    std::vector<std::pair<double, int>> by_rank;  // of ranks whose pairs are known
    double all = 0;
    for (const Pass pass : kAllPasses) {
      const auto& steps = times_.steps(pass);
      if (steps.empty()) continue;
      double sum = 0, count = 0;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!times_.has_work(steps[i])) continue;
        sum += steps[i].work, ++count, all += steps[i].pairs;
        if (pass == Pass::backward && times_.has(Pass::forward)) continue;
        if (by_rank.empty() || by_rank.back().second != rank_of(i))
          by_rank.emplace_back(0, rank_of(i));
        by_rank.back().first += steps[i].pairs;
      }
      RankStep even;
      even.work = even.pairs = sum / std::max(1.0, count);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!times_.has_work(steps[i])) continue;
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
    for (ReplayTimes* times : {&without, &healthy_}) even_blocks(*times);
    const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
    double mean = 0;
    for (const auto& [pairs, rank] : by_rank) mean += pairs / static_cast<double>(by_rank.size());
    Diagnosis finding{.cause = Cause::imbalance, .rank = most->second};
    if (most->first > 1.02 * mean) {
      finding.evidence =
          fmt::format("Rank {} has {} the mean pairs, rank {} has {}.", finding.rank,
                      times_of(most->first / mean), least->second,
                      least->first > 0 ? times_of(least->first / mean) + " the mean" : "none");
    } else {
      finding.rank = -1;
      finding.evidence = "All ranks have as many pairs in all, but not step by step.";
    }
    if (by_rank.size() < static_cast<std::size_t>(n_))
      finding.evidence += fmt::format(" The mean is of the {} recorded ranks.", by_rank.size());
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
    const bool circle = end.message.find("ranks wait for each other") != std::string::npos;
    Diagnosis finding{.cause = Cause::fault,
                      .rank = circle          ? -1
                              : end.rank >= 0 ? end.rank
                                              : silent};
    finding.saved_s = 1e-9 * static_cast<double>(last - std::max(progress, first));
    finding.share = times_.wall_s() > 0 ? finding.saved_s / times_.wall_s() : 0;
    finding.confidence = end.rank >= 0 ? 0.95 : 0.5;
    finding.goes_on = times_.info().live_ns.has_value();
    finding.evidence =
        fmt::format("The run {}: {}.", finding.goes_on ? "goes on" : "failed", end.message);
    return finding;
  }

  Replay replay_;
  ReplayTimes healthy_;  // without any of the causes
  double wall_ = 0, fit_ = 1;
  std::vector<double> late_;     // by rank, if several began late: by how much
  std::size_t once_ = SIZE_MAX;  // the forward computation that was held up once
  std::vector<Diagnosis> findings_;
  std::vector<RankLosses> losses_;
  std::vector<double> idle_;  // of the last replay that was charged
};

}  // namespace

static Explanation nothing_yet() {
  Explanation why;
  why.goes_on = true;
  why.notes = {"The run goes on. Nothing is recorded yet."};
  return why;
}

Explanation explain(const Recording& recording) {
  const auto& events = recording.events;
  const int alone = only_rank_of(recording);
  if (alone >= 0 && recording.info.backend != "sim" && recording.info.is_whole())
    throw InputError(
        fmt::format("rank {} of {} alone is recorded; the folder with all ranks' files accepted",
                    alone, events.size()));
  if (recording.info.live_ns && std::all_of(events.begin(), events.end(),
                                            [](const auto& of_rank) { return of_rank.empty(); }))
    return nothing_yet();
  return Explainer(recording).explain();
}

int only_rank_of(const Recording& recording) {
  int only = -1;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank) {
    if (recording.events[rank].empty()) continue;
    if (only >= 0) return -1;
    only = static_cast<int>(rank);
  }
  return recording.events.size() > 1 ? only : -1;
}

std::string headline_of(const Diagnosis& finding) {
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
        if (finding.goes_on)
          return finding.rank >= 0 ? fmt::format("Rank {} holds the run up", finding.rank)
                                   : "Something holds the run up";
        return finding.rank >= 0 ? fmt::format("Rank {} failed", finding.rank) : "The run failed";
    }
    return "";
  };
  if (finding.cause == Cause::fault) return subject();
  return fmt::format("{}, which costs {} ({:.0f} % of the time)", subject(),
                     seconds_text(finding.saved_s), 100 * finding.share);
}

std::string sentence_of(const Diagnosis& finding) {
  std::string text = finding.cause == Cause::fault && finding.rank < 0
                         ? finding.evidence
                         : fmt::format("{}. {}", headline_of(finding), finding.evidence);
  if (finding.cause == Cause::fault && finding.saved_s > 0)
    text +=
        fmt::format(" Nothing happened in the last {} of the run.", seconds_text(finding.saved_s));
  return text;
}

std::string largest_loss(const Recording& recording) {
  const auto& events = recording.events;
  if (events.empty() || recording.info.world_size > kMostRanksInSummary ||
      std::any_of(events.begin(), events.end(), [](const auto& rank) { return rank.empty(); }))
    return "";
  const Explanation why = explain(recording);
  return why.findings.empty() ? "" : headline_of(why.findings[0]);
}

}  // namespace ringscope
