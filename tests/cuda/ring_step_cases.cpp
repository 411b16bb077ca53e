// Which problems the kernels are put through, and on which devices and schedules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "tests/core/ring/ring_case.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {

float StepCase::softmax_scale() const {
  return score_deviation / std::sqrt(static_cast<float>(head_dim));
}

std::string to_string(const StepCase& tested) {
  return fmt::format(
      "{} batch {} heads {} heads_kv {} seqlen {} head_dim {} mask {} {} world_size {} tile {} "
      "score_deviation {} skip_empty {} only_step {} seed {} head_dim_v {} queries {} from {} "
      "sinks {}",
      name_of(tested.dtype), tested.batch, tested.heads, tested.heads_kv, tested.seqlen,
      tested.head_dim, tested.mask, name_of(tested.partition), tested.world_size, tested.tile,
      tested.score_deviation, tested.skip_empty, tested.only_step, tested.seed, tested.value_dim(),
      tested.seqlen_q(), tested.q_offset, tested.sinks.size());
}

Tensors<float> inputs_of(const StepCase& tested) {
  AttentionShape shape = tested.shape();
  shape.head_dim = std::max(shape.head_dim, Index{tested.value_dim()});
  Tensors<float> in = random_tensors(shape, tested.seed, tested.dtype);
  const Index rows = tested.batch * tested.heads * tested.seqlen_q();
  const Index keys = tested.batch * tested.heads_kv * tested.seqlen;
  in.q.resize(rows * tested.head_dim);
  in.k.resize(keys * tested.head_dim);
  in.v.resize(keys * tested.value_dim());
  in.dout.resize(rows * tested.value_dim());
  return in;
}

std::vector<StepCase> awkward_cases(DType dtype, const std::vector<int>& head_dims, int tiles) {
  std::vector<StepCase> cases;
  const auto pick = [&](const auto& list) { return list.begin()[cases.size() % list.size()]; };
  struct Heads {
    int batch, heads, heads_kv;
  };
  const auto add = [&](int mask, PartitionKind partition, Index seqlen) {
    // List lengths without common divisors, so that everything meets everything else.
    const Heads heads =
        pick(std::initializer_list<Heads>{{1, 2, 1}, {1, 1, 1}, {2, 2, 2}, {1, 4, 2}, {1, 3, 1}});
    StepCase added{.batch = heads.batch,
                   .heads = heads.heads,
                   .heads_kv = heads.heads_kv,
                   .seqlen = seqlen,
                   .head_dim = pick(head_dims),
                   .partition = partition,
                   .world_size = pick(std::initializer_list<int>{1, 2, 3, 4, 5, 8, 2}),
                   .dtype = dtype,
                   .tile = static_cast<int>(cases.size() % tiles),
                   .score_deviation = pick(std::initializer_list<float>{1, 5, -2}),
                   .skip_empty = cases.size() % 4 != 1,
                   .seed = 100 + cases.size()};
    added.mask = mask < 9 ? masks_for(seqlen)[static_cast<std::size_t>(mask)] : "causal+window:1";
    cases.push_back(added);
  };
  for (int mask = 0; mask < 10; ++mask)
    for (const PartitionKind partition : kAllPartitions)
      add(mask, partition,
          pick(std::initializer_list<Index>{1, 100, 5, 17, 33, 64, 65, 2, 129, 130, 36}));
#ifdef RINGSCOPE_MODEL
  // The model takes its time: half of them, of each mask one partition at least. 13 divides no list's
  // length, so what is left is of all kinds.
  std::size_t turn = 0;
  std::erase_if(cases, [&](const StepCase&) { return turn++ * 5 % 13 >= 7; });
#endif
  for (const PartitionKind partition : kAllPartitions) {  // rows that meet no key, some or all
    add(1, partition, 70);
    cases.back().world_size = 4;
    cases.back().only_step = 1 + static_cast<int>(cases.size() % 3);
    cases.back().skip_empty = false;
  }
  for (const Index seqlen : {31, 63, 127}) {  // one key short of whole tiles
    add(0, PartitionKind::contiguous, seqlen);
    cases.back().world_size = 1;
  }
  for (const int mask : {0, 1, 2}) {  // several tiles in a row, so that tiles meet tiles
    add(mask, PartitionKind::contiguous, 300);
    cases.back().world_size = 1;
    cases.back().heads = cases.back().heads_kv = cases.back().batch = 1;
  }
  return cases;
}

StepCase as_the_model_can(StepCase tested, int ranks) {
#ifdef RINGSCOPE_MODEL
  if (tested.seqlen > 5) {
    tested.batch = 1;
    tested.heads_kv = std::min(tested.heads_kv, tested.seqlen > 40 ? 1 : 2);
    tested.heads = std::min(tested.heads, 2 * tested.heads_kv);
  }
  tested.world_size = std::min(tested.world_size, tested.seqlen > 40  ? ranks
                                                  : tested.seqlen > 5 ? 3
                                                                      : 5);
#else
  (void)ranks;
#endif
  return tested;
}

bool skip_without_device(const KernelLimits& limits) {
#ifdef RINGSCOPE_MODEL
  (void)limits;
  return false;
#else
  std::string reason;
  int devices = 0, major = 0, minor = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    reason = fmt::format("no GPU: {}", cudaGetErrorString(status));
  } else if (devices == 0) {
    reason = "no GPU";
  } else {
    RINGSCOPE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    RINGSCOPE_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    const int has = 10 * major + minor;
    if (limits.hopper ? has != 90 : has < kOldestArchitecture)
      reason = fmt::format("compute capability {}.{} is here, {} needed", major, minor,
                           limits.hopper ? "9.0 exactly" : "8.0 at least");
  }
  if (reason.empty()) return false;
  [&] { GTEST_SKIP() << reason; }();
  return true;
#endif
}

}  // namespace ringscope::cuda
