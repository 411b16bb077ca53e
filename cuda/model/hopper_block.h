// What the model of Hopper keeps for a block and for each of its threads while they run.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cuda/model/hopper.h"
#include "cuda/model/simt.h"

namespace ringscope::cuda::model {

// The address of a block's first byte of shared memory.
inline constexpr std::uint32_t shared_window = 1024;

struct HopperBlock {
  std::vector<unsigned char> async_view;  // shared memory as copies and WGMMA see it
  bool fenced = false;                    // a fence_proxy_async since the view was last renewed
  std::vector<int> registers;             // a thread, by warpgroup
};

// Lives to the end of the block; keeps the block's alive.
class HopperThread : public ThreadState {
 public:
  void end() override;

  std::shared_ptr<HopperBlock> block;
  bool fenced = false;  // a wgmma_fence since the last wait
  std::vector<WgmmaProduct> open;
  std::deque<std::vector<WgmmaProduct>> groups;  // committed, oldest first; empty when done
};

// The running thread's.
HopperThread& hopper_thread();

// Throws ModelError unless the bytes lie in shared memory and are aligned.
void check_shared(const void* begin, std::size_t bytes, std::size_t alignment, const char* what);

}  // namespace ringscope::cuda::model
