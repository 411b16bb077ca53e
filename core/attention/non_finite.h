// Keeping NaN and infinity where the mask puts them. A masked weight is 0, but 0 times NaN or
// infinity is NaN, and a product over a whole tile would carry it to rows that may not see it.
#pragma once

#include <utility>
#include <vector>

#include "core/attention/tiles.h"

namespace ringscope {

// The NaN and infinite values of a partial tile's right-hand rows, set to 0 while this object
// lives. Whoever multiplied adds their products afterwards, for the rows that may see them;
// everyone else's bits are as if all had been finite.
class NonFiniteTakenOut {
 public:
  // `tile` as load_rows wrote it; `none` when it is known to be finite.
  NonFiniteTakenOut(float* tile, Index rows, Index head_dim, bool none);
  ~NonFiniteTakenOut();  // puts them back
  NonFiniteTakenOut(const NonFiniteTakenOut&) = delete;
  NonFiniteTakenOut& operator=(const NonFiniteTakenOut&) = delete;

  // f(row, column, value) for each.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [at, value] : taken_) f(at / stride_, at % stride_, value);
  }

 private:
  float* tile_;
  Index stride_;
  std::vector<std::pair<Index, float>> taken_;
};

}  // namespace ringscope
