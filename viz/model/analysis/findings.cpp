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

constexpr double kEven = 0.97;               // balance ceiling from which work counts as even
constexpr std::size_t kMostExplained = 512;  // ranks, and below slices, of which causes are sought
constexpr std::size_t kMostSlices = 3'000'000;
constexpr std::size_t kMostCauses = 2;         // sentences
constexpr std::int64_t kMaxRegions = 1 << 16;  // closed forms that a sentence may cost

// Return the recording that a trace of ours was made of, as far as its times go.
Recording recording_of(const Trace& trace) {
  Recording recording;
  recording.info = *trace.run;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) {
    auto& events = recording.events.emplace_back();
    for (const RingLane lane : kAllLanes)
      for (const Slice& slice : trace.slices_of(rank, lane)) {
        TraceEvent& event = events.emplace_back();
        event = {.lane = lane,
                 .pass = slice.pass,
                 .payload = slice.payload,
                 .step = slice.step,
                 .kv_owner = slice.kv_owner,
                 .begin_ns = slice.begin_ns,
                 .end_ns = slice.end_ns,
                 .pairs = slice.pairs,
                 .flops = slice.flops};
        event.cpu_ns = slice.cpu_ns;
        event.bytes = slice.bytes;
        event.src = lane == RingLane::recv ? slice.peer : rank;
        event.dst = lane == RingLane::recv ? rank : slice.peer;
        event.waiting_for = slice.peer;
      }
  }
  return recording;
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
  Findings(const Trace& trace, const IdleReport& idle)
      : trace_(trace), idle_(idle), balance_(balance_of(trace)) {
    for (int rank = 0; rank < balance_.ranks; ++rank)
      pairs_.push_back(balance_.pairs_of(rank, balance_.steps));
  }

  std::vector<std::string> all() {
    if (idle_.ranks.empty() || idle_.wall_ns <= 0) return {};
    if (trace_.has_model()) sentences_.push_back(words_of_training(trace_));
    who_waits();
    where_time_goes();
    why();
    how_even();
    return std::move(sentences_);
  }

 private:
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
      if (idle_.ranks.size() > 1) sentences_.push_back("No rank had to wait for a block.");
      return;
    }
    const RankIdle& rank_idle = idle_.ranks[static_cast<std::size_t>(rank)];
    const auto waited = static_cast<double>(rank_idle.wait_ns);
    std::string text = fmt::format("Rank {} waits longest: {}", rank, words_of_time(waited));
    const int whom = idle_.waited_for_most(rank);
    if (whom >= 0) {
      const auto for_it =
          static_cast<double>(rank_idle.waited_for_ns[static_cast<std::size_t>(whom)]);
      text += for_it >= 0.995 * waited ? fmt::format(", all of it for rank {}", whom)
                                       : fmt::format(", most of it ({}) for rank {}",
                                                     words_of_share(for_it / waited), whom);
    }
    sentences_.push_back(text + ".");
  }

  void where_time_goes() {
    std::string text =
        fmt::format("Ranks compute {} of the time.",
                    words_of_share(idle_.total_ns(Heading::compute) / idle_.ranks_ns()));
    const double link = idle_.total_ns(Heading::link);
    if (link > 0.05 * idle_.ranks_ns() && reduction() > 0.5 * link)
      text += " Most of the rest is adding up the gradients.";
    sentences_.push_back(text);
  }

  // Say what cost the most. Uneven work is left to how_even(), which says what would mend it.
  void why() {
    if (idle_.ranks.size() > kMostExplained || trace_.slice_count > kMostSlices) return;
    const Explanation why = explain(recording_of(trace_));
    std::size_t said = 0;
    for (const Diagnosis& found : why.findings)
      if (found.cause != Cause::imbalance && said++ < kMostCauses)
        sentences_.push_back(sentence_of(found));
    if (said == 0 && why.exposed_s >= 0.05 * why.wall_s)
      sentences_.push_back(
          trace_.run->scheme == "allgather"
              ? "Nothing is computed while blocks are gathered; the ring scheme would hide that."
              : "Blocks take longer to arrive than to attend: more rows a rank would hide the "
                "transfers.");
  }

  void how_even() {
    if (balance_.ranks < 2) return;
    const auto most = std::max_element(pairs_.begin(), pairs_.end());
    const auto least = std::min_element(pairs_.begin(), pairs_.end());
    if (*most <= 0) return;
    const double ceiling =
        balance_.predicted ? balance_.predicted_balance_ceiling : balance_.balance_ceiling;
    if (ceiling >= kEven) {
      sentences_.push_back(
          fmt::format("Work is even: no rank has more than {:.2f} times the mean pairs, and ranks "
                      "could be busy "
                      "{} of the time.",
                      balance_.imbalance, words_of_share(ceiling)));
      return;
    }
    const RunInfo& run = *trace_.run;
    std::string text = fmt::format("{} {} gives rank {} ", capitalized(run.partition),
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
    sentences_.push_back(text + ".");
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
  const IdleReport& idle_;
  WorkTable balance_;
  std::vector<double> pairs_;  // [rank], both passes; empty for a table too large to show
  double better_ceiling_ = 0;
  std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> findings(const Trace& trace, const IdleReport& idle) {
  if (!trace.is_ring()) return {};
  // Half a run says little about balance and idle times.
  if (trace.run->failure) return findings_of_failure(trace, unfinished_waits(trace));
  return Findings(trace, idle).all();
}

}  // namespace ringscope::viz
