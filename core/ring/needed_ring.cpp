// The ring that sends what is needed. Blocks lie in parts (core/problem/needed.h), which travel as far as
// the last rank that attends any of their rows; each part is a KV block of its own. What is held
// after t hops are a block's first parts, so a hop sends the beginning of a buffer.
//
// Backward, the gradients of parts follow them, one step behind, from the first rank that is not the
// owner on. The last rank that needs a part sends the finished sum straight to its owner, one message
// for all parts that end at the same step. So as many rows of gradients move as of blocks: a row
// that makes h hops costs 2 G d h e bytes forward and 2 G d h (e + 4) backward. (In a ring that sends
// everything, each row makes N - 1 hops, and its gradient N.)
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// One rank's view of the blocks in parts.
class Parts {
 public:
  Parts(const RingProblem& problem, const RingSchedule& ring) : problem_(problem), ring_(ring) {
    for (int step = 1; step <= last_step(); ++step)
      if (rows(ring_.owner(step), step) > 0) last_attended_ = step;
  }

  int last_step() const { return problem_.hops(); }
  // Return how many rows of an owner's block are held `hop` hops after it.
  Index rows(int owner, int hop) const { return problem_.parted->rows(owner, hop); }
  // Return where row `row` of a block or gradient lies that begins at `data`.
  template <class Value>
  Value* at(Value* data, Index row, Payload payload) const {
    return data + row * problem_.row_bytes(payload) / static_cast<Index>(sizeof(Value));
  }
  // Return whether there is anything to attend at a step. If not, the rank still waits for the hop, whose
  // other half sends what the next hop may overwrite.
  bool holds(int step) const { return step == 0 || rows(ring_.owner(step), step) > 0; }
  // Call attend(info, region, block, first row) for the parts that are held at a step.
  template <class F>
  void for_held(Pass pass, int step, const std::byte* data, const F& attend) const {
    const int owner = ring_.owner(step);
    const Index held = rows(owner, step);
    for (const BlockPart& part : problem_.parted->of_owner[owner]) {
      if (part.at >= held && step > 0) break;
      const bool ends = step == last_attended_ && part.at + part.size() == held;
      attend(StepInfo{pass, step, owner, ends}, problem_.region(ring_.rank, part.rows),
             KvBlock{at(data, part.at, Payload::kv), part.size()}, part.at);
    }
  }

 private:
  const RingProblem& problem_;
  RingSchedule ring_;
  int last_attended_ = 0;  // the step at which this rank attends its last block
};

void needed_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const Parts parts(problem, ring);
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);

  KvHops hops(comm, problem, mine, Pass::forward, {});
  for (int step = 0; step <= parts.last_step(); ++step) {
    hops.start(step);
    if (!parts.holds(step)) {
      backend.await({Pass::forward, step, ring.owner(step), false}, Payload::kv,
                    hops.arrived(step));
      continue;
    }
    Completion attended;
    parts.for_held(Pass::forward, step, mine.kv_at_step(step),
                   [&](const StepInfo& info, const Region& region, const KvBlock& block, Index) {
                     attended = backend.attend(info, region, q, block, state, hops.arrived(step));
                   });
    hops.consumed(step, attended);
  }
  backend.finish(q, state);
}

KvGradient needed_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const Parts parts(problem, ring);
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  Completion computed = backend.begin_backward(q, state);  // the last operation

  float* const own = mine.own_gradient();
  float* const incoming = mine.extra_gradient(2);
  float* const returned = mine.extra_gradient(3);  // each part's sum where the part lies
  // Send rows of gradients at the end of a step, and bring others.
  const auto exchange = [&](int step, float* send, Index send_rows, int recv_owner, float* recv,
                            Index recv_rows, const Route& route) {
    const Index row = problem.row_bytes(Payload::dkv);
    return comm.exchange(without_empty_halves(hop_of(Pass::backward, Payload::dkv, step,
                                                     {ring.owner(step), send, send_rows * row},
                                                     {recv_owner, recv, recv_rows * row}, route)),
                         {computed});
  };

  KvHops hops(comm, problem, mine, Pass::backward, computed);
  const int last_step = parts.last_step();
  std::vector<Completion> onwards(last_step + 1), home(last_step + 1);  // by step
  for (int step = 0; step <= last_step; ++step) {
    hops.start(step);
    const int owner = ring.owner(step);
    const StepInfo info{Pass::backward, step, owner, false};
    if (step > 2)  // whose sum was in the same buffer
      for (const Completion& sent : {onwards[step - 2], home[step - 2]})
        backend.await(info, Payload::dkv, sent);
    if (!parts.holds(step)) backend.await(info, Payload::kv, hops.arrived(step));
    float* const sum = step == 0 ? own : mine.extra_gradient(step % 2);
    Completion attended;
    parts.for_held(
        Pass::backward, step, mine.kv_at_step(step),
        [&](const StepInfo& at, const Region& region, const KvBlock& block, Index first) {
          computed = attended = backend.attend_backward(
              at, region, q, block, state, {parts.at(sum, first, Payload::dkv), block.rows},
              hops.arrived(step));
        });
    if (parts.holds(step)) hops.consumed(step, attended);
    if (step == 0) continue;
    const Index held = parts.rows(owner, step), further = parts.rows(owner, step + 1);
    if (step > 1 && held > 0) {
      computed = backend.add(info, {sum, held}, {incoming, held}, onwards[step - 1]);
    } else if (step > 1) {
      backend.await(info, Payload::dkv, onwards[step - 1]);
    }
    if (step < last_step) {
      const int next_owner = ring.owner(step + 1);
      onwards[step] =
          exchange(step, sum, further, next_owner, incoming, parts.rows(next_owner, step + 1), {});
    }
    const Index mine_further = parts.rows(ring.rank, step + 1);
    home[step] = exchange(step, parts.at(sum, further, Payload::dkv), held - further, ring.rank,
                          parts.at(returned, mine_further, Payload::dkv),
                          parts.rows(ring.rank, step) - mine_further,
                          {Way::backwards, owner, (ring.rank + step) % ring.world_size});
  }

  const StepInfo last{Pass::backward, last_step, ring.rank, true};
  for (const std::vector<Completion>* hops_of_rank : {&onwards, &home})
    for (const Completion& over : *hops_of_rank) backend.await(last, Payload::dkv, over);
  if (const Index travelled = parts.rows(ring.rank, 1); travelled > 0)
    backend.add(last, {own, travelled}, {returned, travelled}, nullptr);
  backend.finish_backward(last, q, state, nullptr);
  return {own, problem.rows(ring.rank)};
}

}  // namespace

// Both ways of the ring: blocks as they are (ring.h), and what is needed of them.
const Scheme kRing{.name = "ring",
                   .course = Course::steps,
                   .links = Links::to_next,
                   .parting = Parting::where_asked,
                   .loop = [](const RingProblem& problem) {
                     return problem.parted ? Loop{needed_forward, needed_backward} : flat_ring();
                   }};

}  // namespace ringscope
