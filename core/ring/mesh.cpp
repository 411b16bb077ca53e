// Ranks as a grid of R x C (Mesh-Attention, arXiv:2512.20968). Rank (i, j) = i C + j gets the queries
// of its row's C ranks and the keys of its column's R ranks and attends each with each: N blocks, of R
// + C ranks instead of N. Queries come along the row and stay; K and V go round the column; then the
// states of one owner's queries, which the row's ranks have of different keys, are merged on their way
// round the row, and end at their owner. At step i' C + j' a rank attends the block of the rank i'
// places up with the queries of the rank j' places to the left.
//
// Backward dO, the row statistics and delta come along the row (Q is still there), dQ returns as the
// states do, and gradients of K and V follow their blocks around the column.
//
// A rank sends, in blocks of a rank's rows:
//
//   forward    C-1 of Q along the row, R-1 of K and V along the column, C-1 states (f32) along the row
//   backward   C-1 of dO, row statistics and delta, R-1 of K and V and R of dK and dV (f32; none if R
//              = 1), C-1 of dQ (f32)
//
// R = N is a ring, and C = N gathers all queries.
#include <fmt/format.h>

#include "core/ring/query_messages.h"
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

// A rank's place in the grid, where the blocks of its row and column lie, and the messages of the column.
struct Cell {
  Communicator& comm;
  const RingProblem& problem;
  RankMemory& mine;
  Pass pass;
  int rows = problem.numbers[0], columns = comm.world_size() / rows;

  int rank() const { return comm.rank(); }
  // Return the rank `k` places to the left in the row, or up in the column; both may be negative.
  int left(int k) const {
    return rank() - rank() % columns + (rank() % columns + columns - k % columns) % columns;
  }
  int up(int k) const {
    return (rank() / columns + rows - k % rows) % rows * columns + rank() % columns;
  }
  StepInfo step(int i, int j) const {
    const int number = i * columns + j;
    return {pass, number, up(i), number == rows * columns - 1};
  }
  StepInfo last_step() const { return {pass, comm.world_size() - 1, rank(), true}; }

  // Return where the queries of the rank j places to the left lie, and the states that come in.
  Index queries_at(int j) const { return mine.slot(j % columns); }
  Index incoming_states() const { return mine.slot(columns); }
  QueryBlock queries(int j) const {
    return mine.query_block(queries_at(j), problem.query_rows(left(j)));
  }
  std::byte* kv(int i) const { return i == 0 ? mine.own_kv() : mine.extra_kv((i - 1) % 2); }
  KvBlock block(int i) const { return {kv(i), problem.rows(up(i))}; }
  // Return the sum of the gradients of step i's block, where that of the earlier ranks comes in, and
  // what is added to it.
  KvGradient sum(int i) const {
    return {rows == 1 ? mine.own_gradient() : mine.extra_gradient(i % 2), problem.rows(up(i))};
  }
  KvGradient incoming(int i) const {
    return {i == rows ? mine.own_gradient() : mine.extra_gradient(2), problem.rows(up(i))};
  }
  KvGradient one_share(int i) const {
    return {mine.extra_gradient(rows == 1 ? 0 : 3), problem.rows(up(i))};
  }

  QueryMessages row_messages() const {
    return {comm, problem, mine, pass, left(columns - 1), left(1)};
  }
  Completion move(int i, Payload payload, void* send, void* recv,
                  std::initializer_list<Completion> after) const {
    const auto bytes = [&](int owner) {
      return payload == Payload::kv ? problem.kv_bytes(owner) : problem.gradient_bytes(owner);
    };
    return comm.exchange(
        hop_of(pass, payload, i * columns, {up(i), send, bytes(up(i))},
               {up(i + 1), recv, bytes(up(i + 1))}, {Way::between_nodes, up(rows - 1), up(1)}),
        after);
  }
  // Bring the block of step i + 1 into the buffer of step i - 1, which was sent on when that of step
  // i, at `here`, had arrived.
  Completion start_next(int i, const Completion& here, const Completion& attended) const {
    if (i + 1 == rows) return {};
    return move(i, Payload::kv, kv(i), kv(i + 1), {here, attended});
  }
};

// Bring the queries of the row's other ranks, and return when each is there.
std::vector<Completion> gather_queries(QueryMessages& messages, const Cell& cell, bool with_q,
                                       const Completion& ready) {
  std::vector<Completion> here(cell.columns);
  here[0] = ready;
  for (int j = 0; j + 1 < cell.columns; ++j)
    here[j + 1] = messages.move_queries(
        {j, cell.queries_at(j), cell.left(j), cell.queries_at(j + 1), cell.left(j + 1)}, with_q,
        {here[j]});
  return here;
}

// Move the results for the queries of every owner round the row to it: the next rank adds what it has
// to what comes in, by `add`(j, incoming's arrival), which returns when that is done.
template <class Add>
void return_results(QueryMessages& messages, const Cell& cell, int step, Completion ready,
                    const Add& add) {
  for (int j = 1; j < cell.columns; ++j) {
    const Completion here = messages.move_results(
        {step, cell.queries_at(j), cell.left(j), cell.incoming_states(), cell.left(j + 1)},
        {ready});
    ready = add(j + 1, here);
  }
}

void mesh_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine) {
  const Cell cell{comm, problem, mine, Pass::forward};
  QueryMessages row = cell.row_messages();
  const auto state = [&](int j) { return mine.softmax_state(cell.queries_at(j)); };

  const std::vector<Completion> queries_here = gather_queries(row, cell, true, {});
  for (int j = 0; j < cell.columns; ++j) backend.begin(cell.queries(j), state(j));
  Completion here, next, attended;
  for (int i = 0; i < cell.rows; ++i) {
    next = cell.start_next(i, here, attended);
    for (int j = 0; j < cell.columns; ++j) {
      const StepInfo step = cell.step(i, j);
      if (i == 0) backend.await(step, Payload::kv, queries_here[j]);
      attended = backend.attend(step, problem.region(cell.left(j), step.kv_owner), cell.queries(j),
                                cell.block(i), state(j), here);
    }
    here = next;
  }

  const StepInfo last = cell.last_step();
  return_results(row, cell, last.step, attended, [&](int j, const Completion& states_here) {
    return backend.merge(last, cell.queries(j), state(j),
                         mine.softmax_state(cell.incoming_states()), states_here);
  });
  backend.finish(cell.queries(0), state(0));
}

KvGradient mesh_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine) {
  const Cell cell{comm, problem, mine, Pass::backward};
  QueryMessages row = cell.row_messages();
  const auto state = [&](int j) {
    BackwardState of_queries = mine.backward_state(cell.queries_at(j));
    if (j > 0) of_queries.out = nullptr;  // stays with its owner: delta comes along
    return of_queries;
  };

  Completion attended = backend.begin_backward(cell.queries(0), state(0));
  const std::vector<Completion> queries_here = gather_queries(row, cell, false, attended);
  for (int j = 1; j < cell.columns; ++j) backend.begin_backward(cell.queries(j), state(j));
  Completion here = attended, next, sum_here;
  for (int i = 0; i < cell.rows; ++i) {
    next = cell.start_next(i, here, attended);
    const KvGradient sum = cell.sum(i);
    Completion summed;
    for (int j = 0; j < cell.columns; ++j) {
      const StepInfo step = cell.step(i, j);
      if (i == 0) backend.await(step, Payload::kv, queries_here[j]);
      attended = summed = backend.attend_backward(step, problem.region(cell.left(j), step.kv_owner),
                                                  cell.queries(j), cell.block(i), state(j),
                                                  j == 0 ? sum : cell.one_share(i), here);
      if (j > 0) summed = backend.add(step, sum, cell.one_share(i), attended);
    }
    const StepInfo step = cell.step(i, cell.columns - 1);
    if (i > 0) summed = backend.add(step, sum, cell.incoming(i), sum_here);
    sum_here = cell.rows == 1
                   ? summed
                   : cell.move(i, Payload::dkv, sum.data, cell.incoming(i + 1).data, {summed});
    here = next;
  }

  const StepInfo last = cell.last_step();
  return_results(row, cell, last.step, attended, [&](int j, const Completion& dq_here) {
    return backend.add_dq(last, cell.queries(j), state(j),
                          mine.backward_state(cell.incoming_states()), dq_here);
  });
  backend.finish_backward(last, cell.queries(0), state(0), sum_here);
  return {mine.own_gradient(), problem.rows(cell.rank())};
}

}  // namespace

const Scheme kMesh{.name = "mesh",
                   .numbers = ":RxC",
                   .travels = Travels::both,
                   .loop = only_loop<mesh_forward, mesh_backward>,
                   .accepted = [](const Problem& job) -> std::string {
                     const int n = job.world_size;
                     const auto [rows, columns] = job.numbers;
                     if (n % rows == 0 && (columns == 0 || n / rows == columns)) return "";
                     return fmt::format("mesh:RxC with R one of {} and R x C = {}",
                                        divisors_text(n), n);
                   },
                   .extras = [](const Problem& job) -> std::optional<Extras> {
                     const int rows = job.numbers[0], columns = job.world_size / rows;
                     Extras extras = extras_of_share(job.shape, 1);
                     extras.q = columns - 1;
                     extras.states = columns > 1 ? columns : 0;
                     extras.kv = buffers_of_turns(rows);
                     extras.gradients = (rows > 1 ? 3 : 0) + (columns > 1 ? 1 : 0);
                     return extras;
                   },
                   .multiple = [](const Problem& job) { return job.numbers[0]; }};

}  // namespace ringscope
