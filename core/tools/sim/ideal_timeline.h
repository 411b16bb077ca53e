// What a ring's recording would show on machines that are all alike and do nothing else. Ranks that
// are threads on a few cores take turns, so their recording shows the scheduler more than the ring,
// and no two recordings are alike. Here the counted work and bytes, the order of a rank's work, and
// what each hop needs determine all times.
#pragma once

#include "core/trace/event.h"

namespace ringscope {

inline constexpr double kIdealFlopsPerNs = 100, kIdealBytesPerNs = 2.5;
inline constexpr const char* kIdealBackend = "ideal";  // RunInfo::backend of what this returns

// Return `recording` with new times, and with waits where these require them. A compute slice takes
// its FLOPs at kIdealFlopsPerNs, and a hop its bytes at kIdealBytesPerNs, from when both ends are
// ready for it (core/ring/ring.cpp). All ranks have a core of their own and begin at 0, at no time
// of day, and bookkeeping takes no time. Throw std::invalid_argument for a run by another scheme, a failed run, or a recording
// that lacks events.
Recording ideal_timeline(Recording recording);

}  // namespace ringscope
