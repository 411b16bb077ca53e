// Every combination of the five kinds of mask at a small seqlen, each beside its definition: who
// may attend whom, written as the kinds are defined and sharing nothing with core/problem.
#pragma once

#include <string>
#include <vector>

#include "core/problem/mask.h"

namespace ringscope {

struct DefinedMask {
  Index seqlen = 0;
  bool causal = false;
  Index prefix = -1;                  // -1: none
  Index window = 0;                   // 0: none
  std::vector<Index> documents = {};  // lengths; empty: none
  Index sink = -1;                    // keys before it are in every window

  // Query i, key j.
  bool allows(Index i, Index j) const {
    if (causal && !(j <= i)) return false;
    if (prefix >= 0 && !(j <= i || j < prefix)) return false;
    if (window > 0 && j >= sink && !(i - j < window && j - i < window)) return false;
    Index begin = 0;
    for (const Index length : documents) {
      const auto inside = [&](Index x) { return begin <= x && x < begin + length; };
      if (inside(i) != inside(j)) return false;
      begin += length;
    }
    return true;
  }

  // As people spell it.
  std::string text() const {
    std::string text = causal ? "causal" : "full";
    if (prefix >= 0) text += "+prefix:" + std::to_string(prefix);
    if (window > 0) text += "+window:" + std::to_string(window);
    if (sink >= 0) text += "+sink:" + std::to_string(sink);
    for (std::size_t d = 0; d < documents.size(); ++d)
      text += (d == 0 ? "+documents:" : ",") + std::to_string(documents[d]);
    return text;
  }
  std::string name() const { return "seqlen " + std::to_string(seqlen) + " " + text(); }
};

// A DefinedMask as the code under test takes it.
class BuiltMask {
 public:
  explicit BuiltMask(const DefinedMask& defined) {
    for (const Index length : defined.documents)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + length);
    mask_ = {defined.seqlen, defined.causal, defined.prefix,
             defined.window, ends_.data(),   static_cast<Index>(ends_.size())};
  }
  BuiltMask(const BuiltMask&) = delete;
  const Mask& operator*() const { return mask_; }

 private:
  std::vector<Index> ends_;
  Mask mask_;
};

inline std::vector<DefinedMask> all_masks(Index seqlen) {
  std::vector<std::vector<Index>> documents = {{}, {seqlen}};
  if (seqlen >= 2) documents.push_back({1, seqlen - 1});
  if (seqlen >= 3) documents.push_back({seqlen / 2, seqlen - seqlen / 2 - 1, 1});
  if (seqlen >= 3) documents.push_back(std::vector<Index>(seqlen, 1));
  if (seqlen >= 6) documents.push_back({2, 3, seqlen - 5});
  std::vector<DefinedMask> masks;
  for (const bool causal : {false, true})
    for (const Index prefix : {Index{-1}, Index{0}, Index{1}, seqlen / 2, seqlen, seqlen + 3})
      for (const Index window : {Index{0}, Index{1}, Index{2}, Index{3}, seqlen, seqlen + 3})
        for (const auto& lengths : documents)
          masks.push_back({seqlen, causal, prefix, window, lengths});
  return masks;
}

}  // namespace ringscope
