// Draws the sample of rows, evaluates the hypotheses on it in two rounds (all on a few rows, the
// best on many), and ranks them by how much of the error each explains.
#include "core/check/verdict.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>

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

// The sums of squared distances of one hypothesis, by tensor and rank.
using Distances = std::array<std::vector<double>, kParts>;

class Search {
 public:
  Search(const Knowledge& known, std::set<int> parts) : known_(known), parts_(std::move(parts)) {
    for (const int part : parts_) {
      double largest = 0;
      for (const double x : part_of(known.oracle, part))
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      caps_[part] = 4 * largest + (part == kLse ? 10 : 1e-30);
      const DType dtype = known.options.dtype;
      stored_[part] =
          dtype != DType::f32 && part != kLse && is_stored_in(dtype, part_of(known.mine, part));
    }
    const AttentionShape& shape = known.problem.shape;
    sample(false, shape.batch * shape.num_heads, queries_, screens_query_);
    sample(true, shape.batch * shape.num_heads_kv, keys_, screens_key_);
  }

  const std::vector<QueryRow>& queries() const { return queries_; }

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
      Guess guess;
      if (hypothesis != nullptr && hypothesis->query) hypothesis->query(row, guess);
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
      if (parts_.contains(part)) sums[part][rank] += distance(part, at, guess);
    });
    if (hypothesis != nullptr && hypothesis->forget) hypothesis->forget();
    return sums;
  }

  struct Score {
    double share = 1;             // of the squared error that is left
    int rank = -1;                // whose rows it explains, if one rank's alone
    bool has_exceptions = false;  // ranks of which it explains less than nothing
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
  // as many evenly spread. Call f(head, position, screens).
  template <class F>
  void choose(const std::vector<int>& parts, Index heads, F&& f) const {
    if (parts.empty()) return;
    std::vector<double> errors(heads * known_.seqlen());
    std::vector<std::pair<double, Index>> by_head;
    for (Index head = 0; head < heads; ++head) {
      double sum = 0;
      for (Index i = 0; i < known_.seqlen(); ++i) {
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
      for (const auto& positions : known_.deal.positions) {
        std::vector<Index> worst = positions;
        std::sort(worst.begin(), worst.end(), [&](Index a, Index b) {
          return errors[head * known_.seqlen() + a] > errors[head * known_.seqlen() + b];
        });
        const auto count = static_cast<Index>(positions.size());
        std::set<Index> taken;
        for (Index i = 0; i < min_of(each, count); ++i) {
          const Index position =
              i % 2 == 0 ? worst[i / 2] : positions[i * count / min_of(each, count)];
          if (taken.insert(position).second) f(head, position, i < screened);
        }
      }
  }

  // Fill `rows`, of queries or of keys, and `screens`, which says what the first round looks at.
  template <class Row>
  void sample(bool of_keys, Index heads, std::vector<Row>& rows, std::vector<bool>& screens) {
    std::vector<int> parts;
    for (const int part : parts_)
      if (is_key_part(part) == of_keys) parts.push_back(part);
    choose(parts, heads, [&](Index head, Index position, bool is_screened) {
      rows.push_back({head, position, known_.deal.places[position]});
      screens.push_back(is_screened);
    });
    on_threads(std::ssize(rows), known_.options.threads, [&](Index i) { complete(rows[i]); });
  }

  void complete(QueryRow& row) const {
    row.kv_head = row.head / known_.problem.shape.group_size();
    const double scale = known_.problem.softmax_scale;
    const Index width = known_.width();
    const double* const q = known_.row_of(known_.inputs.q, row.head, row.position);
    row.owner_parts.assign(known_.ranks(),
                           {-std::numeric_limits<double>::infinity(), 0, Values(width)});
    for (Index j = 0; j < known_.seqlen(); ++j) {
      row.dots.push_back(dot_of(q, known_.row_of(known_.inputs.k, row.kv_head, j), width));
      row.allowed.push_back(known_.mask.allows(row.position, j) ? 1 : 0);
      RowPart& part = row.owner_parts[known_.deal.places[j].rank];
      if (row.allowed.back() > 0) part.m = std::max(part.m, row.dots.back() * scale);
    }
    const bool gradients = parts_.contains(kDq);
    const Index at = row.head * known_.seqlen() + row.position;
    const double lse = known_.oracle.lse[at];
    const double* const dout =
        gradients ? known_.row_of(known_.inputs.dout, row.head, row.position) : nullptr;
    const double delta =
        gradients ? dot_of(dout, known_.row_of(known_.oracle.out, row.head, row.position), width)
                  : 0;
    if (gradients) row.dq_shares.assign(known_.ranks(), Values(width));
    for (Index j = 0; j < known_.seqlen(); ++j) {
      if (row.allowed[j] == 0) continue;
      const int owner = known_.deal.places[j].rank;
      RowPart& part = row.owner_parts[owner];
      const double p = std::exp(row.dots[j] * scale - part.m);
      const double* const v = known_.row_of(known_.inputs.v, row.kv_head, j);
      part.l += p;
      for (Index c = 0; c < width; ++c) part.acc[c] += p * v[c];
      if (!gradients) continue;
      const double ds =
          std::exp(row.dots[j] * scale - lse) * (dot_of(dout, v, width) - delta) * scale;
      const double* const k = known_.row_of(known_.inputs.k, row.kv_head, j);
      for (Index c = 0; c < width; ++c) row.dq_shares[owner][c] += ds * k[c];
    }
  }

  void complete(KeyRow& row) const {
    const AttentionShape& shape = known_.problem.shape;
    const Index batch = row.kv_head / shape.num_heads_kv, kv = row.kv_head % shape.num_heads_kv;
    const double scale = known_.problem.softmax_scale;
    const Index width = known_.width();
    for (Index h = 0; h < shape.num_heads; ++h) {
      if (h / shape.group_size() != kv && h % shape.num_heads_kv != kv) continue;
      const Index head = batch * shape.num_heads + h;
      row.heads.push_back(head);
      // The head's own key head, which is another one where h mod G is `kv` alone.
      const Index kv_head = head / shape.group_size();
      const double* const k = known_.row_of(known_.inputs.k, kv_head, row.position);
      const double* const v = known_.row_of(known_.inputs.v, kv_head, row.position);
      std::vector<Values> dk(known_.ranks(), Values(width)), dv = dk;
      for (Index i = 0; i < known_.seqlen(); ++i) {
        if (!known_.mask.allows(i, row.position)) continue;
        const double* const q = known_.row_of(known_.inputs.q, head, i);
        const double* const dout = known_.row_of(known_.inputs.dout, head, i);
        const double p =
            std::exp(scale * dot_of(q, k, width) - known_.oracle.lse[head * known_.seqlen() + i]);
        const double delta = dot_of(dout, known_.row_of(known_.oracle.out, head, i), width);
        const double ds = p * (dot_of(dout, v, width) - delta) * scale;
        const int rank = known_.deal.places[i].rank;
        for (Index c = 0; c < width; ++c) {
          dk[rank][c] += ds * q[c];
          dv[rank][c] += p * dout[c];
        }
      }
      row.dk.push_back(std::move(dk));
      row.dv.push_back(std::move(dv));
    }
  }

  const Knowledge& known_;
  std::set<int> parts_;
  std::array<double, kParts> caps_{};
  std::array<bool, kParts> stored_{};
  std::vector<QueryRow> queries_;
  std::vector<KeyRow> keys_;
  std::vector<bool> screens_query_, screens_key_;
};

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

std::vector<Suspect> diagnose(const Knowledge& given, const std::vector<std::string>& wrong) {
  const NaiveResult<double>&oracle = given.oracle, &mine = given.mine;
  DiagnosisOptions options = given.options;
  options.rope_bases = bases_of(given);
  std::set<int> forward, gradients;
  for (const std::string& name : wrong)
    for (int part = 0; part < kParts; ++part)
      if (name == name_of(output_tensors(true)[part]) && !part_of(mine, part).empty())
        (part <= kLse ? forward : gradients).insert(part);
  const std::set<int>& parts = forward.empty() ? gradients : forward;
  if (parts.empty()) return {};

  const Knowledge known{given.problem, given.inputs, oracle, mine, options};
  const Search search(known, parts);
  std::vector<Hypothesis> table =
      forward.empty() ? gradient_hypotheses(known) : forward_hypotheses(known);

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
  std::vector<Suspect> suspects;
  for (const Scored& scored : evaluate(best, false)) {
    const Hypothesis& hypothesis = table[scored.index];
    const double confidence = 1 - std::sqrt(scored.score.share);
    const bool known_kind =
        std::any_of(suspects.begin(), suspects.end(),
                    [&](const Suspect& suspect) { return suspect.mistake == hypothesis.mistake; });
    if (confidence >= 0.05 && !known_kind)
      suspects.push_back({hypothesis.mistake, scored.score.rank, confidence, hypothesis.how});
  }
  // Errors of a percent that nothing explains are rounding, somewhere where it repeats.
  constexpr double kLittle = 0.02, kUnsure = 0.25;
  if (suspects.empty() || suspects.front().confidence < kUnsure) {
    double errors = 0, values = 0;
    for (const int part : parts)
      for (std::size_t i = 0; i < part_of(mine, part).size(); ++i) {
        const double right = part_of(oracle, part)[i], error = part_of(mine, part)[i] - right;
        if (!std::isfinite(right)) continue;
        errors += error * error;
        values += right * right;
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
