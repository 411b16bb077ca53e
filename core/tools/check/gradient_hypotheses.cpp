// The mistakes that leave out and lse right and change gradients: in what a rank adds to the travelling
// dK and dV, in where they end, and in dQ.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
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
  using Weight = std::function<double(int, int, Index)>;
  using Takes = std::function<bool(const KeyRow&, Index)>;

  Sums(const Knowledge& known, Hypotheses& table) : table_(table) {
    takes_own_ = [group = known.problem.shape.group_size()](const KeyRow& row, Index head) {
      return is_own(row, head, group);
    };
  }

  // Add that in the tensors `of` the share of a block with the query rows of `rank` and the keys of
  // `owner` counts weight(rank, owner, position of the gradient's row) times; of dk and dv those
  // shares of query heads for which takes(row, head) holds.
  void add(Mistake mistake, double penalty, const std::string& how, const std::vector<Tensor>& of,
           const Weight& weight, const Takes& others = {}) const {
    Hypothesis& made = table_.add(mistake, penalty, how);
    const auto is_of = [of](Tensor tensor) {
      return std::find(of.begin(), of.end(), tensor) != of.end();
    };
    made.query = [=](const QueryRow& row, Guess& guess) {
      if (row.dq_shares.empty() || !is_of(Tensor::dq)) return;
      guess.dq = Values(row.q.size());
      for (int owner = 0; owner < std::ssize(row.dq_shares); ++owner)
        add_to(*guess.dq, weight(row.place.rank, owner, row.position), row.dq_shares[owner]);
    };
    made.key = [=, takes = others ? others : takes_own_](const KeyRow& row, Guess& guess) {
      const auto sum_of = [&](const std::vector<std::vector<Values>>& shares) {
        Values sum(shares[0][0].size());
        for (std::size_t h = 0; h < shares.size(); ++h)
          for (int rank = 0; rank < std::ssize(shares[h]) && takes(row, row.heads[h]); ++rank)
            add_to(sum, weight(rank, row.place.rank, row.position), shares[h][rank]);
        return sum;
      };
      if (is_of(Tensor::dk)) guess.dk = sum_of(row.dk);
      if (is_of(Tensor::dv)) guess.dv = sum_of(row.dv);
    };
  }
  void add_factor(Mistake mistake, double penalty, const std::string& how,
                  const std::vector<Tensor>& of, double factor) const {
    if (factor != 1) add(mistake, penalty, how, of, [factor](int, int, Index) { return factor; });
  }

 private:
  Hypotheses& table_;
  Takes takes_own_;
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
             kKv, [=](int rank, int owner, Index) { return rank == (owner + step) % n ? 0 : 1; });
  // The share that comes last in the ring, or in one that turns the other way, or by the ranks'
  // numbers; or last but for empty ones.
  for (const Order order : {Order::up, Order::down, Order::by_owner})
    for (const bool skips_empty : {false, true}) {
      const auto is_last = [=, &known, &deal](int rank, int owner, Index key) {
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
  sums.add_factor(Mistake::doubled_block, 1.02, "dQ is added up twice", kDqAlone, 2);
  sums.add_factor(Mistake::doubled_block, 1.02, "dK and dV are added up twice", kKv, 2);
  for (const auto& [factor, how] : {std::pair{1 / scale, "lack the softmax scale"},
                                    std::pair{scale, "have the softmax scale twice"},
                                    std::pair{std::numbers::ln2, "have a factor ln(2)"},
                                    std::pair{std::numbers::log2e, "have a factor log2(e)"}})
    sums.add_factor(Mistake::scale, 1.02, fmt::format("dQ and dK {}", how), kScaled, factor);
}

// The gradients of query heads, of which the first alone counts, or which are added up for the kv head
// h mod G.
void add_heads(const Knowledge& known, const Sums& sums) {
  const AttentionShape& shape = known.problem.shape;
  const Index group = shape.group_size(), heads = shape.num_heads, kv = shape.num_heads_kv;
  const auto once = [](int, int, Index) { return 1; };
  if (group == 1) return;
  for (const auto* of : {&kKv, &kDkAlone})
    sums.add(Mistake::first_head_of_group, 1,
             fmt::format("{} of the first query head of a group alone",
                         of == &kKv ? "dK and dV are" : "dK is"),
             *of, once, [=](const KeyRow& row, Index head) {
               return is_own(row, head, group) && head % group == 0;
             });
  if (kv == 1) return;
  sums.add(Mistake::kv_head_mapping, 1,
           "dK and dV of query head h are added to kv head h mod G, and not h / group", kKv, once,
           [=](const KeyRow& row, Index head) { return head % heads % kv == row.kv_head % kv; });
}

// Set what a backward pass makes in which queries meet keys as often as `pairs` says, by the lse of a
// right forward pass, which may be in another unit, and that may lack rowsum(dO * O).
void set_backward_pass(const Knowledge& known, const Hypothesis::Pairs& pairs, Hypothesis& made,
                       double lse_unit = 1, bool lacks_delta = false) {
  const auto ds_of = [lacks_delta](const PairWeight& weight) {
    return weight.ds + (lacks_delta ? weight.by_delta : 0);
  };
  // How often a pair counts that is met: exp(s - lse x unit) takes the place of exp(s - lse).
  const auto factor_of = [=, &known](Index head, Index query) {
    const double lse = known.oracle.lse[head * known.seqlen() + query];
    return lse_unit == 1 ? 1 : std::exp(std::min(lse * (1 - lse_unit), 80.0));
  };
  made.query = [=, &known](const QueryRow& row, Guess& guess) {
    if (row.dq_shares.empty()) return;
    guess.dq = Values(row.q.size());
    const double factor = factor_of(row.head, row.position);
    for (Index j = 0; j < known.seqlen(); ++j)
      if (const double times = factor * pairs(row.position, j); times > 0)
        add_to(*guess.dq, times * ds_of(row.weights[j]), row.keys + j * known.width());
  };
  made.key = [=, &known](const KeyRow& row, Guess& guess) {
    guess.dk = guess.dv = Values(known.width());
    for (Index i = 0; i < known.seqlen(); ++i) {
      const double met = pairs(i, row.position);
      for (std::size_t h = 0; h < row.heads.size() && met > 0; ++h) {
        const Index head = row.heads[h];
        if (!is_own(row, head, known.problem.shape.group_size())) continue;
        const PairWeight& weight = row.weights[h][i];
        const double times = met * factor_of(head, i);
        add_to(*guess.dk, times * ds_of(weight), known.row_of(known.inputs.q, head, i));
        add_to(*guess.dv, times * weight.p, known.row_of(known.inputs.dout, head, i));
      }
    }
  };
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
  add_factors(known, sums);
  for (const Belief& source : wrong_sources(known))
    add_places(known, Mistake::rows_of_other_rank, source.penalty * 1.05,
               "in the gradients, " + source.how, true, source.positions, table);
  add_gradient_roundings(known, n, table);
  add_heads(known, sums);
  const auto allowed = [&known](Index i, Index j) { return known.mask.allows(i, j); };
  struct Wrong {
    Mistake mistake;
    const char* how;
    double lse_unit = 1;
    bool lacks_delta = false;
  };
  for (const Wrong& way :
       {Wrong{Mistake::delta_missing, "dS lacks rowsum(dO * O)", 1, true},
        Wrong{Mistake::lse_in_log2,
              "the backward pass takes an lse in units of log 2 for a natural one",
              std::numbers::log2e},
        Wrong{Mistake::lse_in_log2,
              "the backward pass takes a natural lse for one in units of log 2",
              std::numbers::ln2}})
    set_backward_pass(known, allowed, table.add(way.mistake, 1, way.how), way.lse_unit,
                      way.lacks_delta);
  Hypotheses meetings;
  add_meetings(known, meetings);
  for (const Hypothesis& some : meetings) {
    if (some.weigh) continue;
    const std::string how = "in the backward pass, " + some.how;
    const double penalty = 1.03 * some.penalty;
    if (some.blocks)
      sums.add(some.mistake, penalty, how, kAll,
               [blocks = some.blocks](int rank, int owner, Index) { return blocks(rank, owner); });
    else
      set_backward_pass(known, some.pairs, table.add(some.mistake, penalty, how));
    table.back().mask = some.mask;
  }

  const auto share_of = [&known, n](int rank) {  // of a rank's row, if all have weight 1
    const auto rows = static_cast<double>(known.deal.positions[rank].size());
    return rows > 0 ? static_cast<double>(known.seqlen()) / (rows * n) : 0;
  };
  if (share_of(0) == 1 && share_of(n - 1) == 1) return;
  sums.add(Mistake::unequal_shards, 1,
           "every rank has the same weight in the loss, whatever its rows", kAll,
           [=](int rank, int, Index) { return share_of(rank); });
}

}  // namespace ringscope
