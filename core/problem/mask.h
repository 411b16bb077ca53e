// Which queries may attend which keys, by global position. All five kinds of mask, and every
// combination of them, share one property that everything else is built on:
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

// A mask as kernels see it: plain numbers, and a pointer to the documents' ends. The caller owns
// those (a MaskSpec on the host, a device buffer on a GPU).
struct Mask {
  Index seqlen = 0;
  bool causal = false;                   // j <= i
  Index prefix = -1;                     // j <= i or j < prefix; -1: no prefix mask
  Index window = 0;                      // |i - j| < window; 0: no window mask
  const Index* document_ends = nullptr;  // ascending, the last one == seqlen
  Index num_documents = 0;               // 0: no documents mask

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

  // [allowed_keys
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
  // allowed_keys]
  constexpr Interval allowed_keys(Index i) const {
    return allowed_keys(i, document(document_of(i)));
  }
  constexpr bool allows(Index i, Index j) const { return allowed_keys(i).contains(j); }
};

// ---
// Masks as people write them: `full`, `causal`, `prefix:P`, `window:W`, `documents:L1,L2,…`, joined
// by `+`, which allows a pair only if every part allows it.

class MaskSpec {
 public:
  // Make the mask `full`.
  MaskSpec() = default;

  // Parse `text`. Throw an InputError that names the value and what is accepted: for an unknown or
  // repeated kind, a window below 1, a prefix below 0, or a document shorter than 1.
  static MaskSpec parse(std::string_view text);

  // Return the mask for sequences of `seqlen` positions, which points into this object. Throw
  // InputError when the document lengths don't sum up to seqlen.
  Mask for_seqlen(Index seqlen) const;

  // Return the canonical spelling, which parse() reads back to an equal mask. The order of its
  // parts is causal, prefix, window, documents; it is `full` when there are no parts.
  std::string name() const;

 private:
  bool causal_ = false;
  Index prefix_ = -1;
  Index window_ = 0;
  std::vector<Index> document_ends_;
};

}  // namespace ringscope
