// How long a transfer took, without the time in which one side waited for the other.
//
// A rank sees of a hop when its own stream came to it and when it left it again, and its kernel spins
// in between while a peer is late. But the transfer from rank a to rank b cannot begin before both
// are there, nor last longer than until one of them has left:
//
//   begin = max(begin of a, begin of b)      end = min(end of a, end of b)
//
// So after a run the slices of both sides, on one clock, give the transfer's. What a rank waited is
// on its wait lane, as far as its kernels stood still for it.
#pragma once

#include "core/trace/event.h"

namespace ringscope::cuda {

// Gives every send slice and the recv slice of the same flow the transfer's times, which lie within
// each of the two, and lets every wait slice name the peer that came last. A slice whose other side
// was not recorded stays as it is. Clocks that are apart by more than a transfer leave it with no
// length.
void split_waiting_from_transfer(Recording& recording);

}  // namespace ringscope::cuda
