// Draws the sample of rows, evaluates the hypotheses on it in two rounds (all on a few rows, the
// best on many), and ranks them by how much of the error each explains.
#include "core/check/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>

#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

enum Part { kOut, kLse, kDq, kDk, kDv, kParts };  // in the order of output_tensors()

bool is_key_part(int part) { return part == kDk || part == kDv; }

const Values& part_of(const NaiveResult<double>& tensors, int part) {
  return values_of(tensors, output_tensors(true)[part]);
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

// Return the squared distance, where NaN and infinities are `cap` away from numbers.
double squared_distance(double a, double b, double cap) {
  if (a == b) return 0;
  if (!std::isfinite(a) || !std::isfinite(b))
    return std::isfinite(a) != std::isfinite(b) || std::isfinite(cap) == false ? cap * cap : 0;
  const double d = std::min(std::abs(a - b), cap);
  return d * d;
}

// How many times the rounding of a whole tensor may be that of the sampled rows, which are the worst.
constexpr double kRounding = 4;

// The sums of squared distances of one hypothesis, by tensor and rank.
using Distances = std::array<std::vector<double>, kParts>;

// Return those of the positions at which the oracle is known.
std::vector<Index> looked_at(const Knowledge& known, const std::vector<Index>& positions) {
  const std::vector<Index>& rows = known.options.rows;
  if (rows.empty()) return positions;
  std::vector<Index> some;
  for (const Index i : positions)
    if (std::binary_search(rows.begin(), rows.end(), i)) some.push_back(i);
  return some;
}

class Search {
 public:
  // Look at the wrong parts, and whether a hypothesis leaves the right ones alone.
  Search(const Knowledge& known, std::set<int> wrong, std::set<int> right = {},
         std::array<double, kParts> tolerances = {})
      : known_(known), parts_(std::move(wrong)), right_(std::move(right)), tolerances_(tolerances) {
    for (int part = 0; part < kParts; ++part) {
      double largest = 0;
      for (const double x : part_of(known.oracle, part))
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      caps_[part] = 4 * largest + (part == kLse ? 10 : 1e-30);
      const DType dtype = known.options.dtype;
      stored_[part] =
          dtype != DType::f32 && part != kLse && is_stored_in(dtype, part_of(known.mine, part));
    }
    sample(false, screens_query_, [&](Index head, Index position) {
      queries_.push_back({head, position});
    });
    sample(true, screens_key_, [&](Index head, Index position) {
      keys_.push_back({head, position});
    });
    const int threads = known.options.threads;
    on_threads(std::ssize(queries_), threads, [&](Index i) {
      queries_[i] = query_row(known, queries_[i].head, queries_[i].position,
                              parts_.contains(kDq) || right_.contains(kDq));
    });
    on_threads(std::ssize(keys_), threads,
               [&](Index i) { keys_[i] = key_row(known, keys_[i].kv_head, keys_[i].position); });
  }

  const std::vector<QueryRow>& queries() const { return queries_; }
  double tolerance(int part) const { return tolerances_[part]; }

  // Call f(part, rank, row of the tensor, guess) for what the hypothesis makes of every sampled row.
  // A null guess stands for the oracle's row.
  template <class F>
  void for_guesses(const Hypothesis* hypothesis, bool screening, F&& f) const {
    const auto row_of = [](const std::optional<Values>& guess) {
      return guess ? guess->data() : nullptr;
    };
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      if (screening && !screens_query_[i]) continue;
      const QueryRow& row = queries_[i];
      const Guess guess = hypothesis == nullptr ? Guess() : guess_of(known_, *hypothesis, row);
      const Index at = row.head * known_.seqlen() + row.position;
      f(kOut, row.place.rank, at, row_of(guess.out));
      f(kDq, row.place.rank, at, row_of(guess.dq));
      f(kLse, row.place.rank, at, guess.lse ? &*guess.lse : nullptr);
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (screening && !screens_key_[i]) continue;
      const KeyRow& row = keys_[i];
      Guess guess;
      if (hypothesis != nullptr && hypothesis->key) hypothesis->key(row, guess);
      const Index at = row.kv_head * known_.seqlen() + row.position;
      f(kDk, row.place.rank, at, row_of(guess.dk));
      f(kDv, row.place.rank, at, row_of(guess.dv));
    }
  }

  // Return the distances of the hypothesis, or of the oracle if there is none.
  Distances distances(const Hypothesis* hypothesis, bool screening) const {
    Distances sums;
    for (auto& by_rank : sums) by_rank.assign(known_.ranks(), 0);
    for_guesses(hypothesis, screening, [&](int part, int rank, Index at, const double* guess) {
      double& sum = sums[part][rank];
      if (parts_.contains(part)) sum += distance(part, at, guess);
      // Of right parts the row that a hypothesis changes most counts, by its mean square.
      if (right_.contains(part) && guess != nullptr)
        sum = std::max(sum, distance(part, at, guess) / (part == kLse ? 1 : known_.width()));
    });
    if (hypothesis != nullptr && hypothesis->forget) hypothesis->forget();
    return sums;
  }

  struct Score {
    double share = 1;             // of the squared error that is left
    int rank = -1;                // whose rows it explains, if one rank's alone
    bool has_exceptions = false;  // ranks of which it explains less than nothing
    bool contradicts = false;     // a part that passes
    bool is_whole = true;         // what is left is rounding
  };
  // Return how much of the right ones' distances is left if every rank's rows are taken from the
  // nearer of both: a mistake may have been made by some of the ranks.
  Score score(const Distances& of, const Distances& right) const {
    Score result{0, -1, false};
    std::vector<double> was(known_.ranks()), is = was;
    for (const int part : parts_) {
      double before = 0, after = 0, without_exceptions = 0;
      for (std::size_t rank = 0; rank < was.size(); ++rank) {
        const double r = right[part][rank], h = std::min(of[part][rank], r);
        before += r;
        after += h;
        without_exceptions += of[part][rank];
      }
      if (!(without_exceptions <= after + 0.01 * before)) result.has_exceptions = true;
      if (before > 0) {
        result.share += after / before / static_cast<double>(parts_.size());
        const auto values = static_cast<double>(
            part == kLse
                ? std::ssize(queries_)
                : (is_key_part(part) ? std::ssize(keys_) : std::ssize(queries_)) * known_.width());
        if (!(std::sqrt(after / values) <= kRounding * tolerances_[part])) result.is_whole = false;
        for (std::size_t rank = 0; rank < was.size(); ++rank) {
          was[rank] += right[part][rank] / before;
          is[rank] += std::min(of[part][rank], right[part][rank]) / before;
        }
      }
    }
    int explained = 0;
    const double all = std::accumulate(was.begin(), was.end(), 0.0);
    for (std::size_t rank = 0; rank < was.size(); ++rank)
      if (was[rank] > 1e-3 * all && is[rank] < 0.5 * was[rank]) {
        ++explained;
        result.rank = static_cast<int>(rank);
      }
    if (explained != 1) result.rank = -1;
    for (const int part : right_)
      for (std::size_t rank = 0; rank < was.size(); ++rank)
        if (is[rank] < 0.99 * was[rank] &&
            !(std::sqrt(of[part][rank]) <= kRounding * tolerances_[part]))
          result.contradicts = true;
    return result;
  }

 private:
  // Return the squared distance of a row of a part from the guess, as it would be stored.
  double distance(int part, Index at, const double* guess) const {
    const Index width = part == kLse ? 1 : known_.width();
    const double* const given = part_of(known_.mine, part).data() + at * width;
    const double* const expected =
        guess != nullptr ? guess : part_of(known_.oracle, part).data() + at * width;
    double sum = 0;
    for (Index c = 0; c < width; ++c) {
      const double value =
          stored_[part] ? stored_as(known_.options.dtype, expected[c]) : expected[c];
      sum += squared_distance(value, given[c], caps_[part]);
    }
    return sum;
  }

  // Return the squared error of a row of a part.
  double error_of(int part, Index at) const {
    const Index width = part == kLse ? 1 : known_.width();
    double sum = 0;
    for (Index c = at * width; c < (at + 1) * width; ++c)
      sum += squared_distance(part_of(known_.oracle, part)[c], part_of(known_.mine, part)[c],
                              caps_[part]);
    return sum;
  }

  // Choose up to three heads of the parts and, for each and every rank, rows: the worst ones, and
  // as many evenly spread. Call f(head, position), and tell in `screens` what the first round looks
  // at.
  template <class F>
  void sample(bool of_keys, std::vector<bool>& screens, F&& f) const {
    std::vector<int> parts;
    bool is_needed = false;
    for (const auto* some : {&parts_, &right_})
      for (const int part : *some)
        if (is_key_part(part) == of_keys) {
          is_needed = true;
          if (some == &parts_) parts.push_back(part);
        }
    if (!is_needed) return;
    const AttentionShape& shape = known_.problem.shape;
    const Index heads = shape.batch * (of_keys ? shape.num_heads_kv : shape.num_heads);
    std::vector<double> errors(heads * known_.seqlen());
    std::vector<std::pair<double, Index>> by_head;
    for (Index head = 0; head < heads; ++head) {
      double sum = 0;
      for (const auto& positions : known_.deal.positions)
        for (const Index i : looked_at(known_, positions)) {
          const Index at = head * known_.seqlen() + i;
          for (const int part : parts) errors[at] += error_of(part, at);
          sum += errors[at];
        }
      by_head.emplace_back(-sum, head);
    }
    std::sort(by_head.begin(), by_head.end());
    // Many ranks need their rows; one head has to do then.
    std::set<Index> chosen{by_head.front().second};
    if (known_.ranks() <= 16)
      chosen.insert({by_head[by_head.size() / 2].second, by_head[by_head.size() / 3].second});
    const double budget = 1e8 / (static_cast<double>(known_.seqlen() * known_.width()));
    const auto total = static_cast<Index>(std::clamp(budget, 64.0, 512.0));
    const Index each =
        max_of(4, total / static_cast<Index>(chosen.size()) / static_cast<Index>(known_.ranks()));
    const Index screened = max_of(2, each / 6);
    for (const Index head : chosen)
      for (const auto& of_rank : known_.deal.positions) {
        const std::vector<Index> positions = looked_at(known_, of_rank);
        std::vector<Index> worst = positions;
        std::sort(worst.begin(), worst.end(), [&](Index a, Index b) {
          return errors[head * known_.seqlen() + a] > errors[head * known_.seqlen() + b];
        });
        const auto count = static_cast<Index>(positions.size());
        std::set<Index> taken;
        for (Index i = 0; i < min_of(each, count); ++i) {
          const Index position =
              i % 2 == 0 ? worst[i / 2] : positions[i * count / min_of(each, count)];
          if (!taken.insert(position).second) continue;
          f(head, position);
          screens.push_back(i < screened);
        }
      }
  }

  const Knowledge& known_;
  std::set<int> parts_, right_;
  std::array<double, kParts> caps_{}, tolerances_{};
  std::array<bool, kParts> stored_{};
  std::vector<QueryRow> queries_;
  std::vector<KeyRow> keys_;
  std::vector<bool> screens_query_, screens_key_;
};

// Return the hypothesis that right rows lie at places of other rows, as the given rows themselves
// tell: most of the wrong ones in the sample are each the right row of another position.
std::optional<Hypothesis> moved_rows(const Knowledge& known, const Search& search,
                                     const std::set<int>& wrong) {
  if (!known.options.rows.empty()) return std::nullopt;  // the row may be that of any position
  constexpr int kMost = 48;                              // wrong rows to look for
  const Index width = known.width();
  const auto sources = std::make_shared<std::map<std::pair<int, Index>, Index>>();
  int looked_for = 0;
  std::string how;
  search.for_guesses(nullptr, false, [&](int part, int, Index at, const double*) {
    if (part == kLse || !wrong.contains(part) || looked_for == kMost) return;
    const double* const given = part_of(known.mine, part).data() + at * width;
    const double tolerance = kRounding * search.tolerance(part);
    double most = tolerance * tolerance * static_cast<double>(width);
    // In 16 bits a small row is told from others by its own rounding.
    constexpr double kUnits = 16 * 0x1p-9;
    if (known.options.dtype != DType::f32)
      most = std::min(most, kUnits * kUnits * dot_of(given, given, width));
    const Index head = at / known.seqlen(), position = at % known.seqlen();
    const auto distance_of = [&](Index from, double enough) {
      const double* const right = known.row_of(part_of(known.oracle, part), head, from);
      double sum = 0;
      for (Index c = 0; c < width && sum <= enough; ++c)
        sum += (right[c] - given[c]) * (right[c] - given[c]);
      return sum;
    };
    if (distance_of(position, most) <= most) return;
    ++looked_for;
    double nearest = most;
    Index source = -1;
    for (Index from = 0; from < known.seqlen(); ++from)
      if (const double distance = distance_of(from, nearest); distance <= nearest)
        std::tie(nearest, source) = std::pair(distance, from);
    if (source < 0) return;
    sources->insert({{part, at}, source});
    if (how.empty())
      how = fmt::format("row {} of {}'s head {} is that of position {}", position,
                        name_of(output_tensors(true)[part]), head, source);
  });
  if (sources->empty() || 2 * std::ssize(*sources) < looked_for) return std::nullopt;
  Hypothesis moved{Mistake::rows_of_other_rank, how + ", and others likewise"};
  moved.penalty = 1.2;
  const auto set = [&known, sources](int part, Index head, Index position,
                                     std::optional<Values>& row) {
    const auto found = sources->find({part, head * known.seqlen() + position});
    if (found != sources->end())
      row = known.copy_of(part_of(known.oracle, part), head, found->second);
    return found == sources->end() ? -1 : found->second;
  };
  moved.query = [&known, set](const QueryRow& row, Guess& guess) {
    const Index from = set(kOut, row.head, row.position, guess.out);
    if (from >= 0) guess.lse = known.oracle.lse[row.head * known.seqlen() + from];
    set(kDq, row.head, row.position, guess.dq);
  };
  moved.key = [set](const KeyRow& row, Guess& guess) {
    set(kDk, row.kv_head, row.position, guess.dk);
    set(kDv, row.kv_head, row.position, guess.dv);
  };
  // Where lse is right, only the rows of out have moved.
  if (!wrong.contains(kLse))
    moved.query = [query = moved.query](const QueryRow& row, Guess& guess) {
      query(row, guess);
      guess.lse.reset();
    };
  return moved;
}

// Return the options' base alone that turns q_unrotated into q, or all of them where none is given.
std::vector<double> bases_of(const Knowledge& known) {
  const DiagnosisOptions& options = known.options;
  const Index width = known.width();
  for (const auto& [before, after] : {std::pair{&options.q_unrotated, &known.inputs.q},
                                      std::pair{&options.k_unrotated, &known.inputs.k}}) {
    if (before->empty()) continue;
    std::vector<double> bases = options.rope_bases;
    for (const double usual : {10000.0, 500000.0, 1e6, 8e6, 1e7, 25e6}) bases.push_back(usual);
    double nearest = std::numeric_limits<double>::infinity(), best = options.rope_bases.front();
    for (const double base : bases)
      for (const RopePairs pairs : {RopePairs::halves, RopePairs::neighbours}) {
        double sum = 0;
        for (Index i = 0; i < known.seqlen(); i += max_of(1, known.seqlen() / 64)) {
          Values row(before->begin() + i * width, before->begin() + (i + 1) * width);
          rotate_row(row.data(), width, static_cast<double>(i), base, pairs);
          for (Index c = 0; c < width; ++c) {
            const double d = row[c] - (*after)[i * width + c];
            sum += d * d;
          }
        }
        if (sum < nearest) {
          nearest = sum;
          best = base;
        }
      }
    return {best};
  }
  return options.rope_bases;
}

}  // namespace

std::vector<Suspect> diagnose(const Knowledge& given, const std::vector<TensorCheck>& checks) {
  const NaiveResult<double>&oracle = given.oracle, &mine = given.mine;
  DiagnosisOptions options = given.options;
  options.rope_bases = bases_of(given);
  std::set<int> wrong[2], passed[2];  // of the forward pass, and gradients
  std::array<double, kParts> tolerances{};
  for (const TensorCheck& check : checks) {
    const int part = static_cast<int>(check.tensor) - static_cast<int>(Tensor::out);
    (check.passes() ? passed : wrong)[part > kLse].insert(part);
    tolerances[part] = check.rms_tolerance;
  }
  const bool is_forward = !wrong[0].empty();
  const std::set<int>& parts = wrong[is_forward ? 0 : 1];
  if (parts.empty()) return {};

  const Knowledge known{given.problem, given.inputs, oracle, mine, options};
  const Search search(known, parts, passed[is_forward ? 0 : 1], tolerances);
  std::vector<Hypothesis> table =
      is_forward ? forward_hypotheses(known) : gradient_hypotheses(known);
  if (auto moved = moved_rows(known, search, parts)) table.push_back(std::move(*moved));

  struct Scored {
    std::size_t index;
    Search::Score score;
    double ranked;
  };
  const auto evaluate = [&](const std::vector<std::size_t>& which, bool screening) {
    const Distances right = search.distances(nullptr, screening);
    std::vector<Scored> scored(which.size());
    on_threads(static_cast<Index>(which.size()), options.threads, [&](Index i) {
      const Hypothesis& hypothesis = table[which[i]];
      const Search::Score score = search.score(search.distances(&hypothesis, screening), right);
      const double floor = 1e-9;  // below it, both are right
      const double exceptions = score.has_exceptions ? 1.1 : 1;
      scored[i] = {which[i], score, (score.share + floor) * hypothesis.penalty * exceptions};
    });
    std::erase_if(scored, [](const Scored& some) { return some.score.contradicts; });
    std::stable_sort(scored.begin(), scored.end(),
                     [](const Scored& a, const Scored& b) { return a.ranked < b.ranked; });
    return scored;
  };
  std::vector<std::size_t> all(table.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  // The best of all, and the best of each kind.
  std::vector<std::size_t> best;
  std::map<Mistake, int> taken;
  for (const Scored& scored : evaluate(all, true))
    if (best.size() < 8 || taken[table[scored.index].mistake] < 2) {
      best.push_back(scored.index);
      ++taken[table[scored.index].mistake];
    }
  // Of the scales between the usual ones, come nearer to the best.
  for (const std::size_t index : best)
    if (table[index].set_factor) {
      const double step = std::pow(2.0, 1.0 / 6);
      double low = table[index].factor / step, high = table[index].factor * step;
      const auto share_at = [&](double factor) {
        table[index].set_factor(factor);
        return evaluate({index}, true).front().score.share;
      };
      for (int round = 0; round < 24 && !evaluate({index}, true).empty(); ++round) {
        const double a = low + (high - low) / 3, b = high - (high - low) / 3;
        (share_at(a) < share_at(b) ? high : low) = share_at(a) < share_at(b) ? b : a;
      }
      table[index].set_factor((low + high) / 2);
      table[index].how = fmt::format("the softmax scale is near {:.4g}, and not {:.4g}",
                                     (low + high) / 2, known.problem.softmax_scale);
      break;
    }
  std::vector<Suspect> suspects;
  const std::vector<Scored> finalists = evaluate(best, false);
  // A sample of rows may not tell mistakes from each other that all of the rows would.
  const bool is_told =
      options.rows.empty() || std::none_of(finalists.begin(), finalists.end(), [&](auto& other) {
        const Hypothesis &a = table[finalists.front().index], &b = table[other.index];
        return other.score.is_whole && (a.mistake != b.mistake || a.mask != b.mask);
      });
  for (const Scored& scored : finalists) {
    const Hypothesis& hypothesis = table[scored.index];
    double confidence = 1 - std::sqrt(scored.score.share);
    // A mistake that is found leaves nothing but rounding; one that leaves more is a guess.
    if (!is_told || (!scored.score.is_whole && hypothesis.mistake != Mistake::rounds_each_hop))
      confidence = std::min(confidence, 0.9 * kSure);
    const bool known_kind =
        std::any_of(suspects.begin(), suspects.end(),
                    [&](const Suspect& suspect) { return suspect.mistake == hypothesis.mistake; });
    if (confidence >= 0.05 && !known_kind)
      suspects.push_back(
          {hypothesis.mistake, scored.score.rank, confidence, hypothesis.how, hypothesis.mask});
  }
  // Errors of a percent that nothing explains are rounding, somewhere where it repeats.
  constexpr double kLittle = 0.02, kUnsure = 0.25;
  if (suspects.empty() || suspects.front().confidence < kUnsure) {
    double errors = 0, values = 0;
    for (const int part : parts) {
      const Index width = part == kLse ? 1 : known.width();
      known.for_rows(output_tensors(true)[part], [&](Index at, Index) {
        for (Index i = at * width; i < (at + 1) * width; ++i) {
          const double right = part_of(oracle, part)[i], error = part_of(mine, part)[i] - right;
          if (!std::isfinite(right)) continue;
          errors += error * error;
          values += right * right;
        }
      });
    }
    std::erase_if(suspects, [&](const Suspect& suspect) {
      return suspect.mistake == Mistake::rounds_each_hop && errors <= kLittle * kLittle * values;
    });
    if (errors <= kLittle * kLittle * values)
      suspects.insert(suspects.begin(), {Mistake::rounds_each_hop, -1, kUnsure,
                                         "the errors are small, and look like roundings that no "
                                         "other mistake explains"});
  }
  return suspects;
}

std::vector<Suspect> find_hop_rounding(const Knowledge& known) {
  if (known.ranks() < 3 || known.options.dtype == DType::f32) return {};
  std::set<int> parts;
  for (const int part : {kOut, kDq, kDk, kDv})
    if (!part_of(known.mine, part).empty()) parts.insert(part);
  if (parts.empty()) return {};
  const Search search(known, parts);

  // What the roundings before the last hop should have done to a tensor, beside what was done. The
  // slope between them is 1 if they happened; roundings that happened elsewhere are independent of
  // them, and make it 0.
  struct Slope {
    double both = 0, expected = 0, found = 0, count = 0;
  };
  std::vector<Suspect> suspects;
  std::vector<Hypothesis> table = rounding_hypotheses(known);
  for (Hypothesis& hypothesis : gradient_rounding_hypotheses(known))
    table.push_back(std::move(hypothesis));
  for (const Hypothesis& hypothesis : table) {
    std::array<Slope, kParts> slopes;
    search.for_guesses(&hypothesis, false, [&](int part, int, Index at, const double* guess) {
      if (guess == nullptr || !parts.contains(part)) return;
      Slope& slope = slopes[part];
      for (Index c = 0; c < known.width(); ++c) {
        const Index value = at * known.width() + c;
        const double right = part_of(known.oracle, part)[value];
        const double shift = guess[c] - right, error = part_of(known.mine, part)[value] -
                                                       stored_as(known.options.dtype, right);
        if (!std::isfinite(error) || !std::isfinite(shift)) continue;
        slope.both += shift * error;
        slope.expected += shift * shift;
        slope.found += error * error;
        if (shift != 0) ++slope.count;
      }
    });
    for (const Slope& of : slopes) {
      if (of.expected == 0 || of.found == 0) continue;
      const double slope = of.both / of.expected,
                   correlation = of.both / std::sqrt(of.expected * of.found);
      // Independent roundings of few values may look alike by chance.
      if (slope > 0.5 && slope < 1.6 && correlation > std::max(0.2, 4 / std::sqrt(of.count)))
        suspects.push_back({Mistake::rounds_each_hop, -1, correlation, hypothesis.how});
    }
  }
  std::sort(suspects.begin(), suspects.end(),
            [](const Suspect& a, const Suspect& b) { return a.confidence > b.confidence; });
  if (suspects.size() > 1) suspects.resize(1);
  return suspects;
}

std::vector<std::vector<double>> error_by_step(const Knowledge& known) {
  const Search search(known, {kOut});
  const int ranks = known.ranks();
  std::vector<std::vector<double>> shares(ranks, Values(ranks));
  Values errors(ranks);
  for (const QueryRow& row : search.queries()) {
    const double* const right = known.row_of(known.oracle.out, row.head, row.position);
    const double* const given = known.row_of(known.mine.out, row.head, row.position);
    double error = 0;
    for (Index c = 0; c < known.width(); ++c)
      error += (given[c] - right[c]) * (given[c] - right[c]);
    if (!std::isfinite(error)) continue;
    errors[row.place.rank] += error;
    for (int step = 0; step < ranks; ++step) {
      const RowPart& part = row.owner_parts[owner_at(row.place.rank, step, ranks)];
      if (part.l == 0) continue;
      double along = 0, length = 0;
      for (Index c = 0; c < known.width(); ++c) {
        const double moves = part.acc[c] / part.l - right[c];
        along += moves * (given[c] - right[c]);
        length += moves * moves;
      }
      if (length > 0) shares[row.place.rank][step] += along * along / length;
    }
  }
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    for (double& share : shares[rank]) share = errors[rank] > 0 ? share / errors[rank] : 0;
  return shares;
}

}  // namespace ringscope
