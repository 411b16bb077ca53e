// What a rank's rows say of the positions that the rank holds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/problem/partition.h"

namespace ringscope {

// `held` are the positions, ascending, of a sequence of `seqlen`.
inline void expect_rows(const LocalRows& rows, const std::vector<Index>& held, Index seqlen) {
  const auto size = static_cast<Index>(held.size());
  ASSERT_EQ(rows.size(), size);
  for (Index row = 0; row < size; ++row) ASSERT_EQ(rows.global_position(row), held[row]);
  for (Index p = -3; p <= seqlen + 3; ++p)
    ASSERT_EQ(rows.rows_below(p), std::lower_bound(held.begin(), held.end(), p) - held.begin())
        << "position " << p;
  for (Index begin = 0; begin <= size; ++begin)
    for (Index end = begin; end <= size; ++end) {
      SCOPED_TRACE(testing::Message() << "local rows " << begin << " to " << end);
      std::vector<Index> members;
      Index runs = 0;
      rows.for_runs(begin, end, [&](const Run& run) {
        ++runs;
        for (Index i = 0; i < run.count; ++i) members.push_back(run.position(i));
      });
      if (rows.alternating) std::sort(members.begin(), members.end());
      ASSERT_EQ(members, std::vector(held.begin() + begin, held.begin() + end));
      ASSERT_EQ(runs, rows.num_runs(begin, end));
      if (rows.alternating && begin % 2 != 0) continue;
      const LocalRows part = rows.part(begin, end);
      ASSERT_EQ(part.size(), end - begin);
      for (Index i = 0; i < part.size(); ++i) ASSERT_EQ(part.global_position(i), members[i]);
      for (Index p = -1; p <= seqlen; ++p)
        ASSERT_EQ(part.rows_below(p), clamp(rows.rows_below(p) - begin, 0, end - begin));
    }
}

}  // namespace ringscope
