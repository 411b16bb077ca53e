// Ranks on the CPU: a thread each, blocks copied from thread to thread, attended by the CPU kernels.
#pragma once

#include "core/ring/engine.h"
#include "core/ring/thread_communicator.h"

namespace ringscope {

class ThreadEngine : public Engine {
 public:
  explicit ThreadEngine(int world_size) : ring_(world_size) {}

  std::string_view name() const override { return "cpu"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  void fail(const RunError& error) override { ring_.fail(error); }
  void throw_if_failed() override { ring_.throw_if_failed(); }

 private:
  ThreadRing ring_;
};

}  // namespace ringscope
