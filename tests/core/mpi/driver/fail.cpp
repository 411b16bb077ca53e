// Runs that fail: every rank must end, with the same error, and rank 0 with what was recorded.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "core/mpi/run_on_mpi.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/mpi/driver/driver.h"

namespace ringscope {
namespace {

class BrokenSource : public RowSource {
 public:
  void get(const RowsOfHead& piece, float* to) override {
    if (piece.tensor == Tensor::v) throw RunError("the disk is gone");
    std::fill_n(to, piece.count() * 8, 1.0f);
  }
};

}  // namespace

void fail(MpiSession& session, const std::string& what) {
  Problem config;
  config.shape = {1, 2, 2, 40, 8};
  config.world_size = session.world_size();
  config.backward = true;
  config.timeout_s = 1;
  const Tensors<float> drawn = random_tensors(config.shape, 1, config.dtype);
  const AttentionInputs inputs{drawn.q, drawn.k, drawn.v, drawn.dout};
  WholeInputs whole(config.shape, inputs);
  BrokenSource broken;
  ProcessInputs from;
  if (what == "source") {
    from.is_scattered = true;
    if (session.rank() == 0) from.at_rank_0 = &broken;
  } else {
    from.generated = &whole;
    config.injection = parse_injection(what);
  }
  const auto print = [&](const RunError& error) {
    std::printf("rank %d ends: rank %d, step %d: %s\n", session.rank(), error.rank(), error.step(),
                error.what());
  };
  try {
    run_on_mpi(session, config, from, true);
  } catch (const RunFailure& failure) {
    print(failure);
    const Recording& recording = failure.recording();
    std::size_t events = 0, waits = 0;
    for (const auto& of_rank : recording.events)
      for (const TraceEvent& event : of_rank) ++events, waits += event.lane == Lane::wait;
    std::printf("recorded: %zu events, %zu of them waits; %s\n", events, waits,
                recording.info.failure ? recording.info.failure->message.c_str() : "no failure");
  } catch (const RunError& error) {
    print(error);
  }
  std::fflush(stdout);
  // The first process that ends with a status like this makes mpirun end all others.
  std::this_thread::sleep_for(std::chrono::milliseconds(session.rank() == 0 ? 300 : 600));
  ::_exit(3);
}

}  // namespace ringscope
