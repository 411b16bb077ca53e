#include <fmt/format.h>

#include "core/ring/two_level.h"

#include <algorithm>

#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// The hops of one pass's KV blocks, as far ahead of the computation as there are buffers: K for
// blocks that arrive inside the node, and K more for those from the previous node.
class TwoLevelKvHops {
 public:
  // The buffers may be overwritten after `free`.
  TwoLevelKvHops(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass,
                 const TwoLevelSchedule& ring, const Completion& free)
      : comm_(comm),
        problem_(problem),
        mine_(mine),
        pass_(pass),
        ring_(ring),
        here_(mine.kv_buffers()),
        between_(std::min(here_, ring.nodes)),
        arrived_here_(here_),
        attended_(here_, free),
        arrived_between_(between_),
        attended_first_(between_, free),
        sent_on_(between_, free) {}

  // Start the hops that have a buffer to arrive in when the attention of step `step` begins.
  void start(int step) {
    const int per_node = ring_.ranks_per_node;
    if (step % per_node == 0)
      for (; next_outer_ < std::min(step / per_node + between_, ring_.nodes); ++next_outer_)
        bring_from_previous_node(next_outer_);
    for (; next_ < std::min(step + here_, ring_.nodes * per_node); ++next_)
      if (next_ % per_node != 0) bring_inside_node(next_);
  }
  // Return the completion of the arrival of step `step`'s block.
  const Completion& arrived(int step) const {
    return step % ring_.ranks_per_node == 0 ? arrived_between_[outer_of(step) % between_]
                                            : arrived_here_[step % here_];
  }
  void attended(int step, const Completion& when) {
    attended_[step % here_] = when;
    if (step % ring_.ranks_per_node == 0) attended_first_[outer_of(step) % between_] = when;
  }

 private:
  int outer_of(int step) const { return step / ring_.ranks_per_node; }

  // Bring the block of step (outer, 0) into the buffer whose block was attended and sent on here.
  void bring_from_previous_node(int outer) {
    const int buffer = outer % between_, from_step = (outer - 1) * ring_.ranks_per_node;
    arrived_between_[buffer] =
        comm_.exchange(hop(Way::between_nodes, from_step, from_step + ring_.ranks_per_node,
                           ring_.next_node(), ring_.previous_node()),
                       {arrived(from_step), attended_first_[buffer], sent_on_[buffer]});
  }

  // Bring the block of `step` from the rank before in the node. The hop before it must be over,
  // because it may still read a buffer; within a turn it is the one that brought the block.
  void bring_inside_node(int step) {
    const Completion arrived_now =
        comm_.exchange(hop(Way::ring, step - 1, step, ring_.next_here(), ring_.previous_here()),
                       {arrived(step - 1), last_here_, attended_[step % here_]});
    last_here_ = arrived_here_[step % here_] = arrived_now;
    if (step % ring_.ranks_per_node == 1) sent_on_[outer_of(step) % between_] = arrived_now;
  }

  Exchange hop(Way way, int from_step, int to_step, int to, int from) const {
    const int owner = ring_.owner(from_step), next_owner = ring_.owner(to_step);
    return hop_of(pass_, Payload::kv, from_step,
                  {owner, block_at(from_step), problem_.kv_bytes(owner)},
                  {next_owner, block_at(to_step), problem_.kv_bytes(next_owner)}, {way, to, from});
  }
  std::byte* block_at(int step) const {
    return mine_.kv_at_turn(outer_of(step), step % ring_.ranks_per_node);
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
  TwoLevelSchedule ring_;
  int here_, between_;             // numbers of buffers
  int next_ = 1, next_outer_ = 1;  // the step, and the outer step, whose block comes next
  Completion last_here_;           // the last hop inside the node
  std::vector<Completion> arrived_here_, attended_;  // by buffer
  // By buffer: when its block arrived, was attended, and had been sent on inside the node.
  std::vector<Completion> arrived_between_, attended_first_, sent_on_;
};

void two_level_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine) {
  const TwoLevelSchedule ring{comm.rank(), problem.nodes, comm.world_size() / problem.nodes};
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);

  TwoLevelKvHops hops(comm, problem, mine, Pass::forward, ring, {});
  for (int outer = 0; outer < ring.nodes; ++outer)
    for (int inner = 0; inner < ring.ranks_per_node; ++inner) {
      const int step = outer * ring.ranks_per_node + inner, owner = ring.owner(outer, inner);
      hops.start(step);
      const KvBlock block{mine.kv_at_turn(outer, inner), problem.rows(owner)};
      hops.attended(
          step,
          backend.attend({Pass::forward, step, owner, step == comm.world_size() - 1},
                         problem.region(ring.rank, owner), q, block, state, hops.arrived(step)));
    }
  backend.finish(q, state);
}

KvGradient two_level_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine) {
  const TwoLevelSchedule ring{comm.rank(), problem.nodes, comm.world_size() / problem.nodes};
  const int last_place = ring.ranks_per_node - 1, last_step = comm.world_size() - 1;
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  const Completion begun = backend.begin_backward(q, state);
  const auto exchange_gradient = [&](Way way, int step, int owner, float* sum, int next_owner,
                                     float* incoming, const Completion& ready) {
    const bool is_here = way == Way::ring;
    const Route route{way, is_here ? ring.next_here() : ring.next_node(),
                      is_here ? ring.previous_here() : ring.previous_node()};
    return comm.exchange(
        hop_of(Pass::backward, Payload::dkv, step, {owner, sum, problem.gradient_bytes(owner)},
               {next_owner, incoming, problem.gradient_bytes(next_owner)}, route),
        {ready});
  };

  TwoLevelKvHops hops(comm, problem, mine, Pass::backward, ring, begun);
  Completion from_here, from_node;  // the sums of this node's earlier ranks, of the earlier nodes
  for (int outer = 0; outer < ring.nodes; ++outer)
    for (int inner = 0; inner <= last_place; ++inner) {
      const int step = outer * ring.ranks_per_node + inner, owner = ring.owner(outer, inner);
      hops.start(step);
      const StepInfo info{Pass::backward, step, owner, step == last_step};
      const KvBlock block{mine.kv_at_turn(outer, inner), problem.rows(owner)};
      // What leaves for the next node stays in a buffer of its own for a whole turn.
      const bool is_first_sum = inner == last_place && outer == 0;
      const KvGradient gradient{is_first_sum ? mine.node_gradient(0) : mine.gradient_at_step(step),
                                block.rows};
      const Completion attended = backend.attend_backward(
          info, problem.region(ring.rank, owner), q, block, state, gradient, hops.arrived(step));
      hops.attended(step, attended);
      Completion summed = attended;
      if (inner > 0)
        summed = backend.add(info, gradient, {mine.incoming_gradient(), block.rows}, from_here);
      if (inner < last_place) {
        const TwoLevelSchedule before{ring.previous_here(), ring.nodes, ring.ranks_per_node};
        from_here = exchange_gradient(Way::ring, step, owner, gradient.data,
                                      before.owner(outer, inner), mine.incoming_gradient(), summed);
      } else {
        const TwoLevelSchedule before{ring.previous_node(), ring.nodes, ring.ranks_per_node};
        if (outer > 0)
          summed = backend.add(info, {mine.node_gradient(outer), block.rows}, gradient, from_node);
        from_node =
            exchange_gradient(Way::between_nodes, step, owner, mine.node_gradient(outer),
                              before.owner(outer, inner), mine.node_gradient(outer + 1), summed);
      }
    }

  // Every sum is in its owner's node, one place before the owner.
  const Completion home =
      exchange_gradient(Way::ring, last_step, ring.next_here(), mine.node_gradient(ring.nodes),
                        ring.rank, mine.incoming_gradient(), from_node);
  backend.finish_backward({Pass::backward, last_step, ring.rank, true}, q, state, home);
  return {mine.incoming_gradient(), problem.rows(ring.rank)};
}

bool has_levels(const Problem& job) { return job.nodes > 1 && job.ranks_a_node() > 1; }

// Each level has its own buffers, because a block from the previous node stays for a whole turn
// around the node. Its gradient sum waits for that turn to end and travels during the next one.
void add_blocks_of_levels(const Problem& job, Bill& bill) {
  if (!has_levels(job)) return bill.add_ring_blocks();
  const int turns = std::min(job.nodes, job.kv_buffers);
  const int between = job.backward && turns < job.nodes ? turns + 1 : turns;
  bill.add_blocks(MemoryPart::Kind::kv, "KV blocks between nodes", between);
  bill.add_blocks(MemoryPart::Kind::kv_inside, "KV blocks inside a node",
                  std::min(job.nodes * (job.ranks_a_node() - 1), job.kv_buffers));
  if (!job.backward) return;
  bill.add_gradients("dK, dV, f32: summed, sent, incoming", 3);
  bill.add_gradients("dK, dV, f32, between nodes", 2);
}

}  // namespace

const Scheme kTwoLevel{
    .name = "two-level",
    .numbers = ":M",
    .counts_nodes = true,
    .course = Course::turns,
    // One level of two is the flat ring.
    .loop =
        [](const RingProblem& problem) {
          return problem.nodes > 1 && problem.nodes < problem.partition.world_size
                     ? Loop{two_level_forward, two_level_backward}
                     : Loop{ring_forward, ring_backward};
        },
    .accepted = [](const Problem& job) -> std::string {
      if (job.world_size % job.nodes == 0) return "";
      return fmt::format("two-level:M with M, the nodes, one of {}", divisors_text(job.world_size));
    },
    .blocks = add_blocks_of_levels,
    .multiple = [](const Problem& job) { return job.nodes; }};

}  // namespace ringscope
