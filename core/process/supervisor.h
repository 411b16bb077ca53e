// A process that watches another one's exit status. mpirun and srun turn a killed rank into a
// status of their own (137 and the like); a parent that only waits turns it into ours (3). The
// parent also survives what usually kills a rank: the kernel, when memory runs out.
#pragma once

#include <atomic>
#include <functional>

namespace ringscope {

// One flag that both processes see.
using SharedFlag = std::atomic<bool>;

// Fork. The child runs `work` and exits with its result. The parent passes on SIGTERM, SIGINT,
// SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT. A signal that stops or kills the parent does the
// same to the child. Return the child's status, or 3 when a signal ended it (after a moment, so
// that the other ranks can say what they saw before the launcher ends them too). If nobody asked
// for that end, also in that moment, and the child had not set `others_watch`, call lost(signal),
// because no one else can report it. Call this before the process has threads. Throw RunError when
// there can be no child.
int supervised(const std::function<int(SharedFlag& others_watch)>& work,
               const std::function<void(int signal)>& lost);

}  // namespace ringscope
