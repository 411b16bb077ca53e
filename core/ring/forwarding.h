// Decorators around both seams that only forward, for all that changes or watches what a loop asks for:
// recording, faults, the steps in errors, counts of bytes, and loops that are only counted or simulated.
#pragma once

#include <functional>

#include "core/ring/seams.h"

namespace ringscope {

// A communicator that only forwards. `inner` must outlive its hops, but not the object.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner)
      : inner_(inner), rank_(inner.rank()), world_size_(inner.world_size()) {}
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    return inner_.exchange(hop, after);
  }

 protected:
  Communicator& inner_;

 private:
  int rank_, world_size_;
};

// The operations of a backend that return a completion.
enum class BlockOperation {
  begin,
  attend,
  finish,
  begin_backward,
  attend_backward,
  add,
  finish_backward,
  merge,
  add_dq
};

// A backend that only forwards. A subclass overrides what it changes, or around() where it treats
// operations alike. `inner` must outlive it.
class ForwardingBackend : public BlockBackend {
 public:
  explicit ForwardingBackend(BlockBackend& inner) : inner_(inner) {}

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    return pass_on(BlockOperation::begin, nullptr, nullptr,
                   [&](const Completion&) { return inner_.begin(q, state); });
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    return pass_on(BlockOperation::attend, &step, after, [&](const Completion& earlier) {
      return inner_.attend(step, region, q, block, state, earlier);
    });
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    return pass_on(BlockOperation::finish, nullptr, nullptr,
                   [&](const Completion&) { return inner_.finish(q, state); });
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    return pass_on(BlockOperation::begin_backward, nullptr, nullptr,
                   [&](const Completion&) { return inner_.begin_backward(q, state); });
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    return pass_on(BlockOperation::attend_backward, &step, after, [&](const Completion& earlier) {
      return inner_.attend_backward(step, region, q, block, state, gradient, earlier);
    });
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    return pass_on(BlockOperation::add, &step, after, [&](const Completion& earlier) {
      return inner_.add(step, into, from, earlier);
    });
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override {
    return pass_on(BlockOperation::finish_backward, &step, after, [&](const Completion& earlier) {
      return inner_.finish_backward(step, q, state, earlier);
    });
  }
  void use_heads(const HeadShare& share) override { inner_.use_heads(share); }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    inner_.await(step, payload, after);
  }
  bool is_idle() const override { return inner_.is_idle(); }
  void attended(const StepInfo& step, const BlockStats& stats, std::int64_t begin_ns,
                std::int64_t cpu_ns) override {
    inner_.attended(step, stats, begin_ns, cpu_ns);
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override {
    return pass_on(BlockOperation::merge, &step, after, [&](const Completion& earlier) {
      return inner_.merge(step, q, into, from, earlier);
    });
  }
  Completion add_dq(const StepInfo& step, const QueryBlock& q, const BackwardState& into,
                    const BackwardState& from, const Completion& after) override {
    return pass_on(BlockOperation::add_dq, &step, after, [&](const Completion& earlier) {
      return inner_.add_dq(step, q, into, from, earlier);
    });
  }
  const BlockStats& last_stats() const override { return inner_.last_stats(); }

 protected:
  // Starts the inner backend's operation after a completion.
  using Start = std::function<Completion(const Completion& after)>;
  // Return start(after), or what a subclass makes of it. `step` is null for an operation that
  // belongs to none; such a one comes after nothing.
  virtual Completion around(BlockOperation, const StepInfo* /*step*/, const Completion& after,
                            const Start& start) {
    return start(after);
  }

  BlockBackend& inner_;

 private:
  template <class Operation>
  Completion pass_on(BlockOperation which, const StepInfo* step, const Completion& after,
                     const Operation& operation) {
    return around(which, step, after, std::ref(operation));  // which allocates nothing
  }
};

// A backend that starts nothing: around() says what becomes of each operation. There is no inner
// backend, so a subclass overrides await() and use_heads().
class IdleBackend : public ForwardingBackend {
 public:
  IdleBackend() : ForwardingBackend(*this) {}
  void use_heads(const HeadShare& share) override = 0;
  void await(const StepInfo& step, Payload payload, const Completion& after) override = 0;
  bool is_idle() const override { return true; }
  void attended(const StepInfo&, const BlockStats&, std::int64_t, std::int64_t) override {}
  const BlockStats& last_stats() const override { return none_; }

 protected:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override = 0;

 private:
  BlockStats none_;
};

}  // namespace ringscope
