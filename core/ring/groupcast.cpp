// The group cast: at step t a rank sends the rows of its own block that rank r + t needs straight to it,
// receives what it needs of rank r - t, and attends that. So each row goes once to each rank that needs
// it, and nobody passes anything on. No scheme whose queries stay at home can send less. Gradients
// go straight back. If P pairs of a row and another rank that needs it exist, all ranks together
// send 2 G d e P bytes forward and 2 G d (e + 4) P backward.
//
// A block lies in parts (core/problem/needed.h), one for each set of ranks; each is a KV block of its
// own. Parts that lie beside each other and go to the same rank are one message.
#include <fmt/format.h>

#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// What travels at a step, and how.
class Caster {
 public:
  Caster(Communicator& comm, BlockBackend& backend, const RingProblem& problem, RankMemory& mine,
         Pass pass)
      : comm_(comm), backend_(backend), problem_(problem), mine_(mine), pass_(pass) {
    for (int step = 1; step < steps(); ++step)
      if (rows(owner(step), step) > 0) last_attended_ = step;
  }

  int steps() const { return problem_.hops() + 1; }
  int owner(int step) const { return (comm_.rank() + n() - step) % n(); }
  // Call f(part, row) for the parts of an owner's block that the rank `step` further on needs, in the
  // order in which they arrive there, from row `row` of a buffer on.
  template <class F>
  void for_parts(int owner, int step, const F& f) const {
    Index row = 0;
    for (const BlockPart& part : problem_.parted->of_owner[owner]) {
      if (!part.needed_by[step]) continue;
      f(part, row);
      row += part.size();
    }
  }
  Index rows(int owner, int step) const {
    Index rows = 0;
    for_parts(owner, step, [&](const BlockPart& part, Index) { rows += part.size(); });
    return rows;
  }
  // Describe what is done with a part at a step, or with all that belongs to the step.
  StepInfo info(int step) const { return {pass_, step, owner(step), false}; }
  StepInfo info(int step, const BlockPart& part, Index row) const {
    const bool last = step == last_attended_ && row + part.size() == rows(owner(step), step);
    return {pass_, step, owner(step), last};
  }
  Region region(const BlockPart& part) const { return problem_.region(comm_.rank(), part.rows); }
  std::byte* kv(int step, Index row) const {
    return (step == 0 ? mine_.own_kv() : mine_.extra_kv((step - 1) % 2)) +
           row * problem_.row_bytes(Payload::kv);
  }
  float* gradient(float* data, Index row) const {
    return data + row * problem_.row_bytes(Payload::dkv) / 4;
  }

  // Start to bring what this rank needs of the owner of `step`, into a buffer that is free after `free`.
  void start(int step, const Completion& free) {
    std::vector<Completion>& arrived = arrived_[step % 2];
    arrived.clear();
    if (step >= steps()) return;
    const int mine = comm_.rank(), theirs = owner(step);
    const std::vector<Interval> sent = messages(mine, step), received = messages(theirs, step);
    const Index row_bytes = problem_.row_bytes(Payload::kv);
    Index row = 0;
    for (int i = 0; i < problem_.parted->messages[step]; ++i) {
      const Interval send = i < std::ssize(sent) ? sent[i] : Interval{};
      const Index recv_rows = i < std::ssize(received) ? received[i].size() : 0;
      arrived.push_back(exchange(step, Payload::kv,
                                 {mine, kv(0, send.first), send.size() * row_bytes},
                                 {theirs, kv(step, row), recv_rows * row_bytes}, free));
      row += recv_rows;
    }
  }
  // Let all operations from now on come after the arrival of what start() brings.
  void await_arrival(int step) const {
    for (const Completion& arrived : arrived_[step % 2]) await(step, Payload::kv, arrived);
  }
  void await(int step, Payload payload, const Completion& over) const {
    backend_.await(info(step), payload, over);
  }
  // Send the gradient of a step's rows to their owner, and receive that of the own rows which another
  // rank attended.
  Completion give_back(int step, float* send, float* recv, const Completion& after) {
    const int mine = comm_.rank(), theirs = owner(step);
    const Index row_bytes = problem_.row_bytes(Payload::dkv);
    return exchange(step, Payload::dkv, {theirs, send, rows(theirs, step) * row_bytes},
                    {mine, recv, rows(mine, step) * row_bytes}, after);
  }

 private:
  int n() const { return comm_.world_size(); }
  // Return the rows of an owner's block, as it lies in memory, that go `step` ranks further on.
  std::vector<Interval> messages(int owner, int step) const {
    std::vector<Interval> messages;
    for_parts(owner, step, [&](const BlockPart& part, Index) {
      if (messages.empty() || messages.back().last != part.at)
        messages.push_back({part.at, part.at});
      messages.back().last += part.size();
    });
    return messages;
  }
  // Send something onwards and bring something from behind, or the other way round.
  Completion exchange(int step, Payload payload, const Held& sent, const Held& brought,
                      const Completion& after) {
    const int ahead = (comm_.rank() + step) % n(), behind = owner(step);
    const bool onwards = payload == Payload::kv;
    const Route route =
        onwards ? Route{Way::ring, ahead, behind} : Route{Way::backwards, behind, ahead};
    return comm_.exchange(without_empty_halves(hop_of(pass_, payload, onwards ? step - 1 : step,
                                                      sent, brought, route)),
                          {after});
  }

  Communicator& comm_;
  BlockBackend& backend_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
  std::vector<Completion> arrived_[2];  // by buffer
  int last_attended_ = 0;               // the step at which this rank attends its last part
};

void groupcast_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine) {
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);
  Caster caster(comm, backend, problem, mine, Pass::forward);
  Completion attended[2];  // by buffer
  for (int step = 0; step < caster.steps(); ++step) {
    caster.start(step + 1, attended[(step + 1) % 2]);
    caster.await_arrival(step);
    caster.for_parts(caster.owner(step), step, [&](const BlockPart& part, Index row) {
      attended[step % 2] = backend.attend(caster.info(step, part, row), caster.region(part), q,
                                          {caster.kv(step, row), part.size()}, state, nullptr);
    });
  }
  backend.finish(q, state);
}

KvGradient groupcast_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine) {
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  Completion computed = backend.begin_backward(q, state);  // the last operation
  Caster caster(comm, backend, problem, mine, Pass::backward);
  float* const own = mine.own_gradient();
  float* const incoming = mine.extra_gradient(2);
  std::vector<Completion> given(static_cast<std::size_t>(caster.steps()));
  // Add what others gave back of the own rows at a step.
  const auto take_back = [&](int step) {
    const StepInfo info = caster.info(step);
    caster.await(step, Payload::dkv, given[step]);
    caster.for_parts(comm.rank(), step, [&](const BlockPart& part, Index row) {
      computed = backend.add(info, {caster.gradient(own, part.at), part.size()},
                             {caster.gradient(incoming, row), part.size()}, nullptr);
    });
  };
  for (int step = 0; step < caster.steps(); ++step) {
    caster.start(step + 1, computed);
    caster.await_arrival(step);
    float* const share = step == 0 ? own : mine.extra_gradient(step % 2);
    caster.for_parts(caster.owner(step), step, [&](const BlockPart& part, Index row) {
      computed = backend.attend_backward(caster.info(step, part, row), caster.region(part), q,
                                         {caster.kv(step, row), part.size()}, state,
                                         {caster.gradient(share, row), part.size()}, nullptr);
    });
    if (step > 1) take_back(step - 1);  // the buffers of two steps later are free after it
    if (step > 0) given[step] = caster.give_back(step, share, incoming, computed);
  }
  if (caster.steps() > 1) take_back(caster.steps() - 1);
  backend.finish_backward({Pass::backward, caster.steps() - 1, comm.rank(), true}, q, state,
                          nullptr);
  return {own, problem.rows(comm.rank())};
}

}  // namespace

const Scheme kGroupcast{.name = "groupcast",
                        .parting = Parting::always,
                        .part_order = PartOrder::by_position,
                        .loop = only_loop<groupcast_forward, groupcast_backward>,
                        .accepted = [](const Problem& job) -> std::string {
                          if (job.world_size <= kMostPartedRanks) return "";
                          return fmt::format("1 to {} ranks", kMostPartedRanks);
                        },
                        .extras = [](const Problem& job) -> std::optional<Extras> {
                          Extras extras = extras_of_share(job.shape, 1);
                          extras.kv = buffers_of_turns(job.world_size);
                          extras.gradients = 3;
                          return extras;
                        }};

}  // namespace ringscope
