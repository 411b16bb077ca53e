// What a ring's recording would show if every rank had a processor core to itself. Ranks that are
// threads on fewer cores take turns, and their recording tells more about the scheduler than about
// the ring. The processor time of every piece of work is in the recording too, and from that, the
// order of a rank's work and what each hop needs, follows the rest.
#pragma once

#include "core/trace/event.h"

namespace ringscope {

// `recording` with other times, and with waits where they are then needed. A compute slice takes the
// processor time that was measured in it; a hop takes the time for its bytes at the median speed of
// all hops of the run, and begins when both ends are ready for it (core/ring/ring.cpp). All ranks begin at 0. Nothing is taken for bookkeeping.
// Throws std::invalid_argument for a run by another scheme, one that failed, and a recording that
// lacks events.
Recording on_own_cores(Recording recording);

}  // namespace ringscope
