// Says in sentences who waits and for whom, what most time is lost to, what would cure it, and what
// to beware of when reading the figures.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/explain/explain.h"
#include "core/trace/summary.h"
#include "viz/model/analysis/balance.h"
#include "viz/model/analysis/failure.h"
#include "viz/model/analysis/idle_time.h"
#include "viz/model/analysis/training_step.h"
#include "viz/model/mask/mask_painter.h"
#include "viz/model/session/format.h"

namespace ringscope::viz {

namespace {

constexpr double kEven = 0.97;                 // balance ceiling from which work counts as even
constexpr std::size_t kMostCauses = 2;         // sentences
constexpr std::int64_t kMaxRegions = 1 << 16;  // closed forms that a sentence may cost

// Return the longest slice of a lane for which holds(slice), of `rank` or, if -1, of any.
template <class Holds>
std::optional<SliceId> longest_slice(const Trace& trace, RingLane lane, int rank, Holds&& holds) {
  std::optional<SliceId> longest;
  for (int each = 0; each < static_cast<int>(trace.ranks.size()); ++each) {
    if (rank >= 0 && each != rank) continue;
    const std::uint32_t row = trace.row_of(each, lane);
    const std::vector<Slice>& slices = trace.rows[row].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i)
      if (holds(slices[i]) &&
          (!longest || slices[i].duration_ns() > trace.slice(*longest).duration_ns()))
        longest = SliceId{row, i};
  }
  return longest;
}

// Return the slice that shows a cause best.
std::optional<SliceId> slice_of(const Trace& trace, const Diagnosis& cause) {
  if (cause.cause == Cause::step_overhead) return std::nullopt;
  if (cause.cause == Cause::slow_link)
    return longest_slice(trace, RingLane::recv, cause.to,
                         [&](const Slice& slice) { return slice.peer == cause.from; });
  const bool first = cause.cause == Cause::late_start;
  return longest_slice(trace, RingLane::compute, cause.rank,
                       [&](const Slice& slice) { return !first || slice.step == 0; });
}

// Return the settings of What if without a cause, "" if there are none.
std::string settings_without(const Diagnosis& cause) {
  if (cause.cause == Cause::slow_rank) return fmt::format("straggler={}:1", cause.rank);
  return cause.cause == Cause::shared_cores ? "cores=own" : "";
}

std::string in_mask(const std::string& mask) {
  return mask == "full" ? "without a mask" : "with a " + mask + " mask";
}

// Return the balance ceiling that `model`'s mask would have in another partition.
double ceiling_of(MaskModel model, PartitionKind kind) {
  model.partition.kind = kind;
  std::vector<std::vector<double>> work;
  for (const std::vector<Index>& pairs : predicted_pairs(model))
    work.emplace_back(pairs.begin(), pairs.end());
  return balance_ceiling(work);
}

class Findings {
 public:
  Findings(const Trace& trace, const Explanation& why, const IdleReport& idle)
      : trace_(trace), why_(why), idle_(idle), balance_(balance_of(trace)) {
    for (int rank = 0; rank < balance_.ranks; ++rank)
      pairs_.push_back(balance_.pairs_of(rank, balance_.steps));
  }

  std::vector<Finding> all() {
    if (idle_.ranks.empty() || idle_.wall_ns <= 0) return {};
    if (trace_.has_model()) say(words_of_training(trace_));
    causes();
    who_waits();
    where_time_goes();
    if (!said_imbalance_) how_even();
    return std::move(findings_);
  }

 private:
  void say(std::string text, std::optional<SliceId> show = {}, std::string settings = {}) {
    findings_.push_back({std::move(text), show, std::move(settings)});
  }

  // Return the time in a training step in which gradients are added up.
  double reduction() const {
    double ns = 0;
    for (int rank = 0; rank < static_cast<int>(trace_.ranks.size()); ++rank)
      for (const Slice& part : model_slices(trace_, rank))
        if (part.kind == Kind::communication) ns += static_cast<double>(part.duration_ns());
    return ns;
  }

  void who_waits() {
    const int rank = idle_.longest_waiting_rank();
    if (rank < 0) {
      if (idle_.ranks.size() > 1) say("No rank had to wait for a block.");
      return;
    }
    const RankIdle& rank_idle = idle_.ranks[static_cast<std::size_t>(rank)];
    const auto waited = static_cast<double>(rank_idle.wait_ns);
    std::string text = fmt::format("Rank {} waits longest: {}", rank, words_of_time(waited));
    if (const int whom = rank_idle.waited_for; whom >= 0) {
      const auto for_it = static_cast<double>(rank_idle.waited_for_ns);
      text += for_it >= 0.995 * waited ? fmt::format(", all of it for rank {}", whom)
                                       : fmt::format(", most of it ({}) for rank {}",
                                                     words_of_share(for_it / waited), whom);
    }
    say(text + ".", longest_slice(trace_, RingLane::wait, rank, [](const Slice&) { return true; }));
  }

  void where_time_goes() {
    std::string text = fmt::format("Ranks compute {} of the time.",
                                   words_of_share(idle_.compute_ns() / idle_.ranks_ns()));
    const double hops = idle_.total([](const RankIdle& rank) { return rank.hops; });
    if (hops > 0.05 * idle_.ranks_ns() && reduction() > 0.5 * hops)
      text += " Most of the rest is adding up the gradients.";
    say(std::move(text));
  }

  // Say what cost the most, in that order.
  void causes() {
    std::size_t said = 0;
    for (const Diagnosis& found : why_.findings) {
      if (said == kMostCauses) break;
      ++said;
      if (found.cause == Cause::imbalance) {
        said_imbalance_ = true;
        how_even(slice_of(trace_, found));
      } else {
        say(sentence_of(found), slice_of(trace_, found), settings_without(found));
      }
    }
    if (why_.exposed_s < 0.05 * why_.wall_s || said > (said_imbalance_ ? 1 : 0)) return;
    const bool gathers = trace_.run->scheme == "allgather";
    say(gathers ? "Nothing is computed while blocks are gathered; the ring scheme would hide that."
                : "Blocks take longer to arrive than to attend: more rows a rank would hide the "
                  "transfers.",
        longest_slice(trace_, RingLane::wait, -1, [](const Slice&) { return true; }),
        gathers ? "scheme=ring" : "bandwidth=4");
  }

  void how_even(std::optional<SliceId> show = {}) {
    if (balance_.ranks < 2) return;
    const auto most = std::max_element(pairs_.begin(), pairs_.end());
    const auto least = std::min_element(pairs_.begin(), pairs_.end());
    if (*most <= 0) return;
    const double ceiling =
        balance_.predicted ? balance_.predicted_balance_ceiling : balance_.balance_ceiling;
    if (ceiling >= kEven)
      return say(
          balance_.imbalance < 1.005
              ? fmt::format("Work is even: all ranks have as many pairs, and could be busy "
                            "{} of the time.",
                            words_of_share(ceiling))
              : fmt::format("Work is even: the busiest rank has {:.2f} times the mean pairs, "
                            "and ranks could be busy {} of the time.",
                            balance_.imbalance, words_of_share(ceiling)));
    const RunInfo& run = *trace_.run;
    std::string text = fmt::format("{} {} is uneven: rank {} has ", capitalized(run.partition),
                                   in_mask(run.mask), most - pairs_.begin());
    const double mean = sum_of_pairs() / static_cast<double>(pairs_.size());
    if (*most < 1.02 * mean) {
      text = fmt::format("{} {} gives every rank as much in all, but not step by step",
                         capitalized(run.partition), in_mask(run.mask));
    } else if (*least > 0) {
      text += fmt::format("{} times the pairs of rank {}", words_of_factor(*most / *least),
                          least - pairs_.begin());
    } else {
      text += fmt::format("{} of all pairs and rank {} none",
                          words_of_share(*most / sum_of_pairs()), least - pairs_.begin());
    }
    text += fmt::format(", so ranks can be busy {} of the time at most", words_of_share(ceiling));
    const std::vector<std::string> better = better_partitions(ceiling);
    if (!better.empty())
      text += fmt::format(
          ": {} would {}", listed(better, " or "),
          better_ceiling_ >= kEven ? "even it out" : "help, to " + words_of_share(better_ceiling_));
    say(text + ".", show, better.empty() ? "" : "partition=" + better[0]);
  }

  double sum_of_pairs() const { return std::accumulate(pairs_.begin(), pairs_.end(), 0.0); }

  // Return the partitions with about the best ceiling, if that is well above `ceiling`.
  std::vector<std::string> better_partitions(double ceiling) {
    const std::optional<MaskModel> model = mask_model(trace_);
    const auto ranks = static_cast<std::int64_t>(idle_.ranks.size());
    if (!model || model->partition.world_size != ranks ||
        ranks * ranks * (1 + model->mask().num_documents) > kMaxRegions)
      return {};
    std::vector<std::pair<double, std::string>> others;
    for (const PartitionKind kind : kAllPartitions)
      if (kind != model->partition.kind)
        others.emplace_back(ceiling_of(*model, kind), std::string(name_of(kind)));
    better_ceiling_ = std::max_element(others.begin(), others.end())->first;
    std::vector<std::string> names;
    for (const auto& [its_ceiling, name] : others)
      if (its_ceiling > ceiling + 0.02 && its_ceiling > better_ceiling_ - 0.03)
        names.push_back(name);
    return names;
  }

  const Trace& trace_;
  const Explanation& why_;
  const IdleReport& idle_;
  WorkTable balance_;
  std::vector<double> pairs_;  // [rank], both passes; empty for a table too large to show
  double better_ceiling_ = 0;
  bool said_imbalance_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings(const Trace& trace, const Explanation& why, const IdleReport& idle) {
  if (!trace.is_ring()) return {};
  if (!trace.run->failure) return Findings(trace, why, idle).all();
  // Half a run says little about balance and idle times.
  const std::vector<SliceId> waits = unfinished_waits(trace);
  std::vector<Finding> said;
  for (std::string& sentence : findings_of_failure(trace, waits)) said.push_back({sentence});
  if (const auto place = failure_place(trace, waits)) said[0].show = place->slice;
  return said;
}

}  // namespace ringscope::viz
