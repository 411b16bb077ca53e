// The state that the model of Hopper keeps for a running block and each of its threads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cuda/model/hopper.h"
#include "cuda/model/simt.h"

namespace ringscope::cuda::model {

// The address of the first byte of a block's shared memory.
inline constexpr std::uint32_t shared_window = 1024;

struct HopperBlock {
  std::vector<unsigned char> async_view;  // shared memory as copies and WGMMA see it
  bool fenced = false;                    // a fence_proxy_async came since the view's renewal
  std::vector<int> registers;             // registers per thread, by warpgroup
};

// Lives to the end of the block, and keeps the block's state alive.
class HopperThread : public ThreadState {
 public:
  void end() override;

  std::shared_ptr<HopperBlock> block;
  bool fenced = false;  // a wgmma_fence came since the last wait
  std::vector<WgmmaProduct> open;
  std::deque<std::vector<WgmmaProduct>> groups;  // committed, oldest first; empty when done
};

// Return the running thread's state.
HopperThread& hopper_thread();

// Throw ModelError unless the bytes lie in shared memory and are aligned.
void check_shared(const void* begin, std::size_t bytes, std::size_t alignment, const char* what);

}  // namespace ringscope::cuda::model
