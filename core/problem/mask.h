// Which queries may attend which keys, by global position. Five kinds of mask, and every combination
// of them, share one property that everything else is built on:
//
//   the keys that query i may attend are ONE interval [first, last), both ends never decrease as i
//   grows, and i itself always lies inside.
//
//   full        [0, S)
//   causal      [0, i+1)
//   prefix P    [0, max(i+1, P))
//   window W    [i-W+1, i+W)
//   documents   [start, end) of i's document
//
// A combination is the intersection of its parts. Tile classes and pair counts
// (core/problem/region.h) follow from it in closed form.
//
// Two more kinds lack that property. They cut a combination into pieces, each of which has one
// interval per query, and a query's keys are the union of a few disjoint intervals (or of none):
//
//   sink K      the keys below K, without the window; and the keys from K on, within it (a learned
//               sink per head, `run --sink-logits`, is another thing and no part of a mask)
//   ranges      a slice of queries x keys each: all of it, or one side of a diagonal through it
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

// An interval of positions, or of local rows: [first, last).
struct Interval {
  Index first = 0;
  Index last = 0;

  constexpr Index size() const { return last > first ? last - first : 0; }
  constexpr bool contains(Index x) const { return first <= x && x < last; }
  constexpr bool operator==(const Interval&) const = default;
};

constexpr Interval intersection(Interval a, Interval b) {
  return {max_of(a.first, b.first), min_of(a.last, b.last)};
}

// Queries x keys that may attend each other, if also i + first_offset <= j < i + last_offset.
struct Slice {
  // An offset beyond every position, which excludes nothing.
  static constexpr Index kFar = Index{1} << 40;
  Interval queries, keys;
  Index first_offset = -kFar;
  Index last_offset = kFar;

  constexpr Interval keys_of(Index i) const {
    return intersection(keys, {i + first_offset, i + last_offset});
  }
};

// A mask as kernels see it: plain numbers, and pointers to the documents' ends and the slices. The
// caller owns those (a MaskSpec on the host, a device buffer on a GPU).
struct Mask {
  Index seqlen = 0;
  bool causal = false;                   // j <= i
  Index prefix = -1;                     // j <= i or j < prefix; -1: no prefix mask
  Index window = 0;                      // |i - j| < window; 0: no window mask
  const Index* document_ends = nullptr;  // ascending, the last one == seqlen
  Index num_documents = 0;               // 0: no documents mask
  Index sink = 0;                        // keys below it need not be in the window
  const Slice* slices = nullptr;         // ascending, in bands: the queries of two slices are the
                                         // same or disjoint
  Index num_slices = 0;                  // 0: no ranges mask

  // Return whether a query's keys may be more, or less, than one interval.
  constexpr bool is_in_pieces() const { return sink > 0 || num_slices > 0; }

  // Return the index of `position`'s document (0 without documents) in O(log num_documents).
  constexpr Index document_of(Index position) const {
    Index low = 0, high = num_documents - 1;
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (position < document_ends[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return max_of(low, 0);
  }
  constexpr Interval document(Index d) const {
    if (num_documents == 0) return {0, seqlen};
    return {d == 0 ? 0 : document_ends[d - 1], document_ends[d]};
  }

  // The next two are for masks that are not in pieces.
  // Return the keys that a query at global position i may attend, given the document that holds i.
  constexpr Interval allowed_keys(Index i, Interval document) const {
    Interval keys = document;
    if (prefix >= 0) keys.last = min_of(keys.last, max_of(i + 1, prefix));
    if (causal) keys.last = min_of(keys.last, i + 1);
    if (window > 0) {
      keys.first = max_of(keys.first, i - window + 1);
      keys.last = min_of(keys.last, i + window);
    }
    return keys;
  }
  constexpr Interval allowed_keys(Index i) const {
    return allowed_keys(i, document(document_of(i)));
  }

  // Return the first slice that holds queries from i on, or num_slices, in O(log num_slices).
  constexpr Index slice_from(Index i) const {
    Index low = 0, high = num_slices;
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (slices[middle].queries.last <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // Call f(slice) for the slices that hold any of `queries`, or once with a slice that allows
  // everything if there is no ranges mask.
  template <class F>
  constexpr void for_slices(Interval queries, F&& f) const {
    if (num_slices == 0) return f(Slice{{0, seqlen}, {0, seqlen}});
    for (Index k = slice_from(queries.first);
         k < num_slices && slices[k].queries.first < queries.last; ++k)
      f(slices[k]);
  }
  // Call f(mask, slice) for the pieces of the mask that hold any of `queries`. The keys of query i
  // in a piece are mask.allowed_keys(i) within slice.keys_of(i); the pieces' pairs are disjoint.
  template <class F>
  constexpr void for_pieces(Interval queries, F&& f) const {
    Mask within = *this;
    within.sink = within.num_slices = 0;
    Mask below = within;
    below.window = 0;
    for_slices(queries, [&](Slice slice) {
      if (sink == 0) return f(within, slice);
      const Interval all = slice.keys;
      slice.keys.last = min_of(all.last, sink);
      f(below, slice);
      slice.keys = {max_of(all.first, sink), all.last};
      f(within, slice);
    });
  }
  // Call f(interval) for the keys that a query at global position i may attend, ascending. The
  // intervals are not empty and do not touch.
  template <class F>
  constexpr void for_allowed(Index i, F&& f) const {
    Interval open;
    const auto take = [&](Interval keys) {
      if (keys.size() == 0) return;
      if (open.size() > 0 && keys.first == open.last) {
        open.last = keys.last;
        return;
      }
      if (open.size() > 0) f(open);
      open = keys;
    };
    if (is_in_pieces()) {
      for_pieces({i, i + 1}, [&](const Mask& piece, const Slice& slice) {
        take(intersection(piece.allowed_keys(i), slice.keys_of(i)));
      });
    } else {
      take(allowed_keys(i));
    }
    if (open.size() > 0) f(open);
  }
  constexpr bool allows(Index i, Index j) const {
    if (!is_in_pieces()) return allowed_keys(i).contains(j);
    bool is_allowed = false;
    for_allowed(i, [&](Interval keys) { is_allowed = is_allowed || keys.contains(j); });
    return is_allowed;
  }
};

// ---
// Masks as people write them: `full`, `causal`, `prefix:P`, `window:W`, `sink:K`,
// `documents:L1,L2,…`, `ranges:FILE`, joined by `+`, which allows a pair only if every part allows
// it. A sink adds to the window alone: keys below K need not be in it.
//
// FILE has a line a slice, `q0 q1 k0 k1 full|causal|inverse`, with half-open ranges. In a causal
// slice, a diagonal that ends in the bottom right corner bounds the keys from above. In an inverse
// one, a diagonal that begins in the top left corner bounds them from below (the "causal" and
// "inverse causal" masks of MagiAttention's AttnSlice). Slices do not overlap, and queries outside
// of all attend nothing.

inline constexpr const char* kAcceptedMasks =
    "full, causal, window:W, sink:K, prefix:P, documents:L1,L2,..., ranges:FILE, and several of "
    "them joined by +";

// Return the parts of a mask's name. What follows `ranges:FILE`, joined by +, and begins like none of
// them belongs to the file's path.
std::vector<std::string_view> mask_parts(std::string_view name);

class MaskSpec {
 public:
  // Make the mask `full`.
  MaskSpec() = default;

  // Parse `text`, and read the file that a ranges part names. Throw an InputError that names the
  // value and what is accepted: for an unknown or repeated kind, a window or a sink below 1, a sink
  // without a window, a prefix below 0, a document shorter than 1, or slices that overlap.
  static MaskSpec parse(std::string_view text);
  // Do the same without opening a file: `slices` has what slice_numbers() returned.
  static MaskSpec recorded(std::string_view text, const std::vector<Index>& slices);

  // Return the mask for sequences of `seqlen` positions, which points into this object. Throw
  // InputError when the document lengths don't sum up to seqlen, or slices lie outside.
  Mask for_seqlen(Index seqlen) const;

  // Return the canonical spelling, which parse() reads back to an equal mask. The order of its
  // parts is causal, prefix, window, sink, documents, ranges; it is `full` when there are no parts.
  std::string name() const;

  // Return a text that differs where the name or the slices differ.
  std::string identity() const;
  // Return the slices as five numbers each: q0, q1, k0, k1, and 0 full, 1 causal, 2 inverse.
  const std::vector<Index>& slice_numbers() const { return slice_numbers_; }
  bool has_ranges() const { return !slice_numbers_.empty(); }
  bool has_documents() const { return !document_ends_.empty(); }
  bool is_in_pieces() const { return sink_ > 0 || has_ranges(); }

 private:
  static MaskSpec parse_parts(std::string_view text, const std::vector<Index>* recorded_slices);
  void read_slices();
  // `lines` are those of the file, for messages; empty: the slices' numbers.
  void set_slices(std::vector<Index> numbers, const std::vector<Index>& lines);

  bool causal_ = false;
  Index prefix_ = -1;
  Index window_ = 0;
  Index sink_ = -1;
  std::vector<Index> document_ends_;
  std::string ranges_file_;
  std::vector<Index> slice_numbers_;
  std::vector<Slice> slices_;  // cut into bands
};

}  // namespace ringscope
