// The hypotheses that change out and lse. Most are small changes to the parts of a row by KV owner, to
// how often each key counts, or to the scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double largest_max(const QueryRow& row) {
  double m = kMinusInf;
  for (const RowPart& part : row.owner_parts) m = std::max(m, part.m);
  return m;
}

const char* suffix_of(Order order) {
  return order == Order::down ? ""
         : order == Order::up ? ", in the order of blocks from higher ranks"
                              : ", in the order of the blocks' owners";
}

// Call f(step, part) for the parts with keys.
template <class F>
void for_parts(const QueryRow& row, Order order, F&& f) {
  const auto n = static_cast<int>(row.owner_parts.size());
  for (int step = 0; step < n; ++step) {
    const int owner = met_at(order, row.place.rank, step, n);
    if (row.owner_parts[owner].l > 0) f(step, row.owner_parts[owner]);
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

// KV blocks, or chunks of a zigzag deal's, that are not attended, or twice.
void add_blocks(const Knowledge& known, Hypotheses& table) {
  const int n = known.ranks();
  const auto& places = known.deal.places;
  for (const double times : {0.0, 2.0}) {
    const auto add = [&](double penalty, const std::string& which, auto is_met) {
      table.weigh(times == 0 ? Mistake::missing_block : Mistake::doubled_block, penalty,
                  fmt::format("the {} {}", which, times == 0 ? "is missing" : "is attended twice"),
                  [=](QueryRow& row) {
                    for (Index j = 0; j < std::ssize(row.counts); ++j)
                      if (is_met(row.place.rank, j)) row.counts[j] *= times;
                  });
    };
    for (int owner = 0; owner < n; ++owner)
      add(1, fmt::format("block of owner {}", owner),
          [=, &places](int, Index j) { return places[j].rank == owner; });
    for (int step = 0; step < n; ++step)
      add(1.05, fmt::format("block of ring step {}", step),
          [=, &places](int rank, Index j) { return places[j].rank == owner_at(rank, step, n); });
    for (int owner = 0; owner < n && known.is_zigzag() && n <= 16; ++owner)
      for (const bool upper : {false, true})
        add(1.08, fmt::format("{} chunk of owner {}", upper ? "upper" : "lower", owner),
            [=, &known, &places](int, Index j) {
              return places[j].rank == owner && known.is_upper(j) == upper;
            });
  }
}

// Merges in ring order that lack the factors exp(m_old - m) or exp(m_new - m).
void add_unscaled_merges(Hypotheses& table) {
  struct Lacks {
    bool old_acc, old_l, new_acc, new_l;
    const char* how;
  };
  enum Lse { merged, of_last_maximum, right };
  struct Way {
    Lse lse;
    Order order;
    double penalty;
  };
  for (const Lacks& lacks :
       {Lacks{true, true, true, true, "partial results are added as if their maxima were equal"},
        Lacks{true, true, false, false, "what was accumulated is not rescaled to a new maximum"},
        Lacks{true, false, false, false, "the output is not rescaled to a new maximum"},
        Lacks{false, true, false, false, "row_sum is not rescaled to a new maximum"},
        Lacks{true, false, true, false, "partial outputs are added without their maxima"},
        Lacks{false, false, true, true, "a block's partial result is not rescaled to the maximum"},
        Lacks{false, true, false, true, "partial row sums are added without their maxima"}})
    for (const Way& way :
         {Way{merged, Order::down, 1}, Way{of_last_maximum, Order::down, 1.01},
          Way{right, Order::down, 1.02}, Way{merged, Order::up, 1.03}, Way{right, Order::up, 1.05},
          Way{merged, Order::by_owner, 1.03}, Way{right, Order::by_owner, 1.05}})
      table.merge(
          Mistake::merge_without_max, way.penalty, lacks.how + std::string(suffix_of(way.order)),
          [lacks, way](const QueryRow& row, Guess& guess) {
            double last = 0, l = 0;
            Values acc(row.q.size());
            const double m =
                in_ring_order(row, way.order, [&](int, const RowPart& part, double was, double is) {
                  l = l * (lacks.old_l ? 1 : was) + part.l * (lacks.new_l ? 1 : is);
                  for (std::size_t c = 0; c < acc.size(); ++c)
                    acc[c] =
                        acc[c] * (lacks.old_acc ? 1 : was) + part.acc[c] * (lacks.new_acc ? 1 : is);
                  last = part.m;
                });
            finish_row(m, l, acc, guess);
            if (way.lse == of_last_maximum) guess.lse = last + std::log(l);
            if (way.lse == right) guess.lse.reset();
          });
}

// Other mistakes in what becomes of a row's parts, or of their sum, which leave lse as it is.
void add_sums(const Knowledge& known, Hypotheses& table) {
  // Add what `change` makes of a right row.
  const auto add = [&](Mistake mistake, double penalty, const char* how, auto change) {
    table.merge(mistake, penalty, how, [change](const QueryRow& row, Guess& guess) {
      guess = row.merged();
      change(row, *guess.out, *guess.lse);
      guess.lse.reset();
    });
  };
  // exp() of the scores themselves, which overflows.
  for (const double largest : {88.72, 11.09})
    table.merge(
        Mistake::merge_without_max, 1,
        fmt::format("exp() of scores above {:.1f} overflows, because no maximum is taken off",
                    largest),
        [largest](const QueryRow& row, Guess& guess) {
          guess = row.merged();
          if (largest_max(row) <= largest && *guess.lse <= largest) return;
          guess.out->assign(guess.out->size(), kNan);
          guess.lse = std::numeric_limits<double>::infinity();
        });
  table.merge(
      Mistake::merge_without_max, 1, "the maximum is not added to the lse",
      [](const QueryRow& row, Guess& guess) { guess.lse = *row.merged().lse - largest_max(row); });
  add(Mistake::not_normalised, 1, "out is not divided by the row sum of the weights exp(s - max)",
      [](const QueryRow& row, Values& out, double lse) {
        out = scaled(out, std::exp(lse - largest_max(row)));
      });
  add(Mistake::not_normalised, 1.01, "out is not divided by the row sum of the weights exp(s)",
      [](const QueryRow&, Values& out, double lse) { out = scaled(out, std::exp(lse)); });
  add(Mistake::not_normalised, 1.02,
      "blocks' weighted sums are merged as if each were divided by its row sum",
      [](const QueryRow& row, Values& out, double lse) {
        std::fill(out.begin(), out.end(), 0.0);
        for (const RowPart& part : row.owner_parts)
          if (part.l > 0) add_to(out, part.l * std::exp(part.m - lse), part.acc);
      });
  // The lse of what is merged is as the merge takes it, or is turned into the other unit.
  for (const double unit : {1 / std::numbers::ln2, std::numbers::ln2})
    for (const bool turns_lse : {false, true})
      table.merge(
          Mistake::lse_in_log2, turns_lse ? 1.01 : 1,
          unit > 1 ? "blocks' lse is in units of log 2, and is merged as a natural one"
                   : "blocks' lse is natural, and is merged as one in units of log 2",
          [=](const QueryRow& row, Guess& guess) {
            QueryRow changed = row;
            for (RowPart& part : changed.owner_parts)
              if (part.l > 0)
                part = {(part.m + std::log(part.l)) * unit, 1, scaled(part.acc, 1 / part.l)};
            guess = changed.merged();
            if (turns_lse) *guess.lse /= unit;
          });
  table.merge(Mistake::lse_in_log2, 1, "the lse is in units of log 2",
              [&known](const QueryRow& row, Guess& guess) {
                guess.lse = known.oracle.lse[row.head * known.seqlen() + row.position] *
                            std::numbers::log2e;
              });
  for (const bool of_lse : {false, true})
    table.merge(Mistake::masked_block_nan, 1, "a block without an allowed key makes 0 / 0",
                [of_lse](const QueryRow& row, Guess& guess) {
                  const bool is_met = std::any_of(row.owner_parts.begin(), row.owner_parts.end(),
                                                  [](const RowPart& part) { return part.l == 0; });
                  if (!is_met || !std::isfinite(*row.merged().lse)) return;
                  guess.out = Values(row.q.size(), kNan);
                  if (of_lse) guess.lse = kNan;
                });
  for (const bool all : {true, false})
    add(Mistake::mean_instead_of_sum, 1,
        all ? "out is the mean of the blocks' outputs"
            : "out is the mean of the outputs of the blocks with keys",
        [all](const QueryRow& row, Values& out, double) {
          std::fill(out.begin(), out.end(), 0.0);
          int count = 0;
          for (const RowPart& part : row.owner_parts) {
            if (part.l == 0) continue;
            ++count;
            add_to(out, 1 / part.l, part.acc);
          }
          const auto parts = all ? static_cast<int>(row.owner_parts.size()) : std::max(count, 1);
          out = scaled(out, 1.0 / parts);
        });
  add(Mistake::mean_instead_of_sum, 1, "the sum over the ranks is divided by their number",
      [n = known.ranks()](const QueryRow&, Values& out, double) { out = scaled(out, 1.0 / n); });
}

// An accumulator of 16 bits: the unnormalised one, the normalised one, or the one with row_sum;
// rounded after the first `hops` steps, which are all of them or those that a hop follows, except for
// the very first `exact` ones.
void add_roundings(const Knowledge& known, int hops, int exact, Hypotheses& table) {
  if (hops < 1) return;
  const bool is_every_step = hops == known.ranks();
  enum Rounded { unnormalised, normalised, with_row_sum };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Rounded kind : {unnormalised, normalised, with_row_sum})
      table.merge(Mistake::rounds_each_hop, is_every_step ? 1 : 1.05,
                  fmt::format("{} is rounded to {} at {}",
                              kind == unnormalised ? "the unnormalised accumulator"
                              : kind == normalised ? "the output so far"
                                                   : "the accumulator, and row_sum with it,",
                              name_of(dtype),
                              exact > 0       ? fmt::format("each hop from number {} on", exact + 1)
                              : is_every_step ? fmt::format("each of the {} steps", hops)
                                              : fmt::format("each of the {} hops", hops)),
                  [=](const QueryRow& row, Guess& guess) {
                    double l = 0;
                    Values acc(row.q.size());
                    const auto step_on = [&](int step, const RowPart& part, double was, double is) {
                      l = l * was + part.l * is;
                      const bool rounds = step >= exact && step < hops;
                      if (kind == with_row_sum && rounds) l = stored_as(dtype, l);
                      const double divisor = kind == normalised ? l : 1;
                      for (std::size_t c = 0; c < acc.size(); ++c) {
                        acc[c] = acc[c] * was + part.acc[c] * is;
                        if (rounds) acc[c] = stored_as(dtype, acc[c] / divisor) * divisor;
                      }
                    };
                    const double m = in_ring_order(row, Order::down, step_on);
                    finish_row(m, l, acc, guess);
                    if (kind != with_row_sum) guess.lse.reset();
                  });
}

double logsigmoid(double x) {
  return x > 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}

// Merges of outputs by sigmoids: out - sigmoid(block_lse - lse) x (out - block_out), and then
// lse - logsigmoid(lse - block_lse), each with the difference turned round or the other sign.
void add_signs(Hypotheses& table) {
  enum Sign { as_it_should_be, turned, opposite };
  const auto words = [](const char* of, Sign sign) {
    return fmt::format(
        "the {} {}", of,
        sign == turned ? "takes the difference of lse the other way round" : "has the wrong sign");
  };
  for (const Order order : {Order::down, Order::up, Order::by_owner})
    for (const Sign out : {turned, opposite, as_it_should_be})
      for (const Sign lse : {as_it_should_be, turned, opposite}) {
        if (out == as_it_should_be && lse == as_it_should_be) continue;
        std::string how = out != as_it_should_be ? words("sigmoid of the output", out) : "";
        if (lse != as_it_should_be)
          how += (how.empty() ? "" : ", ") + words("logsigmoid of the lse", lse);
        table.merge(Mistake::merge_sign, 1 + 0.01 * (lse > 0) + (order == Order::down ? 0 : 0.02),
                    how + suffix_of(order), [=](const QueryRow& row, Guess& guess) {
                      double sum = kMinusInf;
                      Values mixed(row.q.size());
                      bool is_first = true;
                      for_parts(row, order, [&](int, const RowPart& part) {
                        const double block = part.m + std::log(part.l), by = block - sum;
                        const double share = is_first
                                                 ? 1
                                                 : std::exp(logsigmoid(out == turned ? -by : by)) *
                                                       (out == opposite ? -1 : 1);
                        for (std::size_t c = 0; c < mixed.size(); ++c)
                          mixed[c] -= share * (mixed[c] - part.acc[c] / part.l);
                        sum = is_first ? block
                                       : sum - logsigmoid(lse == turned ? by : -by) *
                                                   (lse == opposite ? -1 : 1);
                        is_first = false;
                      });
                      guess.out = std::move(mixed);
                      guess.lse = sum;
                    });
      }
}

void add_scales(const Knowledge& known, Hypotheses& table) {
  const auto d = static_cast<double>(known.width());
  const double right = known.problem.softmax_scale;
  const auto heads = static_cast<double>(known.problem.shape.num_heads);
  // The factor is shared with diagnose(), which comes nearer to it.
  const auto add_scale = [&](double factor, const std::string& name, double penalty) {
    const auto scale = std::make_shared<double>(factor);
    table.weigh(Mistake::scale, penalty,
                fmt::format("the softmax scale is {}{:.4g}, and not {:.4g}", name, factor, right),
                [scale](QueryRow& row) {
                  for (double& score : row.scores) score *= *scale / row.scale;
                  row.scale = *scale;
                });
    if (name == "near ") table.back().scale = scale;
  };
  for (const auto& [scale, name] : std::initializer_list<std::pair<double, const char*>>{
           {1, "1"},
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
           {-right, "-scale"}})
    add_scale(scale, fmt::format("{} = ", name), 1);
  for (int step = -24; step <= 24; ++step)
    add_scale(right * std::pow(2.0, step / 6.0), "near ", 1.02);
}

void add_kv_heads(const Knowledge& known, Hypotheses& table) {
  const AttentionShape& shape = known.problem.shape;
  const Index group = shape.group_size(), heads = shape.num_heads, kv = shape.num_heads_kv;
  if (group == 1) return;
  table.weigh(Mistake::first_head_of_group, 1.03,
              "all query heads of a group have the first one's queries",
              [=](QueryRow& row) { row.ask_as(row.head / group * group, row.position); });
  if (kv == 1) return;
  table.weigh(
      Mistake::kv_head_mapping, 1,
      "query head h reads kv head h mod G (interleaved), and not h / group",
      [=](QueryRow& row) { row.read_kv_head(row.head / heads * kv + row.head % heads % kv); });
  table.weigh(Mistake::kv_head_mapping, 1, "query head h reads kv head G - 1 - h / group",
              [=](QueryRow& row) {
                row.read_kv_head(row.head / heads * kv + kv - 1 - row.head % heads / group);
              });
}

void add_other_rows(const Knowledge& known, Hypotheses& table) {
  for (const Belief& source : wrong_sources(known))
    for (const bool moves_lse : {true, false})
      table.merge(Mistake::rows_of_other_rank, source.penalty + (moves_lse ? 0 : 0.001), source.how,
                  [&known, source, moves_lse](const QueryRow& row, Guess& guess) {
                    guess = right_row(known, row.head, source.positions[row.position]);
                    guess.dq.reset();
                    if (!moves_lse) guess.lse.reset();
                  });
  // The queries of another rank under the own mask.
  const int n = known.ranks();
  for (const int distance : std::set<int>{1, n - 1})
    if (n > 1)
      table.weigh(Mistake::rows_of_other_rank, 1.05,
                  fmt::format("the queries are those of rank r {} 1, under the mask of rank r",
                              distance == 1 ? '+' : '-'),
                  [source = rows_of_rank_beyond(known.deal, distance)](QueryRow& row) {
                    row.ask_as(row.head, source[row.position]);
                  });
  const Index end = known.seqlen() / n * n;
  if (end < known.seqlen())
    table.weigh(Mistake::rows_dropped, 1,
                fmt::format("the rows from {} on are left out, as {} ranks don't divide the length",
                            end, n),
                [end](QueryRow& row) {
                  const Index from = row.position < end ? end : 0;
                  std::fill(row.counts.begin() + from, row.counts.end(), 0.0);
                });
}

// Blocks that are attended in place of others, under the mask of those that should be there.
void add_other_keys(const Knowledge& known, Hypotheses& table) {
  const int n = known.ranks();
  if (n < 2) return;
  enum Of { k = 1, v = 2, k_and_v = 3 };
  const auto add = [&](Mistake mistake, double penalty, const std::string& how, Of of,
                       auto owner_of) {
    table.weigh(mistake, penalty, how, [&known, of, owner_of](QueryRow& row) {
      std::vector<Index> source;
      for (Index j = 0; j < known.seqlen(); ++j) {
        const Place& place = known.deal.places[j];
        const auto& rows = known.deal.positions[owner_of(row.place.rank, place.rank)];
        // A shorter block's last row stands where it has none.
        source.push_back(rows.empty() ? j : rows[min_of(place.local_row, std::ssize(rows) - 1)]);
      }
      if (of & v) row.v_from = source;
      if (of & k) row.k_from = std::move(source);
      if (of & k) row.rescore();
    });
  };
  for (const Of of : {v, k})
    for (const int by : std::set<int>{n - 1, 1})
      for (const bool wraps : {false, true})
        add(Mistake::k_and_v_of_different_steps, wraps ? 1.01 : 1,
            fmt::format("{} is that of the {} step{}", of == v ? "V" : "K",
                        by == 1 ? "previous" : "next",
                        wraps     ? ""
                        : by == 1 ? ", except in the first one"
                                  : ", except in the last one"),
            of, [=](int rank, int owner) {
              const bool is_end = owner == (by == 1 ? rank : (rank + 1) % n);
              return is_end && !wraps ? owner : (owner + by) % n;
            });
  add(Mistake::wrong_neighbour, 1.04,
      "blocks come from the next rank, and are taken for those of the rank before", k_and_v,
      [=](int rank, int owner) { return (2 * rank - owner + n) % n; });
  add(Mistake::rows_of_other_rank, 1.05,
      "every step attends the own block, under the masks of the others", k_and_v,
      [](int rank, int) { return rank; });
  for (const int by : std::set<int>{1, n - 1}) {
    add(Mistake::rows_of_other_rank, 1.05,
        fmt::format("every step attends the block of owner o {} 1, under the mask of o",
                    by == 1 ? '+' : '-'),
        k_and_v, [=](int, int owner) { return (owner + by) % n; });
    for (int other = 0; other < n; ++other)
      add(Mistake::rows_of_other_rank, 1.1,
          fmt::format("the block of owner {} stands in for that of owner {}", (other + by) % n,
                      other),
          k_and_v, [=](int, int owner) { return owner == other ? (owner + by) % n : owner; });
  }
}

// Angles of other positions: turning a row on from its true position to the wrong one.
void add_rope(const Knowledge& known, Hypotheses& table) {
  if (known.width() % 2 != 0) return;
  enum Of { q = 1, k = 2, q_and_k = 3 };
  const auto add = [&](double base, RopePairs pairs, const Belief& belief, Of of) {
    const auto turned = std::make_shared<TurnedKeys>();
    const auto turn = [=, &known](double* row, Index from, Index position) {
      if (position != from)
        rotate_row(row, known.width(), static_cast<double>(position - from), base, pairs);
    };
    table.weigh(Mistake::rope_positions, of == q_and_k ? 1 : 1.05,
                fmt::format("the rotary angles of {} are those of {} (base {:g})",
                            of == q_and_k ? "Q and K"
                            : of == q     ? "Q"
                                          : "K",
                            belief.how, base),
                [=, &known, positions = belief.positions](QueryRow& row) {
                  if (of & q) turn(row.q.data(), row.position, positions[row.position]);
                  if ((of & k) && turned->kv_head != row.kv_head) {
                    *turned = {row.kv_head, {row.keys, row.keys + known.seqlen() * known.width()}};
                    for (Index j = 0; j < known.seqlen(); ++j)
                      turn(turned->keys.data() + j * known.width(), j, positions[j]);
                  }
                  if (of & k) row.keys = turned->keys.data();
                  row.rescore();
                });
    table.back().turned = turned;
  };
  for (const double base : known.options.rope_bases)
    for (const RopePairs pairs : {RopePairs::halves, RopePairs::neighbours})
      for (const Belief& belief : wrong_positions(known))
        for (const Of of : {q_and_k, q, k}) add(base, pairs, belief, of);
}

}  // namespace

void add_forward(const Knowledge& known, Hypotheses& table) {
  add_blocks(known, table);
  add_unscaled_merges(table);
  add_sums(known, table);
  add_roundings(known, known.ranks(), 0, table);
  add_roundings(known, known.ranks() - 1, 0, table);
  add_signs(table);
  add_scales(known, table);
  add_masks(known, table);
  add_kv_heads(known, table);
  add_other_rows(known, table);
  add_other_keys(known, table);
  add_rope(known, table);
}

void add_hop_roundings(const Knowledge& known, Hypotheses& table) {
  const int hops = known.ranks() - 1;
  for (int first = 0; first < (hops < 16 ? hops : 1); ++first)
    add_roundings(known, hops, first, table);
}

}  // namespace ringscope
