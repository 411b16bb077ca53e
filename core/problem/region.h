// What one rank may attend of one KV block: the mask, seen through the positions of the query rows
// and of the key rows. A query's allowed keys are one interval of global positions and a rank's
// rows ascend, so each query's allowed local key rows are one interval too, whose ends never
// decrease. It follows:
//
//   full tile    the last row's interval begins, and the first row's ends, outside the tile
//   empty tile   it has no pairs
//   pairs        a sum over runs of clamp(i + const, 0, count), which has a closed form
//
// All of it is constexpr, uses neither heap nor CUDA, so that kernels can call it, and takes O(1)
// in rows (under a documents mask O(documents that the tile crosses)).
//
// A mask in pieces (core/problem/mask.h) and rows that are dealt out by a table have the same sums,
// piece by piece and run by run, or are counted row by row where that is less work. So are queries and
// keys of different strides.
#pragma once

#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

enum class TileClass { empty, partial, full };

struct Region {
  Mask mask;
  LocalRows queries;
  LocalRows keys;

  // Return the local key rows that local query row i may attend, of a mask that is not in pieces.
  constexpr Interval allowed_rows(Index i) const {
    return rows_at(mask.allowed_keys(queries.global_position(i)));
  }
  // Call f(interval) for the local key rows that local query row i may attend, ascending. Intervals
  // are not empty, but may touch.
  template <class F>
  constexpr void for_allowed_rows(Index i, F&& f) const {
    mask.for_allowed(queries.global_position(i), [&](Interval positions) {
      const Interval rows = rows_at(positions);
      if (rows.size() > 0) f(rows);
    });
  }

  // Return the number of allowed pairs in the tile of local rows `q` x `k`.
  constexpr Index pairs(Interval q, Interval k) const;
  constexpr Index pairs() const { return pairs({0, queries.size()}, {0, keys.size()}); }

  constexpr TileClass tile_class(Interval q, Interval k) const {
    if (q.size() == 0 || k.size() == 0) return TileClass::empty;
    if (mask.is_in_pieces()) {
      const Index allowed = pairs(q, k);
      return allowed == 0                     ? TileClass::empty
             : allowed == q.size() * k.size() ? TileClass::full
                                              : TileClass::partial;
    }
    const Interval first = allowed_rows(q.first), last = allowed_rows(q.last - 1);
    if (first.last <= k.first && last.last <= k.first) return TileClass::empty;
    if (first.first >= k.last) return TileClass::empty;
    if (last.first <= k.first && k.last <= first.last) return TileClass::full;
    return pairs(q, k) == 0 ? TileClass::empty : TileClass::partial;
  }

 private:
  constexpr Interval rows_at(Interval positions) const {
    return {keys.rows_below(positions.first), keys.rows_below(positions.last)};
  }
  constexpr Index pairs_by_runs(Interval q, Interval k) const;
  constexpr Index pairs_by_rows(Interval q, Interval k) const;
};

namespace closed_form {

// Return the sum of clamp(u, 0, m) over u < y.
constexpr Index sum_clamped_below(Index y, Index m) {
  if (y <= 0) return 0;
  return y <= m ? y * (y - 1) / 2 : m * (m - 1) / 2 + m * (y - m);
}

// Return the sum of clamp(i + offset, 0, m) over i in [0, rows).
constexpr Index sum_clamped_ramp(Index rows, Index offset, Index m) {
  return sum_clamped_below(rows + offset, m) - sum_clamped_below(offset, m);
}

// Sum over `queries` how many `keys` lie below `query position + shift`. Both have the same stride.
constexpr Index sum_below_shifted(const Run& queries, Index shift, const Run& keys) {
  return sum_clamped_ramp(queries.count, ceil_div(queries.first + shift - keys.first, keys.stride),
                          keys.count);
}

// Sum over `queries`, which all lie in `document`, how many `keys` their intervals hold. Piece by
// piece, each end of the interval is either a constant or the query's position plus a constant.
// `cuts` holds the positions where a piece can begin; only windows and prefixes have them.
constexpr Index pairs_in_document(const Mask& mask, Interval document, const Run& queries,
                                  const Run& keys) {
  const Index cuts[] = {
      document.first + mask.window - 1,  // i - window + 1 leaves the document's start
      document.last - mask.window,       // i + window reaches the document's end
      mask.prefix - mask.window,         // i + window reaches the prefix
      mask.prefix - 1};                  // i + 1 reaches the prefix
  const bool has_cuts = mask.window > 0 || mask.prefix >= 0;
  Index total = 0;
  Index begin = 0;
  while (begin < queries.count) {
    Index end = queries.count;
    for (const Index cut : cuts) {
      if (!has_cuts) break;
      const Index at = queries.rows_below(cut);
      if (at > begin) end = min_of(end, at);
    }
    const Run piece = queries.slice(begin, end);
    const Interval here = mask.allowed_keys(piece.first, document);
    const Interval there = mask.allowed_keys(piece.position(piece.count - 1), document);
    total += here.last == there.last ? piece.count * keys.rows_below(here.last)
                                     : sum_below_shifted(piece, here.last - piece.first, keys);
    total -= here.first == there.first ? piece.count * keys.rows_below(here.first)
                                       : sum_below_shifted(piece, here.first - piece.first, keys);
    begin = end;
  }
  return total;
}

// Return the number of allowed pairs between two runs of the same stride.
constexpr Index pairs_of_runs(const Mask& mask, const Run& queries, const Run& keys) {
  Index total = 0;
  Index begin = 0;
  while (begin < queries.count && keys.count > 0) {
    const Interval document = mask.document(mask.document_of(queries.position(begin)));
    const Index end = queries.rows_below(document.last);
    total += pairs_in_document(mask, document, queries.slice(begin, end), keys);
    begin = end;
  }
  return total;
}

// Return the number of allowed pairs between two runs of the same stride, within a slice. Each end
// of a query's interval is the largest, or least, of constants and of diagonals, which are the
// query's position plus a constant. Between the positions where any of them cross, the sums are
// those of pairs_in_document.
constexpr Index pairs_in_slice(const Mask& mask, const Slice& slice, const Run& queries,
                               const Run& keys) {
  Index total = 0;
  Index begin = queries.rows_below(slice.queries.first);
  const Index rows = queries.rows_below(slice.queries.last);
  while (begin < rows && keys.count > 0) {
    const Interval document = mask.document(mask.document_of(queries.position(begin)));
    const Interval within = intersection(document, slice.keys);
    const Index end_of_document = min_of(queries.rows_below(document.last), rows);
    const Index constants[] = {within.first, within.last, mask.prefix};
    const Index diagonals[] = {slice.first_offset, slice.last_offset, 1, 1 - mask.window,
                               mask.window};
    const auto keys_at = [&](Index row) {
      const Index i = queries.position(row);
      return intersection(mask.allowed_keys(i, document), slice.keys_of(i));
    };
    while (begin < end_of_document) {
      Index end = end_of_document;
      for (const Index constant : constants)
        for (const Index diagonal : diagonals) {
          const Index at = queries.rows_below(constant - diagonal);
          if (at > begin) end = min_of(end, at);
        }
      const Run piece = queries.slice(begin, end);
      const Interval here = keys_at(begin), there = keys_at(end - 1);
      begin = end;
      if (here.size() == 0 && there.size() == 0) continue;
      total += here.last == there.last ? piece.count * keys.rows_below(here.last)
                                       : sum_below_shifted(piece, here.last - piece.first, keys);
      total -= here.first == there.first ? piece.count * keys.rows_below(here.first)
                                         : sum_below_shifted(piece, here.first - piece.first, keys);
    }
  }
  return total;
}

}  // namespace closed_form

constexpr Index Region::pairs_by_runs(Interval q, Interval k) const {
  Index total = 0;
  queries.for_runs(q.first, q.last, [&](const Run& rows) {
    if (rows.count == 0) return;
    const Interval positions{rows.first, rows.position(rows.count - 1) + 1};
    keys.for_runs(k.first, k.last, [&](const Run& columns) {
      if (!mask.is_in_pieces()) {
        total += closed_form::pairs_of_runs(mask, rows, columns);
        return;
      }
      mask.for_pieces(positions, [&](const Mask& piece, const Slice& slice) {
        total += closed_form::pairs_in_slice(piece, slice, rows, columns);
      });
    });
  });
  return total;
}

constexpr Index Region::pairs_by_rows(Interval q, Interval k) const {
  Index total = 0;
  for (Index i = q.first; i < q.last; ++i)
    for_allowed_rows(i, [&](Interval rows) { total += intersection(rows, k).size(); });
  return total;
}

constexpr Index Region::pairs(Interval q, Interval k) const {
  if (queries.is_dealt() || keys.is_dealt() || mask.is_in_pieces() ||
      queries.stride() != keys.stride()) {
    if (q.size() == 0 || k.size() == 0) return 0;
    const Index slices = mask.slice_from(queries.global_position(q.last - 1)) -
                         mask.slice_from(queries.global_position(q.first)) + 1;
    const Index runs = queries.num_runs(q.first, q.last) * keys.num_runs(k.first, k.last);
    const bool by_runs = queries.stride() == keys.stride() && runs * slices <= q.size();
    return by_runs ? pairs_by_runs(q, k) : pairs_by_rows(q, k);
  }
  Index total = 0;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      total += closed_form::pairs_of_runs(mask, queries.run_within(a, q.first, q.last),
                                          keys.run_within(b, k.first, k.last));
  return total;
}

}  // namespace ringscope
