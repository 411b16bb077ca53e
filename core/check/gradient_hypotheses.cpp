// The table of mistakes that leave out and lse right and change gradients: in what a rank adds to
// the travelling dK and dV, in where they end, and in dQ.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

Values times(double factor, const double* values, Index width) {
  return scaled(Values(values, values + width), factor);
}

class GradientTable : public HypothesisTable {
 public:
  explicit GradientTable(const Knowledge& known) : HypothesisTable(known) {}

  std::vector<Hypothesis> all() {
    add_hops();
    add_shares();
    add_factors();
    add_places();
    add_roundings(known_.ranks());
    add_heads();
    add_deltas();
    add_unequal_shards();
    return std::move(table_);
  }
  std::vector<Hypothesis> roundings() {
    add_roundings(known_.ranks() - 1);
    return std::move(table_);
  }

 private:
  using HypothesisTable::add;
  void add(Hypothesis hypothesis) { table_.push_back(std::move(hypothesis)); }

  Values right(const Values& tensor, Index head, Index position) const {
    return times(1, known_.row_of(tensor, head, position), known_.width());
  }

  // Return whether the query head with the share h of a row belongs to the row's kv head.
  bool is_own(const KeyRow& row, std::size_t h) const {
    return row.heads[h] / known_.problem.shape.group_size() == row.kv_head;
  }

  // Set dk and dv of a row to the sum of the shares of the heads for which takes(h) holds, each
  // times factor(rank).
  template <class Takes, class Factor>
  void sum_shares(const KeyRow& row, Takes&& takes, Factor&& factor, Guess& guess) const {
    guess.dk = guess.dv = Values(known_.width());
    for (std::size_t h = 0; h < row.heads.size(); ++h)
      if (takes(h))
        for (int rank = 0; rank < known_.ranks(); ++rank) {
          add_to(*guess.dk, factor(rank), row.dk[h][rank]);
          add_to(*guess.dv, factor(rank), row.dv[h][rank]);
        }
  }
  template <class Factor>
  void sum_shares(const KeyRow& row, Factor&& factor, Guess& guess) const {
    sum_shares(
        row, [&](std::size_t h) { return is_own(row, h); }, factor, guess);
  }

  // dK and dV of another owner, because the last hop is missing or one too many is made; or without
  // the share of the rank that the missing hop would have reached.
  void add_hops() {
    const int n = known_.ranks();
    if (n < 2) return;
    for (const int by : std::set<int>{1, n - 1}) {
      add({Mistake::gradient_one_hop_short,
           by == 1 ? "rank r holds dK and dV of owner r + 1, because the hop home is missing"
                   : "rank r holds dK and dV of owner r - 1, one hop beyond home",
           {},
           [this, by, n](const KeyRow& row, Guess& guess) {
             const auto& rows = known_.deal.positions[(row.place.rank + by) % n];
             // A shorter chunk leaves its last row empty.
             guess.dk = guess.dv = Values(known_.width());
             if (row.place.local_row >= std::ssize(rows)) return;
             const Index from = rows[row.place.local_row];
             guess.dk = right(known_.oracle.dk, row.kv_head, from);
             guess.dv = right(known_.oracle.dv, row.kv_head, from);
           }});
    }
    for (int step = 0; step < n; ++step)
      add({Mistake::gradient_one_hop_short,
           fmt::format("dK and dV lack the share of the rank {} after their owner",
                       step == 0 ? "0 hops" : fmt::format("{} hop{}", step, step == 1 ? "" : "s")),
           {},
           [this, step, n](const KeyRow& row, Guess& guess) {
             const int lacking = (row.place.rank + step) % n;
             sum_shares(
                 row, [&](int rank) { return rank == lacking ? 0 : 1; }, guess);
           },
           step == n - 1 ? 1 : 1.02});
    // The share that comes last in the ring, or by the ranks' numbers; or last but for empty ones.
    for (const bool in_ring : {true, false})
      for (const bool skips_empty : {false, true})
        for (const bool dv : {false, true})
          add({Mistake::dk_last_share_only,
               fmt::format("{} hold the share of the last rank{} alone",
                           dv ? "dK and dV" : "dK's rows", skips_empty ? " that has one" : ""),
               {},
               [this, n, in_ring, skips_empty, dv](const KeyRow& row, Guess& guess) {
                 int last = -1;
                 for (int step = n - 1; step >= 0 && last < 0; --step) {
                   const int rank = in_ring ? (row.place.rank + step) % n : step;
                   const auto is_met = [&](Index i) { return known_.mask.allows(i, row.position); };
                   const auto& rows = known_.deal.positions[rank];
                   if (!skips_empty || std::any_of(rows.begin(), rows.end(), is_met)) last = rank;
                 }
                 sum_shares(
                     row, [&](int rank) { return rank == last ? 1 : 0; }, guess);
                 if (!dv) guess.dv.reset();
               },
               (in_ring ? 1 : 1.005) + 0.001 * skips_empty});
  }

  // dS = P * dP, without the rowsum(dO * O) that is taken from dP.
  void add_deltas() {
    add({Mistake::delta_missing, "dS lacks rowsum(dO * O)",
         [](const QueryRow& row, Guess& guess) {
           guess.dq = row.dq_delta;
           for (const Values& share : row.dq_shares) add_to(*guess.dq, 1, share);
         },
         [this](const KeyRow& row, Guess& guess) {
           sum_shares(
               row, [](int) { return 1; }, guess);
           guess.dv.reset();
           for (std::size_t h = 0; h < row.heads.size(); ++h)
             if (is_own(row, h)) add_to(*guess.dk, 1, row.dk_delta[h]);
         }});
  }

  // Every rank's rows together have the same weight in the loss.
  void add_unequal_shards() {
    const auto factor = [this](int rank) {
      const auto rows = static_cast<double>(known_.deal.positions[rank].size());
      return rows > 0 ? static_cast<double>(known_.seqlen()) / (rows * known_.ranks()) : 0;
    };
    if (known_.seqlen() % known_.ranks() == 0 && factor(0) == 1 && factor(known_.ranks() - 1) == 1)
      return;
    add({Mistake::unequal_shards, "every rank has the same weight in the loss, whatever its rows",
         [this, factor](const QueryRow& row, Guess& guess) {
           guess.dq =
               times(factor(row.place.rank),
                     known_.row_of(known_.oracle.dq, row.head, row.position), known_.width());
         },
         [this, factor](const KeyRow& row, Guess& guess) { sum_shares(row, factor, guess); }});
  }

  void add_shares() {
    for (const auto& [mistake, count, word] :
         {std::tuple{Mistake::missing_block, 0, "missing"},
          std::tuple{Mistake::doubled_block, 2, "counted twice"}})
      for (int strange = 0; strange < known_.ranks(); ++strange)
        add({mistake,
             fmt::format("in the gradients, rank {}'s share of dK and dV, or the block of owner {} "
                         "in dQ, is {}",
                         strange, strange, word),
             [strange, count = count](const QueryRow& row, Guess& guess) {
               if (row.dq_shares.empty()) return;
               guess.dq = Values(row.dq_shares.front().size());
               for (int owner = 0; owner < std::ssize(row.dq_shares); ++owner)
                 add_to(*guess.dq, owner == strange ? count : 1, row.dq_shares[owner]);
             },
             [this, strange, count = count](const KeyRow& row, Guess& guess) {
               sum_shares(
                   row, [&](int rank) { return rank == strange ? count : 1; }, guess);
             },
             1.05});
  }

  // Every gradient times a factor, or dQ and dK, or each alone.
  void add_factors() {
    const double scale = known_.problem.softmax_scale;
    const auto ranks = static_cast<double>(known_.ranks());
    const auto group = static_cast<double>(known_.problem.shape.group_size());
    const auto add_factor = [&](Mistake mistake, double factor, bool dq, bool dk, bool dv,
                                const std::string& how, double penalty) {
      if (factor == 1) return;
      Hypothesis h{mistake, how, {}, {}, penalty};
      if (dq)
        h.query = [this, factor](const QueryRow& row, Guess& guess) {
          guess.dq = times(factor, known_.row_of(known_.oracle.dq, row.head, row.position),
                           known_.width());
        };
      if (dk || dv)
        h.key = [this, factor, dk, dv](const KeyRow& row, Guess& guess) {
          const auto of = [&](const Values& tensor) {
            return times(factor, known_.row_of(tensor, row.kv_head, row.position), known_.width());
          };
          if (dk) guess.dk = of(known_.oracle.dk);
          if (dv) guess.dv = of(known_.oracle.dv);
        };
      add(std::move(h));
    };
    for (const auto& [count, of] :
         {std::pair{ranks, "ranks"}, std::pair{group, "heads of a group"}}) {
      const std::string how = fmt::format("are divided by the number of {} ({:g})", of, count);
      add_factor(Mistake::mean_instead_of_sum, 1 / count, false, true, true, "dK and dV " + how, 1);
      add_factor(Mistake::mean_instead_of_sum, 1 / count, true, true, true, "all gradients " + how,
                 1.01);
      add_factor(Mistake::mean_instead_of_sum, 1 / count, true, false, false, "dQ's sums " + how,
                 1.01);
    }
    for (const auto& [factor, how] : {std::pair{1 / scale, "lack the softmax scale"},
                                      std::pair{scale, "have the softmax scale twice"},
                                      std::pair{std::log(2.0), "have a factor ln(2)"},
                                      std::pair{1 / std::log(2.0), "have a factor log2(e)"}}) {
      add_factor(Mistake::scale, factor, true, true, false, fmt::format("dQ and dK {}", how), 1.02);
    }
  }

  void add_places() {
    for (const auto& [how, source, penalty] : wrong_sources(known_)) {
      add({Mistake::rows_of_other_rank, "in the gradients, " + how,
           [this, source = source](const QueryRow& row, Guess& guess) {
             guess.dq = right_row(known_, row.head, source[row.position]).dq;
           },
           [this, source = source](const KeyRow& row, Guess& guess) {
             guess.dk = right(known_.oracle.dk, row.kv_head, source[row.position]);
             guess.dv = right(known_.oracle.dv, row.kv_head, source[row.position]);
           },
           penalty * 1.05});
    }
  }

  // Travelling sums of 16 bits, which gather a share a hop, for each head or for the whole group.
  // The first `roundings` sums are rounded.
  void add_roundings(int roundings) {
    const int n = known_.ranks();
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const bool by_head : {false, true}) {
        if (by_head && known_.problem.shape.group_size() == 1) continue;
        add({Mistake::rounds_each_hop,
             fmt::format("the travelling dK and dV, and dQ, are rounded to {} at every hop",
                         name_of(dtype)),
             [dtype, n, roundings](const QueryRow& row, Guess& guess) {
               if (row.dq_shares.empty()) return;
               guess.dq = Values(row.dq_shares.front().size());
               for (int step = 0; step < n; ++step) {
                 add_to(*guess.dq, 1, row.dq_shares[owner_at(row.place.rank, step, n)]);
                 if (step >= roundings) continue;
                 for (double& x : *guess.dq) x = stored_as(dtype, x);
               }
             },
             [this, dtype, by_head, n, roundings](const KeyRow& row, Guess& guess) {
               guess.dk = guess.dv = Values(known_.width());
               const std::size_t heads = row.heads.size(), together = by_head ? 1 : heads;
               const auto gather = [&](const std::vector<std::vector<Values>>& shares,
                                       Values& into) {
                 for (std::size_t first = 0; first < heads; first += together) {
                   Values sum(into.size());
                   for (int step = 0; step < n; ++step) {
                     for (std::size_t h = first; h < first + together; ++h)
                       if (is_own(row, h)) add_to(sum, 1, shares[h][(row.place.rank + step) % n]);
                     if (step >= roundings) continue;
                     for (double& x : sum) x = stored_as(dtype, x);
                   }
                   add_to(into, 1, sum);
                 }
               };
               gather(row.dk, *guess.dk);
               gather(row.dv, *guess.dv);
             },
             by_head ? 1.02 : 1});
      }
  }

  // The gradients of query heads, of which the first alone counts, or which are added up for the kv
  // head h mod G.
  void add_heads() {
    const AttentionShape& shape = known_.problem.shape;
    if (shape.group_size() == 1) return;
    for (const bool dv : {true, false})
      add({Mistake::first_head_of_group,
           fmt::format("{} of the first query head of a group alone",
                       dv ? "dK and dV are" : "dK is"),
           {},
           [this, &shape, dv](const KeyRow& row, Guess& guess) {
             const auto is_first = [&](std::size_t h) {
               return is_own(row, h) && row.heads[h] % shape.group_size() == 0;
             };
             sum_shares(
                 row, is_first, [](int) { return 1; }, guess);
             if (!dv) guess.dv.reset();
           }});
    if (shape.num_heads_kv == 1) return;
    add({Mistake::kv_head_mapping,
         "dK and dV of query head h are added to kv head h mod G, and not h / group",
         {},
         [this, &shape](const KeyRow& row, Guess& guess) {
           const auto reads = [&](std::size_t h) {
             return row.heads[h] % shape.num_heads % shape.num_heads_kv ==
                    row.kv_head % shape.num_heads_kv;
           };
           sum_shares(
               row, reads, [](int) { return 1; }, guess);
         }});
  }
};

}  // namespace

std::vector<Hypothesis> gradient_rounding_hypotheses(const Knowledge& known) {
  return hypotheses_of(known, &GradientTable::roundings);
}
std::vector<Hypothesis> gradient_hypotheses(const Knowledge& known) {
  return hypotheses_of(known, &GradientTable::all);
}

}  // namespace ringscope
