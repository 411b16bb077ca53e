// The hypotheses where values have a width of their own, heads have learned sinks, scores have a softcap,
// or there are fewer queries than keys: the mistakes that only such problems know, and the plainest of a
// ring. Each is a change of how a query row is computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
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
  std::shared_ptr<double> softcap = {};                    // 0: none
  bool lacks_slope = false;                                // dS is not multiplied by the cap's
  bool clips = false;                                      // scores beyond the cap become the cap
  std::function<Index(Index query)> position = {};         // where a query stands
  std::function<double(int rank, int owner)> blocks = {};  // how often a block counts
  std::function<double(double blocks_with_keys)> sinks = {};  // how often the sink counts
  std::function<Index(Index position)> sink_value = {};       // the key whose value it takes
  std::function<double(Index kv_head, Index key, Index x)> value = {};
  std::optional<Mask> mask = {};
  double penalty = 1;  // of a rule with more freedom
};

class Shapes {
 public:
  explicit Shapes(const Knowledge& known) : known_(known), shape_(known.problem.shape) {}

  // Return a row of out, lse and dq, by the rule.
  Guess row(const RowRule& rule, Index head, Index query) const {
    const Index d = shape_.head_dim, d_v = shape_.value_dim();
    const Index kv_head = head / shape_.group_size(), seqlen = shape_.seqlen;
    const Index position = rule.position ? rule.position(query) : shape_.first_query() + query;
    const double scale = rule.scale.value_or(known_.problem.softmax_scale),
                 cap = rule.softcap ? *rule.softcap : known_.problem.softcap;
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
        if (cap > 0)
          scores[j] =
              rule.clips ? std::clamp(scores[j], -cap, cap) : cap * std::tanh(scores[j] / cap);
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
      double slope = 1;
      if (cap > 0 && rule.clips)
        slope = std::abs(scores[j]) < cap;
      else if (cap > 0 && !rule.lacks_slope)
        slope = 1 - std::pow(scores[j] / cap, 2);
      add_to(*guess.dq, scale * slope * weights[j] / sum * (dp - delta), key_of(j));
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
    if (known_.problem.softcap > 0) add_softcaps(add);
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
  void add_softcaps(const Add& add) const {
    add(Mistake::softcap, "the scores are not capped").softcap = std::make_shared<double>(0);
    add(Mistake::softcap, "dS lacks the slope of the cap, 1 - tanh(score / cap)^2").lacks_slope =
        true;
    add(Mistake::softcap, "the scores are cut off at the cap, without tanh").clips = true;
    for (double cap = kLeastCap; cap <= kMostCap; cap *= 2) {
      RowRule& rule = add(Mistake::softcap, "the scores have another cap,");
      rule.softcap = std::make_shared<double>(cap);
      rule.penalty = 1.02;
    }
  }

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

void add_shapes(const Knowledge& known, Hypotheses& table) {
  const auto shapes = std::make_shared<const Shapes>(known);
  for (const RowRule& rule : shapes->rules()) {
    Hypothesis& made = table.add(rule.mistake, rule.penalty, rule.how);
    made.query = [shapes, rule](const QueryRow& row, Guess& guess) {
      guess = shapes->row(rule, row.head, row.position);
    };
    if (rule.softcap == nullptr || *rule.softcap == 0) continue;
    made.near = rule.softcap;
    made.near_by = 2;
  }
}

std::vector<Suspect> wrong_factors(const Knowledge& known, const std::vector<TensorCheck>& checks) {
  std::vector<Suspect> suspects;
  for (const TensorCheck& check : checks) {
    if (check.passes()) continue;
    if (const auto factor = factor_of(values_of(known.oracle, check.tensor),
                                      values_of(known.mine, check.tensor), check.rms_tolerance))
      suspects.push_back({Mistake::wrong_factor, -1, 1,
                          fmt::format("{} is {:.4g} times the right one", check.name(), *factor)});
  }
  return suspects;
}

}  // namespace ringscope
