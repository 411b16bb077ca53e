// Runs that fail: every rank must end, with the same error.
#include <algorithm>

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
  run_on_mpi(session, config, from, true);
}

}  // namespace ringscope
