// Commits the mistake that `--inject` asks for (faults.h), as a decorator around a rank's
// communicator: whatever moves the blocks then shows what such a mistake leads to.
#pragma once

#include <memory>

#include "core/base/buffer.h"
#include "core/ring/communicator.h"
#include "core/ring/config.h"

namespace ringscope {

// What a rank is, and so how it is killed.
enum class RankLives { in_a_thread, in_a_process };

// `inner`, or a decorator that owns it when `config` has this rank commit a mistake. `config` must
// outlive it, as `space`, in which the blocks lie.
std::unique_ptr<Communicator> with_faults(std::unique_ptr<Communicator> inner,
                                          const RingConfig& config, RankLives lives,
                                          MemorySpace& space = host_memory());

class FaultyCommunicator : public Communicator {
 public:
  // `row_bytes`: of one row of a KV block, K and V of all heads; `block_bytes`: of the largest block.
  // Every hop of the pass in which the mistake is made must be shown to it.
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const Injection& injection,
                     Index row_bytes, Index block_bytes, RankLives lives, MemorySpace& space);

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  Exchange with_wrong_count(Exchange hop);
  Exchange with_overwritten_block(Exchange hop, std::initializer_list<Completion> after);
  [[noreturn]] void die(int step) const;

  Injection injection_;
  Index row_bytes_;
  RankLives lives_;
  MemoryMeter meter_;
  // Made beforehand: on a device no memory is to be asked for while transfers wait for each other.
  Buffer<std::byte> sent_instead_;
  std::unique_ptr<Communicator> inner_;  // ends first, while the buffer can still be read
};

}  // namespace ringscope
