// Three partitions measured elsewhere on eight GPUs, and what the simulator says of the same job.
//
// Published are runs a second of a PyTorch ring whose every step calls an attention kernel and
// merges what it returns (github.com/zhuzilin/ring-flash-attention, README at commit 01c8baf): the
// attention of an 8B model (32 heads, 8 kv heads, head_dim 128, bf16), causal, 8,192 tokens a GPU,
// batch 1; and of the kernel by itself on the tokens of one GPU, which a ring of 8 can't make 8
// times faster than: its 8 x 8 blocks of half the pairs are 8 times the work for every GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"
#include "core/cost/balance.h"
#include "core/cost/time.h"

namespace ringscope::claims {

// Runs a second.
struct MeasuredRuns {
  double kernel, contiguous, zigzag, striped;
};

struct MeasuredGpus {
  std::string name;
  double link_bytes_per_s;  // one way
  MeasuredRuns forward, both;
};

const std::vector<MeasuredGpus>& measured_gpus();

// What a step costs besides its pairs at the kernel's causal speed; the two numbers that make the
// simulation agree with two of three partitions.
struct StepCosts {
  double full_speed = 1;  // of blocks without mask, in pairs a second over those of causal ones
  double step_s = 0;      // of merging, launching, and whatever transfers take from the kernel
};

// Shares of the kernel's speed that a ring on 8 GPUs has.
struct Shares {
  double contiguous = 0, zigzag = 0, striped = 0;
};

struct EightGpus {
  std::string gpus;
  bool backward = false;  // forward and backward together
  Shares published = {};
  Shares balance = {};                                // by formula, of pairs alone
  Shares tiles = {};                                  // simulated: tiles of 128 x 128, the link
  StepCosts forward_costs = {}, backward_costs = {};  // fitted to contiguous and zigzag
  Shares with_costs = {};                             // simulated with them
  double hop_s = 0, step_s = 0;  // of K and V forward; a zigzag rank's second step beside it
};

// In the order of measured_gpus(), forward before both.
std::vector<EightGpus> eight_gpus();

// ---
// Speed-ups of whole training steps by striping (arXiv:2311.09431, tables 1, 3 and 4), and what the
// simulator says of the same models and machines.
//
// The paper's own account of its set-up: half of the devices split the model, so a ring has 4 of 8
// A100 and 8 of 16 TPUv4; attention skips whole tiles of 2,048 queries x 4,096 keys on GPUs, 2,048 x
// 2,048 on TPUs; on GPUs attention runs in TF32, at half the rate of everything else.

struct StripedSpeedup {
  std::string machine;
  int ring = 0;
  Index seqlen = 0;
  double published = 0;
  double published_limit = 0;  // the paper's "theoretical maximum"
  double limit = 0;            // attention by pairs, the rest of the step by FLOPs, all at the peak
  double in_tiles = 0;         // attention simulated, in the paper's tiles, over the machine's link
  // What both steps would have to take besides, over the striped one's time, to come down from
  // in_tiles to what was published; 0 where that is not slower.
  double missing = 0;
};

// The 3B model, by machine and seqlen.
std::vector<StripedSpeedup> striped_speedups();

// ---
// What a searched partition gains over the four fixed ones, under masks that those were not made for.

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

  const TiledRing& best_fixed() const;  // the fastest
};

inline constexpr const char* kGainJob =
    "131,072 positions, 32 heads (8 kv heads) of 128, bf16, H100, NVLink 4";

std::vector<SearchedGain> searched_gains();

// ---
// lessons/predicted.md: what the formulas and the simulator say, beside what others measured, and
// what searched partitions gain. Written from the same values that predicted_test.cpp asserts.

std::string predicted_page(const std::vector<EightGpus>& eight,
                           const std::vector<StripedSpeedup>& striped,
                           const std::vector<SearchedGain>& gains);

}  // namespace ringscope::claims
