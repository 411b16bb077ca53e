// The hypotheses that change out and lse. Most are small changes to the parts of a row by KV owner, to
// how often each key counts, or to the scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

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

// Merges in ring order that lack the factors exp(m_old - m) or exp(m_new - m).
void add_unscaled_merges(Hypotheses& table) {
  struct Lacks {
    bool old_acc, old_l, new_acc, new_l;
    const char* how;
  };
  enum Lse { merged, right, of_last_maximum };
  for (const Lacks& lacks :
       {Lacks{true, true, true, true, "partial results are added as if their maxima were equal"},
        Lacks{true, true, false, false, "what was accumulated is not rescaled to a new maximum"},
        Lacks{true, false, false, false, "the output is not rescaled to a new maximum"},
        Lacks{false, true, false, false, "row_sum is not rescaled to a new maximum"},
        Lacks{true, false, true, false, "partial outputs are added without their maxima"},
        Lacks{false, false, true, true, "a block's partial result is not rescaled to the maximum"},
        Lacks{false, true, false, true, "partial row sums are added without their maxima"}})
    for (const Order order : {Order::down, Order::up, Order::by_owner})
      for (const Lse lse : {merged, right, of_last_maximum})
        table.merge(
            Mistake::merge_without_max, 1 + 0.02 * (lse != merged) + 0.03 * (order != Order::down),
            lacks.how + std::string(suffix_of(order)), [=](const QueryRow& row, Guess& guess) {
              double last = 0, l = 0;
              Values acc(row.q.size());
              const double m =
                  in_ring_order(row, order, [&](int, const RowPart& part, double was, double is) {
                    const double keeps = lacks.old_acc ? 1 : was, adds = lacks.new_acc ? 1 : is;
                    l = l * (lacks.old_l ? 1 : was) + part.l * (lacks.new_l ? 1 : is);
                    for (std::size_t c = 0; c < acc.size(); ++c)
                      acc[c] = acc[c] * keeps + part.acc[c] * adds;
                    last = part.m;
                  });
              finish_row(m, l, acc, guess);
              if (lse == of_last_maximum) guess.lse = last + std::log(l);
              if (lse == right) guess.lse.reset();
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
        std::ranges::fill(out, 0.0);
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
                  const bool is_met = std::ranges::any_of(
                      row.owner_parts, [](const RowPart& part) { return part.l == 0; });
                  if (!is_met || !std::isfinite(*row.merged().lse)) return;
                  guess.out = Values(row.q.size(), kNan);
                  if (of_lse) guess.lse = kNan;
                });
  for (const auto& [how, divides, all] :
       {std::tuple{"out is the sum of the blocks' outputs", false, true},
        std::tuple{"out is the mean of the blocks' outputs", true, true},
        std::tuple{"out is the mean of the outputs of the blocks with keys", true, false}})
    add(Mistake::merge_without_weights, 1, how,
        [divides = divides, all = all](const QueryRow& row, Values& out, double) {
          std::ranges::fill(out, 0.0);
          double parts = all ? static_cast<double>(row.owner_parts.size()) : 0;
          for (const RowPart& part : row.owner_parts) {
            if (part.l == 0) continue;
            add_to(out, 1 / part.l, part.acc);
            if (!all) ++parts;
          }
          if (divides) out = scaled(out, 1 / std::max(parts, 1.0));
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
  const double kStep = std::pow(2.0, 1.0 / 6);
  // The factor is shared with diagnose(), which comes nearer to it.
  const auto add_scale = [&](double factor, const std::string& name, double penalty) {
    const auto scale = std::make_shared<double>(factor);
    table.weigh(Mistake::scale, penalty,
                name.empty() ? fmt::format("the softmax scale is not {:.4g}, but", right)
                             : fmt::format("the softmax scale is {}{:.4g}, and not {:.4g}", name,
                                           factor, right),
                [scale](QueryRow& row) {
                  for (double& score : row.scores) score *= *scale / row.scale;
                  row.scale = *scale;
                });
    if (!name.empty()) return;
    table.back().near = scale;
    table.back().near_by = kStep;
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
  for (int step = -24; step <= 24; ++step) add_scale(right * std::pow(kStep, step), "", 1.02);
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
  // The heads of another rank, as an all-to-all in another order gives them.
  const Index heads = known.problem.shape.num_heads;
  for (Index by = 1; by < min_of(heads, 64); ++by)
    table.merge(Mistake::rows_of_other_rank, 1.06,
                fmt::format("the rows of head h are those of head (h + {}) mod {}", by, heads),
                [=, &known](const QueryRow& row, Guess& guess) {
                  const Index first = row.head / heads * heads;
                  guess = right_row(known, first + (row.head - first + by) % heads, row.position);
                  guess.dq.reset();
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
}

void add_readings(const Knowledge& known, Hypotheses& table) {
  for (const Reading& reading : wrong_readings(known))
    table.weigh(reading.mistake, reading.penalty, reading.how, [reading](QueryRow& row) {
      const Index rows = row.known->seqlen(), query = row.head * rows + row.position,
                  first = row.kv_head * rows;
      std::vector<Index> from;
      for (Index j = 0; j < rows; ++j) from.push_back(reading.from(query, first + j) - first);
      if (reading.of_v) row.v_from = from;
      if (!reading.of_k) return;
      row.k_from = std::move(from);
      row.rescore();
    });
}

// Heads and rows that have changed places: in the lse that blocks are merged by, in what is stored, and
// in what a kernel takes for the rows.
void add_swapped_axes(const Knowledge& known, Hypotheses& table) {
  const AttentionShape& shape = known.problem.shape;
  const Index heads = shape.num_heads, rows = known.seqlen();
  if (heads == 1) return;
  for (const bool back : {false, true}) {
    if (back && heads == rows) continue;
    const auto swapped = [=, &known](const QueryRow& row) {
      return swapped_row(known, row.head * rows + row.position, heads, back);
    };
    for (const auto& [sign, keeps_lse] : {std::pair{1, false}, {1, true}, {-1, true}})
      table.merge(
          Mistake::lse_axes_swapped, keeps_lse ? 1.01 : 1,
          fmt::format("blocks are merged by an lse whose heads and rows are swapped{}",
                      sign > 0 ? "" : ", with the wrong sign"),
          [=, &known, sign = sign, keeps_lse = keeps_lse](const QueryRow& row, Guess& guess) {
            const Index at = swapped(row);
            const QueryRow other = query_row(known, at / rows, at % rows, false);
            QueryRow changed = row;
            for (std::size_t o = 0; o < row.owner_parts.size(); ++o) {
              RowPart& part = changed.owner_parts[o];
              const RowPart& by = other.owner_parts[o];
              part.acc = scaled(part.acc, part.l > 0 ? 1 / part.l : 1);
              part.m = by.l > 0 ? sign * (by.m + std::log(by.l)) : kMinusInf;
              part.l = by.l > 0 ? 1 : 0;
            }
            guess = changed.merged();
            if (keeps_lse) guess.lse.reset();
          });
    for (const bool of_out : {false, true})
      for (const bool of_lse : {true, false})
        if (of_out || of_lse)
          table.merge(of_out ? Mistake::heads_and_rows_swapped : Mistake::lse_axes_swapped, 1.02,
                      of_out ? "out is stored with heads and rows swapped"
                             : "the lse has heads and rows swapped",
                      [=, &known](const QueryRow& row, Guess& guess) {
                        const Index at = swapped(row);
                        guess = right_row(known, at / rows, at % rows);
                        guess.dq.reset();
                        if (!of_out) guess.out.reset();
                        if (!of_lse) guess.lse.reset();
                      });
  }
  if (shape.group_size() > 1) return;
  for (const bool is_causal : {true, false})
    table.weigh(Mistake::heads_and_rows_swapped, 1.01,
                fmt::format("each position attends over its heads{}",
                            is_causal ? ", each the ones before it" : ""),
                [=](QueryRow& row) {
                  // A head stands at the key of its number.
                  const Index head = row.head % heads, met = is_causal ? head + 1 : heads;
                  row.k_from.assign(rows, 0);
                  row.counts.assign(rows, 0);
                  for (Index j = 0; j < min_of(met, rows); ++j) {
                    row.k_from[j] = (j - head) * rows + row.position;
                    row.counts[j] = 1;
                  }
                  row.v_from = row.k_from;
                  row.rescore();
                });
}

// cap x tanh(score / cap), with a cap that is found.
void add_softcaps(Hypotheses& table) {
  for (double cap = kLeastCap; cap <= kMostCap; cap *= 2) {
    const auto near = std::make_shared<double>(cap);
    table.weigh(Mistake::softcap, 1.02, "the scores are capped by cap x tanh(score / cap), cap",
                [near](QueryRow& row) {
                  for (double& score : row.scores) score = *near * std::tanh(score / *near);
                });
    table.back().near = near;
    table.back().near_by = 2;
  }
}

// Rows whose numbers don't fit 16 bits, which are those of the first ones again.
void add_wrapped_rows(const Knowledge& known, Hypotheses& table) {
  for (const Index end : kIndexEnds)
    if (end < known.seqlen())
      table.merge(Mistake::index_overflow, 1,
                  fmt::format("the rows from {} on are the first ones again", end),
                  [=, &known](const QueryRow& row, Guess& guess) {
                    guess = right_row(known, row.head, row.position % end);
                  });
}

// Angles of other positions, of pairs of values that lie half a row apart or are neighbours.
void add_rope(const Knowledge& known, Hypotheses& table) {
  if (known.width() % 2 != 0) return;
  enum Of { q = 1, k = 2, q_and_k = 3 };
  const auto add = [&](double base, bool of_neighbours, const Belief& belief, Of of) {
    const auto turned = std::make_shared<TurnedKeys>();
    // Turn a row on from a position to another one: pair x by an angle of base^(-2x / head_dim) each.
    const auto turn = [=, half = known.width() / 2](double* row, Index from, Index to) {
      double angle = static_cast<double>(to - from);
      const double step = std::pow(base, -1.0 / static_cast<double>(half));
      for (Index x = 0; x < half && to != from; ++x, angle *= step) {
        double& a = row[of_neighbours ? 2 * x : x];
        double& b = row[of_neighbours ? 2 * x + 1 : x + half];
        const double cosine = std::cos(angle), sine = std::sin(angle);
        std::tie(a, b) = std::pair(a * cosine - b * sine, a * sine + b * cosine);
      }
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
    for (const bool of_neighbours : {false, true})
      for (const Belief& belief : wrong_positions(known))
        for (const Of of : {q_and_k, q, k}) add(base, of_neighbours, belief, of);
}

}  // namespace

void add_forward(const Knowledge& known, Hypotheses& table) {
  add_unscaled_merges(table);
  add_sums(known, table);
  add_roundings(known, known.ranks(), 0, table);
  add_roundings(known, known.ranks() - 1, 0, table);
  add_signs(table);
  add_scales(known, table);
  add_kv_heads(known, table);
  add_other_rows(known, table);
  add_readings(known, table);
  add_swapped_axes(known, table);
  add_softcaps(table);
  add_wrapped_rows(known, table);
  add_sinks(known, {}, true, table);
  add_rope(known, table);
  add_meetings(known, table);
}

void add_hop_roundings(const Knowledge& known, Hypotheses& table) {
  const int hops = known.ranks() - 1;
  for (int first = 0; first < (hops < 16 ? hops : 1); ++first)
    add_roundings(known, hops, first, table);
}

}  // namespace ringscope
