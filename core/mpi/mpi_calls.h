// MPI calls that throw our errors, and waits that can end. The calls of a hop are in mpi_hop.cpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/engine.h"
#include "core/run/watchdog.h"

namespace ringscope {

// The kind of a message in this program's one communicator, MPI_COMM_WORLD.
enum class Tag : int { offer = 1, place, block, clock, rows };

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

// Keep `memory` until the process ends. After a failure, messages under way may still write into
// it, as a network card does, without any call of MPI.
template <class T>
void keep_until_exit(T&& memory) {
  static std::mutex mutex;
  static std::vector<std::decay_t<T>> kept;
  const std::lock_guard lock(mutex);
  kept.push_back(std::forward<T>(memory));
}

// Pauses between looks at something that has not happened yet, short at first and then longer.
// Polling without a pause would take the processor from a rank that computes.
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

// Return when `request` is complete. `still_well` is called between looks, and throws when there is
// nothing left to wait for. The request then stays as it is, and MPI may not be called again.
inline MPI_Status wait_for_request(MPI_Request& request, const std::function<void()>& still_well) {
  Patience patience(50);
  for (;;) {
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&request, &done, &status), "MPI_Test");
    if (done) return status;
    still_well();
    const auto pause = patience.pause(std::chrono::milliseconds(1));
    if (pause > Patience::Duration(0)) {
      std::this_thread::sleep_for(pause);
    } else {
      std::this_thread::yield();
    }
  }
}

// A process's waits for MPI outside the ring. They look from time to time until the request is
// complete or the run has failed somewhere, and the pulse shows meanwhile for whom the rank waits.
class ProcessWait {
 public:
  ProcessWait(Engine& engine, RankPulse& pulse) : engine_(engine), pulse_(pulse) {}

  // Return when `request` is complete; null requests are. Throw the run's failure, after which MPI
  // may still touch the request's memory and nobody may call MPI. A `peer` of -1 means all.
  void until_complete(MPI_Request& request, int peer) {
    if (request == MPI_REQUEST_NULL) return;
    pulse_.waits_for(peer);
    wait_for_request(request, [this] { engine_.throw_if_failed(); });
    pulse_.waits_for(-1);
    pulse_.advance();
  }

 private:
  Engine& engine_;
  RankPulse& pulse_;
};

}  // namespace ringscope
