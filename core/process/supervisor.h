// A process that watches another one's exit status. mpirun and srun turn a rank that was killed into a
// status of their own (137 and the like); a parent that only waits turns it into ours (3). It also
// outlives what usually kills a rank: the kernel, when memory runs out.
#pragma once

#include <atomic>
#include <functional>

namespace ringscope {

// One flag that both processes see.
using SharedFlag = std::atomic<bool>;

// Forks; the child runs `work` and ends with its result as exit status. The parent passes on SIGTERM,
// SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT, is followed by the child when a signal stops
// or kills it, and returns the child's status: 3 when a signal ended it (after a moment, so that the
// other ranks can say what they saw before the launcher ends them too). If nobody asked for that end
// and the child had not set `others_watch`, the parent calls lost(signal): there is no one else to
// say it. Call it before the process has threads. Throws RunError when there can be no child.
int supervised(const std::function<int(SharedFlag& others_watch)>& work,
               const std::function<void(int signal)>& lost);

}  // namespace ringscope
