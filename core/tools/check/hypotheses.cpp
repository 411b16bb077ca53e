// What the hypotheses are made of: where rows lie in this deal and in others, rows taken apart, and
// rings that follow a hypothesis.
#include "core/tools/check/hypotheses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace ringscope {
namespace {

bool moves(const std::vector<Index>& positions) {
  for (Index p = 0; p < std::ssize(positions); ++p)
    if (positions[p] != p) return true;
  return false;
}

// Add what a query row gives to the gradients after it has come to `out` and `lse`.
void add_backward(const QueryRow& row, const Values& out, double lse, NaiveResult<double>& sums) {
  const Knowledge& known = *row.known;
  const Index width = known.width(), at = (row.head * known.seqlen() + row.position) * width;
  const double* const dout = known.inputs.dout.data() + at;
  const double delta = dot_of(dout, out.data(), width);
  for (Index j = 0; j < known.seqlen(); ++j) {
    if (!(row.counts[j] > 0)) continue;
    const double p = row.counts[j] * std::exp(row.scores[j] - lse),
                 ds = row.scale * p *
                      (dot_of(dout, row.values + row.v_source(j) * width, width) - delta);
    const Index to = (row.kv_head * known.seqlen() + j) * width;
    for (Index c = 0; c < width; ++c) {
      sums.dv[to + c] += p * dout[c];
      sums.dk[to + c] += ds * row.q[c];
      sums.dq[at + c] += ds * row.keys[row.k_source(j) * width + c];
    }
  }
}

// Return what a ring computes under the hypothesis, made by one rank or by all (-1).
NaiveResult<double> made_by(const Knowledge& known, const Hypothesis& hypothesis, int rank) {
  const bool backward = !known.inputs.dout.empty();
  const std::size_t queries = known.inputs.q.size(), keys = backward ? known.inputs.k.size() : 0;
  NaiveResult<double> result{Values(queries), Values(queries / known.width()),
                             Values(backward ? queries : 0), Values(keys), Values(keys)};
  const auto put = [&](const std::optional<Values>& row, Index at, Values& into) {
    if (row) std::copy(row->begin(), row->end(), into.begin() + at * known.width());
  };
  // Rows that end up elsewhere do so after the backward pass has seen them.
  const bool moves_rows = hypothesis.query && hypothesis.mistake == Mistake::rows_of_other_rank;
  known.for_rows(Tensor::out, [&](Index at, Index i) {
    const bool strikes = rank < 0 || known.deal.places[i].rank == rank;
    QueryRow row = query_row(known, at / known.seqlen(), i,
                             strikes && backward && is_of_gradients(hypothesis.mistake));
    Guess made = strikes ? guess_of(hypothesis, row) : Guess();
    const Guess right = row.merged();
    if (strikes && !hypothesis.query) row = changed_by(hypothesis, std::move(row));
    if (!made.out) made.out = right.out;
    if (!made.lse) made.lse = right.lse;
    put(made.out, at, result.out);
    result.lse[at] = *made.lse;
    if (!backward) return;
    const Guess& seen = moves_rows ? right : made;
    add_backward(row, *seen.out, *seen.lse, result);
    put(made.dq, at, result.dq);
  });
  if (!backward || !hypothesis.key) return result;
  known.for_rows(Tensor::dk, [&](Index at, Index i) {
    if (rank >= 0 && known.deal.places[i].rank != rank) return;
    Guess made;
    hypothesis.key(key_row(known, at / known.seqlen(), i), made);
    put(made.dk, at, result.dk);
    put(made.dv, at, result.dv);
  });
  return result;
}

}  // namespace

Values scaled(Values values, double factor) {
  for (double& x : values) x *= factor;
  return values;
}

void finish_row(double m, double l, const Values& acc, Guess& guess) {
  guess.out = l == 0 ? Values(acc.size(), 0.0) : scaled(acc, 1 / l);
  guess.lse = l == 0 ? kMinusInf : m + std::log(l);
}

DealtRows::DealtRows(const Partition& partition) : places(partition.seqlen) {
  for (int rank = 0; rank < partition.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    positions.emplace_back();
    for (Index i = 0; i < rows.size(); ++i) {
      positions.back().push_back(rows.global_position(i));
      places[positions.back().back()] = {rank, i};
    }
  }
}

std::vector<int> near_numbers(int ranks) {
  std::vector<int> numbers;
  for (int i = 0; i < ranks; ++i)
    if (ranks <= kManyRanks || i < kManyRanks / 4 || i >= ranks - kManyRanks / 4)
      numbers.push_back(i);
  return numbers;
}

// Of many ranks, try the owners, and the steps, whose block explains most of some wrong rows when it is
// left out or counts twice.
std::vector<int> Knowledge::numbers_to_try() const {
  const int n = ranks();
  if (n <= kManyRanks || mine.out.empty() || !is_plain()) return near_numbers(n);
  std::vector<std::pair<double, Index>> wrong;  // squared error, position
  const auto distance = [&](const Values& values, Index position) {
    double sum = 0;
    for (Index c = 0; c < width(); ++c) {
      const double error = values[c] - row_of(mine.out, 0, position)[c];
      sum += std::isfinite(error) ? error * error : 0;
    }
    return sum;
  };
  for_rows(Tensor::out, [&](Index at, Index position) {
    if (at == position)
      wrong.emplace_back(-distance(copy_of(oracle.out, 0, position), position), position);
  });
  std::ranges::sort(wrong);
  wrong.resize(std::min<std::size_t>(wrong.size(), 16));
  Values by_owner(n), by_step(n);  // less what is explained
  for (const auto& [less_error, position] : wrong) {
    const QueryRow row = query_row(*this, 0, position, false);
    const double lse = *row.merged().lse;
    for (int owner = 0; owner < n && less_error < 0; ++owner) {
      const RowPart& part = row.owner_parts[owner];
      const double share = part.l > 0 ? part.l * std::exp(part.m - lse) : 0;
      if (!(share > 0 && share < 1)) continue;
      double least = -less_error;
      for (const double times : {-1.0, 1.0}) {
        Values changed = copy_of(oracle.out, 0, position);
        add_to(changed, times * share / part.l, part.acc);
        least = std::min(least, distance(scaled(changed, 1 / (1 + times * share)), position));
      }
      by_owner[owner] -= 1 + least / less_error;
      by_step[(row.place.rank - owner + n) % n] -= 1 + least / less_error;
    }
  }
  std::set<int> best;
  for (const Values* const scores : {&by_owner, &by_step}) {
    std::vector<std::pair<double, int>> order;
    for (int i = 0; i < n; ++i) order.emplace_back((*scores)[i], i);
    std::ranges::sort(order);
    for (int i = 0; i < kManyRanks / 4; ++i) best.insert(order[i].second);
  }
  return {best.begin(), best.end()};
}

std::vector<Index> rows_of_rank_beyond(const DealtRows& deal, int distance) {
  const auto ranks = static_cast<int>(deal.positions.size());
  std::vector<Index> source;
  for (Index p = 0; p < std::ssize(deal.places); ++p) {
    const Place& place = deal.places[p];
    const auto& other = deal.positions[(place.rank + distance) % ranks];
    source.push_back(place.local_row < std::ssize(other) ? other[place.local_row] : p);
  }
  return source;
}

std::vector<Belief> wrong_positions(const Knowledge& known) {
  std::vector<Belief> beliefs;
  for (const PartitionKind kind : {PartitionKind::contiguous, PartitionKind::striped,
                                   PartitionKind::zigzag, PartitionKind::fold}) {
    const DealtRows other(Partition{kind, known.seqlen(), known.ranks()});
    Belief belief{fmt::format("a {} deal", name_of(kind)), {}};
    for (const Place& place : known.deal.places) {
      const auto& rows = other.positions[place.rank];
      if (place.local_row < std::ssize(rows)) belief.positions.push_back(rows[place.local_row]);
    }
    if (belief.positions.size() == known.deal.places.size()) beliefs.push_back(std::move(belief));
  }
  Belief concatenated{"ranks one after the other", {}}, local{"the local rows", {}};
  std::vector<Index> before(1);
  for (const auto& rows : known.deal.positions)
    before.push_back(before.back() + static_cast<Index>(rows.size()));
  for (const Place& place : known.deal.places) {
    concatenated.positions.push_back(before[place.rank] + place.local_row);
    local.positions.push_back(place.local_row);
  }
  beliefs.push_back(std::move(concatenated));
  beliefs.push_back(std::move(local));
  std::erase_if(beliefs, [](const Belief& belief) { return !moves(belief.positions); });
  return beliefs;
}

std::vector<Belief> wrong_sources(const Knowledge& known) {
  std::vector<Belief> sources;
  const int n = known.ranks();
  for (const int distance : near_numbers(n))
    sources.push_back({fmt::format("the rows are those of rank (r + {}) mod {}", distance, n),
                       rows_of_rank_beyond(known.deal, distance)});
  for (const Belief& belief : wrong_positions(known)) {
    std::vector<Index> inverse(belief.positions.size(), -1);
    for (Index p = 0; p < std::ssize(inverse); ++p) inverse[belief.positions[p]] = p;
    if (std::ranges::find(inverse, -1) != inverse.end()) continue;
    sources.push_back({"the rows were put back by the positions of " + belief.how, inverse, 1.01});
    sources.push_back(
        {"the rows were dealt out by the positions of " + belief.how, belief.positions, 1.01});
  }
  std::erase_if(sources, [](const Belief& source) { return !moves(source.positions); });
  return sources;
}

Index swapped_row(const Knowledge& known, Index row, Index heads, bool back) {
  const Index rows = known.seqlen(), first = row / (heads * rows) * (heads * rows),
              at = row - first;
  return first + (back ? at % heads * rows + at / heads : at % rows * heads + at / rows);
}

std::vector<Reading> wrong_readings(const Knowledge& known) {
  const AttentionShape& shape = known.problem.shape;
  const Index rows = known.seqlen(), heads = shape.num_heads, kv = shape.num_heads_kv,
              group = shape.group_size();
  const int n = known.ranks();
  std::vector<Reading> all;
  // V, or K, of the step before or after.
  for (const bool of_v : {true, false})
    for (const int by : std::set<int>{n - 1, 1})
      for (const bool wraps : {false, true})
        all.push_back(
            {Mistake::k_and_v_of_different_steps, wraps ? 1.01 : 1,
             fmt::format("{} is that of the {} step{}", of_v ? "V" : "K",
                         by == 1 ? "previous" : "next",
                         wraps     ? ""
                         : by == 1 ? ", except in the first one"
                                   : ", except in the last one"),
             !of_v, of_v, [=, &deal = known.deal](Index query, Index key) {
               const int rank = deal.places[query % rows].rank,
                         end = by == 1 ? rank : (rank + 1) % n;
               const Place& place = deal.places[key % rows];
               const bool stays = place.rank == end && !wraps;
               const auto& others = deal.positions[stays ? place.rank : (place.rank + by) % n];
               // A shorter block's last row stands where it has none.
               if (others.empty()) return key;
               return key - key % rows + others[min_of(place.local_row, std::ssize(others) - 1)];
             }});
  // Other heads of K, or V, or both, by the query head within its batch entry.
  const auto add_heads = [&](Mistake mistake, const std::string& what, bool also_both,
                             const std::function<Index(Index)>& kv_head) {
    bool differs = false;
    for (Index h = 0; h < heads; ++h) differs = differs || kv_head(h) != h / group;
    for (const bool of_k : {false, true})
      for (const bool of_v : {true, false})
        if (differs && (of_k && of_v ? also_both : of_k || of_v))
          all.push_back({mistake, of_k && of_v ? 1.02 : 1.03,
                         fmt::format("{} {}",
                                     of_k && of_v ? "K and V are those of"
                                     : of_k       ? "K is that of"
                                                  : "V is that of",
                                     what),
                         of_k, of_v, [=](Index query, Index key) {
                           const Index batch = key / rows / kv;
                           return (batch * kv + kv_head(query / rows % heads)) * rows + key % rows;
                         }});
  };
  for (Index block = kv; block > 1; --block)
    if (kv % block == 0)
      add_heads(Mistake::first_head_of_group,
                block == kv ? "the first kv head"
                            : fmt::format("the first of {} kv heads that follow each other", block),
                true, [=](Index head) { return head / group / block * block; });
  add_heads(Mistake::first_head_of_group, "kv head g x group mod G, for group g", true,
            [=](Index head) { return head / group * group % kv; });
  add_heads(Mistake::kv_head_mapping, "kv head h mod G, and not h / group", false,
            [=](Index head) { return head % kv; });
  add_heads(Mistake::kv_head_mapping, "kv head G - 1 - h / group", false,
            [=](Index head) { return kv - 1 - head / group; });
  for (const bool back : {false, true})
    for (const auto& [of_k, of_v, what] :
         {std::tuple{true, true, "K and V have"}, {false, true, "V has"}, {true, false, "K has"}})
      if (kv > 1 && !(back && kv == rows))
        all.push_back(
            {Mistake::heads_and_rows_swapped, 1.04, fmt::format("{} heads and rows swapped", what),
             of_k, of_v,
             [=, &known](Index, Index key) { return swapped_row(known, key, kv, back); }});
  for (const Index end : kIndexEnds)
    if (end < rows)
      all.push_back({Mistake::index_overflow, 1.01,
                     fmt::format("the keys from {} on are the first ones again", end), true, true,
                     [=](Index, Index key) { return key - key % rows + key % rows % end; }});
  return all;
}

// ---
// Query rows.

void QueryRow::ask_as(Index of_head, Index of_position) {
  q = known->copy_of(known->inputs.q, of_head, of_position);
  rescore();
}

void QueryRow::read_kv_head(Index other) {
  kv_head = other;
  keys = known->row_of(known->inputs.k, kv_head, 0);
  values = known->row_of(known->inputs.v, kv_head, 0);
  rescore();
}

void QueryRow::rescore() {
  const Index width = known->width();
  scores.resize(known->seqlen());
  for (Index j = 0; j < known->seqlen(); ++j)
    scores[j] = scale * dot_of(q.data(), keys + k_source(j) * width, width);
}

void QueryRow::take_apart() {
  const Index width = known->width();
  owner_parts.assign(known->ranks(), {kMinusInf, 0, Values(width)});
  const auto for_met = [&](auto&& f) {
    for (Index j = 0; j < known->seqlen(); ++j)
      if (counts[j] > 0) f(j, owner_parts[known->deal.places[j].rank]);
  };
  for_met([&](Index j, RowPart& part) { part.m = std::max(part.m, scores[j]); });
  for_met([&](Index j, RowPart& part) {
    const double p = counts[j] * std::exp(scores[j] - part.m);
    const double* const v = values + v_source(j) * width;
    part.l += p;
    for (Index c = 0; c < width; ++c) part.acc[c] += p * v[c];
  });
}

Guess QueryRow::merged(const std::function<double(int owner)>& times) const {
  Guess guess;
  double m = kMinusInf, l = 0;
  Values acc(q.size());
  std::vector<std::pair<double, const RowPart*>> met;
  for (int owner = 0; owner < std::ssize(owner_parts); ++owner)
    if (const double count = times ? times(owner) : 1; count > 0 && owner_parts[owner].l != 0)
      met.emplace_back(count, &owner_parts[owner]);
  for (const auto& [count, part] : met) m = std::max(m, part->m);
  for (const auto& [count, part] : met) {
    const double weight = count * std::exp(part->m - m);
    l += weight * part->l;
    add_to(acc, weight, part->acc);
  }
  finish_row(m, l, acc, guess);
  return guess;
}

PairWeight weight_of(const Knowledge& known, const PairRows& rows, double lse, double delta) {
  const CheckedInputs& in = known.inputs;
  const double scale = known.problem.softmax_scale;
  const auto product = [&](const Values& a, Index row, const Values& b, Index other) {
    return dot_of(known.row_of(a, 0, row), known.row_of(b, 0, other), known.width());
  };
  const double p = std::exp(scale * product(in.q, rows.q, in.k, rows.k) - lse);
  return {p, p * (product(in.dout, rows.dout, in.v, rows.v) - delta) * scale, p * delta * scale};
}

QueryRow query_row(const Knowledge& known, Index head, Index position, bool gradients) {
  QueryRow row{&known, head, position, known.deal.places[position]};
  const Index width = known.width();
  row.scale = known.problem.softmax_scale;
  row.q = known.copy_of(known.inputs.q, head, position);
  row.counts.assign(known.seqlen(), 0);
  known.mask.for_allowed(position, [&](Interval keys) {
    std::fill(row.counts.begin() + keys.first, row.counts.begin() + keys.last, 1.0);
  });
  row.read_kv_head(head / known.problem.shape.group_size());
  row.take_apart();
  if (!gradients) return row;

  const Guess right = row.merged();
  const double delta =
      dot_of(known.row_of(known.inputs.dout, head, position), right.out->data(), width);
  row.dq_shares.assign(known.ranks(), Values(width));
  for (Index j = 0; j < known.seqlen(); ++j) {
    const Index query = head * known.seqlen() + position, key = row.kv_head * known.seqlen() + j;
    row.weights.push_back(weight_of(known, {query, key, key, query}, *right.lse, delta));
    if (row.counts[j] > 0)
      add_to(row.dq_shares[known.deal.places[j].rank], row.weights[j].ds, row.keys + j * width);
  }
  return row;
}

QueryRow changed_by(const Hypothesis& hypothesis, QueryRow row) {
  for (Index j = 0; j < row.known->seqlen(); ++j) {
    if (hypothesis.pairs) row.counts[j] = hypothesis.pairs(row.position, j);
    if (hypothesis.blocks)
      row.counts[j] *= hypothesis.blocks(row.place.rank, row.known->deal.places[j].rank);
  }
  if (hypothesis.weigh) hypothesis.weigh(row);
  row.take_apart();
  return row;
}

Guess guess_of(const Hypothesis& hypothesis, const QueryRow& row) {
  Guess guess;
  if (hypothesis.query)
    hypothesis.query(row, guess);
  else if (hypothesis.blocks && !hypothesis.pairs && !hypothesis.weigh)
    guess = row.merged([&](int owner) { return hypothesis.blocks(row.place.rank, owner); });
  else if (hypothesis.pairs || hypothesis.blocks || hypothesis.weigh)
    guess = changed_by(hypothesis, row).merged();
  return guess;
}

Guess right_row(const Knowledge& known, Index head, Index position) {
  const bool has_dq = !known.inputs.dout.empty();
  if (known.options.rows.empty()) {
    Guess guess;
    guess.out = known.copy_of(known.oracle.out, head, position);
    guess.lse = known.oracle.lse[head * known.seqlen() + position];
    if (has_dq) guess.dq = known.copy_of(known.oracle.dq, head, position);
    return guess;
  }
  const QueryRow row = query_row(known, head, position, has_dq);
  Guess guess = row.merged();
  if (has_dq) guess.dq = Values(known.width());
  for (const Values& share : row.dq_shares) add_to(*guess.dq, 1, share);
  return guess;
}

// ---
// Key rows.

KeyRow key_row(const Knowledge& known, Index kv_head, Index position) {
  KeyRow row{kv_head, position, known.deal.places[position]};
  const AttentionShape& shape = known.problem.shape;
  const Index batch = kv_head / shape.num_heads_kv, kv = kv_head % shape.num_heads_kv;
  const Index width = known.width();
  for (Index h = 0; h < shape.num_heads; ++h) {
    if (h / shape.group_size() != kv && h % shape.num_heads_kv != kv) continue;
    const Index head = batch * shape.num_heads + h;
    row.heads.push_back(head);
    std::vector<Values> dk(known.ranks(), Values(width)), dv = dk;
    row.weights.emplace_back();
    for (Index i = 0; i < known.seqlen(); ++i) {
      const double* const q = known.row_of(known.inputs.q, head, i);
      const double* const dout = known.row_of(known.inputs.dout, head, i);
      const double delta = dot_of(dout, known.row_of(known.oracle.out, head, i), width);
      const Index query = head * known.seqlen() + i,
                  key = head / shape.group_size() * known.seqlen() + position;
      // By the head's own key head, which is another one where h mod G is `kv` alone.
      const auto [p, ds, by_delta] = row.weights.back().emplace_back(
          weight_of(known, {query, key, key, query}, known.oracle.lse[query], delta));
      if (!known.mask.allows(i, position)) continue;
      const int rank = known.deal.places[i].rank;
      add_to(dk[rank], ds, q);
      add_to(dv[rank], p, dout);
    }
    row.dk.push_back(std::move(dk));
    row.dv.push_back(std::move(dv));
  }
  return row;
}

// ---
// Rings that make a mistake.

NaiveResult<double> make_mistake(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const MistakenRing& ring) {
  const NaiveResult<double> right = oracle_of(problem, inputs, {});
  const DiagnosisOptions options;
  const Knowledge known{problem, inputs, right, right, options};
  Hypotheses table;
  if (ring.mistake && is_of_gradients(*ring.mistake))
    add_gradients(known, table);
  else if (ring.mistake)
    add_forward(known, table);
  for (const Hypothesis& hypothesis : table)
    if (hypothesis.mistake == *ring.mistake) return made_by(known, hypothesis, ring.rank);
  return made_by(known, {}, -1);
}

}  // namespace ringscope
