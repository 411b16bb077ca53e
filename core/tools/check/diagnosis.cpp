// Draws the sample of rows, evaluates the hypotheses on it in two rounds (all on a few rows, the best on
// many), and ranks them by how much of the error each explains.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

// What is known of each tensor that is given.
template <class T>
using PerTensor = std::map<Tensor, T>;

template <class Task>
void on_threads(Index count, int threads, const Task& task) {
  std::atomic<Index> next{0};
  const auto work = [&] {
    for (Index i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::jthread> helpers;
  for (Index i = 1; i < min_of(threads, count); ++i) helpers.emplace_back(work);
  work();
}

// Return the squared distance, where NaN and infinities are `cap` away from numbers.
double squared_distance(double a, double b, double cap) {
  if (a == b || (!std::isfinite(a) && !std::isfinite(b) && std::isfinite(cap))) return 0;
  const double d = std::isfinite(a) && std::isfinite(b) ? std::min(std::abs(a - b), cap) : cap;
  return d * d;
}

// How many times the rounding of a whole tensor may be that of the sampled rows, which are the worst.
constexpr double kRounding = 4;

// The sums of squared distances of one hypothesis, by tensor and rank.
using Distances = PerTensor<std::vector<double>>;

class Search {
 public:
  // Look at the wrong parts, and whether a hypothesis leaves the right ones alone.
  Search(const Knowledge& known, std::set<Tensor> wrong, std::set<Tensor> right = {},
         PerTensor<double> tolerances = {})
      : known_(known),
        parts_(std::move(wrong)),
        right_(std::move(right)),
        tolerances_(std::move(tolerances)) {
    const DType dtype = known.options.dtype;
    for (const Tensor part : output_tensors(true)) {
      double largest = 0;
      for (const double x : values_of(known.oracle, part))
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      caps_[part] = 4 * largest + (part == Tensor::lse ? 10 : 1e-30);
      stored_[part] = dtype != DType::f32 && part != Tensor::lse &&
                      is_stored_in(dtype, values_of(known.mine, part));
    }
    const bool has_dq = parts_.contains(Tensor::dq) || right_.contains(Tensor::dq);
    sample(false, queries_, [&](Index head, Index i) { return query_row(known, head, i, has_dq); });
    sample(true, keys_, [&](Index head, Index i) { return key_row(known, head, i); });
  }

  double tolerance(Tensor part) const { return tolerances_.at(part); }

  // Call f(part, rank, row of the tensor, guess) for what the hypothesis makes of every sampled row.
  // A null guess stands for the oracle's row.
  template <class F>
  void for_guesses(const Hypothesis* hypothesis, bool screening, F&& f) const {
    const auto row_of = [](const std::optional<Values>& guess) {
      return guess ? guess->data() : nullptr;
    };
    for (const auto& [row, screens] : queries_) {
      if (screening && !screens) continue;
      const Guess guess = hypothesis != nullptr ? guess_of(*hypothesis, row) : Guess();
      const Index at = row.head * known_.seqlen() + row.position;
      f(Tensor::out, row.place.rank, at, row_of(guess.out));
      f(Tensor::dq, row.place.rank, at, row_of(guess.dq));
      f(Tensor::lse, row.place.rank, at, guess.lse ? &*guess.lse : nullptr);
    }
    for (const auto& [row, screens] : keys_) {
      if (screening && !screens) continue;
      Guess guess;
      if (hypothesis != nullptr && hypothesis->key) hypothesis->key(row, guess);
      const Index at = row.kv_head * known_.seqlen() + row.position;
      f(Tensor::dk, row.place.rank, at, row_of(guess.dk));
      f(Tensor::dv, row.place.rank, at, row_of(guess.dv));
    }
  }

  // Return the distances of the hypothesis, or of the oracle if there is none.
  Distances distances(const Hypothesis* hypothesis, bool screening) const {
    Distances sums;
    for (const Tensor part : output_tensors(true)) sums[part].assign(known_.ranks(), 0);
    for_guesses(hypothesis, screening, [&](Tensor part, int rank, Index at, const double* guess) {
      double& sum = sums[part][rank];
      if (parts_.contains(part)) sum += distance(part, at, guess);
      // Of right parts the row that a hypothesis changes most counts, by its mean square.
      if (right_.contains(part) && guess != nullptr)
        sum = std::max(sum, distance(part, at, guess) / width_of(part));
    });
    if (hypothesis != nullptr && hypothesis->turned) *hypothesis->turned = {};
    return sums;
  }

  struct Score {
    double share = 0;             // of the squared error that is left
    int rank = -1;                // whose rows it explains, if one rank's alone
    bool has_exceptions = false;  // ranks of which it explains less than nothing
    bool contradicts = false;     // a part that passes
    bool is_whole = true;         // what is left is rounding
  };
  // Return how much of the right ones' distances is left if every rank's rows are taken from the
  // nearer of both: a mistake may have been made by some of the ranks.
  Score score(const Distances& of, const Distances& right) const {
    Score result;
    std::vector<double> was(known_.ranks()), is = was;
    for (const Tensor part : parts_) {
      double before = 0, after = 0, without_exceptions = 0;
      for (std::size_t rank = 0; rank < was.size(); ++rank) {
        before += right.at(part)[rank];
        after += std::min(of.at(part)[rank], right.at(part)[rank]);
        without_exceptions += of.at(part)[rank];
      }
      if (!(without_exceptions <= after + 0.01 * before)) result.has_exceptions = true;
      if (!(before > 0)) continue;
      result.share += after / before / static_cast<double>(parts_.size());
      const auto rows = is_key_side(part) ? keys_.size() : queries_.size();
      const double values = static_cast<double>(rows) * width_of(part);
      if (!(std::sqrt(after / values) <= kRounding * tolerances_.at(part))) result.is_whole = false;
      for (std::size_t rank = 0; rank < was.size(); ++rank) {
        was[rank] += right.at(part)[rank] / before;
        is[rank] += std::min(of.at(part)[rank], right.at(part)[rank]) / before;
      }
    }
    int explained = 0;
    const double all = std::accumulate(was.begin(), was.end(), 0.0);
    for (std::size_t rank = 0; rank < was.size(); ++rank) {
      if (was[rank] > 1e-3 * all && is[rank] < 0.5 * was[rank])
        result.rank = explained++ == 0 ? static_cast<int>(rank) : -1;
      for (const Tensor part : right_)
        if (is[rank] < 0.99 * was[rank] &&
            !(std::sqrt(of.at(part)[rank]) <= kRounding * tolerances_.at(part)))
          result.contradicts = true;
    }
    return result;
  }

 private:
  double width_of(Tensor part) const {
    return static_cast<double>(part == Tensor::lse ? 1 : known_.width());
  }

  // Return the squared distance of a row of a part from the guess (null: the oracle), as it would be
  // stored if that `counts`.
  double distance(Tensor part, Index at, const double* guess, bool as_stored = true) const {
    const Index width = part == Tensor::lse ? 1 : known_.width();
    const double* const given = values_of(known_.mine, part).data() + at * width;
    if (guess == nullptr) guess = values_of(known_.oracle, part).data() + at * width;
    const bool is_stored = as_stored && stored_.at(part);
    const double cap = caps_.at(part);
    double sum = 0;
    for (Index c = 0; c < width; ++c)
      sum += squared_distance(is_stored ? stored_as(known_.options.dtype, guess[c]) : guess[c],
                              given[c], cap);
    return sum;
  }

  // Return those of a rank's positions at which the oracle is known.
  std::vector<Index> looked_at(const std::vector<Index>& positions) const {
    const std::vector<Index>& rows = known_.options.rows;
    std::vector<Index> some;
    for (const Index i : positions)
      if (rows.empty() || std::binary_search(rows.begin(), rows.end(), i)) some.push_back(i);
    return some;
  }

  // Choose up to three heads of the parts and, for each and every rank, rows: the worst ones, and
  // as many evenly spread. Make them by row_of(head, position), and tell which the first round looks
  // at.
  template <class Row, class F>
  void sample(bool of_keys, std::vector<std::pair<Row, bool>>& rows, const F& row_of) const {
    std::set<Tensor> needed = right_;
    needed.insert(parts_.begin(), parts_.end());
    if (std::none_of(needed.begin(), needed.end(),
                     [&](Tensor part) { return is_key_side(part) == of_keys; }))
      return;
    const Index seqlen = known_.seqlen(),
                heads = heads_of(known_.problem.shape, of_keys ? Tensor::dk : Tensor::out);
    std::vector<double> errors(heads * seqlen);
    std::vector<std::pair<double, Index>> by_head;
    for (Index head = 0; head < heads; ++head) {
      double sum = 0;
      for (const auto& positions : known_.deal.positions)
        for (const Index i : looked_at(positions)) {
          const Index at = head * seqlen + i;
          for (const Tensor part : parts_)
            if (is_key_side(part) == of_keys) errors[at] += distance(part, at, nullptr, false);
          sum += errors[at];
        }
      by_head.emplace_back(-sum, head);
    }
    std::sort(by_head.begin(), by_head.end());
    // Many ranks need their rows; one head has to do then.
    std::set<Index> chosen{by_head.front().second};
    if (known_.ranks() <= 16)
      chosen.insert({by_head[by_head.size() / 2].second, by_head[by_head.size() / 3].second});
    const double budget = 1e8 / (static_cast<double>(seqlen * known_.width()));
    const auto total = static_cast<Index>(std::clamp(budget, 64.0, 512.0));
    const Index each = max_of(4, total / std::ssize(chosen) / static_cast<Index>(known_.ranks())),
                screened = max_of(2, each / 6);
    std::vector<std::pair<Index, Index>> places;  // head and position
    for (const Index head : chosen)
      for (const auto& of_rank : known_.deal.positions) {
        const std::vector<Index> positions = looked_at(of_rank);
        std::vector<Index> worst = positions;
        std::sort(worst.begin(), worst.end(), [&](Index a, Index b) {
          return errors[head * seqlen + a] > errors[head * seqlen + b];
        });
        const auto count = std::ssize(positions);
        std::set<Index> taken;
        for (Index i = 0; i < min_of(each, count); ++i) {
          const Index position =
              i % 2 == 0 ? worst[i / 2] : positions[i * count / min_of(each, count)];
          if (!taken.insert(position).second) continue;
          places.emplace_back(head, position);
          rows.emplace_back(Row{}, i < screened);
        }
      }
    on_threads(std::ssize(rows), known_.options.threads,
               [&](Index i) { rows[i].first = row_of(places[i].first, places[i].second); });
  }

  const Knowledge& known_;
  std::set<Tensor> parts_, right_;
  PerTensor<double> caps_, tolerances_;
  PerTensor<bool> stored_;
  std::vector<std::pair<QueryRow, bool>> queries_;
  std::vector<std::pair<KeyRow, bool>> keys_;
};

// Add the hypothesis that right rows lie at places of other rows, or zeros, as the given rows tell:
// most of the wrong ones in the sample are each the right row of another position, or none (-1).
void add_moved_rows(const Knowledge& known, const Search& search, const std::set<Tensor>& wrong,
                    Hypotheses& table) {
  if (!known.options.rows.empty()) return;  // the row may be that of any position
  // So many wrong rows are looked for; more of them, if most are found.
  constexpr int kMost = 48;
  const Index width = known.width();
  std::map<std::pair<Tensor, Index>, Index> sources;
  int looked_for = 0;
  bool are_zeros = true;  // all of them
  std::string how;
  search.for_guesses(nullptr, false, [&](Tensor part, int, Index at, const double*) {
    if (part == Tensor::lse || !wrong.contains(part) ||
        (looked_for >= kMost && 2 * std::ssize(sources) < looked_for))
      return;
    const double* const given = values_of(known.mine, part).data() + at * width;
    const double tolerance = kRounding * search.tolerance(part);
    double most = tolerance * tolerance * static_cast<double>(width);
    // In 16 bits a small row is told from others by its own rounding.
    constexpr double kUnits = 16 * 0x1p-9;
    if (known.options.dtype != DType::f32)
      most = std::min(most, kUnits * kUnits * dot_of(given, given, width));
    const Index head = at / known.seqlen(), position = at % known.seqlen();
    const auto distance_of = [&](Index from, double enough) {
      const double* const right = known.row_of(values_of(known.oracle, part), head, from);
      double sum = 0;
      for (Index c = 0; c < width && sum <= enough; ++c)
        sum += (right[c] - given[c]) * (right[c] - given[c]);
      return sum;
    };
    if (distance_of(position, most) <= most) return;
    ++looked_for;
    double nearest = most;
    Index source = -1;
    const bool is_zero = std::all_of(given, given + width, [](double x) { return x == 0; });
    for (Index from = 0; from < known.seqlen() && !is_zero; ++from)
      if (const double distance = distance_of(from, nearest); distance <= nearest)
        std::tie(nearest, source) = std::pair(distance, from);
    if (source < 0 && !is_zero) return;
    are_zeros = are_zeros && is_zero;
    sources.insert({{part, at}, source});
    if (how.empty() && !is_zero)
      how = fmt::format("row {} of {}'s head {} is that of position {}", position, name_of(part),
                        head, source);
  });
  if (sources.empty() || 2 * std::ssize(sources) < looked_for) return;
  const auto moved = [&known, sources](Tensor part, Index head, Index position) {
    std::optional<Values> row;
    const auto found = sources.find({part, head * known.seqlen() + position});
    if (found != sources.end())
      row = found->second < 0 ? Values(known.width())
                              : known.copy_of(values_of(known.oracle, part), head, found->second);
    return row;
  };
  table.merge(
      are_zeros ? Mistake::rows_dropped : Mistake::rows_of_other_rank, 1.2,
      are_zeros ? "rows that are left out hold zeros" : how + ", and others likewise",
      [=, &known, moves_lse = wrong.contains(Tensor::lse)](const QueryRow& row, Guess& guess) {
        guess.out = moved(Tensor::out, row.head, row.position);
        guess.dq = moved(Tensor::dq, row.head, row.position);
        if (!guess.out || !moves_lse) return;
        const Index at = row.head * known.seqlen(),
                    from = sources.at({Tensor::out, at + row.position});
        guess.lse = from < 0 ? known.mine.lse[at + row.position] : known.oracle.lse[at + from];
      });
  table.back().key = [moved](const KeyRow& row, Guess& guess) {
    guess.dk = moved(Tensor::dk, row.kv_head, row.position);
    guess.dv = moved(Tensor::dv, row.kv_head, row.position);
  };
}

struct Scored {
  Hypothesis* hypothesis;
  Search::Score score;
  double ranked;
};

}  // namespace

std::vector<Suspect> diagnose(const Knowledge& known, const std::vector<TensorCheck>& checks) {
  std::set<Tensor> wrong[2], passed[2];  // of the forward pass, and gradients
  PerTensor<double> tolerances;
  for (const TensorCheck& check : checks) {
    (check.passes() ? passed : wrong)[check.tensor > Tensor::lse].insert(check.tensor);
    tolerances[check.tensor] = check.rms_tolerance;
  }
  const bool is_forward = !wrong[0].empty();
  const std::set<Tensor>& parts = wrong[is_forward ? 0 : 1];
  if (parts.empty()) return {};

  const Search search(known, parts, passed[is_forward ? 0 : 1], tolerances);
  Hypotheses table;
  is_forward ? add_forward(known, table) : add_gradients(known, table);
  add_moved_rows(known, search, parts, table);

  const Distances right[2] = {search.distances(nullptr, false), search.distances(nullptr, true)};
  const auto score_of = [&](const Hypothesis& hypothesis, bool screening) {
    return search.score(search.distances(&hypothesis, screening), right[screening]);
  };
  const auto evaluate = [&](const std::vector<Hypothesis*>& which, bool screening) {
    std::vector<Scored> scored(which.size());
    on_threads(std::ssize(which), known.options.threads, [&](Index i) {
      const Search::Score score = score_of(*which[i], screening);
      const double floor = 1e-9;  // below it, both are right
      scored[i] = {which[i], score,
                   (score.share + floor) * which[i]->penalty * (score.has_exceptions ? 1.1 : 1)};
    });
    std::erase_if(scored, [](const Scored& some) { return some.score.contradicts; });
    std::stable_sort(scored.begin(), scored.end(),
                     [](const Scored& a, const Scored& b) { return a.ranked < b.ranked; });
    return scored;
  };
  // The best of all, and the best of each kind.
  std::vector<Hypothesis*> all, best;
  for (Hypothesis& hypothesis : table) all.push_back(&hypothesis);
  std::map<Mistake, int> taken;
  for (const Scored& scored : evaluate(all, true))
    if (best.size() < 8 || taken[scored.hypothesis->mistake] < 2) {
      best.push_back(scored.hypothesis);
      ++taken[scored.hypothesis->mistake];
    }
  // Of the scales between the usual ones, come nearer to the best.
  const auto near = std::find_if(best.begin(), best.end(),
                                 [](const Hypothesis* some) { return some->scale != nullptr; });
  if (near != best.end()) {
    double& scale = *(*near)->scale;
    const double step = std::pow(2.0, 1.0 / 6);
    double low = scale / step, high = scale * step;
    const auto share_at = [&](double factor) {
      scale = factor;
      return score_of(**near, true).share;
    };
    for (int round = 0; round < 24; ++round) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      const bool is_lower = share_at(a) < share_at(b);
      (is_lower ? high : low) = is_lower ? b : a;
    }
    scale = (low + high) / 2;
    (*near)->how = fmt::format("the softmax scale is near {:.4g}, and not {:.4g}", scale,
                               known.problem.softmax_scale);
  }
  const std::vector<Scored> finalists = evaluate(best, false);
  // A sample of rows may not tell mistakes from each other that all of the rows would.
  const bool is_told =
      known.options.rows.empty() ||
      std::none_of(finalists.begin(), finalists.end(), [&](const Scored& other) {
        const Hypothesis &a = *finalists.front().hypothesis, &b = *other.hypothesis;
        return other.score.is_whole && (a.mistake != b.mistake || a.mask != b.mask);
      });
  std::vector<Suspect> suspects;
  for (const auto& [hypothesis, score, ranked] : finalists) {
    const Mistake mistake = hypothesis->mistake;
    double confidence = 1 - std::sqrt(score.share);
    // A mistake that is found leaves nothing but rounding; one that leaves more is a guess.
    if (!is_told || (!score.is_whole && mistake != Mistake::rounds_each_hop))
      confidence = std::min(confidence, 0.9 * kSure);
    if (confidence >= 0.05 && taken.erase(mistake) > 0)
      suspects.push_back({mistake, score.rank, confidence, hypothesis->how, hypothesis->mask});
  }
  // Errors of a percent that nothing explains are rounding, somewhere where it repeats.
  constexpr double kUnsure = 0.25, kLittle = 0.02;
  const bool is_little = std::all_of(checks.begin(), checks.end(), [&](const TensorCheck& check) {
    return !parts.contains(check.tensor) || check.rms <= kLittle * check.right_rms;
  });
  if ((suspects.empty() || suspects.front().confidence < kUnsure) && is_little) {
    std::erase_if(suspects, [](const Suspect& suspect) {
      return suspect.mistake == Mistake::rounds_each_hop;
    });
    suspects.insert(suspects.begin(), {Mistake::rounds_each_hop, -1, kUnsure,
                                       "the errors are small, and look like roundings that no "
                                       "other mistake explains"});
  }
  return suspects;
}

std::vector<Suspect> find_hop_rounding(const Knowledge& known) {
  if (known.ranks() < 3 || known.options.dtype == DType::f32) return {};
  std::set<Tensor> parts;
  for (const Tensor part : {Tensor::out, Tensor::dq, Tensor::dk, Tensor::dv})
    if (!values_of(known.mine, part).empty()) parts.insert(part);
  if (parts.empty()) return {};
  const Search search(known, parts);

  // What the roundings before the last hop should have done to a tensor, beside what was done. The
  // slope between them is 1 if they happened; roundings that happened elsewhere are independent of
  // them, and make it 0.
  struct Slope {
    double both = 0, expected = 0, found = 0, count = 0;
  };
  Suspect likeliest{Mistake::rounds_each_hop, -1, 0, ""};
  Hypotheses table;
  add_hop_roundings(known, table);
  add_gradient_roundings(known, known.ranks() - 1, table);
  for (const Hypothesis& hypothesis : table) {
    PerTensor<Slope> slopes;
    search.for_guesses(&hypothesis, false, [&](Tensor part, int, Index at, const double* guess) {
      if (guess == nullptr || !parts.contains(part)) return;
      Slope& slope = slopes[part];
      for (Index c = 0; c < known.width(); ++c) {
        const Index value = at * known.width() + c;
        const double right = values_of(known.oracle, part)[value];
        const double shift = guess[c] - right, error = values_of(known.mine, part)[value] -
                                                       stored_as(known.options.dtype, right);
        if (!std::isfinite(error) || !std::isfinite(shift)) continue;
        slope.both += shift * error;
        slope.expected += shift * shift;
        slope.found += error * error;
        if (shift != 0) ++slope.count;
      }
    });
    for (const auto& [part, of] : slopes) {
      if (of.expected == 0 || of.found == 0) continue;
      const double slope = of.both / of.expected,
                   correlation = of.both / std::sqrt(of.expected * of.found);
      // Independent roundings of few values may look alike by chance.
      if (slope > 0.5 && slope < 1.6 && correlation > std::max(0.2, 4 / std::sqrt(of.count)) &&
          correlation > likeliest.confidence)
        likeliest = {Mistake::rounds_each_hop, -1, correlation, hypothesis.how};
    }
  }
  if (likeliest.confidence == 0) return {};
  return {likeliest};
}

}  // namespace ringscope
