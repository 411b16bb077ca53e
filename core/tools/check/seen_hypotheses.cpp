// The hypotheses that the given tensors suggest when they are held beside the right ones: a factor of
// a whole tensor, rows or halves that hold others, and a constant in every sum of a head.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

// What a row of a tensor would be. Nothing stands for the right row.
using RowOf = std::function<std::optional<Values>(Tensor, Index head, Index position)>;

Hypothesis& add_rows(Mistake mistake, double penalty, const std::string& how, const RowOf& row_of,
                     Hypotheses& table) {
  Hypothesis& made = table.add(mistake, penalty, how);
  made.query = [row_of](const QueryRow& row, Guess& guess) {
    guess.out = row_of(Tensor::out, row.head, row.position);
    guess.dq = row_of(Tensor::dq, row.head, row.position);
    if (const auto lse = row_of(Tensor::lse, row.head, row.position)) guess.lse = lse->front();
  };
  made.key = [row_of](const KeyRow& row, Guess& guess) {
    guess.dk = row_of(Tensor::dk, row.kv_head, row.position);
    guess.dv = row_of(Tensor::dv, row.kv_head, row.position);
  };
  return made;
}

double sampled_rounding(const Sample& sample, Tensor tensor) {
  return kRounding * sample.tolerances.at(tensor);
}

// ---
// One factor for all of a tensor.

// The factor by which a tensor differs from the right one, or the constant that it has besides.
struct Fit {
  double factor = 1, constant = 0;
};

// What ranks' rows of a tensor add up to: their number, and the sums of right and given values and of
// products.
struct Moments {
  double count = 0, right = 0, given = 0, right_2 = 0, given_2 = 0, both = 0;

  void add(double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y)) return;
    *this = {count + 1, right + x, given + y, right_2 + x * x, given_2 + y * y, both + x * y};
  }
  double error() const { return right_2 - 2 * both + given_2; }
};

// Return the factor, or of an lse the constant, that makes the right rows of those ranks that have
// wrong ones the given ones, to rounding.
std::optional<Fit> fit_of(const Knowledge& known, const Sample& sample, Tensor tensor) {
  std::vector<Moments> by_rank(known.ranks());
  const Index width = width_of(known.problem.shape, tensor);
  for (const SampledRow& row : sample.rows)
    for (Index c = row.at * width; row.tensor == tensor && c < (row.at + 1) * width; ++c)
      by_rank[row.rank].add(values_of(known.oracle, tensor)[c], values_of(known.mine, tensor)[c]);
  const double rounding = sampled_rounding(sample, tensor), square = rounding * rounding;
  Moments all;
  for (const Moments& of : by_rank)
    if (of.error() > square * of.count)
      all = {all.count + of.count,     all.right + of.right,     all.given + of.given,
             all.right_2 + of.right_2, all.given_2 + of.given_2, all.both + of.both};
  const auto is_rounding = [&](double left, double size) {
    return left <= square * size * size * all.count && left <= 0.01 * all.error();
  };
  if (!(all.right_2 > 0)) return {};
  const double factor = all.both / all.right_2, constant = (all.given - all.right) / all.count;
  constexpr double kNothing = 1e-6;
  if (std::abs(factor) > kNothing &&
      is_rounding(all.given_2 - factor * all.both, std::max(1.0, std::abs(factor))))
    return Fit{factor, 0};
  if (tensor == Tensor::lse && is_rounding(all.error() - constant * constant * all.count, 1))
    return Fit{1, constant};
  return {};
}

struct KnownFactor {
  double value;
  Mistake mistake;
  std::string words;
  bool is_of_scores = false;  // never in dv or out
};

std::vector<KnownFactor> known_factors(const Knowledge& known) {
  const AttentionShape& shape = known.problem.shape;
  const auto number = [](auto count) { return static_cast<double>(count); };
  const double n = number(known.ranks()), group = number(shape.group_size()),
               scale = known.problem.softmax_scale;
  std::vector<KnownFactor> all;
  for (const auto& [count, what] : std::initializer_list<std::pair<double, const char*>>{
           {n, "the number of ranks"},
           {group, "the number of heads of a group"},
           {n * group, "the numbers of ranks and of heads of a group"},
           {n * n, "the number of ranks, twice"},
           {number(shape.num_heads), "the number of heads"},
           {number(shape.batch), "the number of batch entries"},
           {number(shape.seqlen), "the number of positions"},
           {number(shape.batch * shape.seqlen), "the number of tokens"},
           {number(shape.head_dim), "head_dim"}}) {
    if (count == 1) continue;
    all.push_back({1 / count, Mistake::mean_instead_of_sum, fmt::format("divided by {}", what)});
    all.push_back({count, Mistake::sum_instead_of_mean, fmt::format("times {}", what)});
  }
  all.push_back({2, Mistake::doubled_block, "added up twice"});
  all.push_back({0.5, Mistake::mean_instead_of_sum, "a mean of two"});
  for (const auto& [value, what] : std::initializer_list<std::pair<double, const char*>>{
           {1 / scale, "the softmax scale is missing"},
           {scale, "the softmax scale is applied twice"},
           {1 / std::sqrt(scale), "a root of the softmax scale is missing"},
           {std::sqrt(scale), "a root of the softmax scale too many"},
           {std::numbers::ln2, "a factor ln(2), of a softmax in base 2"},
           {std::numbers::log2e, "a factor log2(e), of a softmax in base 2"}})
    all.push_back({value, Mistake::scale, what, true});
  return all;
}

// What may have made a factor, the likeliest mistake first.
struct Meaning {
  Mistake mistake;
  std::string words;
  double factor;  // exactly
};
std::vector<Meaning> meanings_of(const Knowledge& known, const Fit& fit,
                                 const std::vector<Tensor>& tensors) {
  const double near = known.options.dtype == DType::f32 ? 1e-4 : 4e-3;
  std::vector<Meaning> meanings;
  const auto add = [&](const KnownFactor& one, double factor) {
    if (!(std::abs(factor / one.value - 1) <= near)) return;
    for (Meaning& other : meanings)
      if (other.mistake == one.mistake) {
        other.words += " or " + one.words;
        return;
      }
    meanings.push_back({one.mistake, one.words, one.value});
  };
  const bool is_of_scores = std::ranges::all_of(
      tensors, [](Tensor tensor) { return tensor == Tensor::dq || tensor == Tensor::dk; });
  if (tensors.front() != Tensor::lse || fit.constant != 0)
    for (const KnownFactor& one : known_factors(known))
      if (is_of_scores || !one.is_of_scores)
        add(one, fit.constant == 0 ? fit.factor : std::exp(fit.constant));
  if (tensors.front() == Tensor::lse && fit.constant == 0)
    for (const double unit : {std::numbers::log2e, std::numbers::ln2})
      add({unit, Mistake::lse_in_log2, "another unit of the logarithm"}, fit.factor);
  if (meanings.empty())
    meanings.push_back({Mistake::wrong_factor, "a factor without a name", fit.factor});
  return meanings;
}

// The gradients, or outputs, that are right but for a factor of each tensor. It is named by what may
// have made it; if that is more than one thing, none of them is sure.
void add_factors(const Knowledge& known, const Sample& sample, Hypotheses& table) {
  std::vector<std::pair<Fit, std::vector<Tensor>>> alike;  // tensors with one factor
  for (const Tensor tensor : sample.wrong) {
    const std::optional<Fit> fit = fit_of(known, sample, tensor);
    if (!fit) continue;
    const auto same = std::ranges::find_if(alike, [&](const auto& other) {
      return fit->constant == 0 && other.first.constant == 0 &&
             std::abs(fit->factor / other.first.factor - 1) < 2e-3;
    });
    if (same == alike.end())
      alike.push_back({*fit, {tensor}});
    else
      same->second.push_back(tensor);
  }
  if (alike.empty()) return;
  std::map<Tensor, Fit> fits;
  std::vector<std::string> hows;
  std::vector<Meaning> first;  // what the first factor may be
  for (auto& [fit, tensors] : alike) {
    const std::vector<Meaning> meanings = meanings_of(known, fit, tensors);
    std::vector<std::string_view> names, words;
    for (const Tensor tensor : tensors) names.push_back(name_of(tensor));
    for (const Meaning& meaning : meanings) words.push_back(meaning.words);
    hows.push_back(fmt::format(
        "{}: {}",
        fit.constant == 0
            ? fmt::format("{} = {:.4g} x right, to rounding", fmt::join(names, ", "), fit.factor)
            : fmt::format("lse = right + {:.4g}, to rounding; row sums", fit.constant),
        fmt::join(words, ", or ")));
    if (fit.constant == 0) fit.factor = meanings.front().factor;
    for (const Tensor tensor : tensors) fits[tensor] = fit;
    if (first.empty()) first = meanings;
  }
  double largest = 1;
  for (const auto& [tensor, fit] : fits) largest = std::max(largest, std::abs(fit.factor));
  double penalty = 0.98;
  for (const Meaning& meaning : first) {
    Hypothesis& made = add_rows(
        meaning.mistake, penalty, fmt::format("{}", fmt::join(hows, "; ")),
        [&known, fits](Tensor tensor, Index head, Index position) -> std::optional<Values> {
          const auto fit = fits.find(tensor);
          if (fit == fits.end()) return {};
          Values row = known.right_of(tensor, head, position);
          for (double& x : row) x = x * fit->second.factor + fit->second.constant;
          return row;
        },
        table);
    made.rounding = largest;
    made.is_one_of_several = first.size() > 1;
    penalty += 0.001;
  }
}

// ---
// Rows of other places, and halves of a tensor that something has overwritten.

// Add the hypothesis that right rows lie at places of other rows, or zeros, as the given rows tell:
// most of the wrong ones in the sample are each the right row of another position, or none (-1).
void add_moved_rows(const Knowledge& known, const Sample& sample, Hypotheses& table) {
  if (!known.options.rows.empty()) return;  // the row may be that of any position
  // So many wrong rows are looked for; more of them, if most are found.
  constexpr int kMost = 48;
  const Index width = known.width();
  std::map<std::pair<Tensor, Index>, Index> sources;
  int looked_for = 0;
  bool are_zeros = true;  // all of them
  std::string how;
  for (const auto& [part, rank, at] : sample.rows) {
    if (part == Tensor::lse || !sample.wrong.contains(part) ||
        (looked_for >= kMost && 2 * std::ssize(sources) < looked_for))
      continue;
    const double* const given = values_of(known.mine, part).data() + at * width;
    const double tolerance = sampled_rounding(sample, part);
    double most = tolerance * tolerance * static_cast<double>(width);
    // In 16 bits a small row is told from others by its own rounding.
    constexpr double kUnits = 16 * 0x1p-9;
    if (known.options.dtype != DType::f32)
      most = std::min(most, kUnits * kUnits * dot_of(given, given, width));
    const Index head = at / known.seqlen(), position = at % known.seqlen();
    const auto distance_of = [&, part = part](Index from, double enough) {
      const double* const right = known.row_of(values_of(known.oracle, part), head, from);
      double sum = 0;
      for (Index c = 0; c < width && sum <= enough; ++c)
        sum += (right[c] - given[c]) * (right[c] - given[c]);
      return sum;
    };
    if (distance_of(position, most) <= most) continue;
    ++looked_for;
    double nearest = most;
    Index source = -1;
    const bool is_zero = std::all_of(given, given + width, [](double x) { return x == 0; });
    for (Index from = 0; from < known.seqlen() && !is_zero; ++from)
      if (const double distance = distance_of(from, nearest); distance <= nearest)
        std::tie(nearest, source) = std::pair(distance, from);
    if (source < 0 && !is_zero) continue;
    are_zeros = are_zeros && is_zero;
    sources.insert({{part, at}, source});
    if (how.empty() && !is_zero)
      how = fmt::format("row {} of {}'s head {} is that of position {}", position, name_of(part),
                        head, source);
  }
  if (sources.empty() || 2 * std::ssize(sources) < looked_for) return;
  add_rows(
      are_zeros ? Mistake::rows_dropped : Mistake::rows_of_other_rank, 1.2,
      are_zeros ? "rows that are left out hold zeros" : how + ", and others likewise",
      [&known, sources, moves_lse = sample.wrong.contains(Tensor::lse)](
          Tensor tensor, Index head, Index position) -> std::optional<Values> {
        const bool is_lse = tensor == Tensor::lse;
        const Index at = head * known.seqlen() + position;
        const auto found = sources.find({is_lse ? Tensor::out : tensor, at});
        if (found == sources.end() || (is_lse && !moves_lse)) return {};
        if (found->second >= 0) return known.right_of(tensor, head, found->second);
        return is_lse ? Values{known.mine.lse[at]} : Values(known.width());
      },
      table);
}

// A half of every wrong tensor holds the other half, or zeros, or another tensor.
void add_overwritten(const Knowledge& known, const Sample& sample, Hypotheses& table) {
  enum Axis { batch, heads, rows, local_rows, columns };
  static constexpr const char* kAxes[] = {"batch entries", "heads", "rows", "rows of a rank",
                                          "columns"};
  struct Element {
    Index head, position, column;
  };
  // Return the place in the other half if a place lies in the upper or lower one.
  const auto partner = [&known](Axis axis, bool upper, Tensor tensor,
                                Element at) -> std::optional<Element> {
    const AttentionShape& shape = known.problem.shape;
    const Index of_batch = heads_of(shape, tensor) / shape.batch, entry = at.head / of_batch,
                head = at.head % of_batch;
    const Place& place = known.deal.places[at.position];
    const auto& own = known.deal.positions[place.rank];
    const Index places[] = {entry, head, at.position, place.local_row, at.column},
                ends[] = {shape.batch, of_batch, known.seqlen(), std::ssize(own), known.width()};
    const Index half = ends[axis] / 2, rest = ends[axis] - half;
    if (upper ? places[axis] < rest : places[axis] >= half) return {};
    const Index moved = places[axis] + (upper ? -rest : rest);
    if (axis == batch) at.head = moved * of_batch + head;
    if (axis == heads) at.head = entry * of_batch + moved;
    if (axis == rows) at.position = moved;
    if (axis == local_rows) at.position = own[moved];
    if (axis == columns) at.column = moved;
    return at;
  };
  const auto value_of = [&known](const Values& tensor, const Element& at) {
    return known.row_of(tensor, at.head, at.position)[at.column];
  };
  const auto add = [&](Axis axis, bool upper, const std::string& by, double penalty,
                       const auto& taken) {
    Hypothesis& made = add_rows(
        Mistake::overwritten, penalty,
        fmt::format("the {} half of the {} holds {}", upper ? "upper" : "lower", kAxes[axis], by),
        [=, &known, wrong = sample.wrong](Tensor tensor, Index head,
                                          Index position) -> std::optional<Values> {
          if (!wrong.contains(tensor) || tensor == Tensor::lse) return {};
          Values row = known.right_of(tensor, head, position);
          bool is_hit = false;
          for (Element at{head, position, 0}; at.column < known.width(); ++at.column)
            if (const auto other = partner(axis, upper, tensor, at)) {
              row[at.column] = taken(tensor, at, *other);
              is_hit = true;
            }
          return is_hit ? std::optional(row) : std::nullopt;
        },
        table);
    // Zeros may as well be rows that nobody has worked on.
    made.is_one_of_several = by == "zeros" && (axis == rows || axis == local_rows);
  };
  // Return whether of the sampled rows all those of the half are wrong, and no others.
  const auto is_all_wrong = [&](Axis axis, bool upper) {
    Index wrong = 0;
    for (const auto& [tensor, rank, at] : sample.rows) {
      if (!sample.wrong.contains(tensor) || tensor == Tensor::lse) continue;
      const double* const right = known.row_of(values_of(known.oracle, tensor), 0, at);
      const double* const given = known.row_of(values_of(known.mine, tensor), 0, at);
      const double most = sampled_rounding(sample, tensor);
      bool is_wrong = false;
      for (Index c = 0; c < known.width(); ++c)
        is_wrong = is_wrong || !(std::abs(right[c] - given[c]) <= most);
      const Element place{at / known.seqlen(), at % known.seqlen(), 0};
      if (is_wrong != partner(axis, upper, tensor, place).has_value()) return false;
      wrong += is_wrong;
    }
    return wrong > 0;
  };
  for (const Axis axis : {batch, heads, rows, local_rows, columns}) {
    if ((axis == rows || axis == local_rows) && !known.options.rows.empty()) continue;
    for (const bool upper : {true, false}) {
      // A guess, which comes after whatever explains a part of the error.
      constexpr double kLast = 5e8;
      if (axis != columns && is_all_wrong(axis, upper)) {
        add(axis, upper, "something else", kLast, [=, &known](Tensor tensor, Element at, Element) {
          return value_of(values_of(known.mine, tensor), at);
        });
        table.back().is_one_of_several = true;
      }
      add(axis, upper, "the other half", 1.1, [=, &known](Tensor tensor, Element, Element other) {
        return value_of(values_of(known.oracle, tensor), other);
      });
      add(axis, upper, "zeros", 1.1, [](Tensor, Element, Element) { return 0.0; });
      const CheckedInputs& in = known.inputs;
      const NaiveResult<double>& right = known.oracle;
      const std::tuple<const char*, const Values*, const Values*> others[] = {
          {"K, or Q", &in.k, &in.q},
          {"V, or dO", &in.v, &in.dout},
          {"dK, or dQ", &right.dk, &right.dq},
          {"dV, or out", &right.dv, &right.out}};
      for (const auto& [names, of_keys, of_queries] : others)
        add(axis, upper, fmt::format("values of {}", names), 1.12,
            [=, of_keys = of_keys, of_queries = of_queries](Tensor tensor, Element at, Element) {
              const Values& from = is_key_side(tensor) ? *of_keys : *of_queries;
              return from.empty() ? 0.0 : value_of(from, at);
            });
    }
  }
}

// Fit the logits to what is given: exp(logit) is what the row sum has besides.
void add_fitted_sinks(const Knowledge& known, const Sample& sample, Hypotheses& table) {
  std::map<Index, std::vector<double>> once, by_block;
  std::set<double> counts;
  const Tensor of = sample.wrong.contains(Tensor::lse) ? Tensor::lse : Tensor::out;
  for (const auto& [part, rank, at] : sample.rows) {
    if (part != of || !sample.wrong.contains(of)) continue;
    const Index head = at / known.seqlen(), position = at % known.seqlen();
    const double* const right = known.row_of(known.oracle.out, head, position);
    const double lse = known.oracle.lse[at],
                 share =  // of the keys in the row sum
                 of == Tensor::lse
                     ? std::exp(lse - known.mine.lse[at])
                     : dot_of(known.row_of(known.mine.out, head, position), right, known.width()) /
                           dot_of(right, right, known.width());
    if (!(share > 1e-3 && share < 1 - 1e-3)) continue;
    std::set<int> met;
    known.mask.for_allowed(position, [&](Interval keys) {
      for (Index j = keys.first; j < keys.last; ++j) met.insert(known.deal.places[j].rank);
    });
    const double logit = lse + std::log(1 / share - 1),
                 blocks = std::log(std::max(static_cast<double>(met.size()), 1.0));
    once[head].push_back(logit);
    by_block[head].push_back(logit - blocks);
    counts.insert(blocks);
  }
  const auto median = [](std::vector<double>& all) {
    const auto middle = all.begin() + std::ssize(all) / 2;
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
  };
  std::map<Index, SinkFit> fits;
  for (auto& [head, all] : once) fits[head] = {median(all), median(by_block[head])};
  if (!fits.empty()) add_sinks(known, fits, counts.size() > 1, table);
}

}  // namespace

// ---
// Sinks: a constant besides exp(score) in every sum of a head, which no value has a share in.

void add_sinks(const Knowledge& known, const std::map<Index, SinkFit>& fits, bool differ,
               Hypotheses& table) {
  const double ranks = std::log(static_cast<double>(known.ranks()));
  double mean = 0;
  for (const auto& [head, fit] : fits) mean += fit.once / static_cast<double>(fits.size());
  // By blocks; once; or by every rank, which makes the numbers of a larger logit counted once. A learned
  // logit is likelier to be near 0.
  enum Counted { by_block, once, by_rank };
  for (const Counted counted : {by_block, once, by_rank}) {
    if ((counted != once && known.ranks() == 1) || (counted == by_rank && fits.empty())) continue;
    std::vector<std::string> logits;
    for (const auto& [head, fit] : fits)
      logits.push_back(fmt::format("{:.4g} in head {}",
                                   counted == by_block  ? fit.by_block
                                   : counted == by_rank ? fit.once - ranks
                                                        : fit.once,
                                   head));
    const std::string how = fmt::format(
        "exp(logit) {}; logit {}",
        counted == by_block ? "is in the sum of every block, and no value with it"
        : counted == once   ? "is in every row's sum besides the keys, and no value with it"
                            : "is in every row's sum as often as there are ranks",
        logits.empty() ? "0" : fmt::format("{}", fmt::join(logits, ", ")));
    for (const bool in_lse : {true, false}) {
      table.merge(
          counted == once ? Mistake::sink_missing : Mistake::sink_counted_per_rank,
          1.05 + (in_lse ? 0 : 0.01) + (counted == (mean > ranks / 2 ? once : by_rank) ? 0.005 : 0),
          in_lse ? how : how + "; lse lacks it", [=](const QueryRow& row, Guess& guess) {
            const auto found = fits.find(row.head);
            const SinkFit fit = found == fits.end() ? SinkFit() : found->second;
            double logit = fit.once;
            if (counted == by_block)
              logit = fit.by_block +
                      std::log(std::max(
                          static_cast<double>(std::ranges::count_if(
                              row.owner_parts, [](const RowPart& part) { return part.l > 0; })),
                          1.0));
            guess = row.merged();
            const double most = std::max(*guess.lse, logit),
                         sum =
                             most + std::log(std::exp(*guess.lse - most) + std::exp(logit - most));
            guess.out = scaled(*guess.out, std::exp(*guess.lse - sum));
            guess.lse = sum;
            if (!in_lse) guess.lse.reset();
          });
      table.back().is_one_of_several = known.ranks() > 1 && !(counted == by_block && differ);
    }
  }
}

void add_seen(const Knowledge& known, const Sample& sample, Hypotheses& table) {
  add_factors(known, sample, table);
  add_moved_rows(known, sample, table);
  add_overwritten(known, sample, table);
  if (sample.wrong.contains(Tensor::out) || sample.wrong.contains(Tensor::lse))
    add_fitted_sinks(known, sample, table);
}

}  // namespace ringscope
