// A process that watches another one's exit status. mpirun and srun turn a rank that was killed into a
// status of their own (137 and the like); a parent that only waits turns it into ours (3). It also
// outlives what usually kills a rank: the kernel, when memory runs out.
#pragma once

#include <functional>

namespace ringscope {

// Forks; the child runs `work` and ends with its result as exit status. The parent passes on SIGTERM,
// SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT, is followed by the child when a signal stops
// or kills it, and returns the child's status: 3 when a signal ended it (after a moment, so that the
// other ranks can say what they saw before the launcher ends them too). Call it before the process
// has threads. Throws RunError when there can be no child.
int supervised(const std::function<int()>& work);

}  // namespace ringscope
