// The table of mistakes that change out and lse. Most are small changes to the parts of a row by KV
// owner, to how often each key counts, or to the scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double largest_max(const QueryRow& row) {
  double m = kMinusInf;
  for (const RowPart& part : row.owner_parts) m = std::max(m, part.m);
  return m;
}

// The order in which a rank merges blocks, which matters where a merge is not right: from rank to rank
// downwards, as this project's ring goes, or upwards, or by the owners' numbers.
enum class Order { down, up, by_owner };

int owner_in(Order order, int rank, int step, int ranks) {
  if (order == Order::by_owner) return step;
  return order == Order::down ? owner_at(rank, step, ranks) : (rank + step) % ranks;
}
std::string suffix_of(Order order) {
  return order == Order::down ? ""
         : order == Order::up ? ", in the order of blocks from higher ranks"
                              : ", in the order of the blocks' owners";
}

// Call f(step, part) for the parts with keys.
template <class F>
void for_parts(const QueryRow& row, Order order, F&& f) {
  const auto n = static_cast<int>(row.owner_parts.size());
  for (int step = 0; step < n; ++step) {
    const RowPart& part = row.owner_parts[owner_in(order, row.place.rank, step, n)];
    if (part.l > 0) f(step, part);
  }
}

// Call f(step, part, was, is) for the parts with keys, as a ring merges them: what was accumulated
// counts exp(m_old - m) = `was`, 0 at first, and the part exp(m_new - m) = `is`. Return the row's
// maximum.
template <class F>
double in_ring_order(const QueryRow& row, Order order, F&& f) {
  double m = kMinusInf;
  for_parts(row, order, [&](int step, const RowPart& part) {
    const double most = std::max(m, part.m);
    f(step, part, std::exp(m - most), std::exp(part.m - most));
    m = most;
  });
  return m;
}

double logsigmoid(double x) {
  return x > 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}

class ForwardTable : public HypothesisTable {
 public:
  explicit ForwardTable(const Knowledge& known) : HypothesisTable(known) {}

  std::vector<Hypothesis> all() {
    add_blocks();
    add_merges();
    add_roundings(known_.ranks());
    add_roundings(known_.ranks() - 1);
    add_signs();
    add_scales();
    for (Hypothesis& hypothesis : mask_hypotheses(known_)) table_.push_back(std::move(hypothesis));
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
  void add_blocks() {
    const int n = known_.ranks();
    for (const auto& [mistake, times, word] :
         {std::tuple{Mistake::missing_block, 0, "is missing"},
          std::tuple{Mistake::doubled_block, 2, "is attended twice"}}) {
      for (const bool by_owner : {true, false})
        for (int which = 0; which < n; ++which)
          add_weighed(
              mistake,
              fmt::format("the block of {} {} {}", by_owner ? "owner" : "ring step", which, word),
              [this, by_owner, which, times = times, n](QueryRow& row) {
                const int owner = by_owner ? which : owner_at(row.place.rank, which, n);
                for (const Index j : known_.deal.positions[owner]) row.counts[j] *= times;
              },
              by_owner ? 1 : 1.05);
      // One of the two chunks of a zigzag deal.
      if (known_.problem.partition.kind != PartitionKind::zigzag || n > 16) continue;
      for (int owner = 0; owner < n; ++owner)
        for (const bool upper : {false, true})
          add_weighed(
              mistake,
              fmt::format("the {} chunk of owner {} {}", upper ? "upper" : "lower", owner, word),
              [this, owner, upper, times = times](QueryRow& row) {
                for (const Index j : known_.deal.positions[owner])
                  if (is_upper(j) == upper) row.counts[j] *= times;
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
      for (const auto& [lse, order] : {std::pair{0, Order::down},
                                       {1, Order::down},
                                       {2, Order::down},
                                       {0, Order::up},
                                       {2, Order::up},
                                       {0, Order::by_owner},
                                       {2, Order::by_owner}})
        add(
            Mistake::merge_without_max, lacks.how + suffix_of(order),
            [lacks, lse = lse, order = order](const QueryRow& row, Guess& guess) {
              double last = 0, l = 0;
              Values acc(row.q.size());
              const double m =
                  in_ring_order(row, order, [&](int, const RowPart& part, double was, double is) {
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
            1 + 0.01 * lse + (order == Order::down ? 0 : 0.03));
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
    add(Mistake::not_normalised, "out is not divided by the row sum of the weights exp(s - max)",
        [](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          guess.out = scaled(*guess.out, std::exp(*guess.lse - largest_max(row)));
          guess.lse.reset();
        });
    add(
        Mistake::not_normalised, "out is not divided by the row sum of the weights exp(s)",
        [](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          guess.out = scaled(*guess.out, std::exp(*guess.lse));
          guess.lse.reset();
        },
        1.01);
    add(
        Mistake::not_normalised,
        "blocks' weighted sums are merged as if each were divided by its row sum",
        [](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          Values sum(row.q.size());
          for (const RowPart& part : row.owner_parts)
            if (part.l > 0) add_to(sum, part.l * std::exp(part.m - *guess.lse), part.acc);
          guess.out = std::move(sum);
          guess.lse.reset();
        },
        1.02);
    add(Mistake::lse_in_log2, "blocks' lse is in units of log 2, and is merged as a natural one",
        [](const QueryRow& row, Guess& guess) {
          QueryRow changed = row;
          for (RowPart& part : changed.owner_parts)
            if (part.l > 0)
              part = {(part.m + std::log(part.l)) / std::numbers::ln2, 1,
                      scaled(part.acc, 1 / part.l)};
          merge_all(changed, guess);
        });
    add(Mistake::masked_block_nan, "a block without an allowed key makes 0 / 0",
        [](const QueryRow& row, Guess& guess) {
          merge_all(row, guess);
          const bool is_met = std::any_of(row.owner_parts.begin(), row.owner_parts.end(),
                                          [](const RowPart& part) { return part.l == 0; });
          if (is_met && std::isfinite(*guess.lse)) guess.out->assign(row.q.size(), kNan);
          guess.lse.reset();
        });
    for (const bool all : {true, false})
      add(Mistake::mean_instead_of_sum,
          all ? "out is the mean of the blocks' outputs"
              : "out is the mean of the outputs of the blocks with keys",
          [all](const QueryRow& row, Guess& guess) {
            Values mean(row.q.size());
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

  // Merges of outputs by sigmoids: out - sigmoid(block_lse - lse) x (out - block_out), and then
  // lse - logsigmoid(lse - block_lse), each with the difference turned round or the other sign.
  void add_signs() {
    for (const Order order : {Order::down, Order::up, Order::by_owner})
      for (const int out : {1, 2, 0})
        for (const int lse : {0, 1, 2}) {
          if (out == 0 && lse == 0) continue;
          const auto wrong = [](int which) {
            return which == 1 ? "takes the difference of lse the other way round"
                              : "has the wrong sign";
          };
          add(
              Mistake::merge_sign,
              (out == 0 ? fmt::format("the logsigmoid of the lse {}", wrong(lse))
               : lse == 0
                   ? fmt::format("the sigmoid of the output {}", wrong(out))
                   : fmt::format("the sigmoid of the output {}, the logsigmoid of the lse {}",
                                 wrong(out), wrong(lse))) +
                  suffix_of(order),
              [out, lse, order](const QueryRow& row, Guess& guess) {
                double sum = kMinusInf;
                Values mixed(row.q.size());
                bool is_first = true;
                for_parts(row, order, [&](int, const RowPart& part) {
                  const double block = part.m + std::log(part.l), by = block - sum;
                  const double share =
                      is_first ? 1
                               : std::exp(logsigmoid(out == 1 ? -by : by)) * (out == 2 ? -1 : 1);
                  for (std::size_t c = 0; c < mixed.size(); ++c)
                    mixed[c] -= share * (mixed[c] - part.acc[c] / part.l);
                  sum = is_first ? block
                                 : sum - logsigmoid(lse == 1 ? by : -by) * (lse == 2 ? -1 : 1);
                  is_first = false;
                });
                guess.out = std::move(mixed);
                guess.lse = sum;
              },
              1 + 0.01 * (lse > 0) + (order == Order::down ? 0 : 0.02));
        }
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
              Values acc(row.q.size());
              const double m = in_ring_order(
                  row, Order::down, [&](int step, const RowPart& part, double was, double is) {
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
    // The factor is shared with set_factor, which comes nearer to it.
    const auto factor = std::make_shared<double>(scale);
    add_weighed(
        Mistake::scale,
        fmt::format("the softmax scale is {}{:.4g}, and not {:.4g}",
                    *name != '\0' ? fmt::format("{} = ", name) : "near ", scale,
                    known_.problem.softmax_scale),
        [factor](QueryRow& row) {
          for (double& score : row.scores) score *= *factor / row.scale;
          row.scale = *factor;
        },
        penalty);
    if (*name != '\0') return;
    table_.back().factor = scale;
    table_.back().set_factor = [factor](double to) { *factor = to; };
  }

  void add_kv_heads() {
    const AttentionShape& shape = known_.problem.shape;
    const Index group = shape.group_size(), kv = shape.num_heads_kv;
    if (group == 1) return;
    add_weighed(
        Mistake::first_head_of_group, "all query heads of a group have the first one's queries",
        [this, group](QueryRow& row) {
          row.q = known_.copy_of(known_.inputs.q, row.head / group * group, row.position);
          rescore(known_, row);
        },
        1.03);
    if (kv == 1) return;
    const auto add_map = [&](const char* how, auto map) {
      add_weighed(Mistake::kv_head_mapping, how, [this, map, kv](QueryRow& row) {
        const Index heads = known_.problem.shape.num_heads;
        row.kv_head = row.head / heads * kv + map(row.head % heads);
        row.keys = known_.row_of(known_.inputs.k, row.kv_head, 0);
        row.values = known_.row_of(known_.inputs.v, row.kv_head, 0);
        rescore(known_, row);
      });
    };
    add_map("query head h reads kv head h mod G (interleaved), and not h / group",
            [kv](Index head) { return head % kv; });
    add_map("query head h reads kv head G - 1 - h / group",
            [kv, group](Index head) { return kv - 1 - head / group; });
  }

  void add_other_rows();
  void add_other_keys();
  void add_rope();
};

void ForwardTable::add_other_rows() {
  for (const auto& [how, source, penalty] : wrong_sources(known_))
    add(
        Mistake::rows_of_other_rank, how,
        [this, source = source](const QueryRow& row, Guess& guess) {
          guess = right_row(known_, row.head, source[row.position]);
        },
        penalty);
  // The queries of another rank under the own mask.
  const int n = known_.ranks();
  for (const int distance : std::set<int>{1, n - 1}) {
    if (n < 2) continue;
    add_weighed(
        Mistake::rows_of_other_rank,
        fmt::format("the queries are those of rank r {} 1, under the mask of rank r",
                    distance == 1 ? '+' : '-'),
        [this, source = rows_of_rank_beyond(known_.deal, distance)](QueryRow& row) {
          row.q = known_.copy_of(known_.inputs.q, row.head, source[row.position]);
          rescore(known_, row);
        },
        1.05);
  }
  const Index end = known_.seqlen() / n * n;
  if (end < known_.seqlen())
    add_weighed(Mistake::rows_dropped,
                fmt::format("the rows from {} on are left out, as {} ranks don't divide the length",
                            end, n),
                [end](QueryRow& row) {
                  const Index from = row.position < end ? end : 0;
                  std::fill(row.counts.begin() + from, row.counts.end(), 0.0);
                });
}

// Blocks that are attended in place of others, under the mask of those that should be there.
void ForwardTable::add_other_keys() {
  const int n = known_.ranks();
  if (n < 2) return;
  enum Of { k = 1, v = 2, k_and_v = 3 };
  const auto add_keys = [&](Mistake mistake, const std::string& how, Of of, auto owner_of,
                            double penalty) {
    add_weighed(
        mistake, how,
        [this, of, owner_of](QueryRow& row) {
          std::vector<Index> source;
          for (Index j = 0; j < known_.seqlen(); ++j) {
            const Place& place = known_.deal.places[j];
            const auto& rows = known_.deal.positions[owner_of(row.place.rank, place.rank)];
            // A shorter block's last row stands where it has none.
            source.push_back(rows.empty() ? j
                                          : rows[min_of(place.local_row, std::ssize(rows) - 1)]);
          }
          if (of & v) row.v_from = source;
          if (of & k) row.k_from = std::move(source);
          if (of & k) rescore(known_, row);
        },
        penalty);
  };
  for (const Of of : {v, k})
    for (const int by : std::set<int>{n - 1, 1})
      for (const bool wraps : {false, true})
        add_keys(
            Mistake::k_and_v_of_different_steps,
            fmt::format("{} is that of the {} step{}", of == v ? "V" : "K",
                        by == 1 ? "previous" : "next",
                        wraps     ? ""
                        : by == 1 ? ", except in the first one"
                                  : ", except in the last one"),
            of,
            [by, wraps, n](int rank, int owner) {
              const bool is_end = owner == (by == 1 ? rank : (rank + 1) % n);
              return is_end && !wraps ? owner : (owner + by) % n;
            },
            wraps ? 1.01 : 1);
  add_keys(
      Mistake::wrong_neighbour,
      "blocks come from the next rank, and are taken for those of the rank before", k_and_v,
      [n](int rank, int owner) { return (2 * rank - owner + n) % n; }, 1.04);
  add_keys(
      Mistake::rows_of_other_rank,
      "every step attends the own block, under the masks of the others", k_and_v,
      [](int rank, int) { return rank; }, 1.05);
  for (const int by : std::set<int>{1, n - 1}) {
    const char sign = by == 1 ? '+' : '-';
    add_keys(
        Mistake::rows_of_other_rank,
        fmt::format("every step attends the block of owner o {} 1, under the mask of o", sign),
        k_and_v, [by, n](int, int owner) { return (owner + by) % n; }, 1.05);
    for (int owner = 0; owner < n; ++owner)
      add_keys(
          Mistake::rows_of_other_rank,
          fmt::format("the block of owner {} stands in for that of owner {}", (owner + by) % n,
                      owner),
          k_and_v, [by, n, owner](int, int o) { return o == owner ? (o + by) % n : o; }, 1.1);
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
          add_weighed(
              Mistake::rope_positions,
              fmt::format("the rotary angles of {} are those of {} (base {:g})", of, name, base),
              [this, base, pairs, belief = belief, which, keys](QueryRow& row) {
                if (which & 1)
                  rotate_row(row.q.data(), known_.width(),
                             static_cast<double>(belief[row.position] - row.position), base, pairs);
                if (which & 2) row.keys = keys->of(known_, row.kv_head, belief, base, pairs).data();
                rescore(known_, row);
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
