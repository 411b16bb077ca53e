#include "core/problem/needed.h"

#include <algorithm>
#include <utility>

namespace ringscope {

namespace {

// Queries of one run attend intervals of keys whose ends stay where they are or move as the query does.
// Seen as rows of a run of keys with the same stride, ends of neighbouring queries therefore differ
// by at most one row, and what all of them attend is one interval, from the first query's first key
// to the last one's last.
//
// What queries of a piece of a mask attend: from max(low, i + low_offset) to
// min(high, i + high_offset).
struct Bounds {
  Index low, low_offset, high, high_offset;

  Interval keys_of(Index i) const {
    return {max_of(low, i + low_offset), min_of(high, i + high_offset)};
  }
};

// Call f(first, last) for stretches of `queries`, within each of which an end of the keys stays or
// moves with the query; for each query by itself if the keys lie at other strides.
template <class F>
void for_stretches(const Run& queries, const Bounds& bounds, Index stride_of_keys, F&& f) {
  if (queries.stride != stride_of_keys) {
    for (Index i = 0; i < queries.count; ++i) f(queries.position(i), queries.position(i));
    return;
  }
  Index cuts[] = {queries.rows_below(bounds.low - bounds.low_offset + 1),
                  queries.rows_below(bounds.high - bounds.high_offset + 1), queries.count};
  std::sort(std::begin(cuts), std::end(cuts));
  Index begin = 0;
  for (const Index end : cuts) {
    if (begin >= end) continue;
    f(queries.position(begin), queries.position(end - 1));
    begin = end;
  }
}

// Call f(queries, bounds) for the parts that a mask's pieces and documents cut a run of queries into.
template <class F>
void for_bounds(const Mask& mask, const Run& run, F&& f) {
  if (run.count == 0) return;
  const auto part = [&](Index begin, Index end) {
    return run.slice(run.rows_below(begin), run.rows_below(end));
  };
  const Interval all{run.first, run.position(run.count - 1) + 1};
  const auto in_piece = [&](const Mask& piece, const Slice& slice) {
    const Interval queries = intersection(all, slice.queries);
    if (queries.size() == 0) return;
    for (Index d = piece.document_of(queries.first);; ++d) {
      const Interval document = piece.document(d);
      const Interval inside = intersection(queries, document);
      const Interval keys = intersection(document, slice.keys);
      constexpr Index far = Slice::kFar;
      Bounds bounds{keys.first,
                    max_of(piece.window > 0 ? 1 - piece.window : -far, slice.first_offset),
                    keys.last, min_of(piece.window > 0 ? piece.window : far, slice.last_offset)};
      if (piece.causal) bounds.high_offset = min_of(bounds.high_offset, 1);
      // Queries inside the prefix attend all of it, later ones what lies before them.
      const Index turn = piece.prefix >= 0 ? max_of(inside.first, piece.prefix - 1) : inside.first;
      Bounds before = bounds;
      before.high = min_of(before.high, max_of(piece.prefix, 0));
      f(part(inside.first, min_of(turn, inside.last)), before);
      if (piece.prefix >= 0) bounds.high_offset = min_of(bounds.high_offset, 1);
      f(part(turn, inside.last), bounds);
      if (document.last >= queries.last) break;
    }
  };
  if (mask.is_in_pieces()) {
    mask.for_pieces(all, in_piece);
  } else {
    in_piece(mask, Slice{{0, mask.seqlen}, {0, mask.seqlen}});
  }
}

// Sort intervals and join those that overlap or touch.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](Interval i) { return i.size() == 0; });
  std::sort(intervals.begin(), intervals.end(),
            [](Interval a, Interval b) { return a.first < b.first; });
  std::vector<Interval> result;
  for (const Interval next : intervals) {
    if (!result.empty() && next.first <= result.back().last) {
      result.back().last = max_of(result.back().last, next.last);
    } else {
      result.push_back(next);
    }
  }
  return result;
}

}  // namespace

std::vector<Interval> needed_rows(const Region& region, int k) {
  std::vector<Interval> needed;
  const LocalRows& keys = region.keys;
  const auto add = [&](const Run& queries, const Bounds& bounds) {
    if (queries.count == 0) return;
    for_stretches(queries, bounds, keys.stride(), [&](Index first, Index last) {
      const Interval of_first = bounds.keys_of(first), of_last = bounds.keys_of(last);
      if (keys.stride() == 1) {
        if (of_first.size() > 0 || of_last.size() > 0)
          needed.push_back({keys.rows_below(of_first.first), keys.rows_below(of_last.last)});
        return;
      }
      const Run& run = keys.runs[k];
      const auto row_at = [&](Index position) {
        return ceil_div(position - run.first, run.stride);
      };
      // Where both ends move, all of these queries have as many keys, which may be none.
      const bool both_move = of_first.first != of_last.first && of_first.last != of_last.last;
      if (both_move && row_at(of_first.first) >= row_at(of_first.last)) return;
      needed.push_back(
          intersection({row_at(of_first.first), row_at(of_last.last)}, {0, run.count}));
    });
  };
  region.queries.for_runs(0, region.queries.size(),
                          [&](const Run& queries) { for_bounds(region.mask, queries, add); });
  return united(std::move(needed));
}

namespace {

// Rows of a block, or where two runs alternate pairs of a row of each, and who needs them. Without
// alternation by[1] is by[0].
struct Piece {
  Interval at;
  std::vector<bool> by[2];

  bool has_same_ranks(const Piece& other) const {
    return by[0] == other.by[0] && by[1] == other.by[1];
  }
  void join(const Piece& next) {
    at = {min_of(at.first, next.at.first), max_of(at.last, next.at.last)};
    for (int k = 0; k < 2; ++k)
      for (std::size_t m = 0; m < by[k].size(); ++m) by[k][m] = by[k][m] || next.by[k][m];
  }
};

int last_of(const std::vector<bool>& by) {
  auto last = static_cast<int>(by.size()) - 1;
  while (!by[last]) --last;
  return last;
}
void join_equal(std::vector<Piece>& pieces) {
  std::vector<Piece> joined;
  for (Piece& piece : pieces) {
    if (!joined.empty() && joined.back().has_same_ranks(piece)) {
      joined.back().at.last = piece.at.last;
    } else {
      joined.push_back(std::move(piece));
    }
  }
  pieces = std::move(joined);
}

// Return how many pairs of a row and a rank to send it to joining two pieces adds.
Index cost_of_joining(const Piece& piece, const Piece& next) {
  Index cost = 0;
  for (int k = 0; k < 2; ++k)
    for (std::size_t m = 0; m < piece.by[k].size(); ++m)
      if (piece.by[k][m] != next.by[k][m])
        cost += piece.by[k][m] ? next.at.size() : piece.at.size();
  return cost;
}

// Join neighbours, the cheapest first, until no more than `most` are left. Of very many, join evenly
// what lies together first.
void make_few(std::vector<Piece>& pieces, std::size_t most) {
  if (const std::size_t together = pieces.size() / (4 * most); together > 0) {
    std::vector<Piece> joined;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (i % (together + 1) == 0) {
        joined.push_back(std::move(pieces[i]));
      } else {
        joined.back().join(pieces[i]);
      }
    pieces = std::move(joined);
  }
  std::vector<Index> costs;  // of joining each with the next one
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
    costs.push_back(cost_of_joining(pieces[i], pieces[i + 1]));
  while (pieces.size() > most) {
    const auto best = std::min_element(costs.begin(), costs.end()) - costs.begin();
    const auto at = static_cast<std::size_t>(best);
    pieces[at].join(pieces[at + 1]);
    pieces.erase(pieces.begin() + best + 1);
    costs.erase(costs.begin() + best);
    if (at > 0) costs[at - 1] = cost_of_joining(pieces[at - 1], pieces[at]);
    if (at < costs.size()) costs[at] = cost_of_joining(pieces[at], pieces[at + 1]);
  }
}

std::vector<Piece> pieces_of(const Mask& mask, const Partitions& deal, int rank) {
  const LocalRows block = deal.rows_of(rank);
  const int n = deal.world_size, lanes = block.alternating ? 2 : 1;
  const Index rows = ceil_div(block.size(), lanes);
  std::vector<std::vector<Interval>> needed[2];  // [lane][distance]
  std::vector<Index> cuts = {0, rows};
  for (int lane = 0; lane < lanes; ++lane)
    for (int distance = 1; distance < n; ++distance) {
      const LocalRows queries = deal.queries_of((rank + distance) % n);
      needed[lane].push_back(needed_rows({mask, queries, block}, lane));
      for (const Interval interval : needed[lane].back())
        cuts.insert(cuts.end(), {interval.first, interval.last});
    }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Piece> pieces;
  std::vector<std::size_t> next[2];  // by distance: the first interval that is not over
  for (int lane = 0; lane < lanes; ++lane) next[lane].assign(static_cast<std::size_t>(n), 0);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Piece piece{{cuts[i], cuts[i + 1]}, {}};
    for (int lane = 0; lane < lanes; ++lane) {
      std::vector<bool>& by = piece.by[lane];
      by.assign(static_cast<std::size_t>(n), false);
      by[0] = true;
      for (int distance = 1; distance < n; ++distance) {
        const std::vector<Interval>& theirs = needed[lane][distance - 1];
        std::size_t& at = next[lane][distance];
        while (at < theirs.size() && theirs[at].last <= cuts[i]) ++at;
        by[distance] = at < theirs.size() && theirs[at].contains(cuts[i]);
      }
    }
    if (lanes == 1) piece.by[1] = piece.by[0];
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty()) {
    std::vector<bool> nobody(static_cast<std::size_t>(n), false);
    nobody[0] = true;
    pieces.push_back({{0, 0}, {nobody, nobody}});
  }
  return pieces;
}

}  // namespace

std::vector<BlockPart> parts_of_block(const Mask& mask, const Partitions& deal, int rank,
                                      PartOrder order) {
  const LocalRows block = deal.rows_of(rank);
  const bool in_a_ring = order == PartOrder::farthest_first;
  std::vector<Piece> pieces = pieces_of(mask, deal, rank);
  if (in_a_ring)
    for (Piece& piece : pieces)
      for (std::vector<bool>& by : piece.by)  // who passes rows on has them as well
        std::fill(by.begin(), by.begin() + last_of(by), true);
  join_equal(pieces);
  constexpr std::size_t kMostPieces = 8, kMostPiecesOfACast = 256;
  make_few(pieces, in_a_ring ? kMostPieces : kMostPiecesOfACast);

  std::vector<BlockPart> parts;
  for (const Piece& piece : pieces) {
    if (!block.alternating || piece.by[0] == piece.by[1]) {
      const Index lanes = block.alternating ? 2 : 1, first = lanes * piece.at.first;
      parts.push_back({block.part(first, min_of(lanes * piece.at.last, block.size())), first, 1, 0,
                       piece.by[0], last_of(piece.by[0])});
      continue;
    }
    for (const int k : {0, 1}) {
      const Run run =
          block.runs[k].slice(piece.at.first, min_of(piece.at.last, block.runs[k].count));
      if (run.count == 0) continue;
      parts.push_back({{{run, {run.first, run.stride, 0}}, false},
                       2 * piece.at.first + k,
                       2,
                       0,
                       piece.by[k],
                       last_of(piece.by[k])});
    }
  }
  if (in_a_ring)
    std::stable_sort(parts.begin(), parts.end(),
                     [](const BlockPart& a, const BlockPart& b) { return a.last > b.last; });
  Index at = 0;
  for (BlockPart& part : parts) {
    part.at = at;
    at += part.size();
  }
  return parts;
}

bool saves_hops(const Mask& mask, const Partitions& deal) {
  const int n = deal.world_size;
  if (n == 1 || n > kMostPartedRanks) return false;
  Index stay = 0;  // rows that nobody needs at the end of the ring
  for (int rank = 0; rank < n; ++rank) {
    const Region last{mask, deal.queries_of((rank + n - 1) % n), deal.rows_of(rank)};
    stay += last.keys.size();
    for (int lane = 0; lane < (last.keys.alternating ? 2 : 1); ++lane)
      for (const Interval interval : needed_rows(last, lane)) stay -= interval.size();
  }
  return 4 * stay > deal.seqlen;
}

}  // namespace ringscope
