// What a searched partition gains over the four fixed ones, under masks that those were not made for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/cost/balance.h"
#include "core/cost/layer_time.h"

namespace ringscope::claims {

// A ring over one partition, computing whole tiles of 128 x 128.
struct TiledRing {
  std::string_view partition;
  Balance balance;
  LayerTime time;  // of a layer, forward
};

struct SearchedGain {
  std::string mask;
  int world_size = 1;
  std::vector<TiledRing> fixed;  // as kAllPartitions
  TiledRing searched;
  double most_ceiling = 1;  // that chunks of 128 positions could have

  const TiledRing& best_fixed() const;  // the fastest
};

inline constexpr const char* kGainJob =
    "131,072 positions, 32 heads (8 kv heads) of 128, bf16, H100, NVLink 4";

std::vector<SearchedGain> searched_gains();

}  // namespace ringscope::claims
