// Ulysses, and the hybrid of Ulysses and ring. N ranks are R groups of U consecutive ranks. Inside a
// group an all-to-all gives each member a share of the heads of all the group's rows; around the ring
// of groups the members of one number pass on what they hold of K and V; and another all-to-all brings
// the outputs to their rows' ranks. Ulysses is one group of N ranks (S3, related work); the hybrid is
// that of USP and LoongTrain, with groups inside nodes and the ring between them.
//
// An all-to-all is U-1 exchanges: in the k-th a member sends to the member k places on and receives
// from the one k places back. Nothing is packed for it: a rank's own tensors lie share after share, in
// the order of the members (RingProblem::heads_of), and what comes from each rank stays a block of its
// own. A member thus attends, at the N steps t U + k, the block of the rank k places on in the group t
// places back, with each of the group's U blocks of queries. Members with the same kv head get copies
// of it, and its gradients are added at home.
//
// A rank sends, where its member has h of the H heads and k kv heads:
//
//   forward    (U-1) messages of its rows' Q and of K and V; N - U blocks of K and V of k heads; (U-1)
//              outputs and lse, in f32, of the others' rows and its h heads
//   backward   (U-1) messages of its rows' dO; N - U blocks again and N gradients of them in f32
//              (none with one group); (U-1) of dQ and of dK and dV in f32
//
// Groups of one rank are the flat ring (ring.h).
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Each function runs one rank's part, as those of ring.h do. Groups have more than one rank.
void hybrid_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine);
KvGradient hybrid_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine);

}  // namespace ringscope
