// What the loops of the schemes share, and what runs that of a problem.
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// A loop runs one rank's part of a pass over the two seams, as ring_forward and ring_backward do. There is
// more than one rank, but in an all-gather. The head of a loop's file says what a rank holds and sends.
using ForwardLoop = decltype(ring_forward);
using BackwardLoop = decltype(ring_backward);

// Return the local row at which part `part` of a block begins, and a part as positions: what each of the
// rings of a multi-ring carries. Rows that alternate between two runs are cut at even rows, so that every
// part begins with the first run.
constexpr Index begin_of_part(const LocalRows& rows, int parts, int part) {
  const Index begin = rows.size() * part / parts;
  return rows.alternating && part < parts ? begin - begin % 2 : begin;
}
constexpr LocalRows part_of(const LocalRows& rows, int parts, int part) {
  return rows.part(begin_of_part(rows, parts, part), begin_of_part(rows, parts, part + 1));
}

// Return a hop that sends one thing and brings another, each with its owner and its size.
struct Held {
  int owner;
  void* data;
  Index bytes;
};
struct Route {
  Way way = Way::ring;
  int to = Exchange::kNeighbour, from = Exchange::kNeighbour;
};
inline Exchange hop_of(Pass pass, Payload payload, int step, const Held& sent, const Held& brought,
                       const Route& route = {}) {
  return {pass,          payload,      step,          sent.owner, sent.data, sent.bytes,
          brought.owner, brought.data, brought.bytes, route.way,  route.to,  route.from};
}

struct Loop {
  ForwardLoop* forward;
  BackwardLoop* backward;
};
// The flat ring of several ranks. A program may put a loop of its own there (lessons/my_ring).
Loop& flat_ring();

// Return `hop` without a receiver if it sends nothing, and without a sender if it receives nothing.
inline Exchange without_empty_halves(Exchange hop) {
  if (hop.send_bytes == 0) hop.to = Exchange::kNobody;
  if (hop.recv_bytes == 0) hop.from = Exchange::kNobody;
  return hop;
}

// Run one pass by the loop of the problem's scheme. Throw RunError, which names rank and step.
void run_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                 RankMemory& mine);
KvGradient run_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                        RankMemory& mine);

}  // namespace ringscope
