// Tree attention (Shyam et al.; arXiv:2408.04093): K and V stay, every rank attends its own keys with
// the queries of all ranks, and the results climb a binary tree to the queries' owner. With one query, as
// in a decode, 2 ceil(log2 N) short rounds are all that happens one after another, where a ring takes N - 1
// hops of whole blocks. With many queries a rank sends as much as in pass-q, but it holds the queries and
// states of all ranks, and computes nothing while they travel.
//
// Each owner of queries is the root of a tree of its own. The rank t places on has place t there, and
// attends the owner's queries at step t. Place t > 0 hangs below t without its lowest set bit. Q goes down,
// over the largest distance first, and the states come up, over the smallest first: at distance k those of
// odd multiples of k merge into those of even ones. So each rank sends, per row of a rank, H d e bytes of
// queries and H (4 v + 12) of states, N - 1 times each. Backward, dO, the row statistics and delta go
// down with Q, and dQ comes up; dK and dV stay where they are summed.
#include <bit>
#include <optional>
#include <vector>

#include "core/ring/query_messages.h"
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

class QueryTrees {
 public:
  QueryTrees(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass)
      : comm_(comm), problem_(problem), mine_(mine), pass_(pass) {}

  int steps() const { return comm_.world_size(); }
  // Return whose queries a rank attends at a step: those of the rank so many places back.
  int owner(int step) const { return (comm_.rank() - step + steps()) % steps(); }
  StepInfo info(int step) const { return {pass_, step, comm_.rank(), step + 1 == steps()}; }
  QueryBlock queries(int step) const {
    return mine_.query_block(mine_.slot(step), problem_.query_rows(owner(step)));
  }
  Region region(int step) const { return problem_.region(owner(step), comm_.rank()); }
  // Return the slot of a state that comes up, until it is merged.
  Index incoming() const { return mine_.slot(steps()); }

  // Bring the queries of each step once `ready` has happened. Return when they are there.
  std::vector<Completion> bring_queries(const Completion& ready) {
    std::vector<Completion> here(steps(), ready);
    const auto last = static_cast<int>(std::bit_floor(static_cast<unsigned>(steps() - 1)));
    for (int distance = last; distance > 0; distance /= 2)
      for (int child = distance; child < steps(); child += 2 * distance) {
        const int parent = child - distance;
        here[child] = messages(distance).move_queries(
            {child - 1, mine_.slot(parent), owner(parent), mine_.slot(child), owner(child)}, true,
            {here[parent], here[child]});
      }
    return here;
  }

  // Let the results of all steps, each there after its `computed`, come up. merge(step, arrived) adds
  // what has come from below to the step's. Return when the rank's own result is complete.
  template <class Merge>
  Completion collect_results(std::vector<Completion> computed, const Merge& merge) {
    Completion merged;  // the last one, after which incoming() is free
    for (int distance = 1; distance < steps(); distance *= 2)
      for (int child = distance; child < steps(); child += 2 * distance) {
        const int parent = child - distance;
        const Completion arrived = messages(-distance).move_results(
            {child, mine_.slot(child), owner(child), incoming(), owner(parent)},
            {computed[child], merged});
        computed[parent] = merged = merge(parent, arrived);
      }
    return merged;
  }

 private:
  // A rank has each place in one tree, so at a distance all send to the rank that far on, or back.
  QueryMessages messages(int distance) const {
    return {comm_, problem_, mine_, pass_, owner(-distance), owner(distance)};
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
};

void tree_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine) {
  QueryTrees trees(comm, problem, mine, Pass::forward);
  const KvBlock block{mine.own_kv(), problem.rows(comm.rank())};
  const auto state = [&](int step) { return mine.softmax_state(mine.slot(step)); };

  std::vector<Completion> computed = trees.bring_queries({});
  for (int step = 0; step < trees.steps(); ++step) {
    const QueryBlock q = trees.queries(step);
    backend.begin(q, state(step));
    computed[step] =
        backend.attend(trees.info(step), trees.region(step), q, block, state(step), computed[step]);
  }
  trees.collect_results(computed, [&](int step, const Completion& states_here) {
    return backend.merge(trees.info(step), trees.queries(step), state(step),
                         mine.softmax_state(trees.incoming()), states_here);
  });
  backend.finish(mine.query_block(), mine.softmax_state());
}

KvGradient tree_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine) {
  QueryTrees trees(comm, problem, mine, Pass::backward);
  const KvBlock block{mine.own_kv(), problem.rows(comm.rank())};
  const KvGradient own{mine.own_gradient(), block.rows};
  const KvGradient one_share{mine.extra_gradient(0), block.rows};
  const auto state = [&](int step) {
    BackwardState of_queries = mine.backward_state(mine.slot(step));
    if (step > 0) of_queries.out = nullptr;  // stays with its owner: delta comes along
    return of_queries;
  };

  std::vector<Completion> computed =
      trees.bring_queries(backend.begin_backward(trees.queries(0), state(0)));
  for (int step = 0; step < trees.steps(); ++step) {
    const StepInfo info = trees.info(step);
    const QueryBlock q = trees.queries(step);
    if (step > 0) backend.begin_backward(q, state(step));
    computed[step] = backend.attend_backward(info, trees.region(step), q, block, state(step),
                                             step == 0 ? own : one_share, computed[step]);
    if (step > 0) backend.add(info, own, one_share, computed[step]);
  }
  const Completion dq_there =
      trees.collect_results(computed, [&](int step, const Completion& dq_here) {
        return backend.add_dq(trees.info(step), trees.queries(step), state(step),
                              mine.backward_state(trees.incoming()), dq_here);
      });
  backend.finish_backward(trees.info(trees.steps() - 1), trees.queries(0), state(0), dq_there);
  return own;
}

}  // namespace

const Scheme kTree{.name = "tree",
                   .travels = Travels::queries,
                   .loop = only_loop<tree_forward, tree_backward>,
                   .extras = [](const Problem& job) -> std::optional<Extras> {
                     Extras extras = extras_of_share(job.shape, 1);
                     extras.q = job.world_size - 1;
                     extras.states = job.world_size;
                     extras.gradients = 1;
                     return extras;
                   }};

}  // namespace ringscope
