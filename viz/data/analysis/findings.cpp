// Says in sentences who waits and for whom, what most time is lost to, what would cure it, and what
// to beware of when reading the figures.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/ring/scheme.h"
#include "core/tools/explain/explain.h"
#include "core/trace/summary.h"
#include "viz/data/analysis/balance.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/mask/mask_painter.h"
#include "viz/data/session/format.h"
#include "viz/data/session/search.h"

namespace ringscope::viz {

namespace {

constexpr double kEven = 0.97;                 // balance ceiling from which work counts as even
constexpr std::size_t kMostCauses = 2;         // sentences
constexpr std::int64_t kMaxRegions = 1 << 16;  // closed forms that a sentence may cost

// Return the slice that shows a cause best.
std::optional<SliceId> slice_of(const Trace& trace, const Diagnosis& cause) {
  if (cause.cause == Cause::step_overhead) return std::nullopt;
  if (cause.cause == Cause::slow_link)
    return longest_slice(trace, cause.to, Lane::recv,
                         [&](const TraceEvent& slice) { return slice.peer() == cause.from; });
  const bool first = cause.cause == Cause::late_start;
  return longest_slice(trace, cause.rank, Lane::compute,
                       [&](const TraceEvent& slice) { return !first || slice.step == 0; });
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
double ceiling_of(MaskModel model, PartitionKind kind, bool shares_steps) {
  model.partition.kind = model.partition.queries.kind = kind;
  std::vector<std::vector<double>> work;
  for (const std::vector<Index>& pairs : predicted_pairs(model))
    work.emplace_back(pairs.begin(), pairs.end());
  return balance_ceiling(work, shares_steps);
}

// Return the sentence with microseconds spelled as everywhere in the viewer.
std::string in_our_units(std::string sentence) {
  const std::string theirs = " us", ours = " µs";
  for (std::size_t at = 0; (at = sentence.find(theirs, at)) != std::string::npos;
       at += ours.size()) {
    const char before = at > 0 ? sentence[at - 1] : ' ';
    if (before >= '0' && before <= '9') sentence.replace(at, theirs.size(), ours);
  }
  return sentence;
}

// Return the step, the layer, and how much of a training step is attention.
std::string words_of_training(const Trace& trace) {
  if (!trace.info.training) return "";
  double at_one = 0, at_all = 0;
  for (int rank = 0; rank < trace.rank_count(); ++rank) {
    for (const Stretch& stretch : ring_stretches(trace, rank))
      at_one += static_cast<double>(stretch.end_ns - stretch.begin_ns);
    const TraceLane& lane = model_lane(trace, rank);
    for (std::uint32_t row = lane.first_row; row < lane.first_row + lane.rows; ++row)
      for (const TraceEvent& slice : trace.slices(row))
        if (slice.part == static_cast<int>(ModelPart::ring))
          at_all += static_cast<double>(slice.duration_ns());
  }
  const double whole =
      std::max(static_cast<double>(trace.wall_ns()) * static_cast<double>(trace.ranks.size()), 1.0);
  const RecordedLayer& training = *trace.info.training;
  std::string text = fmt::format("Step {} of a training run: attention takes {} of it",
                                 training.train_step, words_of_share(at_all / whole));
  if (training.layers > 1)
    text += fmt::format("; shown slice by slice is that of layer {} (of 0 to {}), {}",
                        training.layer, training.layers - 1, words_of_share(at_one / whole));
  return text + ".";
}

class Findings {
 public:
  Findings(const Trace& trace, const Explanation& why, const IdleReport& idle,
           const WorkTable& balance)
      : trace_(trace), why_(why), idle_(idle), balance_(balance) {
    for (int rank = 0; rank < balance_.ranks; ++rank)
      if (balance_.figure_of(rank, &WorkCell::pairs) != nullptr)
        pairs_.emplace_back(balance_.pairs_of(rank, balance_.steps), rank);
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
    for (int rank = 0; rank < trace_.rank_count(); ++rank)
      for (const TraceEvent& part : model_slices(trace_, rank))
        if (part.lane == Lane::communication) ns += static_cast<double>(part.duration_ns());
    return ns;
  }

  void who_waits() {
    const std::vector<int> longest = idle_.longest_waiting();
    if (longest.empty()) {
      if (idle_.ranks.size() > 1) say("No rank had to wait for a block.");
      return;
    }
    const RankIdle& first = idle_.ranks[longest[0]];
    const auto waited = static_cast<double>(first.wait_ns);
    const bool is_one = longest.size() == 1;
    std::string text =
        is_one ? fmt::format("Rank {} waits longest: {}", longest[0], words_of_time(waited))
        : static_cast<int>(longest.size()) == idle_.recorded()
            ? fmt::format("All ranks wait as long as each other: {} each", words_of_time(waited))
            : fmt::format("{} wait as long as each other, and longest: {} each",
                          capitalized(words_of_ranks(longest)), words_of_time(waited));
    // Of several, it is said only if it is the same.
    const std::vector<int>& whom = first.waited_for;
    if (!whom.empty() && std::all_of(longest.begin(), longest.end(), [&](int rank) {
          return idle_.ranks[rank].waited_for == whom;
        })) {
      const double share = static_cast<double>(first.waited_for_ns) / waited;
      text += share >= 0.995 ? ", all of it"
              : share > 0.5  ? ", most of it (" + words_of_share(share) + ")"
                             : ", of which " + words_of_share(share);
      text += fmt::format(" for {}{}", whom.size() > 1 ? "each of " : "", words_of_ranks(whom));
    }
    say(text + ".",
        longest_slice(trace_, longest[0], Lane::wait, [](const TraceEvent&) { return true; }));
  }

  void where_time_goes() {
    std::string text = fmt::format("Ranks compute {} of the time.",
                                   words_of_share(idle_.compute_ns() / idle_.ranks_ns()));
    if (const int ranks = trace_.info.world_size; idle_.recorded() < ranks)
      text += fmt::format(" Of {} ranks, {} were recorded; all times are theirs.", ranks,
                          idle_.recorded());
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
        say(in_our_units(sentence_of(found)), slice_of(trace_, found),
            found.by_others ? "" : settings_without(found));
      }
    }
    if (why_.ranks.empty() || why_.transfers_s < 0.05 * why_.wall_s ||
        said > (said_imbalance_ ? 1 : 0))
      return;
    const Travel travel = travel_of(trace_.info);
    const bool gathers = travel.is_gathered && travel.what == Travels::blocks;
    say(gathers ? "Nothing is computed while blocks are gathered; the ring scheme would hide that."
                : "Blocks take longer to arrive than to attend: more rows a rank would hide the "
                  "transfers.",
        longest_slice(trace_, -1, Lane::wait, [](const TraceEvent&) { return true; }),
        gathers ? "scheme=ring" : "bandwidth=4");
  }

  void how_even(std::optional<SliceId> show = {}) {
    if (balance_.ranks < 2) return;
    if (pairs_.empty()) return;
    const auto [most, busiest] = *std::max_element(pairs_.begin(), pairs_.end());
    const auto [least, idlest] = *std::min_element(pairs_.begin(), pairs_.end());
    if (most <= 0) return;
    const double ceiling =
        balance_.predicted ? balance_.predicted_balance_ceiling : balance_.balance_ceiling;
    if (ceiling >= kEven)
      return say(
          balance_.imbalance < 1.005
              ? fmt::format("Work is even: all ranks have equally many pairs, and could be busy "
                            "{} of the time.",
                            words_of_share(ceiling))
              : fmt::format("Work is even: the busiest rank has {:.2f} times the mean pairs, "
                            "and ranks could be busy {} of the time.",
                            balance_.imbalance, words_of_share(ceiling)));
    const RunInfo& run = trace_.info;
    std::string text = fmt::format("{} {} is uneven: rank {} has ", capitalized(run.partition),
                                   in_mask(run.mask), busiest);
    const double mean = sum_of_pairs() / static_cast<double>(pairs_.size());
    if (most < 1.02 * mean) {
      text = fmt::format("{} {} gives every rank as much in all, but not step by step",
                         capitalized(run.partition), in_mask(run.mask));
    } else if (least > 0) {
      text += fmt::format("{} times the pairs of rank {}", words_of_factor(most / least), idlest);
    } else {
      text += fmt::format("{} of all pairs and rank {} none", words_of_share(most / sum_of_pairs()),
                          idlest);
    }
    text += fmt::format(", so ranks can be busy {} of the time at most", words_of_share(ceiling));
    const std::vector<std::string> better = better_partitions(ceiling);
    if (!better.empty())
      text += fmt::format(
          ": {} would {}", listed(better, " or "),
          better_ceiling_ >= kEven ? "even it out" : "help, to " + words_of_share(better_ceiling_));
    say(text + ".", show, better.empty() ? "" : "partition=" + better[0]);
  }

  double sum_of_pairs() const {
    return std::accumulate(pairs_.begin(), pairs_.end(), 0.0,
                           [](double sum, const auto& rank) { return sum + rank.first; });
  }

  // Return the partitions with about the best ceiling, if that is well above `ceiling`.
  std::vector<std::string> better_partitions(double ceiling) {
    const std::optional<MaskModel> model = mask_model(trace_);
    const auto ranks = static_cast<std::int64_t>(idle_.ranks.size());
    if (!model || model->partition.world_size != ranks ||
        ranks * ranks * (1 + model->mask().num_documents) > kMaxRegions)
      return {};
    const bool shares_steps = travel_of(trace_.info).shares_steps(trace_.info.world_size);
    std::vector<std::pair<double, std::string>> others;
    for (const PartitionKind kind : kAllPartitions)
      if (kind != model->partition.kind)
        others.emplace_back(ceiling_of(*model, kind, shares_steps), std::string(name_of(kind)));
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
  const WorkTable& balance_;
  // Pairs of both passes and the rank, of those that are known; empty for a table too large to show.
  std::vector<std::pair<double, int>> pairs_;
  double better_ceiling_ = 0;
  bool said_imbalance_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings(const Trace& trace, const Explanation& why, const IdleReport& idle,
                              const WorkTable& balance) {
  if (!trace.is_ring) return {};
  if (trace.info.is_whole()) return Findings(trace, why, idle, balance).all();
  // Half a run says little about balance and idle times.
  const std::vector<SliceId> waits = unfinished_waits(trace);
  std::vector<Finding> said;
  for (std::string& sentence : findings_of_failure(trace, waits)) said.push_back({sentence});
  if (const auto place = failure_place(trace, waits)) said[0].show = place->slice;
  return said;
}

namespace {

constexpr std::size_t kMostWaits = 4;  // one sentence each

bool is_of(const SliceId& id, const Trace& trace, int rank) {
  return trace.rank_of_row(id.row) == rank;
}

// Return whether both ends of the hop that `wait` is for were over when it ended: its block was
// received, and the block that this rank sent in the same step was taken.
bool came(const Trace& trace, int rank, const TraceEvent& wait) {
  const auto over = [&wait](const TraceEvent& end) {
    return end.pass == wait.pass && end.payload == wait.payload && end.end_ns <= wait.end_ns;
  };
  const std::span<const TraceEvent> received = trace.slices_of(rank, Lane::recv);
  const auto recv = std::find_if(received.begin(), received.end(), [&](const TraceEvent& slice) {
    return over(slice) && slice.kv_owner == wait.kv_owner;
  });
  if (recv == received.end()) return false;
  const std::span<const TraceEvent> sent = trace.slices_of(rank, Lane::send);
  return std::any_of(sent.begin(), sent.end(), [&](const TraceEvent& slice) {
    return over(slice) && slice.step == recv->step;
  });
}

// Return the slice of a rank that ends last, or the wait if several end together.
std::optional<SliceId> last_slice(const Trace& trace, int rank) {
  std::optional<SliceId> last;
  for (const Lane lane : kAllLanes) {
    const std::uint32_t row = trace.row_of(rank, lane);
    const std::span<const TraceEvent> slices = trace.slices(row);
    if (slices.empty()) continue;
    const SliceId id{row, static_cast<std::uint32_t>(slices.size() - 1)};
    if (!last || trace.slice(id).end_ns >= trace.slice(*last).end_ns) last = id;
  }
  return last;
}

}  // namespace

std::vector<SliceId> unfinished_waits(const Trace& trace) {
  std::vector<SliceId> waits;
  if (!trace.info.failure) return waits;
  for (int rank = 0; rank < trace.rank_count(); ++rank) {
    const std::uint32_t row = trace.row_of(rank, Lane::wait);
    const std::span<const TraceEvent> slices = trace.slices(row);
    if (slices.empty()) continue;
    const TraceEvent& wait = slices.back();
    const std::span<const TraceEvent> computed = trace.slices_of(rank, Lane::compute);
    const bool went_on = !computed.empty() && computed.back().begin_ns >= wait.end_ns;
    if (!went_on && !came(trace, rank, wait))
      waits.push_back({row, static_cast<std::uint32_t>(slices.size() - 1)});
  }
  return waits;
}

std::vector<int> circle_of(const Trace& trace, const std::vector<SliceId>& waits) {
  std::vector<int> whom(trace.ranks.size(), -1);
  for (const SliceId id : waits) whom[trace.rank_of_row(id.row)] = trace.slice(id).peer();
  const auto next = [&](int rank) {
    const int peer = rank >= 0 ? whom[rank] : -1;
    return peer < static_cast<int>(whom.size()) && peer != rank ? peer : -1;
  };
  for (const SliceId id : waits) {
    const int first = trace.rank_of_row(id.row);
    std::vector<int> circle = {first};
    for (int at = next(first); at >= 0 && circle.size() <= waits.size(); at = next(at)) {
      if (at == first) return circle;
      circle.push_back(at);
    }
  }
  return {};
}

std::optional<std::int64_t> last_seen_ns(const Trace& trace, int rank) {
  const std::optional<SliceId> last = last_slice(trace, rank);
  if (!last) return std::nullopt;
  return trace.slice(*last).end_ns;
}

std::string words_of_failed_step(const Trace& trace, const std::vector<SliceId>& waits) {
  const RunEnd& end = *trace.info.failure;
  for (const SliceId id : waits)
    if (const int next = trace.slice(id).step; is_of(id, trace, end.rank) && next > end.step)
      return fmt::format("hop from step {} to step {}", end.step, next);
  return fmt::format("step {}", end.step);
}

std::optional<FailurePlace> failure_place(const Trace& trace, const std::vector<SliceId>& waits) {
  if (!trace.info.failure) return std::nullopt;
  const int rank = trace.info.failure->rank;
  FailurePlace place;
  if (rank < trace.rank_count()) place.rank = rank;
  place.at_ns = trace.end_ns;
  const auto own = std::find_if(waits.begin(), waits.end(),
                                [&](const SliceId& id) { return is_of(id, trace, rank); });
  const auto longest =
      std::max_element(waits.begin(), waits.end(), [&trace](const SliceId& a, const SliceId& b) {
        return trace.slice(a).duration_ns() < trace.slice(b).duration_ns();
      });
  const std::vector<int> circle = circle_of(trace, waits);
  if (!circle.empty()) {
    // The wait that closes it begins when all the others have begun.
    for (const SliceId id : waits)
      if (std::any_of(circle.begin(), circle.end(),
                      [&](int each) { return is_of(id, trace, each); }) &&
          (!place.slice || trace.slice(id).begin_ns > trace.slice(*place.slice).begin_ns))
        place.slice = id;
    place.rank = trace.rank_of_row(place.slice->row);
    place.at_ns = trace.slice(*place.slice).begin_ns;
  } else if (!waits.empty()) {
    place.slice = own != waits.end() ? *own : *longest;
    // Look where the wait begins: what led to it is just before, and then nothing happens.
    place.at_ns = trace.slice(*place.slice).begin_ns;
  } else if (place.rank >= 0) {
    place.at_ns = last_seen_ns(trace, place.rank).value_or(trace.begin_ns);
  }
  return place;
}

std::vector<std::string> findings_of_failure(const Trace& trace,
                                             const std::vector<SliceId>& waits) {
  std::vector<std::string> sentences;
  if (!trace.info.failure) return sentences;
  const int rank = trace.info.failure->rank;
  const bool known = rank >= 0 && rank < trace.rank_count();
  const auto waits_itself = std::any_of(waits.begin(), waits.end(),
                                        [&](const SliceId& id) { return is_of(id, trace, rank); });
  if (known && !waits_itself) {
    const std::optional<SliceId> last = last_slice(trace, rank);
    sentences.push_back(
        last ? fmt::format("Nothing was recorded of rank {} after {}, at {}.", rank,
                           words_of_step(trace.slice(*last).pass, trace.slice(*last).step),
                           words_of_time(trace.slice(*last).end_ns - trace.begin_ns))
             : fmt::format("Nothing was recorded of rank {}.", rank));
  }
  std::vector<SliceId> longest = waits;
  std::stable_sort(longest.begin(), longest.end(), [&trace](const SliceId& a, const SliceId& b) {
    return trace.slice(a).duration_ns() > trace.slice(b).duration_ns();
  });
  for (std::size_t i = 0; i < std::min(longest.size(), kMostWaits); ++i) {
    const TraceEvent& wait = trace.slice(longest[i]);
    const int waiting = trace.rank_of_row(longest[i].row);
    const std::string step = words_of_step(wait.pass, wait.step);
    const std::string time = words_of_time(wait.duration_ns());
    sentences.push_back(
        wait.peer() == waiting
            ? fmt::format("Rank {} waited in {} for its own part of the hop, in vain: {}.", waiting,
                          step, time)
            : fmt::format("Rank {} waited for rank {} in {}, in vain: {}.", waiting, wait.peer(),
                          step, time));
  }
  if (longest.size() > kMostWaits)
    sentences.push_back(fmt::format("So did {} more ranks.", longest.size() - kMostWaits));
  sentences.push_back(
      "The run ended before its time: the figures are of what was recorded until then.");
  return sentences;
}

}  // namespace ringscope::viz
