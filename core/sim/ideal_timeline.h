// What a ring's recording would show if every rank had a processor core of its own. Ranks that are
// threads on fewer cores take turns, so their recording shows the scheduler more than the ring. It
// also holds the processor time of every piece of work. This time, the order of a rank's work, and
// what each hop needs determine the rest.
#pragma once

#include "core/trace/event.h"

namespace ringscope {

// Return `recording` with new times, and with waits where these require them. A compute slice takes
// its measured processor time. A hop takes the time for its bytes at the median speed of all hops
// of the run, and begins when both ends are ready for it (core/ring/ring.cpp). All ranks begin at
// 0, and bookkeeping takes no time. Throw std::invalid_argument for a run by another scheme, a
// failed run, or a recording that lacks events.
Recording ideal_timeline(Recording recording);

}  // namespace ringscope
