// A process that watches another one, the worker. mpirun and srun turn a killed rank into a status of
// their own (137 and the like); a parent that only waits turns it into ours (3). The parent also
// survives what usually kills a rank: the kernel, when memory runs out. While no other rank watches
// the worker, because the ranks have not met, have parted or are all lost, the parent keeps the timeout.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace ringscope {

// How far a worker is, on a page that both processes see.
enum class Stage {
  starting,  // nobody else knows of it
  meeting,   // the other ranks may know of it
  watched,   // the other ranks watch it and speak of its end
  alone,     // it has no other ranks, or needs them no more
  halted     // the process that waits for it was stopped for the timeout before it was watched
};
using SharedStage = std::atomic<Stage>;

// Fork. The child runs `work`, which keeps the stage, and exits with its result. The parent passes on
// SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT. A signal that stops or kills the
// parent does the same to the child. Return the child's status, or 3 when a signal ended it or it
// ended in the midst of the run. When nobody else can report what has become of the child, call
// lost(), with such a text as "its process ended by signal 9": also when it was stopped for the
// timeout, or has not met the other ranks in that time and a little more, and is killed for that.
// Ranks that wait in vain speak by `order`. Call this before the process has threads. Throw RunError.
int supervised(double timeout_s, int order, const std::function<int(SharedStage& stage)>& work,
               const std::function<void(const std::string& what)>& lost);

}  // namespace ringscope
