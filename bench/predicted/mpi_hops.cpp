// Measures hops in a ring of processes, as measure_hops() in core/cost does for threads: `mpirun
// -np N mpi_hops BYTES` prints {"start_s": .., "hop_s": .., "byte_s": ..} for blocks of that size,
// in processor seconds of the mean rank, its progress thread included.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>

#include "core/base/buffer.h"
#include "core/cost/time.h"
#include "core/mpi/mpi_communicator.h"
#include "core/mpi/mpi_session.h"

namespace ringscope {
namespace {

// Return the processor seconds of a hop, of the fastest of `batches`.
double hop_seconds(const MpiSession& session, Index bytes, int batches, int hops) {
  const int n = session.world_size();
  Buffer<std::byte> blocks[2] = {{nullptr, bytes}, {nullptr, bytes}};
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    const double begin = process_cpu_seconds();
    {
      MpiWaits waits;
      MpiCommunicator comm(waits, session.rank(), n, {});
      for (int hop = 0; hop < hops; ++hop) {
        Buffer<std::byte>&from = blocks[hop % 2], &to = blocks[(hop + 1) % 2];
        comm.exchange({Pass::forward, Payload::kv, hop, 0, from.data(), bytes, 0, to.data(), bytes},
                      {})
            ->wait();
      }
    }
    fastest = std::min(fastest, (process_cpu_seconds() - begin) / hops);
  }
  return fastest;
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  using namespace ringscope;
  const Index bytes = argc > 1 ? std::atoll(argv[1]) : 0;
  if (bytes <= 0) {
    std::fprintf(stderr, "mpi_hops: bytes of a block expected, above 0\n");
    return 2;
  }
  MpiSession session(60);
  constexpr Index kSmallBytes = 64;
  constexpr int kBatches = 6, kHops = 64;
  // The first hop makes the connections.
  const double first = hop_seconds(session, bytes, 1, 1);
  const double small = hop_seconds(session, kSmallBytes, kBatches, kHops);
  const double large = hop_seconds(session, bytes, kBatches, kHops);

  const auto all = session.lifeline().gather(fmt::format("{} {} {}", first, small, large));
  double sums[3] = {};
  for (const std::string& text : all) {
    std::istringstream numbers(text);
    for (double& sum : sums) {
      double number = 0;
      numbers >> number;
      sum += number / session.world_size();
    }
  }
  if (session.rank() == 0)
    fmt::print("{{\"start_s\": {:.9g}, \"hop_s\": {:.9g}, \"byte_s\": {:.9g}}}\n",
               std::max(0.0, sums[0] - sums[2]), sums[1],
               std::max(0.0, sums[2] - sums[1]) / static_cast<double>(bytes));
  session.finish();
  return 0;
}
