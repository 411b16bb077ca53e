// What the hypotheses of all tables are made of: where rows lie in this deal and in others, rows taken
// apart, and rings that follow a hypothesis.
#include "core/check/hypotheses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringscope {

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

Values scaled(const Values& values, double factor) {
  Values result = values;
  for (double& x : result) x *= factor;
  return result;
}

void finish_row(double m, double l, const Values& acc, Guess& guess) {
  guess.out = l == 0 ? Values(acc.size(), 0.0) : scaled(acc, 1 / l);
  guess.lse = l == 0 ? -std::numeric_limits<double>::infinity() : m + std::log(l);
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

std::vector<WrongSource> wrong_sources(const Knowledge& known) {
  std::vector<WrongSource> sources;
  const int n = known.ranks();
  for (int distance = 1; distance < n; ++distance)
    sources.push_back({fmt::format("the rows are those of rank (r + {}) mod {}", distance, n),
                       rows_of_rank_beyond(known.deal, distance), 1});
  for (const auto& [how, belief] : wrong_positions(known)) {
    std::vector<Index> inverse(belief.size());
    bool is_permutation = true;
    std::vector<bool> seen(belief.size());
    for (std::size_t p = 0; p < belief.size(); ++p) {
      const auto to = static_cast<std::size_t>(belief[p]);
      is_permutation = is_permutation && to < seen.size() && !seen[to];
      if (!is_permutation) break;
      seen[to] = true;
      inverse[to] = static_cast<Index>(p);
    }
    if (!is_permutation) continue;
    sources.push_back({"the rows were put back by the positions of " + how, inverse, 1.01});
    sources.push_back({"the rows were dealt out by the positions of " + how, belief, 1.01});
  }
  std::vector<Index> swapped, reversed;
  for (const Place& place : known.deal.places) {
    const auto& rows = known.deal.positions[place.rank];
    const auto count = static_cast<Index>(rows.size());
    swapped.push_back(rows[(place.local_row + count / 2) % count]);
    reversed.push_back(rows[count - 1 - place.local_row]);
  }
  sources.push_back({"the two halves of a rank's rows are swapped", swapped, 1.02});
  sources.push_back({"a rank's rows are in reverse order", reversed, 1.02});
  std::erase_if(sources, [](const WrongSource& wrong) {
    Index p = 0;
    return std::all_of(wrong.source.begin(), wrong.source.end(),
                       [&](Index from) { return from == p++; });
  });
  return sources;
}

std::vector<std::pair<std::string, std::vector<Index>>> wrong_positions(const Knowledge& known) {
  std::vector<std::pair<std::string, std::vector<Index>>> result;
  const auto add = [&](const std::string& how, std::vector<Index> positions) {
    for (Index p = 0; p < std::ssize(positions); ++p)
      if (positions[p] != p) {
        result.emplace_back(how, std::move(positions));
        return;
      }
  };
  for (const PartitionKind kind : {PartitionKind::contiguous, PartitionKind::striped,
                                   PartitionKind::zigzag, PartitionKind::fold}) {
    const DealtRows other(Partition{kind, known.seqlen(), known.ranks()});
    std::vector<Index> positions;
    for (const Place& place : known.deal.places) {
      const auto& rows = other.positions[place.rank];
      if (place.local_row < std::ssize(rows)) positions.push_back(rows[place.local_row]);
    }
    if (positions.size() == known.deal.places.size())
      add(fmt::format("a {} deal", name_of(kind)), std::move(positions));
  }
  std::vector<Index> local, concatenated, before(1);
  for (const auto& rows : known.deal.positions)
    before.push_back(before.back() + static_cast<Index>(rows.size()));
  for (const Place& place : known.deal.places) {
    local.push_back(place.local_row);
    concatenated.push_back(before[place.rank] + place.local_row);
  }
  add("ranks one after the other", std::move(concatenated));
  add("the local rows", std::move(local));
  return result;
}

QueryRow query_row(const Knowledge& known, Index head, Index position, bool gradients) {
  QueryRow row{head, position, known.deal.places[position]};
  row.kv_head = head / known.problem.shape.group_size();
  row.scale = known.problem.softmax_scale;
  row.q = known.copy_of(known.inputs.q, head, position);
  row.keys = known.row_of(known.inputs.k, row.kv_head, 0);
  row.values = known.row_of(known.inputs.v, row.kv_head, 0);
  row.counts.assign(known.seqlen(), 0);
  known.mask.for_allowed(position, [&](Interval keys) {
    for (Index j = keys.first; j < keys.last; ++j) row.counts[j] = 1;
  });
  rescore(known, row);
  take_apart(known, row);
  if (!gradients) return row;

  Guess right;
  merge_all(row, right);
  const Index width = known.width();
  const double* const dout = known.row_of(known.inputs.dout, head, position);
  const double delta = dot_of(dout, right.out->data(), width);
  row.dq_shares.assign(known.ranks(), Values(width));
  row.dq_delta.assign(width, 0);
  for (Index j = 0; j < known.seqlen(); ++j) {
    if (row.counts[j] == 0) continue;
    const double p = std::exp(row.scores[j] - *right.lse) * row.scale,
                 ds = p * (dot_of(dout, row.values + j * width, width) - delta);
    Values& share = row.dq_shares[known.deal.places[j].rank];
    for (Index c = 0; c < width; ++c) {
      share[c] += ds * row.keys[j * width + c];
      row.dq_delta[c] += p * delta * row.keys[j * width + c];
    }
  }
  return row;
}

void rescore(const Knowledge& known, QueryRow& row) {
  row.scores.resize(known.seqlen());
  for (Index j = 0; j < known.seqlen(); ++j)
    row.scores[j] =
        row.scale * dot_of(row.q.data(), row.keys + row.k_source(j) * known.width(), known.width());
}

void take_apart(const Knowledge& known, QueryRow& row) {
  const Index width = known.width();
  row.owner_parts.assign(known.ranks(),
                         {-std::numeric_limits<double>::infinity(), 0, Values(width)});
  for (Index j = 0; j < known.seqlen(); ++j) {
    RowPart& part = row.owner_parts[known.deal.places[j].rank];
    if (row.counts[j] > 0) part.m = std::max(part.m, row.scores[j]);
  }
  for (Index j = 0; j < known.seqlen(); ++j) {
    if (!(row.counts[j] > 0)) continue;
    RowPart& part = row.owner_parts[known.deal.places[j].rank];
    const double p = row.counts[j] * std::exp(row.scores[j] - part.m);
    const double* const v = row.values + row.v_source(j) * width;
    part.l += p;
    for (Index c = 0; c < width; ++c) part.acc[c] += p * v[c];
  }
}

void merge_all(const QueryRow& row, Guess& guess) {
  double m = -std::numeric_limits<double>::infinity(), l = 0;
  Values acc(row.q.size());
  for (const RowPart& part : row.owner_parts) m = std::max(m, part.m);
  for (const RowPart& part : row.owner_parts) {
    if (part.l == 0) continue;
    l += std::exp(part.m - m) * part.l;
    add_to(acc, std::exp(part.m - m), part.acc);
  }
  finish_row(m, l, acc, guess);
}

Guess guess_of(const Knowledge& known, const Hypothesis& hypothesis, const QueryRow& row) {
  Guess guess;
  if (!hypothesis.weigh) {
    if (hypothesis.query) hypothesis.query(row, guess);
    return guess;
  }
  QueryRow changed = row;
  hypothesis.weigh(changed);
  take_apart(known, changed);
  hypothesis.query ? hypothesis.query(changed, guess) : merge_all(changed, guess);
  return guess;
}

Guess right_row(const Knowledge& known, Index head, Index position) {
  Guess guess;
  const bool has_dq = !known.inputs.dout.empty();
  if (known.options.rows.empty()) {
    guess.out = known.copy_of(known.oracle.out, head, position);
    guess.lse = known.oracle.lse[head * known.seqlen() + position];
    if (has_dq) guess.dq = known.copy_of(known.oracle.dq, head, position);
    return guess;
  }
  const QueryRow row = query_row(known, head, position, has_dq);
  merge_all(row, guess);
  if (has_dq) guess.dq = Values(known.width());
  for (const Values& share : row.dq_shares) add_to(*guess.dq, 1, share);
  return guess;
}

KeyRow key_row(const Knowledge& known, Index kv_head, Index position) {
  KeyRow row{kv_head, position, known.deal.places[position]};
  const AttentionShape& shape = known.problem.shape;
  const Index batch = kv_head / shape.num_heads_kv, kv = kv_head % shape.num_heads_kv;
  const double scale = known.problem.softmax_scale;
  const Index width = known.width();
  for (Index h = 0; h < shape.num_heads; ++h) {
    if (h / shape.group_size() != kv && h % shape.num_heads_kv != kv) continue;
    const Index head = batch * shape.num_heads + h;
    row.heads.push_back(head);
    // The head's own key head, which is another one where h mod G is `kv` alone.
    const Index own = head / shape.group_size();
    const double* const k = known.row_of(known.inputs.k, own, position);
    const double* const v = known.row_of(known.inputs.v, own, position);
    std::vector<Values> dk(known.ranks(), Values(width)), dv = dk;
    Values from_delta(width);
    for (Index i = 0; i < known.seqlen(); ++i) {
      if (!known.mask.allows(i, position)) continue;
      const double* const q = known.row_of(known.inputs.q, head, i);
      const double* const dout = known.row_of(known.inputs.dout, head, i);
      const double p =
          std::exp(scale * dot_of(q, k, width) - known.oracle.lse[head * known.seqlen() + i]);
      const double delta = dot_of(dout, known.row_of(known.oracle.out, head, i), width);
      const double ds = p * (dot_of(dout, v, width) - delta) * scale;
      const int rank = known.deal.places[i].rank;
      for (Index c = 0; c < width; ++c) {
        dk[rank][c] += ds * q[c];
        dv[rank][c] += p * dout[c];
        from_delta[c] += p * delta * scale * q[c];
      }
    }
    row.dk.push_back(std::move(dk));
    row.dv.push_back(std::move(dv));
    row.dk_delta.push_back(std::move(from_delta));
  }
  return row;
}

namespace {

// Add what a query row gives to the gradients after it has come to `guess`.
void add_gradients(const Knowledge& known, const QueryRow& row, const Guess& guess,
                   NaiveResult<double>& sums) {
  const Index width = known.width(), at = (row.head * known.seqlen() + row.position) * width;
  const double* const dout = known.inputs.dout.data() + at;
  const double delta = dot_of(dout, guess.out->data(), width);
  for (Index j = 0; j < known.seqlen(); ++j) {
    if (!(row.counts[j] > 0)) continue;
    const double p = row.counts[j] * std::exp(row.scores[j] - *guess.lse),
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

}  // namespace

NaiveResult<double> made_by(const Knowledge& known, const Hypothesis* hypothesis, int rank) {
  const AttentionShape& shape = known.problem.shape;
  const bool backward = !known.inputs.dout.empty();
  NaiveResult<double> result{
      Values(known.inputs.q.size()), Values(known.inputs.q.size() / known.width()),
      Values(backward ? known.inputs.q.size() : 0), Values(backward ? known.inputs.k.size() : 0),
      Values(backward ? known.inputs.k.size() : 0)};
  const auto put = [&](const std::optional<Values>& row, Index head, Index i, Values& into) {
    if (row)
      std::copy(row->begin(), row->end(),
                into.begin() + (head * known.seqlen() + i) * known.width());
  };
  // Rows that end up elsewhere do so after the backward pass has seen them.
  const bool moves = hypothesis != nullptr && !hypothesis->weigh &&
                     hypothesis->mistake == Mistake::rows_of_other_rank;
  for (Index head = 0; head < shape.batch * shape.num_heads; ++head)
    for (Index i = 0; i < known.seqlen(); ++i) {
      const bool strikes = hypothesis != nullptr && (rank < 0 || known.deal.places[i].rank == rank);
      QueryRow row =
          query_row(known, head, i, strikes && backward && is_of_gradients(hypothesis->mistake));
      Guess right, made;
      if (strikes && hypothesis->weigh) {
        hypothesis->weigh(row);
        take_apart(known, row);
      }
      merge_all(row, right);
      if (strikes && hypothesis->query) hypothesis->query(row, made);
      if (!made.out) made.out = right.out;
      if (!made.lse) made.lse = right.lse;
      put(made.out, head, i, result.out);
      result.lse[head * known.seqlen() + i] = *made.lse;
      if (!backward) continue;
      add_gradients(known, row, moves ? right : made, result);
      put(made.dq, head, i, result.dq);
    }
  if (!backward || hypothesis == nullptr || !hypothesis->key) return result;
  for (Index head = 0; head < shape.batch * shape.num_heads_kv; ++head)
    for (Index i = 0; i < known.seqlen(); ++i) {
      if (rank >= 0 && known.deal.places[i].rank != rank) continue;
      Guess made;
      hypothesis->key(key_row(known, head, i), made);
      put(made.dk, head, i, result.dk);
      put(made.dv, head, i, result.dv);
    }
  return result;
}

NaiveResult<double> make_mistake(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const MistakenRing& ring) {
  const NaiveResult<double> right = oracle_of(problem, inputs, {});
  const DiagnosisOptions options;
  const Knowledge known{problem, inputs, right, right, options};
  if (!ring.mistake) return made_by(known, nullptr, -1);
  for (const Hypothesis& hypothesis :
       is_of_gradients(*ring.mistake) ? gradient_hypotheses(known) : forward_hypotheses(known))
    if (hypothesis.mistake == *ring.mistake) return made_by(known, &hypothesis, ring.rank);
  return made_by(known, nullptr, -1);
}

}  // namespace ringscope
