// MPI calls that throw our errors, and waits that can end. The calls of a hop are in mpi_communicator.cpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/ring/seams.h"
#include "core/threads/watchdog.h"

namespace ringscope {

// The kind of a message in this program's one communicator, MPI_COMM_WORLD.
enum class Tag : int { offer = 1, place, block, clock, rows, text };

constexpr int number_of(Tag tag) { return static_cast<int>(tag); }
// Return the tag of hops of one way, which no other way shares.
constexpr int number_of(Tag tag, Way way) { return number_of(tag) + 8 * static_cast<int>(way); }

// Throw RunError when `code` is not MPI_SUCCESS. (MPI_COMM_WORLD returns errors; see MpiSession.)
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunError(std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

// Pauses between looks at something that has not happened yet, short at first and then longer.
// Polling without a pause would take the processor from a rank that computes. A thread that slept is
// the next to run; on a busy machine, one that gave its turn away (sched_yield) is the last.
class Patience {
 public:
  using Duration = std::chrono::nanoseconds;

  explicit Patience(int looks_without_pause = 0) : free_looks_(looks_without_pause) {}

  // Return the next pause, up to `most`; 0 for the first looks.
  Duration pause(Duration most) {
    if (looks_++ < free_looks_) return Duration(0);
    const Duration now = std::min(pause_, most);
    pause_ = std::min(pause_ + pause_ / 2, Duration(std::chrono::seconds(1)));
    return now;
  }
  void renew() {
    looks_ = 0;
    pause_ = kFirst;
  }

 private:
  static constexpr Duration kFirst{std::chrono::microseconds(10)};

  int free_looks_;
  int looks_ = 0;
  Duration pause_ = kFirst;
};

// A process's waits for MPI outside the ring. They look from time to time until the request is
// complete, and the pulse shows meanwhile for whom the rank waits. When the run fails, the lifeline
// ends the process in the midst of them.
class ProcessWait {
 public:
  explicit ProcessWait(RankPulse& pulse) : pulse_(pulse) {}

  // Return when `request` is complete; null requests are. A `peer` of -1 means all.
  void until_complete(MPI_Request& request, int peer) {
    pulse_.waits_for(peer);
    Patience patience(50);
    for (int done = 0;;) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done) break;
      std::this_thread::sleep_for(patience.pause(std::chrono::milliseconds(1)));
    }
    pulse_.waits_for(-1);
    pulse_.advance();
  }

  // Send or receive `count` values of `type`, as MPI_Isend and MPI_Irecv do.
  void send(const void* values, Index count, MPI_Datatype type, int to, Tag tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(values, static_cast<int>(count), type, to, number_of(tag), MPI_COMM_WORLD,
                        &request),
              "MPI_Isend");
    until_complete(request, to);
  }
  void receive(void* values, Index count, MPI_Datatype type, int from, Tag tag) {
    MPI_Request request = begin_receive(values, count, type, from, tag);
    until_complete(request, from);
  }
  static MPI_Request begin_receive(void* values, Index count, MPI_Datatype type, int from,
                                   Tag tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(values, static_cast<int>(count), type, from, number_of(tag), MPI_COMM_WORLD,
                        &request),
              "MPI_Irecv");
    return request;
  }

 private:
  RankPulse& pulse_;
};

}  // namespace ringscope
