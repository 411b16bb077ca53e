#include "core/mpi/clock_exchange.h"

#include "core/mpi/mpi_calls.h"
#include "core/trace/recorder.h"

namespace ringscope {

namespace {

constexpr int kRoundTrips = 50;

void send(std::int64_t& time, int to, ProcessWait& wait) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(&time, sizeof time, MPI_BYTE, to, number_of(Tag::clock), MPI_COMM_WORLD, &request),
      "MPI_Isend");
  wait.until_complete(request, to);
}

MPI_Request expect(std::int64_t& time, int from) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(&time, sizeof time, MPI_BYTE, from, number_of(Tag::clock), MPI_COMM_WORLD,
                      &request),
            "MPI_Irecv");
  return request;
}

}  // namespace

// Rank 0 serves the others one after the other, so that no two disturb each other's round trips.
std::optional<ClockReading> exchange_clocks(int rank, int world_size, ProcessWait& wait) {
  std::int64_t time = 0;
  if (rank == 0) {
    for (int peer = 1; peer < world_size; ++peer) {
      for (int i = 0; i < kRoundTrips; ++i) {
        MPI_Request question = expect(time, peer);
        wait.until_complete(question, peer);
        time = monotonic_ns();
        send(time, peer, wait);
      }
    }
    return std::nullopt;
  }
  std::vector<RoundTrip> trips;
  for (int i = 0; i < kRoundTrips; ++i) {
    RoundTrip& trip = trips.emplace_back();
    MPI_Request answer = expect(trip.reference, 0);
    trip.asked = monotonic_ns();
    send(time, 0, wait);
    wait.until_complete(answer, 0);
    trip.answered = monotonic_ns();
  }
  return read_clock(trips);
}

}  // namespace ringscope
