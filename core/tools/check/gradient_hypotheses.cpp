// The mistakes that leave out and lse right and change gradients: in what a rank adds to the travelling
// dK and dV, in where they end, and in dQ.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

const std::vector<Tensor> kAll{Tensor::dq, Tensor::dk, Tensor::dv}, kKv{Tensor::dk, Tensor::dv},
    kDkAlone{Tensor::dk};

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
    const auto is_of = [of](Tensor tensor) { return std::ranges::find(of, tensor) != of.end(); };
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
  for (const int step : near_numbers(n))
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
          if (!skips_empty || std::ranges::any_of(rows, is_met)) last = at;
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

// Factors that one rank alone may make; those of whole tensors are fitted.
void add_factors(const Knowledge& known, const Sums& sums) {
  for (const bool by_group : {false, true}) {
    const auto count =
        static_cast<double>(by_group ? known.problem.shape.group_size() : Index{known.ranks()});
    const char* const of = by_group ? "heads of a group" : "ranks";
    sums.add_factor(Mistake::mean_instead_of_sum, 1,
                    fmt::format("dK and dV are divided by the number of {} ({:g})", of, count), kKv,
                    1 / count);
    sums.add_factor(Mistake::sum_instead_of_mean, 1.01,
                    fmt::format("all gradients are times the number of {} ({:g})", of, count), kAll,
                    count);
  }
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

// How a backward pass differs from the right one. Rows are counted through all heads.
struct BackwardPass {
  Hypothesis::Pairs pairs{};  // how often they meet; empty: as the mask says
  // What becomes of a pair's weight, and whose K, Q and dO stand at a row.
  std::function<PairWeight(const PairWeight& right, Index query, Index key)> weigh{};
  std::function<Index(Index query, Index key)> k{};
  std::function<Index(Index query)> q{}, dout{};
};

void set_backward_pass(const Knowledge& known, const BackwardPass& pass, Hypothesis& made) {
  const auto times = [=, &known](Index i, Index j) {
    return pass.pairs ? pass.pairs(i, j) : known.mask.allows(i, j);
  };
  const auto weight = [=](const PairWeight& right, Index query, Index key) {
    return pass.weigh ? pass.weigh(right, query, key) : right;
  };
  made.query = [=, &known](const QueryRow& row, Guess& guess) {
    if (row.dq_shares.empty()) return;
    guess.dq = Values(row.q.size());
    const Index query = row.head * known.seqlen() + row.position;
    for (Index j = 0; j < known.seqlen(); ++j)
      if (const double met = times(row.position, j); met > 0) {
        const Index key = row.kv_head * known.seqlen() + j;
        add_to(*guess.dq, met * weight(row.weights[j], query, key).ds,
               known.row_of(known.inputs.k, 0, pass.k ? pass.k(query, key) : key));
      }
  };
  made.key = [=, &known](const KeyRow& row, Guess& guess) {
    guess.dk = guess.dv = Values(known.width());
    const Index key = row.kv_head * known.seqlen() + row.position;
    for (Index i = 0; i < known.seqlen(); ++i) {
      const double met = times(i, row.position);
      for (std::size_t h = 0; h < row.heads.size() && met > 0; ++h) {
        const Index head = row.heads[h], query = head * known.seqlen() + i;
        if (!is_own(row, head, known.problem.shape.group_size())) continue;
        const PairWeight made_of = weight(row.weights[h][i], query, key);
        add_to(*guess.dk, met * made_of.ds,
               known.row_of(known.inputs.q, 0, pass.q ? pass.q(query) : query));
        add_to(*guess.dv, met * made_of.p,
               known.row_of(known.inputs.dout, 0, pass.dout ? pass.dout(query) : query));
      }
    }
  };
}

// The maximum, lse and rowsum(dO * O) of each block of a query row alone, computed when they are first
// asked for.
class BlockStatistics {
 public:
  struct OfBlock {
    double m, lse, delta;
  };
  explicit BlockStatistics(const Knowledge& known) : known_(known) {}

  const std::vector<OfBlock>& of(Index query) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = rows_.find(query); found != rows_.end()) return found->second;
    }
    std::vector<OfBlock> blocks;
    const QueryRow row = query_row(known_, query / known_.seqlen(), query % known_.seqlen(), false);
    for (const RowPart& part : row.owner_parts)
      blocks.push_back(
          {part.m, part.m + std::log(part.l),
           dot_of(known_.row_of(known_.inputs.dout, 0, query), part.acc.data(), known_.width()) /
               part.l});
    const std::lock_guard lock(mutex_);
    return rows_.emplace(query, std::move(blocks)).first->second;
  }

 private:
  const Knowledge& known_;
  std::mutex mutex_;
  std::map<Index, std::vector<OfBlock>> rows_;
};

// exp() that stays finite where a statistic belongs to other scores.
double limited_exp(double x) { return std::exp(std::min(x, 80.0)); }

// Weights that come from statistics of a block alone: the step's, or the rank's own; and from a maximum.
void add_local_statistics(const Knowledge& known, Hypotheses& table) {
  // Every query row of a head has to be taken apart for one row of dK.
  constexpr double kMost = 4e10;
  const auto rows = static_cast<double>(known.seqlen());
  if (known.options.rows.empty() && rows * rows * static_cast<double>(known.width()) > kMost)
    return;
  const auto statistics = std::make_shared<BlockStatistics>(known);
  const auto right_lse = [&known](Index query) { return known.oracle.lse[query]; };
  for (const bool of_own : {false, true})
    for (const auto& [out, lse, words] :
         {std::tuple{true, false, "the out of {}, and dO by its share of the row sum"},
          std::tuple{true, true, "the out and lse of {}"},
          std::tuple{false, true, "the lse of {}"}})
      set_backward_pass(
          known,
          {.weigh =
               [=, &known, lse = lse, out = out, scale = known.problem.softmax_scale](
                   const PairWeight& right, Index query, Index key) {
                 const auto& places = known.deal.places;
                 const Index at = (of_own ? query : key) % known.seqlen();
                 const auto& own = statistics->of(query)[places[at].rank];
                 if (!(own.lse > kMinusInf)) return PairWeight{0, 0, 0};
                 const double by = lse ? limited_exp(right_lse(query) - own.lse) : 1,
                              ds = out ? right.ds + right.by_delta - right.p * own.delta * scale
                                       : right.ds;
                 return PairWeight{right.p * by, ds * by, 0};
               }},
          table.add(Mistake::local_statistics, of_own ? 1.01 : 1,
                    fmt::format(fmt::runtime(fmt::format("every step takes {}", words)),
                                of_own ? "the rank's own block" : "its own block")));
  set_backward_pass(known,
                    {.weigh =
                         [=](const PairWeight& right, Index query, Index) {
                           double m = kMinusInf;
                           for (const auto& block : statistics->of(query)) m = std::max(m, block.m);
                           const double by = limited_exp(right_lse(query) - m);
                           return PairWeight{right.p * by, right.ds * by, 0};
                         }},
                    table.add(Mistake::not_normalised, 1.01,
                              "the weights of the backward pass are exp(s - max)"));
}

// Other rows of K, V, Q or dO in the backward pass alone; and gradients that are stored with heads and
// rows swapped.
void add_backward_readings(const Knowledge& known, Hypotheses& table) {
  const AttentionShape& shape = known.problem.shape;
  const Index rows = known.seqlen(), heads = shape.num_heads;
  const auto add = [&](Mistake mistake, double penalty, const std::string& how,
                       const BackwardPass& of, const auto& v) {
    BackwardPass pass = of;
    pass.weigh = [=, &known](const PairWeight&, Index query, Index key) {
      const PairRows at{of.q ? of.q(query) : query, of.k ? of.k(query, key) : key,
                        v ? v(query, key) : key, of.dout ? of.dout(query) : query};
      const double delta = dot_of(known.row_of(known.inputs.dout, 0, at.dout),
                                  known.row_of(known.oracle.out, 0, query), known.width());
      return weight_of(known, at, known.oracle.lse[query], delta);
    };
    set_backward_pass(known, pass, table.add(mistake, penalty, "in the backward pass, " + how));
  };
  using From = std::function<Index(Index, Index)>;
  for (const Reading& reading : wrong_readings(known))
    add(reading.mistake, reading.penalty, reading.how, {.k = reading.of_k ? reading.from : From()},
        reading.of_v ? reading.from : From());
  for (const bool back : {false, true}) {
    if (heads == 1 || (back && heads == rows)) continue;
    const auto swapped = [=, &known](Index query) {
      return swapped_row(known, query, heads, back);
    };
    add(Mistake::heads_and_rows_swapped, 1.05, "Q has heads and rows swapped", {.q = swapped},
        From());
    add(Mistake::heads_and_rows_swapped, 1.05, "dO has heads and rows swapped", {.dout = swapped},
        From());
    for (const bool of_q : {true, false})
      for (const bool of_keys : {true, false}) {
        if (!of_q && !of_keys) continue;
        Hypothesis& made = table.add(Mistake::heads_and_rows_swapped, 1.05,
                                     "gradients are stored with heads and rows swapped");
        if (of_q)
          made.query = [=, &known](const QueryRow& row, Guess& guess) {
            if (row.dq_shares.empty()) return;
            const Index at = swapped(row.head * rows + row.position);
            guess.dq = right_row(known, at / rows, at % rows).dq;
          };
        if (of_keys)
          made.key = [=, &known, kv = shape.num_heads_kv](const KeyRow& row, Guess& guess) {
            const Index at = swapped_row(known, row.kv_head * rows + row.position, kv, back);
            guess.dk = known.copy_of(known.oracle.dk, 0, at);
            guess.dv = known.copy_of(known.oracle.dv, 0, at);
          };
      }
  }
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
  set_backward_pass(known,
                    {.weigh =
                         [](const PairWeight& right, Index, Index) {
                           return PairWeight{right.p, right.ds + right.by_delta, 0};
                         }},
                    table.add(Mistake::delta_missing, 1, "dS lacks rowsum(dO * O)"));
  for (const double unit : {std::numbers::log2e, std::numbers::ln2})
    set_backward_pass(known,
                      {.weigh =
                           [=, &known](const PairWeight& right, Index query, Index) {
                             const double by = limited_exp(known.oracle.lse[query] * (1 - unit));
                             return PairWeight{right.p * by, right.ds * by, 0};
                           }},
                      table.add(Mistake::lse_in_log2, 1,
                                unit > 1 ? "the backward pass takes an lse in units of log 2 for a "
                                           "natural one"
                                         : "the backward pass takes a natural lse for one in units "
                                           "of log 2"));
  add_local_statistics(known, table);
  add_backward_readings(known, table);
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
      set_backward_pass(known, {.pairs = some.pairs}, table.add(some.mistake, penalty, how));
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
