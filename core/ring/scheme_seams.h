// What schemes beyond the ring ask of the seams (seams.h) besides: ways, shares of heads, and results
// of queries that other ranks have computed.
#pragma once

#include <cstdint>
#include <memory>

#include "core/attention/views.h"
#include "core/trace/event.h"

namespace ringscope {

struct StepInfo;
class PendingOperation;

// Hops of one way run in the order of their start, those of different ways at once where the
// communicator can: around the ring or inside a group of ranks; between nodes or groups; against the
// ring's direction; and around further rings, which have numbers alone.
enum class Way { ring, between_nodes, backwards };
inline constexpr int kWays = 6;
// Return the way of ring `i` of a multi-ring. Rings beyond the fifth share the last three.
constexpr Way way_of_ring(int i) {
  return i == 0 ? Way::ring : i == 1 ? Way::backwards : static_cast<Way>(3 + i % 3);
}

// Operations of a backend.
class SchemeBackend {
 public:
  virtual ~SchemeBackend() = default;

  // Let all operations from now on be over `share` of the heads alone, in all blocks.
  virtual void use_heads(const HeadShare& share) = 0;
  // Let all operations from now on come after `after`. Unless overridden, wait for it.
  virtual void await(const StepInfo& step, Payload payload,
                     const std::shared_ptr<PendingOperation>& after);
  // Return whether nothing is computed, and buffers are none, because the loop is only counted.
  virtual bool is_idle() const { return false; }
  // Take note that the loop itself attended a block, or part of it, from begin_ns until now
  // (monotonic), in so much processor time.
  virtual void attended(const StepInfo& /*step*/, const BlockStats& /*stats*/,
                        std::int64_t /*begin_ns*/, std::int64_t /*cpu_ns*/) {}
  // Merge the state of other keys into `into`, once `after` has happened.
  virtual std::shared_ptr<PendingOperation> merge(
      const StepInfo& step, const QueryBlock& q, const SoftmaxState& into, const SoftmaxState& from,
      const std::shared_ptr<PendingOperation>& after) = 0;
  // Compute into.dq += from.dq, once `after` has happened.
  virtual std::shared_ptr<PendingOperation> add_dq(
      const StepInfo& step, const QueryBlock& q, const BackwardState& into,
      const BackwardState& from, const std::shared_ptr<PendingOperation>& after) = 0;
};

}  // namespace ringscope
