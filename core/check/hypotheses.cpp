// What the hypotheses of all tables are made of: where rows lie in this deal and in others, and the
// softmax of a row.
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

void attend_row(const Knowledge& known, const Values& scores, const Values& weights, Index kv_head,
                Guess& guess, const std::vector<Index>& key_source) {
  double m = -std::numeric_limits<double>::infinity(), l = 0;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (weights[j] > 0) m = std::max(m, scores[j]);
  const Index width = known.width();
  Values acc(width);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (!(weights[j] > 0)) continue;
    const double p = weights[j] * std::exp(scores[j] - m);
    l += p;
    const auto key = static_cast<Index>(j);
    const double* const v =
        known.row_of(known.inputs.v, kv_head, key_source.empty() ? key : key_source[j]);
    for (Index c = 0; c < width; ++c) acc[c] += p * v[c];
  }
  finish_row(m, l, acc, guess);
}

}  // namespace ringscope
