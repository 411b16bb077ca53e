// A model checker for the schedules of the loops in core/ring. Each rank's loop runs once over seams of
// its own, which write down every operation, what it comes after, what it reads and writes, and how to
// do it. The checker then carries the operations out in every order that a machine could choose, with
// the CPU's arithmetic on small tensors.
//
// Who moves: a rank's computations, one after the other; and on each way its hops, one after the
// other, each as soon as both ranks have what it comes after. A hop is one transition pair (begin, end)
// at the receiver. `posts_late` adds that a rank which computes itself asks for a hop only after the
// computations before it, as on CPUs; otherwise the loop runs ahead, as on GPUs.
//
// Why not every order has to be tried: nothing ever chooses, and what is enabled stays enabled until it
// happens. So the order can matter only between two operations that touch the same bytes, one of them
// writing, while neither comes after the other; and two such operations overlap in the run that begins
// one of them and lets all others go on as far as they can before it ends. check_reduced() holds every
// operation back once, which is an ample set for each pair. A rank that waits forever waits in every
// order. check_all() tries every order without that argument, where there are few enough.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/ring/cpu_backend.h"
#include "core/threads/rank.h"
#include "core/threads/run.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope::schedule_model {

// A mistake that is made on purpose, by one rank, in its `at`-th operation of the kind.
struct Mistake {
  enum class Kind {
    none,
    arrival_not_awaited,  // an attention does not wait for its block
    buffer_not_awaited,   // a hop of KV does not wait until its buffer was consumed
    ends_swapped,         // a hop sends what it should receive into
    hops_reordered,       // a hop is asked for after the next one
    hop_left_out          // a hop is not asked for
  };
  Kind kind = Kind::none;
  int rank = 0;
  int at = 0;
};

// Memory that can be set back to what it was before the run.
class Arena : public MemorySpace {
 public:
  Arena() : bytes_(kBytes, std::byte{0xff}) {}
  void* allocate(Index bytes) override {
    used_ = (used_ + 63) / 64 * 64;
    if (used_ + static_cast<std::size_t>(bytes) > kBytes) throw std::bad_alloc();
    void* const here = bytes_.data() + used_;
    used_ += static_cast<std::size_t>(bytes);
    return here;
  }
  void release(void*) noexcept override {}
  void copy_in(void* to, const void* from, Index bytes) override {
    host_memory().copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, Index bytes) const override {
    host_memory().copy_out(to, from, bytes);
  }
  void keep() { kept_.assign(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_)); }
  void set_back() { std::copy(kept_.begin(), kept_.end(), bytes_.begin()); }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 18;
  std::vector<std::byte> bytes_, kept_;
  std::size_t used_ = 0;
};

struct Access {
  const std::byte* begin;
  const std::byte* end;
  bool writes;

  bool conflicts(const Access& b) const {
    return (writes || b.writes) && begin < b.end && b.begin < end;
  }
};

// An operation as a rank asked for it.
struct Operation {
  std::vector<int> after;    // operations of the same rank
  int computed_before = -1;  // the last computation that was asked for earlier
  std::vector<Access> accesses;
  std::function<void()> act;
  TraceEvent event;
  bool is_hop = false;
  Exchange hop;
};

class Promise : public PendingOperation {
 public:
  explicit Promise(int number) : operation(number) {}
  bool done() const override { return false; }
  void wait() override {}
  TransferTimes times() const override { return {}; }
  const int operation;
};

// Writes down one rank's loop.
class Seams : public Communicator, public BlockBackend {
 public:
  Seams(const Problem& job, const RingProblem& problem, int rank, const Mistake& mistake)
      : job_(job),
        params_(problem.params),
        rank_(rank),
        mistake_(mistake),
        cpu_(std::make_shared<CpuBackend>(problem.params, job.backward, nullptr)),
        share_(share_of_heads(job.shape, 1, 0)) {}

  std::vector<Operation> operations;

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }

  Completion exchange(const Exchange& asked, std::initializer_list<Completion> after) override {
    const int number = hops_++;
    if (is(Mistake::Kind::hop_left_out, number)) return nullptr;
    Exchange hop = asked;
    std::vector<Completion> awaited(after);
    if (hop.payload == Payload::kv && is(Mistake::Kind::buffer_not_awaited, kv_hops_++))
      awaited.pop_back();
    if (is(Mistake::Kind::ends_swapped, number)) {
      void* const recv = hop.recv;
      hop.recv = const_cast<void*>(hop.send);
      hop.send = recv;
    }
    Operation& made = add(awaited);
    made.is_hop = true;
    made.hop = hop;
    made.computed_before = last_computed_;
    return std::make_shared<Promise>(static_cast<int>(operations.size()) - 1);
  }

  Completion begin(const QueryBlock& q, const SoftmaxState& s) override {
    return compute({Pass::forward, 0, rank_}, {}, state_of(s, q.rows, true),
                   [=](CpuBackend& cpu) { cpu.begin(q, s); });
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& s, const Completion& after) override {
    std::vector<Access> touched = state_of(s, q.rows, true);
    reads(touched, q.q, query_values_of(q.rows) * stored());
    reads(touched, block.data, kv_values_of(block.rows) * stored());
    const Completion made = compute(step, arrival(after), touched, [=](CpuBackend& cpu) {
      cpu.attend(step, region, q, block, s, nullptr);
    });
    operations.back().event.pairs = region.pairs();
    return made;
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& s) override {
    std::vector<Access> touched = state_of(s, q.rows, true);
    writes(touched, s.lse, heads() * q.rows * 4);
    return compute({Pass::forward, job_.world_size - 1, rank_}, {}, touched,
                   [=](CpuBackend& cpu) { cpu.finish(q, s); });
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& s) override {
    std::vector<Access> touched;
    writes(touched, s.dq, query_values_of(q.rows) * 4);
    if (s.out != nullptr) {
      reads(touched, s.out, out_values_of(q.rows) * 4);
      reads(touched, q.dout, out_values_of(q.rows) * stored());
      writes(touched, s.delta, heads() * q.rows * 4);
    }
    return compute({Pass::backward, 0, rank_}, {}, touched,
                   [=](CpuBackend& cpu) { cpu.begin_backward(q, s); });
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& s,
                             const KvGradient& gradient, const Completion& after) override {
    std::vector<Access> touched;
    reads(touched, q.q, query_values_of(q.rows) * stored());
    reads(touched, q.dout, out_values_of(q.rows) * stored());
    reads(touched, block.data, kv_values_of(block.rows) * stored());
    reads(touched, s.row_max, heads() * q.rows * 4);
    reads(touched, s.row_sum, heads() * q.rows * 8);
    reads(touched, s.delta, heads() * q.rows * 4);
    writes(touched, s.dq, query_values_of(q.rows) * 4);
    writes(touched, gradient.data, kv_values_of(block.rows) * 4);
    const Completion made = compute(step, arrival(after), touched, [=](CpuBackend& cpu) {
      cpu.attend_backward(step, region, q, block, s, gradient, nullptr);
    });
    operations.back().event.pairs = region.pairs();
    return made;
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    std::vector<Access> touched;
    writes(touched, into.data, kv_values_of(into.rows) * 4);
    reads(touched, from.data, kv_values_of(into.rows) * 4);
    return compute(step, after, touched,
                   [=](CpuBackend& cpu) { cpu.add(step, into, from, nullptr); });
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& s,
                             const Completion& after) override {
    std::vector<Access> touched;
    writes(touched, s.dq, query_values_of(q.rows) * 4);
    return compute(step, after, touched,
                   [=](CpuBackend& cpu) { cpu.finish_backward(step, q, s, nullptr); });
  }
  void use_heads(const HeadShare& share) override { share_ = share; }
  void await(const StepInfo& step, Payload, const Completion& after) override {
    compute(step, after, {}, [](CpuBackend&) {});
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override {
    std::vector<Access> touched = state_of(into, q.rows, true);
    for (const Access& read : state_of(from, q.rows, false)) touched.push_back(read);
    return compute(step, after, touched,
                   [=](CpuBackend& cpu) { cpu.merge(step, q, into, from, nullptr); });
  }
  Completion add_dq(const StepInfo& step, const QueryBlock& q, const BackwardState& into,
                    const BackwardState& from, const Completion& after) override {
    std::vector<Access> touched;
    writes(touched, into.dq, query_values_of(q.rows) * 4);
    reads(touched, from.dq, query_values_of(q.rows) * 4);
    return compute(step, after, touched,
                   [=](CpuBackend& cpu) { cpu.add_dq(step, q, into, from, nullptr); });
  }
  const BlockStats& last_stats() const override { return cpu_->last_stats(); }

 private:
  bool is(Mistake::Kind kind, int number) const {
    return mistake_.kind == kind && mistake_.rank == rank_ && mistake_.at == number;
  }
  Completion arrival(const Completion& after) {
    return is(Mistake::Kind::arrival_not_awaited, attends_++) ? nullptr : after;
  }
  Index heads() const { return job_.shape.batch * share_.num_heads; }
  Index query_values_of(Index rows) const { return heads() * rows * job_.shape.head_dim; }
  Index out_values_of(Index rows) const { return heads() * rows * job_.shape.value_dim(); }
  Index kv_values_of(Index rows) const {
    return job_.shape.batch * share_.num_heads_kv * rows *
           (job_.shape.head_dim + job_.shape.value_dim());
  }
  Index stored() const { return bytes_of(job_.dtype); }
  static void touch(std::vector<Access>& touched, const void* at, Index bytes, bool writes) {
    const auto* const begin = static_cast<const std::byte*>(at);
    if (bytes > 0) touched.push_back({begin, begin + bytes, writes});
  }
  static void reads(std::vector<Access>& touched, const void* at, Index bytes) {
    touch(touched, at, bytes, false);
  }
  static void writes(std::vector<Access>& touched, const void* at, Index bytes) {
    touch(touched, at, bytes, true);
  }
  std::vector<Access> state_of(const SoftmaxState& s, Index rows, bool is_written) const {
    std::vector<Access> touched;
    touch(touched, s.row_max, heads() * rows * 4, is_written);
    touch(touched, s.row_sum, heads() * rows * 8, is_written);
    touch(touched, s.out_accum, out_values_of(rows) * 4, is_written);
    return touched;
  }
  Operation& add(const std::vector<Completion>& after) {
    Operation& made = operations.emplace_back();
    for (const Completion& earlier : after)
      if (earlier != nullptr) made.after.push_back(static_cast<const Promise&>(*earlier).operation);
    return made;
  }
  template <class Act>
  Completion compute(const StepInfo& step, const Completion& after,
                     const std::vector<Access>& touched, Act&& act) {
    Operation& made = add(std::vector<Completion>{after});
    made.accesses = touched;
    made.event = {
        .lane = Lane::compute, .pass = step.pass, .step = step.step, .kv_owner = step.kv_owner};
    made.act = [cpu = cpu_, share = share_, act] {
      cpu->use_heads(share);
      act(*cpu);
    };
    if (last_computed_ >= 0) made.after.push_back(last_computed_);
    last_computed_ = static_cast<int>(operations.size()) - 1;
    return std::make_shared<Promise>(last_computed_);
  }

  const Problem& job_;
  AttentionParams params_;
  int rank_;
  Mistake mistake_;
  std::shared_ptr<CpuBackend> cpu_;
  HeadShare share_;
  int last_computed_ = -1, attends_ = 0, hops_ = 0, kv_hops_ = 0;
};

// One thing that happens: a computation, or a hop's arrival at its receiver.
struct Node {
  int rank = 0, from = 0;
  std::vector<int> after;
  std::vector<Access> accesses;
  std::function<void()> act;
  TraceEvent event;
};

struct Verdict {
  std::string mistake;  // none: proven
  std::uint64_t states = 0;
  std::vector<int> order;        // counterexample: what had ended,
  std::vector<int> overlapping;  // what was under way, or waits forever
};

class Schedules {
 public:
  Schedules(const Problem& job, const AttentionInputs& inputs, bool posts_late,
            const Mistake& mistake = {})
      : job_(job), problem_(job_.ring_problem()) {
    std::vector<std::vector<Operation>> asked;
    for (int rank = 0; rank < job.world_size; ++rank) {
      arenas_.push_back(std::make_unique<Arena>());
      ranks_.push_back(std::make_unique<Rank>(job_, problem_, rank, *arenas_.back(), 0));
      WholeInputs source(job.shape, inputs);
      ranks_.back()->take_inputs(source);
      arenas_.back()->keep();
      Seams seams(job_, problem_, rank, mistake);
      ranks_.back()->run(seams, seams);
      asked.push_back(std::move(seams.operations));
    }
    join(asked, posts_late, mistake);
    sort();
  }

  const std::vector<Node>& nodes() const { return nodes_; }

  // Hold every operation back once, and compare each run's results with `expected`.
  Verdict check_reduced(const AttentionOutputs& expected) {
    Verdict verdict;
    if (is_wrong_from_the_start(verdict)) return verdict;
    // Conflicts first: where there are none, the results cannot depend on the order.
    for (int held = 0; held < size(); ++held)
      for (int node = 0; node < held; ++node)
        if (!comes_after(held, node) && !comes_after(node, held) && conflict(held, node))
          return overlap(node, held, verdict);
    for (int held = 0; held < size(); ++held) {
      verdict.order.clear();
      for (const auto& arena : arenas_) arena->set_back();
      const auto happens = [&](int node) {
        nodes_[at(node)].act();
        verdict.order.push_back(node);
        verdict.states += 2;
      };
      for (const int node : order_)
        if (comes_after(held, node)) happens(node);
      for (const int node : order_) {
        if (node == held || comes_after(held, node) || comes_after(node, held)) continue;
        happens(node);
      }
      happens(held);
      for (const int node : order_)
        if (comes_after(node, held)) happens(node);
      if (!gives(expected)) {
        verdict.mistake = "the results are not those of the threads";
        return verdict;
      }
    }
    verdict.order.clear();
    return verdict;
  }

  // Visit every state, at most `most` of them; results are not computed. Throw RunError beyond.
  Verdict check_all(std::size_t most) {
    Verdict verdict;
    if (is_wrong_from_the_start(verdict)) return verdict;
    // By node: '0' not begun, '1' under way, '2' over.
    std::vector<std::string> open{std::string(at(size()), '0')};
    std::unordered_set<std::string> seen(open.begin(), open.end());
    while (!open.empty()) {
      const std::string state = std::move(open.back());
      open.pop_back();
      ++verdict.states;
      bool goes_on = false;
      for (int node = 0; node < size(); ++node) {
        std::string next = state;
        if (state[at(node)] == '1') {
          next[at(node)] = '2';
        } else if (state[at(node)] == '0' &&
                   std::all_of(nodes_[at(node)].after.begin(), nodes_[at(node)].after.end(),
                               [&](int earlier) { return state[at(earlier)] == '2'; })) {
          for (int other = 0; other < size(); ++other)
            if (state[at(other)] == '1' && conflict(node, other))
              return overlap(other, node, verdict);
          next[at(node)] = '1';
        } else {
          continue;
        }
        goes_on = true;
        if (seen.insert(next).second) open.push_back(std::move(next));
        if (seen.size() > most) throw RunError("too many states");
      }
      if (!goes_on && state.find('0') != state.npos) {
        verdict.mistake = "ranks wait forever";
        return verdict;
      }
    }
    return verdict;
  }

  // Return the counterexample as a recording: a microsecond each, what was under way at the end.
  Recording recording(const Verdict& verdict) const {
    Recording made = empty_recording(job_, "cpu");
    made.info.base_time_ns = 0;
    made.events.resize(at(job_.world_size));
    made.dropped.assign(at(job_.world_size), 0);
    std::int64_t now = 0, flow = 0;
    const auto write = [&](int number, std::int64_t begin, std::int64_t end) {
      const Node& node = nodes_[at(number)];
      TraceEvent event = node.event;
      event.begin_ns = begin;
      event.end_ns = end;
      if (event.lane != Lane::compute) event.flow = ++flow;
      made.events[at(node.rank)].push_back(event);
      if (event.lane == Lane::compute) return;
      event.lane = Lane::send;
      made.events[at(node.from)].push_back(event);
    };
    for (const int number : verdict.order) {
      write(number, now, now + 1000);
      now += 1000;
    }
    for (const int number : verdict.overlapping) {
      write(number, now, now + 1000);
      // What conflicts on one lane follows there, because slices of a lane don't overlap.
      if (nodes_[at(number)].event.lane != Lane::compute) now += 1000;
    }
    const int last = verdict.overlapping.empty() ? -1 : verdict.overlapping.back();
    made.info.failure = RunEnd{verdict.mistake, last < 0 ? -1 : nodes_[at(last)].rank,
                               last < 0 ? -1 : nodes_[at(last)].event.step};
    return made;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool comes_after(int later, int earlier) const { return before_[at(later)][at(earlier)]; }

  // Make nodes of what the ranks asked for: hop i of a way receives what hop i of that way of its
  // sender sends.
  void join(const std::vector<std::vector<Operation>>& asked, bool posts_late,
            const Mistake& mistake) {
    const int n = job_.world_size;
    std::vector<int> first(at(n), 0);
    for (int rank = 1; rank < n; ++rank)
      first[at(rank)] = first[at(rank - 1)] + static_cast<int>(asked[at(rank - 1)].size());
    std::vector<std::vector<std::vector<int>>> hops(
        at(n), std::vector<std::vector<int>>(static_cast<std::size_t>(kWays)));
    std::vector<std::vector<int>> place(at(n));  // of a hop on its way
    for (int rank = 0; rank < n; ++rank) {
      place[at(rank)].resize(asked[at(rank)].size());
      for (int i = 0; i < static_cast<int>(asked[at(rank)].size()); ++i)
        if (asked[at(rank)][at(i)].is_hop)
          hops[at(rank)][static_cast<std::size_t>(asked[at(rank)][at(i)].hop.way)].push_back(i);
      if (mistake.kind == Mistake::Kind::hops_reordered && mistake.rank == rank)
        std::swap(hops[at(rank)][0].at(at(mistake.at)), hops[at(rank)][0].at(at(mistake.at + 1)));
      for (const auto& way : hops[at(rank)])
        for (std::size_t i = 0; i < way.size(); ++i)
          place[at(rank)][at(way[i])] = static_cast<int>(i);
    }
    const auto arrival = [&](int rank, int way, int i) -> int {
      const auto& of_way = hops[at(rank)][at(way)];
      return i < static_cast<int>(of_way.size()) ? first[at(rank)] + of_way[at(i)] : -1;
    };
    for (int rank = 0; rank < n; ++rank)
      for (const Operation& made : asked[at(rank)]) {
        const int number = static_cast<int>(nodes_.size());
        Node& node = nodes_.emplace_back();
        node.rank = node.from = rank;
        node.event = made.event;
        const auto wait_for_side = [&](int side, const Operation& operation) {
          for (const int earlier : operation.after) {
            const Operation& awaited = asked[at(side)][at(earlier)];
            // A hop that receives nothing is over when its own block has left, if it sends any.
            if (!awaited.is_hop || awaited.hop.receives())
              node.after.push_back(first[at(side)] + earlier);
            if (!awaited.is_hop || !awaited.hop.sends()) continue;
            // A hop is over when the own block has left as well.
            const int left =
                arrival(awaited.hop.receiver(side, n), static_cast<int>(awaited.hop.way),
                        place[at(side)][at(earlier)]);
            node.after.push_back(left < 0 ? number : left);
          }
          if (posts_late && operation.is_hop && operation.computed_before >= 0)
            node.after.push_back(first[at(side)] + operation.computed_before);
        };
        wait_for_side(rank, made);
        if (!made.is_hop) {
          node.accesses = made.accesses;
          node.act = made.act;
          continue;
        }
        const Exchange& in = made.hop;
        const int way = static_cast<int>(in.way), i = place[at(rank)][at(number - first[at(rank)])];
        if (!in.receives()) node.after.clear();
        if (i > 0) node.after.push_back(arrival(rank, way, i - 1));
        if (!in.receives()) {
          node.event = {
              .lane = Lane::send, .pass = in.pass, .payload = in.payload, .step = in.step};
          node.act = [] {};
          continue;
        }
        node.from = in.sender(rank, n);
        node.event = {.lane = Lane::recv,
                      .pass = in.pass,
                      .payload = in.payload,
                      .step = in.step,
                      .kv_owner = in.recv_owner,
                      .bytes = in.recv_bytes,
                      .src = node.from,
                      .dst = rank};
        const int sent = arrival(node.from, way, i);
        if (sent < 0) {
          node.after.push_back(number);  // never sent
          continue;
        }
        if (i > 0) node.after.push_back(arrival(node.from, way, i - 1));
        const Operation& theirs = asked[at(node.from)][at(sent - first[at(node.from)])];
        wait_for_side(node.from, theirs);
        const Exchange& out = theirs.hop;
        if (in.recv_bytes != out.send_bytes || in.recv_owner != out.send_owner ||
            in.payload != out.payload || !out.sends() || out.receiver(node.from, n) != rank) {
          mismatched_ = number;
          continue;
        }
        const auto bytes = static_cast<std::size_t>(in.recv_bytes);
        if (bytes == 0) {
          node.act = [] {};
          continue;
        }
        const auto* const source = static_cast<const std::byte*>(out.send);
        const auto* const target = static_cast<const std::byte*>(in.recv);
        node.accesses = {{source, source + bytes, false}, {target, target + bytes, true}};
        node.act = [to = in.recv, from = out.send, bytes] { std::memmove(to, from, bytes); };
      }
  }

  // Order the nodes, and note which come before which.
  void sort() {
    before_.assign(at(size()), std::vector<bool>(at(size()), false));
    std::vector<bool> is_placed(at(size()), false);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int node = 0; node < size(); ++node) {
        const auto& after = nodes_[at(node)].after;
        if (is_placed[at(node)] || !std::all_of(after.begin(), after.end(), [&](int earlier) {
              return is_placed[at(earlier)];
            }))
          continue;
        for (const int earlier : after) {
          before_[at(node)][at(earlier)] = true;
          for (int i = 0; i < size(); ++i)
            if (before_[at(earlier)][at(i)]) before_[at(node)][at(i)] = true;
        }
        is_placed[at(node)] = goes_on = true;
        order_.push_back(node);
      }
    }
  }

  bool is_wrong_from_the_start(Verdict& verdict) const {
    if (mismatched_ >= 0) {
      verdict.mistake = "a rank receives what was not sent to it";
      verdict.overlapping = {mismatched_};
    } else if (order_.size() < nodes_.size()) {
      verdict.mistake = "ranks wait forever";
      verdict.order = order_;
    }
    return !verdict.mistake.empty();
  }

  bool conflict(int a, int b) const {
    for (const Access& x : nodes_[at(a)].accesses)
      for (const Access& y : nodes_[at(b)].accesses)
        if (x.conflicts(y)) return true;
    return false;
  }

  Verdict overlap(int a, int b, Verdict verdict) const {
    verdict.mistake = "a buffer is written while it is in use";
    for (const int node : order_)
      if (comes_after(a, node) || comes_after(b, node)) verdict.order.push_back(node);
    verdict.overlapping = {a, b};
    return verdict;
  }

  bool gives(const AttentionOutputs& expected) const {
    AttentionOutputs outputs;
    outputs.resize(job_.shape, output_tensors(job_.backward));
    WholeOutputs sink(job_.shape, outputs);
    for (const auto& rank : ranks_) rank->give_outputs(sink);
    return bits_of(outputs) == bits_of(expected);
  }

  Problem job_;
  RingProblem problem_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Node> nodes_;
  std::vector<int> order_;
  std::vector<std::vector<bool>> before_;  // [later][earlier]
  int mismatched_ = -1;
};

}  // namespace ringscope::schedule_model
