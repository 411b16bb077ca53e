// The mistakes that leave out and lse right and change gradients: in what a rank adds to the travelling
// dK and dV, in where they end, and in dQ.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

const std::vector<Tensor> kAll{Tensor::dq, Tensor::dk, Tensor::dv}, kKv{Tensor::dk, Tensor::dv},
    kScaled{Tensor::dq, Tensor::dk}, kDqAlone{Tensor::dq}, kDkAlone{Tensor::dk};

// Return whether the query head of a share belongs to the row's kv head.
bool is_own(const KeyRow& row, Index head, Index group) { return head / group == row.kv_head; }

// Gradients that are other sums of the blocks' shares.
class Sums {
 public:
  Sums(const Knowledge& known, Hypotheses& table) : known_(known), table_(table) {}

  // Add that in the tensors `of` the share of a block with the query rows of `rank` and the keys of
  // `owner` counts weight(tensor, rank, owner, position of the gradient's row) times.
  template <class Weight>
  void add(Mistake mistake, double penalty, const std::string& how, const std::vector<Tensor>& of,
           const Weight& weight) const {
    add_of_heads(mistake, penalty, how, of, weight,
                 [group = known_.problem.shape.group_size()](const KeyRow& row, Index head) {
                   return is_own(row, head, group);
                 });
  }
  // Do so, of the query heads for which takes(row, head) holds.
  template <class Weight, class Takes>
  void add_of_heads(Mistake mistake, double penalty, const std::string& how,
                    const std::vector<Tensor>& of, const Weight& weight, const Takes& takes) const {
    Hypothesis& made = table_.add(mistake, penalty, how);
    const auto is_of = [of](Tensor tensor) {
      return std::find(of.begin(), of.end(), tensor) != of.end();
    };
    made.query = [=](const QueryRow& row, Guess& guess) {
      if (row.dq_shares.empty() || !is_of(Tensor::dq)) return;
      guess.dq = Values(row.q.size());
      for (int owner = 0; owner < std::ssize(row.dq_shares); ++owner)
        add_to(*guess.dq, weight(Tensor::dq, row.place.rank, owner, row.position),
               row.dq_shares[owner]);
    };
    made.key = [=](const KeyRow& row, Guess& guess) {
      const auto sum_of = [&](Tensor tensor, const std::vector<std::vector<Values>>& shares) {
        Values sum(shares[0][0].size());
        for (std::size_t h = 0; h < shares.size(); ++h)
          for (int rank = 0; rank < std::ssize(shares[h]) && takes(row, row.heads[h]); ++rank)
            add_to(sum, weight(tensor, rank, row.place.rank, row.position), shares[h][rank]);
        return sum;
      };
      if (is_of(Tensor::dk)) guess.dk = sum_of(Tensor::dk, row.dk);
      if (is_of(Tensor::dv)) guess.dv = sum_of(Tensor::dv, row.dv);
    };
  }
  void add_factor(Mistake mistake, double penalty, const std::string& how,
                  const std::vector<Tensor>& of, double factor) const {
    if (factor != 1)
      add(mistake, penalty, how, of, [factor](Tensor, int, int, Index) { return factor; });
  }

 private:
  const Knowledge& known_;
  Hypotheses& table_;
};

// Gradients of other rows; a source of -1 stands for zeros.
void add_places(const Knowledge& known, Mistake mistake, double penalty, const std::string& how,
                bool moves_dq, const std::vector<Index>& source, Hypotheses& table) {
  Hypothesis& made = table.add(mistake, penalty, how);
  if (moves_dq)
    made.query = [&known, source](const QueryRow& row, Guess& guess) {
      guess.dq = right_row(known, row.head, source[row.position]).dq;
    };
  made.key = [&known, source](const KeyRow& row, Guess& guess) {
    const Index from = source[row.position];
    guess.dk = guess.dv = Values(known.width());
    if (from < 0) return;
    guess.dk = known.copy_of(known.oracle.dk, row.kv_head, from);
    guess.dv = known.copy_of(known.oracle.dv, row.kv_head, from);
  };
}

// dK and dV of another owner, because the last hop is missing or one too many is made; or without the
// share of the rank that the missing hop would have reached; or with the last share alone.
void add_hops(const Knowledge& known, const Sums& sums, Hypotheses& table) {
  const int n = known.ranks();
  if (n < 2) return;
  const auto& deal = known.deal;
  for (const int by : std::set<int>{1, n - 1}) {
    std::vector<Index> source = rows_of_rank_beyond(deal, by);
    for (Index p = 0; p < std::ssize(source); ++p)
      if (source[p] == p) source[p] = -1;  // a shorter chunk leaves its last row empty
    add_places(known, Mistake::gradient_one_hop_short, 1,
               by == 1 ? "rank r holds dK and dV of owner r + 1, because the hop home is missing"
                       : "rank r holds dK and dV of owner r - 1, one hop beyond home",
               false, source, table);
  }
  for (int step = 0; step < n; ++step)
    sums.add(Mistake::gradient_one_hop_short, step == n - 1 ? 1 : 1.02,
             fmt::format("dK and dV lack the share of the rank {} hop{} after their owner", step,
                         step == 1 ? "" : "s"),
             kKv, [=](Tensor, int rank, int owner, Index) {
               return rank == (owner + step) % n ? 0 : 1;
             });
  // The share that comes last in the ring, or in one that turns the other way, or by the ranks'
  // numbers; or last but for empty ones.
  for (const Order order : {Order::up, Order::down, Order::by_owner})
    for (const bool skips_empty : {false, true}) {
      const auto is_last = [=, &known, &deal](Tensor, int rank, int owner, Index key) {
        int last = -1;
        for (int step = n - 1; step >= 0 && last < 0; --step) {
          const int at = met_at(order, owner, step, n);
          const auto is_met = [&](Index i) { return known.mask.allows(i, key); };
          const auto& rows = deal.positions[at];
          if (!skips_empty || std::any_of(rows.begin(), rows.end(), is_met)) last = at;
        }
        return rank == last ? 1 : 0;
      };
      for (const auto* of : {&kDkAlone, &kKv})
        sums.add(
            Mistake::dk_last_share_only, (order == Order::up ? 1 : 1.005) + 0.001 * skips_empty,
            fmt::format("{} hold the share of the last rank{} alone",
                        of == &kKv ? "dK and dV" : "dK's rows", skips_empty ? " that has one" : ""),
            *of, is_last);
    }
}

void add_factors(const Knowledge& known, const Sums& sums) {
  const double scale = known.problem.softmax_scale;
  for (const bool by_group : {false, true}) {
    const auto count =
        static_cast<double>(by_group ? known.problem.shape.group_size() : Index{known.ranks()});
    const auto add = [&](double penalty, const char* what, const std::vector<Tensor>& of) {
      sums.add_factor(Mistake::mean_instead_of_sum, penalty,
                      fmt::format("{} are divided by the number of {} ({:g})", what,
                                  by_group ? "heads of a group" : "ranks", count),
                      of, 1 / count);
    };
    add(1, "dK and dV", kKv);
    add(1.01, "all gradients", kAll);
    add(1.01, "dQ's sums", kDqAlone);
  }
  for (const auto& [factor, how] : {std::pair{1 / scale, "lack the softmax scale"},
                                    std::pair{scale, "have the softmax scale twice"},
                                    std::pair{std::log(2.0), "have a factor ln(2)"},
                                    std::pair{1 / std::log(2.0), "have a factor log2(e)"}})
    sums.add_factor(Mistake::scale, 1.02, fmt::format("dQ and dK {}", how), kScaled, factor);
}

// The gradients of query heads, of which the first alone counts, or which are added up for the kv head
// h mod G.
void add_heads(const Knowledge& known, const Sums& sums) {
  const AttentionShape& shape = known.problem.shape;
  const Index group = shape.group_size(), heads = shape.num_heads, kv = shape.num_heads_kv;
  const auto once = [](Tensor, int, int, Index) { return 1; };
  if (group == 1) return;
  for (const auto* of : {&kKv, &kDkAlone})
    sums.add_of_heads(Mistake::first_head_of_group, 1,
                      fmt::format("{} of the first query head of a group alone",
                                  of == &kKv ? "dK and dV are" : "dK is"),
                      *of, once, [=](const KeyRow& row, Index head) {
                        return is_own(row, head, group) && head % group == 0;
                      });
  if (kv == 1) return;
  sums.add_of_heads(
      Mistake::kv_head_mapping, 1,
      "dK and dV of query head h are added to kv head h mod G, and not h / group", kKv, once,
      [=](const KeyRow& row, Index head) { return head % heads % kv == row.kv_head % kv; });
}

// Add a backward pass whose queries see the keys that `made` allows, by the lse of a right forward
// pass, and that may lack rowsum(dO * O).
void add_backward_pass(const Knowledge& known, Hypothesis made, bool lacks_delta,
                       Hypotheses& table) {
  const auto ds_of = [lacks_delta](const PairWeight& weight) {
    return weight.ds + (lacks_delta ? weight.by_delta : 0);
  };
  made.weigh = {};
  made.query = [&known, ds_of, allows = made.allows](const QueryRow& row, Guess& guess) {
    if (row.dq_shares.empty()) return;
    guess.dq = Values(row.q.size());
    for (Index j = 0; j < known.seqlen(); ++j)
      if (allows(row.position, j))
        add_to(*guess.dq, ds_of(row.weights[j]), known.row_of(known.inputs.k, row.kv_head, j));
  };
  made.key = [&known, ds_of, allows = made.allows](const KeyRow& row, Guess& guess) {
    guess.dk = guess.dv = Values(known.width());
    for (std::size_t h = 0; h < row.heads.size(); ++h)
      for (Index i = 0; i < known.seqlen(); ++i) {
        const Index head = row.heads[h], group = known.problem.shape.group_size();
        if (!is_own(row, head, group) || !allows(i, row.position)) continue;
        add_to(*guess.dk, ds_of(row.weights[h][i]), known.row_of(known.inputs.q, head, i));
        add_to(*guess.dv, row.weights[h][i].p, known.row_of(known.inputs.dout, head, i));
      }
  };
  table.push_back(std::move(made));
}

}  // namespace

// Travelling sums of 16 bits, which gather a share a hop, for each head or for the whole group. The
// first `roundings` sums are rounded.
void add_gradient_roundings(const Knowledge& known, int roundings, Hypotheses& table) {
  const int n = known.ranks();
  const Index group = known.problem.shape.group_size();
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const bool by_head : {false, true}) {
      if (by_head && group == 1) continue;
      const auto round = [=](int step, Values& sum) {
        if (step >= roundings) return;
        for (double& x : sum) x = stored_as(dtype, x);
      };
      const auto gather = [=](const KeyRow& row, const std::vector<std::vector<Values>>& shares) {
        Values all(shares[0][0].size());
        const std::size_t heads = row.heads.size(), together = by_head ? 1 : heads;
        for (std::size_t first = 0; first < heads; first += together) {
          Values sum(all.size());
          for (int step = 0; step < n; ++step) {
            for (std::size_t h = first; h < first + together; ++h)
              if (is_own(row, row.heads[h], group))
                add_to(sum, 1, shares[h][(row.place.rank + step) % n]);
            round(step, sum);
          }
          add_to(all, 1, sum);
        }
        return all;
      };
      Hypothesis& made =
          table.add(Mistake::rounds_each_hop, by_head ? 1.02 : 1,
                    fmt::format("the travelling dK and dV, and dQ, are rounded to {} at every hop",
                                name_of(dtype)));
      made.query = [=](const QueryRow& row, Guess& guess) {
        if (row.dq_shares.empty()) return;
        guess.dq = Values(row.q.size());
        for (int step = 0; step < n; ++step) {
          add_to(*guess.dq, 1, row.dq_shares[owner_at(row.place.rank, step, n)]);
          round(step, *guess.dq);
        }
      };
      made.key = [=](const KeyRow& row, Guess& guess) {
        guess.dk = gather(row, row.dk);
        guess.dv = gather(row, row.dv);
      };
    }
}

void add_gradients(const Knowledge& known, Hypotheses& table) {
  const Sums sums(known, table);
  const int n = known.ranks();
  add_hops(known, sums, table);
  for (const int count : {0, 2})
    for (int strange = 0; strange < n; ++strange)
      for (const bool by_step : {false, true})
        sums.add(
            count == 0 ? Mistake::missing_block : Mistake::doubled_block, 1.05,
            fmt::format("in the gradients, the block of {} {} is {}",
                        by_step ? "ring step" : "rank (in dQ, of owner)", strange,
                        count == 0 ? "missing" : "counted twice"),
            kAll, [=](Tensor of, int rank, int owner, Index) {
              const int at = by_step ? (rank - owner + n) % n : of == Tensor::dq ? owner : rank;
              return at == strange ? count : 1;
            });
  add_factors(known, sums);
  for (const Belief& source : wrong_sources(known))
    add_places(known, Mistake::rows_of_other_rank, source.penalty * 1.05,
               "in the gradients, " + source.how, true, source.positions, table);
  add_gradient_roundings(known, n, table);
  add_heads(known, sums);
  Hypothesis no_delta{Mistake::delta_missing, 1, "dS lacks rowsum(dO * O)"};
  no_delta.allows = [&known](Index i, Index j) { return known.mask.allows(i, j); };
  add_backward_pass(known, no_delta, true, table);
  Hypotheses masks;
  add_masks(known, masks);
  for (Hypothesis& mask : masks) {
    mask.how = "in the backward pass, " + mask.how;
    mask.penalty *= 1.03;
    if (mask.allows) add_backward_pass(known, mask, false, table);
  }

  const auto share_of = [&known, n](int rank) {  // of a rank's row, if all have weight 1
    const auto rows = static_cast<double>(known.deal.positions[rank].size());
    return rows > 0 ? static_cast<double>(known.seqlen()) / (rows * n) : 0;
  };
  if (share_of(0) == 1 && share_of(n - 1) == 1) return;
  sums.add(Mistake::unequal_shards, 1,
           "every rank has the same weight in the loss, whatever its rows", kAll,
           [=](Tensor, int rank, int, Index) { return share_of(rank); });
}

}  // namespace ringscope
