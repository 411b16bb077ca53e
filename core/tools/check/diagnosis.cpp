// Draws the sample of rows, evaluates the hypotheses on it in two rounds (all on a few rows, the best on
// many), and ranks them by how much of the error each explains.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "core/tools/check/hypotheses.h"

namespace ringscope {

namespace {

// Return the squared distance, where NaN and infinities are `cap` away from numbers.
double squared_distance(double a, double b, double cap) {
  if (a == b || (!std::isfinite(a) && !std::isfinite(b) && std::isfinite(cap))) return 0;
  const double d = std::isfinite(a) && std::isfinite(b) ? std::min(std::abs(a - b), cap) : cap;
  return d * d;
}

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
    sample(false, queries_, [&](Index head, Index i) {
      if (known.is_plain()) return query_row(known, head, i, has_dq);
      return QueryRow{&known, head, i, known.query_deal.places[i]};
    });
    sample(true, keys_, [&](Index head, Index i) { return key_row(known, head, i); });
  }

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
      const Index at = row.head * known_.problem.shape.queries() + row.position;
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
        sum = std::max(sum, distance(part, at, guess) / static_cast<double>(width(part)));
    });
    if (hypothesis != nullptr && hypothesis->turned) *hypothesis->turned = {};
    return sums;
  }

  std::vector<SampledRow> rows() const {
    std::vector<SampledRow> all;
    for_guesses(nullptr, false, [&](Tensor part, int rank, Index at, const double*) {
      all.push_back({part, rank, at});
    });
    return all;
  }

  // Return whether rows of the wrong parts have errors that are larger where the row is, by the
  // correlation of the logarithms.
  bool errors_follow_sizes() const {
    double count = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (const auto& [part, rank, at] : rows()) {
      if (!parts_.contains(part) || part == Tensor::lse) continue;
      const double* const right = values_of(known_.oracle, part).data() + at * width(part);
      const double size = std::log(dot_of(right, right, width(part))),
                   error = std::log(distance(part, at, nullptr, false));
      if (!std::isfinite(size) || !std::isfinite(error)) continue;
      ++count, x += size, y += error, xx += size * size, yy += error * error, xy += size * error;
    }
    constexpr double kFollows = 0.4;
    const double spread = (xx - x * x / count) * (yy - y * y / count);
    return (xy - x * y / count) > kFollows * std::sqrt(spread);
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
  Score score(const Distances& of, const Distances& right, double rounding = 1) const {
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
      const double values = static_cast<double>(rows) * static_cast<double>(width(part));
      if (!(std::sqrt(after / values) <= kRounding * rounding * tolerances_.at(part)))
        result.is_whole = false;
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
  Index width(Tensor part) const { return width_of(known_.problem.shape, part); }

  // Return the squared distance of a row of a part from the guess (null: the oracle), as it would be
  // stored if that `counts`.
  double distance(Tensor part, Index at, const double* guess, bool as_stored = true) const {
    const Index columns = width(part);
    const double* const given = values_of(known_.mine, part).data() + at * columns;
    if (guess == nullptr) guess = values_of(known_.oracle, part).data() + at * columns;
    const bool is_stored = as_stored && stored_.at(part);
    const double cap = caps_.at(part);
    double sum = 0;
    for (Index c = 0; c < columns; ++c)
      sum += squared_distance(is_stored ? stored_as(known_.options.dtype, guess[c]) : guess[c],
                              given[c], cap);
    return sum;
  }

  // Return those of a rank's positions at which the oracle is known.
  std::vector<Index> looked_at(const std::vector<Index>& positions) const {
    const std::vector<Index>& rows = known_.options.rows;
    std::vector<Index> some;
    for (const Index i : positions)
      if (rows.empty() || std::ranges::binary_search(rows, i)) some.push_back(i);
    return some;
  }

  // Choose up to three heads of the parts and, for each and every rank, rows: the worst ones, and
  // as many evenly spread. Make them by row_of(head, position), and tell which the first round looks
  // at.
  template <class Row, class F>
  void sample(bool of_keys, std::vector<std::pair<Row, bool>>& rows, const F& row_of) const {
    std::set<Tensor> needed = right_;
    needed.insert(parts_.begin(), parts_.end());
    if (std::ranges::none_of(needed, [&](Tensor part) { return is_key_side(part) == of_keys; }))
      return;
    const Tensor side = of_keys ? Tensor::dk : Tensor::out;
    const auto& positions_by_rank = known_.deal_of(side).positions;
    const Index seqlen = seqlen_of(known_.problem.shape, side),
                heads = heads_of(known_.problem.shape, side);
    std::vector<double> errors(heads * seqlen);
    std::vector<std::pair<double, Index>> by_head;
    for (Index head = 0; head < heads; ++head) {
      double sum = 0;
      for (const auto& positions : positions_by_rank)
        for (const Index i : looked_at(positions)) {
          const Index at = head * seqlen + i;
          for (const Tensor part : parts_)
            if (is_key_side(part) == of_keys) errors[at] += distance(part, at, nullptr, false);
          sum += errors[at];
        }
      by_head.emplace_back(-sum, head);
    }
    std::ranges::sort(by_head);
    // Many ranks need their rows; one head has to do then.
    std::set<Index> chosen{by_head.front().second};
    if (known_.ranks() <= 16)
      chosen.insert({by_head[by_head.size() / 2].second, by_head[by_head.size() / 3].second});
    // Of many ranks, those whose rows are the worst, and equally many evenly spread.
    std::vector<std::pair<double, int>> by_rank;
    for (int rank = 0; rank < known_.ranks(); ++rank) {
      double sum = 0;
      for (const Index i : looked_at(positions_by_rank[rank]))
        sum += errors[*chosen.begin() * seqlen + i];
      by_rank.emplace_back(-sum, rank);
    }
    std::set<int> ranks;
    for (int i = 0; i < known_.ranks(); i += (known_.ranks() + kManyRanks - 1) / kManyRanks)
      ranks.insert(i);
    if (known_.ranks() > kManyRanks) std::ranges::sort(by_rank);
    for (std::size_t i = 0; i < by_rank.size() && i < kManyRanks / 2; ++i)
      ranks.insert(by_rank[i].second);
    const double budget = 1e8 / (static_cast<double>(known_.seqlen() * known_.width()));
    const auto total = static_cast<Index>(std::clamp(budget, 64.0, 512.0));
    const Index each = max_of(4, total / std::ssize(chosen) / std::ssize(ranks)),
                screened = max_of(2, each / 6);
    std::vector<std::pair<Index, Index>> places;  // head and position
    for (const Index head : chosen)
      for (const int rank : ranks) {
        const std::vector<Index> positions = looked_at(positions_by_rank[rank]);
        std::vector<Index> worst = positions;
        std::ranges::sort(worst, [&](Index a, Index b) {
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
  if (!known.is_plain())  // only the query side is computed
    for (auto* const some : {&wrong[1], &passed[1]})
      std::erase_if(*some, [](Tensor tensor) { return tensor != Tensor::dq; });
  const bool is_forward = !wrong[0].empty();
  const std::set<Tensor>& parts = wrong[is_forward ? 0 : 1];
  if (parts.empty())
    return known.is_plain() ? std::vector<Suspect>() : wrong_factors(known, checks);

  const Search search(known, parts, passed[is_forward ? 0 : 1], tolerances);
  Hypotheses table;
  if (!known.is_plain()) {
    add_shapes(known, table);
  } else {
    is_forward ? add_forward(known, table) : add_gradients(known, table);
    add_seen(known, {parts, tolerances, search.rows()}, table);
  }

  const Distances right[2] = {search.distances(nullptr, false), search.distances(nullptr, true)};
  const auto score_of = [&](const Hypothesis& hypothesis, bool screening) {
    return search.score(search.distances(&hypothesis, screening), right[screening],
                        hypothesis.rounding);
  };
  const auto evaluate = [&](const std::vector<Hypothesis*>& which, bool screening) {
    std::vector<Scored> scored(which.size());
    std::atomic<Index> done = 0;
    on_threads(std::ssize(which), known.options.threads, [&](Index i) {
      const Search::Score score = score_of(*which[i], screening);
      const double floor = 1e-9;  // below it, both are right
      scored[i] = {which[i], score,
                   (score.share + floor) * which[i]->penalty * (score.has_exceptions ? 1.1 : 1)};
      if (known.options.progress && screening)
        known.options.progress(static_cast<double>(++done) / static_cast<double>(which.size()));
    });
    std::erase_if(scored, [](const Scored& some) { return some.score.contradicts; });
    std::ranges::stable_sort(scored, {}, &Scored::ranked);
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
  // Of numbers between the usual ones, come nearer to the best of each kind.
  std::set<Mistake> nearer;
  for (Hypothesis* const some : best) {
    if (some->near == nullptr || !nearer.insert(some->mistake).second) continue;
    double low = *some->near / some->near_by, high = *some->near * some->near_by;
    const auto share_at = [&](double number) {
      *some->near = number;
      return score_of(*some, true).share;
    };
    for (int round = 0; round < 32; ++round) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      const bool is_lower = share_at(a) < share_at(b);
      (is_lower ? high : low) = is_lower ? b : a;
    }
    *some->near = (low + high) / 2;
    some->how += fmt::format(" near {:.4g}", *some->near);
  }
  const std::vector<Scored> finalists = evaluate(best, false);
  // A sample of rows may not tell mistakes from each other that all of the rows would.
  const bool is_told =
      known.options.rows.empty() || std::ranges::none_of(finalists, [&](const Scored& other) {
        const Hypothesis &a = *finalists.front().hypothesis, &b = *other.hypothesis;
        return other.score.is_whole && (a.mistake != b.mistake || a.mask != b.mask);
      });
  std::vector<Suspect> suspects;
  for (const auto& [hypothesis, score, ranked] : finalists) {
    const Mistake mistake = hypothesis->mistake;
    const double explained = 1 - std::sqrt(score.share);
    // A mistake that is found leaves nothing but rounding; one that leaves more is a guess.
    const bool is_found = is_told && !hypothesis->is_one_of_several && explained >= kSure &&
                          (score.is_whole || mistake == Mistake::rounds_each_hop);
    constexpr double kLeast = 0.3;  // what explains less is no guess
    constexpr double kGuess = 0.98 * kSure;
    if (explained >= kLeast && taken.erase(mistake) > 0)
      suspects.push_back({mistake, is_found ? score.rank : -1,
                          is_found ? explained : kGuess * explained, hypothesis->how,
                          hypothesis->mask});
  }
  // Errors of a percent that nothing explains may be rounding, somewhere where it repeats, if they
  // follow the sizes of the rows.
  constexpr double kLittle = 0.02;
  const bool is_little = std::ranges::all_of(checks, [&](const TensorCheck& check) {
    return !parts.contains(check.tensor) || check.rms <= kLittle * check.right_rms;
  });
  if (suspects.empty() && known.is_plain() && is_little && search.errors_follow_sizes())
    suspects.push_back({Mistake::rounds_each_hop, -1, 0,
                        "the errors are small, and look like roundings that no other mistake "
                        "explains"});
  return suspects;
}

std::vector<Suspect> find_hop_rounding(const Knowledge& known,
                                       const std::vector<TensorCheck>& checks) {
  if (known.ranks() < 3 || known.options.dtype == DType::f32) return {};
  // What is exact was not rounded to 16 bits: where terms cancel, it is noise, in the oracle as well.
  std::set<Tensor> parts;
  for (const TensorCheck& check : checks)
    if (check.tensor != Tensor::lse && check.tensor != Tensor::dsink && !check.is_exact)
      parts.insert(check.tensor);
  if (parts.empty()) return {};
  const Search search(known, parts);

  // What the roundings before the last hop should have done to a tensor, beside what was done. The
  // slope between them is 1 if they happened; roundings that happened elsewhere are independent of
  // them, and make it 0.
  struct Slope {
    double both = 0, expected = 0, found = 0, squares = 0;
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
        slope.squares += shift * error * shift * error;
      }
    });
    for (const auto& [part, of] : slopes) {
      if (of.expected == 0 || of.found == 0) continue;
      const double slope = of.both / of.expected,
                   correlation = of.both / std::sqrt(of.expected * of.found);
      // Independent roundings make a sum of random signs, whose variance is `squares`. That of few
      // values, or of few that outweigh the others, may be large by chance.
      if (slope > 0.5 && slope < 1.6 && correlation > 0.2 && of.both > 4 * std::sqrt(of.squares) &&
          correlation > likeliest.confidence)
        likeliest = {Mistake::rounds_each_hop, -1, correlation, hypothesis.how};
    }
  }
  if (likeliest.confidence == 0) return {};
  return {likeliest};
}

}  // namespace ringscope
