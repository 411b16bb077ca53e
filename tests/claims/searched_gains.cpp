#include "tests/claims/searched_gains.h"

#include <algorithm>

#include "core/sim/searched.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

constexpr Granularity kGranularity = {128, 128};
constexpr int kExchanges = 150'000;

SearchedGain gain_under(const char* mask, int world_size) {
  const Rates rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  Job job = job_of(32, 8, 131072, world_size, mask);
  const auto ring = [&](std::string_view partition, const Work& work) {
    Balance balance = balance_of(work);
    const LayerTime time = layer_time(job, balance, rates);
    return TiledRing{partition, std::move(balance), time};
  };
  SearchedGain gain;
  gain.mask = mask;
  gain.world_size = world_size;
  const SearchedPartition found =
      search_partition({.job = job, .granularity = kGranularity, .exchanges = kExchanges});
  gain.searched = ring("searched", found.work);
  gain.most_ceiling = gain.searched.balance.mean_rank / found.least_slowest;
  for (const PartitionKind kind : kAllPartitions) {
    job.partition = kind;
    gain.fixed.push_back(ring(name_of(kind), Work(job, kGranularity)));
  }
  return gain;
}

}  // namespace

const TiledRing& SearchedGain::best_fixed() const {
  return *std::ranges::min_element(fixed, {},
                                   [](const TiledRing& ring) { return ring.time.total(); });
}

std::vector<SearchedGain> searched_gains() {
  std::vector<SearchedGain> gains;
  for (const char* mask :
       {"causal", "window:8192", "causal+window:8192", "prefix:32768",
        "documents:50000,40000,20000,15000,6072", "causal+documents:50000,40000,20000,15000,6072",
        "causal+window:8192+documents:50000,40000,20000,15000,6072",
        "causal+documents:30000,3000,900,25000,700,12000,8000,600,17000,5000,11000,2872,15000"})
    gains.push_back(gain_under(mask, 8));
  for (const char* mask : {"causal+window:8192", "causal+documents:50000,40000,20000,15000,6072"})
    gains.push_back(gain_under(mask, 64));
  return gains;
}

}  // namespace ringscope::claims
