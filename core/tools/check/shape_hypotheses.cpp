// The search for a mistake where values have a width of their own, heads have learned sinks, or there
// are fewer queries than keys. It has a table of its own: the mistakes that only such problems know,
// and the plainest of a ring. A hypothesis is a change of how a query row is computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

// How a query row is computed. What is not set is as it should be.
struct RowRule {
  Mistake mistake;
  std::string how;
  std::optional<double> scale = {};
  std::function<Index(Index query)> position = {};            // where a query stands
  std::function<double(int rank, int owner)> blocks = {};     // how often a block counts
  std::function<double(double blocks_with_keys)> sinks = {};  // how often the sink counts
  std::function<Index(Index position)> sink_value = {};       // the key whose value it takes
  std::function<double(Index kv_head, Index key, Index x)> value = {};
  std::optional<Mask> mask = {};
  double penalty = 1;  // of a rule with more freedom
};

class ShapeSearch {
 public:
  explicit ShapeSearch(const Knowledge& known) : known_(known), shape_(known.problem.shape) {}

  const AttentionShape& shape() const { return shape_; }
  // Return a row of out, lse and dq, by the rule.
  Guess row(const RowRule& rule, Index head, Index query) const {
    const Index d = shape_.head_dim, d_v = shape_.value_dim();
    const Index kv_head = head / shape_.group_size(), seqlen = shape_.seqlen;
    const Index position = rule.position ? rule.position(query) : shape_.first_query() + query;
    const double scale = rule.scale.value_or(known_.problem.softmax_scale);
    const double* const q = known_.inputs.q.data() + (head * shape_.queries() + query) * d;
    const int rank = known_.query_deal.places[query].rank;
    const auto key_of = [&](Index j) {
      return known_.inputs.k.data() + (kv_head * seqlen + j) * d;
    };
    const auto value_of = [&](Index j, Index x) {
      return rule.value ? rule.value(kv_head, j, x)
                        : known_.inputs.v[(kv_head * seqlen + j) * d_v + x];
    };
    Values weights(seqlen, 0), scores(seqlen, kMinusInf);
    std::set<int> met;
    (rule.mask ? *rule.mask : known_.mask).for_allowed(position, [&](Interval keys) {
      for (Index j = keys.first; j < keys.last; ++j) {
        const int owner = known_.deal.places[j].rank;
        weights[j] = rule.blocks ? rule.blocks(rank, owner) : 1;
        if (weights[j] == 0) continue;
        scores[j] = scale * dot_of(q, key_of(j), d);
        met.insert(owner);
      }
    });
    const double times = rule.sinks ? rule.sinks(static_cast<double>(met.size())) : 1;
    const double sink = known_.problem.sink_logits.empty() || times == 0
                            ? kMinusInf
                            : known_.problem.sink_logits[head % shape_.num_heads];
    const double most = std::max(sink, *std::max_element(scores.begin(), scores.end()));
    const double unit = most == kMinusInf ? 0 : most;
    double sum = sink == kMinusInf ? 0 : times * std::exp(sink - unit);
    const double sink_weight = sum;
    for (Index j = 0; j < seqlen; ++j) sum += weights[j] *= std::exp(scores[j] - unit);

    Guess guess;
    guess.lse = sum == 0 ? kMinusInf : unit + std::log(sum);
    guess.out.emplace(d_v, 0);
    for (Index j = 0; j < seqlen && sum > 0; ++j)
      for (Index x = 0; x < d_v && weights[j] > 0; ++x)
        (*guess.out)[x] += weights[j] / sum * value_of(j, x);
    for (Index x = 0; x < d_v && rule.sink_value && sum > 0; ++x)
      (*guess.out)[x] += sink_weight / sum * value_of(rule.sink_value(position), x);
    if (known_.inputs.dout.empty()) return guess;

    const double* const dout = known_.inputs.dout.data() + (head * shape_.queries() + query) * d_v;
    const double delta = dot_of(dout, guess.out->data(), d_v);
    guess.dq.emplace(d, 0);
    for (Index j = 0; j < seqlen; ++j) {
      if (weights[j] == 0) continue;
      double dp = 0;
      for (Index x = 0; x < d_v; ++x) dp += dout[x] * value_of(j, x);
      add_to(*guess.dq, scale * weights[j] / sum * (dp - delta), key_of(j));
    }
    return guess;
  }

  std::vector<RowRule> rules() const {
    std::vector<RowRule> all;
    const int n = known_.ranks();
    const auto add = [&](Mistake mistake, std::string how) -> RowRule& {
      return all.emplace_back(RowRule{mistake, std::move(how)});
    };
    if (!known_.problem.sink_logits.empty()) add_sinks(add);
    if (shape_.value_dim() != shape_.head_dim) add_widths(add);
    if (!shape_.is_square()) add_offsets(add);
    for (const int o : near_numbers(n)) {
      add(Mistake::missing_block, fmt::format("the block of owner {} is missing", o)).blocks =
          [o](int, int owner) { return owner == o ? 0 : 1; };
      add(Mistake::doubled_block, fmt::format("the block of owner {} counts twice", o)).blocks =
          [o](int, int owner) { return owner == o ? 2 : 1; };
    }
    add(Mistake::own_block_only, "each rank attends its own block alone").blocks =
        [](int rank, int owner) { return rank == owner; };
    for (const bool causal : {false, true}) {
      Mask mask{.seqlen = shape_.seqlen};
      mask.causal = causal;
      add(Mistake::wrong_mask, causal ? "the mask is causal" : "the mask is full").mask = mask;
    }
    return all;
  }

 private:
  template <class Add>
  void add_sinks(const Add& add) const {
    add(Mistake::sink_missing, "the sinks are not in the rows' sums").sinks = [](double) {
      return 0.0;
    };
    if (known_.ranks() > 1) {
      const double n = known_.ranks();
      add(Mistake::sink_counted_per_rank, "the sink counts with every block that has keys").sinks =
          [](double blocks) { return blocks; };
      add(Mistake::sink_counted_per_rank, "the sink counts as often as there are ranks").sinks =
          [n](double) { return n; };
    }
    const auto with_value = [&](const char* of, const std::function<Index(Index)>& key) {
      add(Mistake::sink_in_values, fmt::format("the sink's weight multiplies the value of {}", of))
          .sink_value = key;
    };
    const Index last = shape_.seqlen - 1;
    with_value("the first key", [](Index) { return Index{0}; });
    with_value("the last key", [last](Index) { return last; });
    with_value("the query's own position", [](Index position) { return position; });
  }

  template <class Add>
  void add_widths(const Add& add) const {
    const Values& v = known_.inputs.v;
    const Index d = shape_.head_dim, d_v = shape_.value_dim(), seqlen = shape_.seqlen,
                size = std::ssize(v);
    add(Mistake::value_width_of_keys, "a head's rows of V lie as far apart as those of K").value =
        [&v, d, d_v, seqlen, size](Index kv_head, Index key, Index x) {
          return v[(kv_head * seqlen * d_v + key * d + x) % size];
        };
    add(Mistake::value_width_of_keys, "rows and heads of V lie as far apart as those of K").value =
        [&v, d, seqlen, size](Index kv_head, Index key, Index x) {
          return v[((kv_head * seqlen + key) * d + x) % size];
        };
    if (d < d_v)
      add(Mistake::value_width_of_keys, "what of V is beyond the width of K is 0").value =
          [&v, d, d_v, seqlen](Index kv_head, Index key, Index x) {
            return x < d ? v[(kv_head * seqlen + key) * d_v + x] : 0;
          };
    add(Mistake::scale, "the scale is 1 / sqrt(head_dim_v)").scale =
        1 / std::sqrt(static_cast<double>(d_v));
  }

  template <class Add>
  void add_offsets(const Add& add) const {
    const Index right = shape_.first_query(), most = shape_.seqlen - shape_.queries();
    constexpr Index kTried = 64;
    for (Index offset = 0; offset <= most; ++offset) {
      const bool is_likely = offset == 0 || offset == most || std::abs(offset - right) == 1;
      if (offset == right || (most > kTried && !is_likely)) continue;
      RowRule& rule = add(Mistake::wrong_q_offset,
                          fmt::format("the first query is taken to stand at position {}", offset));
      rule.position = [offset](Index query) { return offset + query; };
      rule.penalty = is_likely ? 1 : 1.01;
    }
    const std::vector<Place>& places = known_.query_deal.places;
    for (const Index first : {Index{0}, right})
      add(Mistake::wrong_q_offset,
          fmt::format("each rank's queries are taken to stand from position {} on", first))
          .position = [first, &places](Index query) { return first + places[query].local_row; };
  }

  const Knowledge& known_;
  const AttentionShape& shape_;
};

// Return those rows of the query side that are looked at: evenly spread, and the worst.
std::vector<Index> sampled_rows(const Knowledge& known, Tensor of) {
  const Index width = width_of(known.problem.shape, of);
  const Values &right = values_of(known.oracle, of), &given = values_of(known.mine, of);
  std::vector<std::pair<double, Index>> all;
  known.for_rows(of, [&](Index at, Index) {
    double sum = 0;
    for (Index c = at * width; c < (at + 1) * width; ++c)
      sum += squared_distance(right[c], given[c], 1e3);
    all.emplace_back(-sum, at);
  });
  const double cost = static_cast<double>(known.seqlen() * known.width());
  const auto most = static_cast<std::size_t>(std::clamp(2e6 / cost, 24.0, 256.0));
  std::set<Index> rows;
  for (std::size_t i = 0; i < most; ++i) rows.insert(all[i * all.size() / most].second);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < std::min(most / 4, all.size()); ++i) rows.insert(all[i].second);
  return {rows.begin(), rows.end()};
}

// Return the factor that a tensor is off by, if nothing else is wrong with it.
std::optional<double> factor_of(const Values& right, const Values& given, double tolerance) {
  double both = 0, size = 0, left = 0;
  for (std::size_t i = 0; i < right.size(); ++i) both += right[i] * given[i];
  for (const double x : right) size += x * x;
  const double factor = both / size;
  for (std::size_t i = 0; i < right.size(); ++i) left += std::pow(given[i] - factor * right[i], 2);
  const double rms = std::sqrt(left / static_cast<double>(right.size()));
  if (right.size() < 2 || !(rms <= kRounding * (1 + std::abs(factor)) * tolerance)) return {};
  return factor;
}

}  // namespace

std::vector<Suspect> diagnose_shapes(const Knowledge& known,
                                     const std::vector<TensorCheck>& checks) {
  const ShapeSearch search(known);
  std::vector<const TensorCheck*> parts;  // of the query side: outputs, or dq if they are right
  for (const Tensor tensor : {Tensor::out, Tensor::lse, Tensor::dq})
    for (const TensorCheck& check : checks)
      if (check.tensor == tensor && !check.passes() && (tensor != Tensor::dq || parts.empty()))
        parts.push_back(&check);
  std::vector<Suspect> suspects;
  for (const TensorCheck& check : checks) {
    if (check.passes() || check.tensor <= Tensor::lse || !parts.empty()) continue;
    if (const auto factor = factor_of(values_of(known.oracle, check.tensor),
                                      values_of(known.mine, check.tensor), check.rms_tolerance))
      suspects.push_back({Mistake::wrong_factor, -1, 1,
                          fmt::format("{} is {:.4g} times the right one", check.name(), *factor)});
  }
  if (parts.empty()) return suspects;

  const std::vector<Index> rows = sampled_rows(known, parts.front()->tensor);
  const Index queries = search.shape().queries();
  struct Found {
    double left = 0;
    const RowRule* rule = nullptr;
    bool is_whole = true;
    int rank = -1;
  };
  std::vector<Found> found;
  const std::vector<RowRule> rules = search.rules();
  for (const RowRule& rule : rules) {
    PerTensor<std::vector<double>> before, after;  // squared distances by rank
    for (const TensorCheck* part : parts) {
      before[part->tensor].assign(known.ranks(), 0);
      after[part->tensor].assign(known.ranks(), 0);
    }
    for (const Index at : rows) {
      const Guess guess = search.row(rule, at / queries, at % queries);
      const int rank = known.query_deal.places[at % queries].rank;
      for (const TensorCheck* part : parts) {
        const Tensor tensor = part->tensor;
        const Index width = width_of(search.shape(), tensor);
        const double* const made = tensor == Tensor::lse   ? &*guess.lse
                                   : tensor == Tensor::out ? guess.out->data()
                                                           : guess.dq->data();
        for (Index c = 0; c < width; ++c) {
          const double given = values_of(known.mine, tensor)[at * width + c];
          constexpr double kCap = 1e3;
          before[tensor][rank] +=
              squared_distance(values_of(known.oracle, tensor)[at * width + c], given, kCap);
          after[tensor][rank] += squared_distance(made[c], given, kCap);
        }
      }
    }
    Found of{0, &rule};
    int explained = 0;
    for (const TensorCheck* part : parts) {
      double was = 0, is = 0;
      for (int rank = 0; rank < known.ranks(); ++rank) {
        const double right = before[part->tensor][rank], by_rule = after[part->tensor][rank];
        was += right;
        is += std::min(right, by_rule);
        if (part == parts.front() && by_rule < 0.5 * right) of.rank = explained++ == 0 ? rank : -1;
      }
      const double values =
          static_cast<double>(std::ssize(rows) * width_of(search.shape(), part->tensor));
      of.left += is / was / static_cast<double>(parts.size());
      of.is_whole = of.is_whole && std::sqrt(is / values) <= kRounding * part->rms_tolerance;
    }
    if (explained > 1 || known.ranks() == 1) of.rank = -1;
    found.push_back(of);
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return (a.left + 1e-9) * a.rule->penalty < (b.left + 1e-9) * b.rule->penalty;
  });
  std::set<Mistake> taken;
  for (const Found& of : found) {
    const double explained = 1 - std::sqrt(of.left);
    constexpr double kLeast = 0.3;
    if (!(explained >= kLeast) || !taken.insert(of.rule->mistake).second) continue;
    // One that leaves more than rounding is a guess.
    const bool is_sure = of.is_whole && suspects.empty() && explained >= kSure;
    suspects.push_back({of.rule->mistake, is_sure ? of.rank : -1,
                        is_sure ? explained : 0.98 * kSure * explained, of.rule->how});
  }
  return suspects;
}

}  // namespace ringscope
