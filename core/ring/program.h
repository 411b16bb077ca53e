// What a rank asks for in a run, known before it starts: the scheme's own loop, run over seams that write
// down what is asked of them. It is the only description of a scheme. Counts, traffic, recordings' steps
// and owners and the graph that is simulated (core/tools/sim/graph.h) are derived from it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/problem/region.h"
#include "core/ring/problem.h"
#include "core/ring/seams.h"

namespace ringscope {

struct Op {
  enum class Kind : std::uint8_t { begin, attend, add, await, finish, hop };

  Kind kind = Kind::attend;
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;  // of a hop, or of what the operation waits for
  Way way = Way::ring;            // of a hop
  std::int32_t step = 0;
  std::int32_t owner = 0;           // of the block; begin, finish: the rank; hop: of what is sent
  std::int32_t to = -1, from = -1;  // of a hop: who receives, and who sends what comes; -1: nobody
  double bytes = 0;                 // of a hop: sent
  std::uint32_t first = 0, last = 0;  // what it comes after (Program::after)

  bool is_hop() const { return kind == Kind::hop; }
};

// The operations in the order in which the loop asks for them. Hops of one way run in this order, and so do
// all others.
struct Program {
  std::vector<Op> ops;
  std::vector<std::int32_t> earlier;  // operations, as their numbers

  // Return what `op` must come after besides.
  std::span<const std::int32_t> after(const Op& op) const {
    return {earlier.data() + op.first, op.last - op.first};
  }
};

// Called for each attention, in order, with what it attends and for which share of the heads.
using OnAttended = std::function<void(const Op& op, const Region& region, const HeadShare& heads)>;

// Return the program of a rank of `job`, of both passes if it says so. `problem` is job.ring_problem(),
// the same for all ranks. Throw what RankMemory throws.
Program program_of(const Problem& job, const RingProblem& problem, int rank,
                   const OnAttended& on_attended = {});
inline Program program_of(const Problem& job, int rank, const OnAttended& on_attended = {}) {
  return program_of(job, job.ring_problem(), rank, on_attended);
}

}  // namespace ringscope
