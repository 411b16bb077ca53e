// The table of mistakes that change out and lse. Most are small changes to the parts of a row by KV
// owner, to how often each key counts, or to the scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Merge the parts of a row, each as often as `times` says.
template <class Times>
void merge_parts(const QueryRow& row, Times&& times, Guess& guess) {
  double m = kMinusInf, l = 0;
  Values acc(row.owner_parts.front().acc.size());
  for (int owner = 0; owner < std::ssize(row.owner_parts); ++owner)
    if (times(owner) > 0) m = std::max(m, row.owner_parts[owner].m);
  for (int owner = 0; owner < std::ssize(row.owner_parts); ++owner) {
    const RowPart& part = row.owner_parts[owner];
    if (times(owner) == 0 || part.l == 0) continue;
    const double factor = times(owner) * std::exp(part.m - m);
    l += factor * part.l;
    add_to(acc, factor, part.acc);
  }
  finish_row(m, l, acc, guess);
}

void merge_all(const QueryRow& row, Guess& guess) {
  merge_parts(
      row, [](int) { return 1; }, guess);
}

double largest_max(const QueryRow& row) {
  double m = kMinusInf;
  for (const RowPart& part : row.owner_parts) m = std::max(m, part.m);
  return m;
}

// Call f(step, part, was, is) for the parts with keys in ring order, as a ring merges them: what was
// accumulated counts exp(m_old - m) = `was`, 0 at first, and the part exp(m_new - m) = `is`. Return
// the row's maximum.
template <class F>
double in_ring_order(const QueryRow& row, F&& f) {
  const auto n = static_cast<int>(row.owner_parts.size());
  double m = kMinusInf;
  for (int step = 0; step < n; ++step) {
    const RowPart& part = row.owner_parts[owner_at(row.place.rank, step, n)];
    if (part.l == 0) continue;
    const double most = std::max(m, part.m);
    f(step, part, std::exp(m - most), std::exp(part.m - most));
    m = most;
  }
  return m;
}

class ForwardTable {
 public:
  explicit ForwardTable(const Knowledge& known) : known_(known) {}

  std::vector<Hypothesis> all() {
    add_blocks();
    add_merges();
    add_roundings(known_.ranks());
    add_roundings(known_.ranks() - 1);
    add_scales();
    add_masks();
    add_local_orders();
    add_kv_heads();
    add_other_rows();
    add_other_keys();
    add_rope();
    return std::move(table_);
  }
  std::vector<Hypothesis> roundings() {
    const int hops = known_.ranks() - 1;
    for (int first = 0; first < (hops < 16 ? hops : 1); ++first) add_roundings(hops, first);
    return std::move(table_);
  }

 private:
  using Query = std::function<void(const QueryRow&, Guess&)>;
  void add(Mistake mistake, std::string how, Query query, double penalty = 1) {
    table_.push_back({mistake, std::move(how), std::move(query), {}, penalty});
  }

  void add_blocks() {
    const int n = known_.ranks();
    for (const auto& [mistake, times, word] :
         {std::tuple{Mistake::missing_block, 0, "is missing"},
          std::tuple{Mistake::doubled_block, 2, "is attended twice"}}) {
      for (const bool by_owner : {true, false})
        for (int which = 0; which < n; ++which)
          add(
              mistake,
              fmt::format("the block of {} {} {}", by_owner ? "owner" : "ring step", which, word),
              [by_owner, which, times = times, n](const QueryRow& row, Guess& guess) {
                const int owner = by_owner ? which : owner_at(row.place.rank, which, n);
                merge_parts(
                    row, [&](int o) { return o == owner ? times : 1; }, guess);
              },
              by_owner ? 1 : 1.05);
      // One of the two chunks of a zigzag deal.
      if (known_.problem.partition.kind != PartitionKind::zigzag || n > 16) continue;
      for (int owner = 0; owner < n; ++owner)
        for (const bool upper : {false, true})
          add(
              mistake,
              fmt::format("the {} chunk of owner {} {}", upper ? "upper" : "lower", owner, word),
              [this, owner, upper, times = times](const QueryRow& row, Guess& guess) {
                const auto& rows = known_.deal.positions[owner];
                Values weights = row.allowed;
                for (std::size_t i = 0; i < rows.size(); ++i)
                  if ((i >= (rows.size() + 1) / 2) == upper) weights[rows[i]] *= times;
                attend_row(known_, scaled(row.dots, known_.problem.softmax_scale), weights,
                           row.kv_head, guess);
              },
              1.08);
    }
  }

  // Merges in ring order that lack the factors exp(m_old - m) or exp(m_new - m).
  void add_merges() {
    const int n = known_.ranks();
    struct Lacks {
      bool old_acc, old_l, new_acc, new_l;
      const char* how;
    };
    for (const Lacks& lacks :
         {Lacks{true, true, true, true, "partial results are added as if their maxima were equal"},
          Lacks{true, true, false, false, "what was accumulated is not rescaled to a new maximum"},
          Lacks{true, false, false, false, "the output is not rescaled to a new maximum"},
          Lacks{false, true, false, false, "row_sum is not rescaled to a new maximum"},
          Lacks{true, false, true, false, "partial outputs are added without their maxima"},
          Lacks{false, false, true, true,
                "a block's partial result is not rescaled to the maximum"},
          Lacks{false, true, false, true, "partial row sums are added without their maxima"}})
      for (const int lse : {0, 1, 2})
        add(
            Mistake::merge_without_max, lacks.how,
            [lacks, lse](const QueryRow& row, Guess& guess) {
              double last = 0, l = 0;
              Values acc(row.owner_parts.front().acc.size());
              const double m =
                  in_ring_order(row, [&](int, const RowPart& part, double was, double is) {
                    l = l * (lacks.old_l ? 1 : was) + part.l * (lacks.new_l ? 1 : is);
                    for (std::size_t c = 0; c < acc.size(); ++c)
                      acc[c] = acc[c] * (lacks.old_acc ? 1 : was) +
                               part.acc[c] * (lacks.new_acc ? 1 : is);
                    last = part.m;
                  });
              finish_row(m, l, acc, guess);
              if (lse == 1) guess.lse = last + std::log(l);
              if (lse == 2) guess.lse.reset();
            },
            1 + 0.01 * lse);
    // exp() of the scores themselves, which overflows.
    for (const double largest : {88.72, 11.09})
      add(Mistake::merge_without_max,
          fmt::format("exp() of scores above {:.1f} overflows, because no maximum is taken off",
                      largest),
          [largest](const QueryRow& row, Guess& guess) {
            merge_all(row, guess);
            if (largest_max(row) <= largest && *guess.lse <= largest) return;
            guess.out->assign(guess.out->size(), kNan);
            guess.lse = std::numeric_limits<double>::infinity();
          });
    add(Mistake::merge_without_max, "the maximum is not added to the lse",
        [](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          guess.out.reset();
          guess.lse = *guess.lse - largest_max(row);
        });
    for (const bool all : {true, false})
      add(Mistake::mean_instead_of_sum,
          all ? "out is the mean of the blocks' outputs"
              : "out is the mean of the outputs of the blocks with keys",
          [all](const QueryRow& row, Guess& guess) {
            Values mean(row.owner_parts.front().acc.size());
            int count = 0;
            for (const RowPart& part : row.owner_parts) {
              if (part.l == 0) continue;
              ++count;
              add_to(mean, 1 / part.l, part.acc);
            }
            const auto parts = all ? static_cast<int>(row.owner_parts.size()) : std::max(count, 1);
            guess.out = scaled(mean, 1.0 / parts);
          });
    add(Mistake::mean_instead_of_sum, "the sum over the ranks is divided by their number",
        [n](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          guess.out = scaled(*guess.out, 1.0 / n);
          guess.lse.reset();
        });
  }

  // An accumulator of 16 bits: the unnormalised one, the normalised one, or the one with row_sum;
  // rounded after the first `hops` steps, which are all of them or those that a hop follows, except
  // for the very first `exact` ones.
  void add_roundings(int hops, int exact = 0) {
    const int n = known_.ranks();
    if (hops < 1) return;
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const int kind : {0, 1, 2})
        add(
            Mistake::rounds_each_hop,
            fmt::format("{} is rounded to {} at {}",
                        kind == 0   ? "the unnormalised accumulator"
                        : kind == 1 ? "the output so far"
                                    : "the accumulator, and row_sum with it,",
                        name_of(dtype),
                        exact > 0   ? fmt::format("each hop from number {} on", exact + 1)
                        : hops == n ? fmt::format("each of the {} steps", n)
                                    : fmt::format("each of the {} hops", hops)),
            [dtype, kind, hops, exact](const QueryRow& row, Guess& guess) {
              double l = 0;
              Values acc(row.owner_parts.front().acc.size());
              const double m =
                  in_ring_order(row, [&](int step, const RowPart& part, double was, double is) {
                    l = l * was + part.l * is;
                    const bool rounds = step >= exact && step < hops;
                    if (kind == 2 && rounds) l = stored_as(dtype, l);
                    const double divisor = kind == 1 ? l : 1;
                    for (std::size_t c = 0; c < acc.size(); ++c) {
                      acc[c] = acc[c] * was + part.acc[c] * is;
                      if (rounds) acc[c] = stored_as(dtype, acc[c] / divisor) * divisor;
                    }
                  });
              finish_row(m, l, acc, guess);
              if (kind != 2) guess.lse.reset();
            },
            hops == n ? 1 : 1.05);
  }

  void add_scales() {
    const auto d = static_cast<double>(known_.width());
    const double right = known_.problem.softmax_scale;
    const auto heads = static_cast<double>(known_.problem.shape.num_heads);
    struct Named {
      double scale;
      const char* name;
    };
    std::vector<Named> scales = {{1, "1"},
                                 {1 / d, "1 / head_dim"},
                                 {1 / std::sqrt(d), "1 / sqrt(head_dim)"},
                                 {std::sqrt(d), "sqrt(head_dim)"},
                                 {std::pow(d, -0.25), "head_dim^(-1/4)"},
                                 {1 / std::sqrt(d * heads), "1 / sqrt(heads x head_dim)"},
                                 {1 / (d * heads), "1 / (heads x head_dim)"},
                                 {right * right, "the scale, applied twice"},
                                 {right * std::numbers::log2e, "scale x log2(e)"},
                                 {right * std::numbers::ln2, "scale x ln(2)"},
                                 {right * std::numbers::sqrt2, "scale x sqrt(2)"},
                                 {right / std::numbers::sqrt2, "scale / sqrt(2)"},
                                 {-right, "-scale"}};
    const double named_scales = static_cast<double>(scales.size());
    for (const Named& named : scales) add_scale(named.scale, named.name, 1);
    // The factors in between, for diagnose() to choose the nearest; three of them make a neighbour.
    for (int step = -24; step <= 24; ++step)
      add_scale(right * std::pow(2.0, step / 6.0), "", 1 + 0.02 * named_scales / 13);
    add(Mistake::scale, "the lse has base 2", [this](const QueryRow& row, Guess& guess) {
      guess.lse =
          known_.oracle.lse[row.head * known_.seqlen() + row.position] * std::numbers::log2e;
    });
  }
  void add_scale(double scale, const char* name, double penalty) {
    add(
        Mistake::scale,
        *name != '\0' ? fmt::format("the softmax scale is {} = {:.4g}, and not {:.4g}", name, scale,
                                    known_.problem.softmax_scale)
                      : fmt::format("the softmax scale is near {:.4g}, {:.3g} times the right one",
                                    scale, scale / known_.problem.softmax_scale),
        [this, scale](const QueryRow& row, Guess& guess) {
          attend_row(known_, scaled(row.dots, scale), row.allowed, row.kv_head, guess);
        },
        penalty);
  }

  using Allows = std::function<bool(Index query, Index key)>;
  void add_mask(Mistake mistake, const std::string& how, Allows allows, double penalty = 1) {
    add(
        mistake, how,
        [this, allows = std::move(allows)](const QueryRow& row, Guess& guess) {
          Values weights(row.dots.size());
          for (Index key = 0; key < known_.seqlen(); ++key)
            weights[key] = allows(row.position, key) ? 1 : 0;
          attend_row(known_, scaled(row.dots, known_.problem.softmax_scale), weights, row.kv_head,
                     guess);
        },
        penalty);
  }

  // Every part of the mask, with one or both of its ends a position away.
  void add_masks() {
    const std::string name = known_.problem.mask.name();
    if (name == "full") return;
    std::vector<std::string> names;
    for (const std::string_view part : split(name, '+'))
      if (part.starts_with("sink") && !names.empty())  // a part of its window
        names.back().append("+").append(part);
      else
        names.emplace_back(part);
    const Index last = known_.seqlen() - 1;
    for (std::size_t changed = 0; changed < names.size(); ++changed) {
      std::vector<std::shared_ptr<MaskSpec>> specs;
      for (const std::string& text : names)
        specs.push_back(std::make_shared<MaskSpec>(MaskSpec::parse(text)));
      const auto allows = [this, specs, changed](const auto& change) {
        return [this, specs, changed, change](Index query, Index key) {
          for (std::size_t p = 0; p < specs.size(); ++p) {
            const Mask part = specs[p]->for_seqlen(known_.seqlen());
            if (p == changed ? !change(part, query, key) : !part.allows(query, key)) return false;
          }
          return true;
        };
      };
      // Whether the part allows a pair, with positions outside of the sequence like the nearest.
      const auto at = [last](const Mask& part, Index query, Index key) {
        return part.allows(clamp(query, 0, last), clamp(key, 0, last));
      };
      const std::string of = " of " + names[changed];
      const auto add_change = [&](const std::string& how, const auto& change, double penalty = 1) {
        add_mask(Mistake::mask_off_by_one, how + of, allows(change), penalty);
      };
      const auto inside = [last](Index key) { return key >= 0 && key <= last; };
      add_change("one key less at the upper end", [at, inside](const Mask& m, Index i, Index j) {
        return m.allows(i, j) && inside(j + 1) && at(m, i, j + 1);
      });
      add_change("one key more at the upper end", [at, inside](const Mask& m, Index i, Index j) {
        return m.allows(i, j) || (inside(j - 1) && at(m, i, j - 1));
      });
      add_change("one key less at the lower end", [at](const Mask& m, Index i, Index j) {
        return m.allows(i, j) && at(m, i, j - 1);
      });
      add_change("one key more at the lower end", [at, inside](const Mask& m, Index i, Index j) {
        return m.allows(i, j) || (inside(j + 1) && at(m, i, j + 1));
      });
      add_change("one key less at both ends", [at](const Mask& m, Index i, Index j) {
        return m.allows(i, j) && at(m, i, j - 1) && at(m, i, j + 1);
      });
      add_change("one key more at both ends", [at](const Mask& m, Index i, Index j) {
        return m.allows(i, j) || at(m, i, j - 1) || at(m, i, j + 1);
      });
      for (const Index by : {-1, 1}) {
        add_change(
            fmt::format("keys shifted by {}", by),
            [at, by](const Mask& m, Index i, Index j) { return at(m, i, j + by); }, 1.02);
        add_change(
            fmt::format("queries and keys shifted by {}", by),
            [at, by](const Mask& m, Index i, Index j) { return at(m, i + by, j + by); }, 1.02);
      }
      // A number in the name, one more or less.
      const std::string& part = names[changed];
      const std::size_t colon = part.find(':');
      if (colon == std::string::npos || part.find(',') != std::string::npos ||
          part.find('+') != std::string::npos || !(part.starts_with("w") || part.starts_with("p")))
        continue;
      const long number = std::stol(part.substr(colon + 1));
      for (const long other : {number - 1, number + 1}) {
        if (other < 1) continue;
        const auto spec = std::make_shared<MaskSpec>(
            MaskSpec::parse(part.substr(0, colon + 1) + std::to_string(other)));
        add_change(fmt::format("{} in place", spec->name()),
                   [this, spec](const Mask&, Index i, Index j) {
                     return spec->for_seqlen(known_.seqlen()).allows(i, j);
                   });
      }
    }
  }

  void add_local_orders() {
    if (known_.problem.mask.name().find("causal") == std::string::npos) return;
    const auto add_order = [&](const std::string& how, const auto& place_of) {
      const auto causal = [place_of](Index i, Index j) { return place_of(j, i) <= place_of(i, i); };
      add_mask(Mistake::causal_in_local_order, how, causal);
      if (known_.problem.mask.name() == "causal") return;
      // The other parts of the mask by position, or in the same order.
      add_mask(
          Mistake::causal_in_local_order, how + ", the rest of the mask by position",
          [this, causal](Index i, Index j) {
            return causal(i, j) && known_.mask.allows(max_of(i, j), min_of(i, j));
          },
          1.02);
      add_mask(
          Mistake::causal_in_local_order, how + ", as the rest of the mask",
          [this, place_of](Index i, Index j) {
            return known_.mask.allows(min_of(place_of(i, i), known_.seqlen() - 1),
                                      min_of(place_of(j, i), known_.seqlen() - 1));
          },
          1.02);
    };
    const auto& places = known_.deal.places;
    add_order("local rows are compared in every block",
              [&places](Index p, Index) { return places[p].local_row; });
    std::vector<Index> before(1);
    for (const auto& rows : known_.deal.positions)
      before.push_back(before.back() + static_cast<Index>(rows.size()));
    add_order(
        "the ranks' rows are compared as if the deal were contiguous",
        [&places, before](Index p, Index) { return before[places[p].rank] + places[p].local_row; });
    // Only the own block is compared; blocks of lower ranks count as earlier, or all as allowed.
    add_mask(
        Mistake::causal_in_local_order, "the mask is applied in the own block alone",
        [this, &places](Index i, Index j) {
          return places[i].rank != places[j].rank || known_.mask.allows(i, j);
        },
        1.02);
  }

  void add_kv_heads() {
    const AttentionShape& shape = known_.problem.shape;
    const Index group = shape.group_size(), kv = shape.num_heads_kv;
    if (group == 1 || kv == 1) return;
    const auto add_map = [&](const char* how, auto map) {
      add(Mistake::kv_head_mapping, how, [this, map, kv](const QueryRow& row, Guess& guess) {
        const Index heads = known_.problem.shape.num_heads;
        const Index other = row.head / heads * kv + map(row.head % heads);
        attend_row(known_, scores_with(row, other), row.allowed, other, guess);
      });
    };
    add_map("query head h reads kv head h mod G (interleaved), and not h / group",
            [kv](Index head) { return head % kv; });
    add_map("query head h reads kv head G - 1 - h / group",
            [kv, group](Index head) { return kv - 1 - head / group; });
  }

  // Return the scaled scores of a query against the keys that `key_of` returns by position.
  template <class KeyOf>
  Values scores_of(const double* q, KeyOf&& key_of) const {
    Values scores(known_.seqlen());
    for (Index j = 0; j < known_.seqlen(); ++j)
      scores[j] = dot_of(q, key_of(j), known_.width()) * known_.problem.softmax_scale;
    return scores;
  }
  // Return those of a row against another kv head, or against keys of other positions.
  Values scores_with(const QueryRow& row, Index kv_head,
                     const std::vector<Index>& source = {}) const {
    return scores_of(known_.row_of(known_.inputs.q, row.head, row.position), [&](Index j) {
      return known_.row_of(known_.inputs.k, kv_head, source.empty() ? j : source[j]);
    });
  }

  void add_other_rows();
  void add_other_keys();
  void add_rope();

  const Knowledge& known_;
  std::vector<Hypothesis> table_;
};

void ForwardTable::add_other_rows() {
  for (const auto& [how, source, penalty] : wrong_sources(known_))
    add(
        Mistake::rows_of_other_rank, how,
        [this, source = source](const QueryRow& row, Guess& guess) {
          const Index from = source[row.position];
          const double* const out = known_.row_of(known_.oracle.out, row.head, from);
          guess.out = Values(out, out + known_.width());
          guess.lse = known_.oracle.lse[row.head * known_.seqlen() + from];
        },
        penalty);
  // The queries of another rank under the own mask.
  const int n = known_.ranks();
  for (const int distance : std::set<int>{1, n - 1}) {
    if (n < 2) continue;
    add(
        Mistake::rows_of_other_rank,
        fmt::format("the queries are those of rank r {} 1, under the mask of rank r",
                    distance == 1 ? '+' : '-'),
        [this, source = rows_of_rank_beyond(known_.deal, distance)](const QueryRow& row,
                                                                    Guess& guess) {
          QueryRow other = row;
          other.position = source[row.position];
          attend_row(known_, scores_with(other, row.kv_head), row.allowed, row.kv_head, guess);
        },
        1.05);
  }
}

// Blocks that are attended in place of others, under the mask of those that should be there.
void ForwardTable::add_other_keys() {
  const int n = known_.ranks();
  if (n < 2) return;
  const auto add_keys = [&](const std::string& how, auto owner_of, double penalty) {
    add(
        Mistake::rows_of_other_rank, how,
        [this, owner_of](const QueryRow& row, Guess& guess) {
          std::vector<Index> source;
          for (Index j = 0; j < known_.seqlen(); ++j) {
            const Place& place = known_.deal.places[j];
            const auto& rows = known_.deal.positions[owner_of(row.place.rank, place.rank)];
            source.push_back(place.local_row < std::ssize(rows) ? rows[place.local_row] : j);
          }
          attend_row(known_, scores_with(row, row.kv_head, source), row.allowed, row.kv_head, guess,
                     source);
        },
        penalty);
  };
  add_keys(
      "every step attends the own block, under the masks of the others",
      [](int rank, int) { return rank; }, 1.05);
  for (const int by : std::set<int>{1, n - 1}) {
    const char sign = by == 1 ? '+' : '-';
    add_keys(
        fmt::format("every step attends the block of owner o {} 1, under the mask of o", sign),
        [by, n](int, int owner) { return (owner + by) % n; }, 1.05);
    for (int owner = 0; owner < n; ++owner)
      add_keys(
          fmt::format("the block of owner {} stands in for that of owner {}", (owner + by) % n,
                      owner),
          [by, n, owner](int, int o) { return o == owner ? (o + by) % n : o; }, 1.1);
  }
}

// K of one kv head, turned from its true positions to those of a belief. The rows of a sample come
// head by head, so one head is kept.
class TurnedKeys {
 public:
  const Values& of(const Knowledge& known, Index kv_head, const std::vector<Index>& belief,
                   double base, RopePairs pairs) {
    if (kv_head == kv_head_) return keys_;
    kv_head_ = kv_head;
    const double* const k = known.row_of(known.inputs.k, kv_head, 0);
    keys_.assign(k, k + known.seqlen() * known.width());
    for (Index j = 0; j < known.seqlen(); ++j)
      if (belief[j] != j)
        rotate_row(keys_.data() + j * known.width(), known.width(),
                   static_cast<double>(belief[j] - j), base, pairs);
    return keys_;
  }
  void forget() {
    kv_head_ = -1;
    keys_ = {};
  }

 private:
  Index kv_head_ = -1;
  Values keys_;
};

// Angles of other positions: turning a row on from its true position to the wrong one.
void ForwardTable::add_rope() {
  if (known_.width() % 2 != 0) return;
  for (const double base : known_.options.rope_bases)
    for (const RopePairs pairs : {RopePairs::halves, RopePairs::neighbours})
      for (const auto& [name, belief] : wrong_positions(known_))
        for (const int which : {3, 1, 2}) {  // bit 0: queries, bit 1: keys
          const auto keys = std::make_shared<TurnedKeys>();
          const char* const of = which == 3 ? "Q and K" : which == 1 ? "Q" : "K";
          add(
              Mistake::rope_positions,
              fmt::format("the rotary angles of {} are those of {} (base {:g})", of, name, base),
              [this, base, pairs, belief = belief, which, keys](const QueryRow& row, Guess& guess) {
                const double* const q = known_.row_of(known_.inputs.q, row.head, row.position);
                Values query(q, q + known_.width());
                if (which & 1)
                  rotate_row(query.data(), known_.width(),
                             static_cast<double>(belief[row.position] - row.position), base, pairs);
                const double* const k =
                    which & 2 ? keys->of(known_, row.kv_head, belief, base, pairs).data()
                              : known_.row_of(known_.inputs.k, row.kv_head, 0);
                const Values scores =
                    scores_of(query.data(), [&](Index j) { return k + j * known_.width(); });
                attend_row(known_, scores, row.allowed, row.kv_head, guess);
              },
              which == 3 ? 1 : 1.05);
          table_.back().forget = [keys] { keys->forget(); };
        }
}

}  // namespace

std::vector<Hypothesis> forward_hypotheses(const Knowledge& known) {
  return hypotheses_of(known, &ForwardTable::all);
}
std::vector<Hypothesis> rounding_hypotheses(const Knowledge& known) {
  return hypotheses_of(known, &ForwardTable::roundings);
}

}  // namespace ringscope
