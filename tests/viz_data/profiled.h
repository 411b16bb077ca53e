// The profiles of a job of two ranks, as files: two iterations of two layers, forward and backward.
#pragma once

#include <string>
#include <vector>

#include "tests/core/tools/foreign/profile_text.h"
#include "tests/temporary_folder.h"

namespace ringscope {

// Microseconds of layer k of all four, counted from 1. Attention of a step takes kAttends forward and twice
// that backward, on rank 1 half of it. The hop begins 2 later, and 20 k after rank 0's attention it is over;
// then comes the second step. So a layer is shown for 3 * 2 * kAttends + 4 + 40 k.
inline constexpr double kAttends = 100;
inline constexpr double ends_late(int k) { return 20.0 * k; }

inline std::vector<std::string> write_profiles(const TemporaryFolder& folder) {
  std::vector<profiles::ProfileText> texts(2);
  double now = 1000;
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (auto& text : texts) text.add("user_annotation", "ProfilerStep#7", now - 40, 10, 1);
    for (const auto& [layer, length] :
         {std::pair(0, kAttends), {1, kAttends}, {1, 2 * kAttends}, {0, 2 * kAttends}}) {
      const bool back = length > kAttends;
      const double hop = length + ends_late(2 * iteration + layer + 1);
      for (int rank = 0; rank < 2; ++rank) {
        const char* const name = back ? profiles::kBackward : profiles::kAttention;
        texts[rank].kernel(profiles::kSendRecv, now + 2, hop, 20);
        for (const double begin : {now, now + 2 + hop})
          texts[rank].kernel(name, begin, rank == 1 ? length / 2 : length, 7);
      }
      now += 2 + hop + length + 50;
    }
  }
  std::vector<std::string> paths;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = fmt::format("rank{}.pt.trace.json", rank);
    folder.write(name, texts[rank].text(rank, 2));
    paths.push_back(folder.path(name));
  }
  return paths;
}

}  // namespace ringscope
