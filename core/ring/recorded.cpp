#include "core/ring/recorded.h"

#include <cmath>

#include "core/attention/online_softmax.h"

namespace ringscope {

TraceEvent wait_event(const StepInfo& step, Payload payload) {
  return {.lane = Lane::wait,
          .pass = step.pass,
          .payload = payload,
          .step = step.step,
          .kv_owner = step.kv_owner};
}

TraceEvent compute_event(const StepInfo& step, const AttentionParams& params,
                         const BlockStats& stats) {
  TraceEvent event{
      .lane = Lane::compute, .pass = step.pass, .step = step.step, .kv_owner = step.kv_owner};
  event.pairs = stats.pairs;
  // Two products of 2 * head_dim operations a pair; the backward has five.
  event.flops = (step.pass == Pass::forward ? 4 : 10) * params.head_dim * params.batch *
                params.num_heads * stats.pairs;
  event.tiles_full = stats.tiles_full;
  event.tiles_partial = stats.tiles_partial;
  event.tiles_skipped = stats.tiles_skipped;
  return event;
}

SoftmaxSample sample_of(int rank, int step, Index query, std::int64_t at_ns, float row_max,
                        double row_sum) {
  return {.rank = rank,
          .step = step,
          .query = query,
          .at_ns = at_ns,
          .row_max = row_max,
          .row_sum = static_cast<float>(row_sum),
          .lse = static_cast<float>(lse_of(RowState<double>{row_max, row_sum})),
          .lse_error = 0};
}

void set_lse_errors(std::vector<SoftmaxSample>& samples) {
  // A rank's samples are of three rows at most, repeated step by step.
  for (SoftmaxSample& sample : samples)
    for (auto last = samples.rbegin(); last != samples.rend(); ++last)
      if (last->query == sample.query) {
        sample.lse_error = sample.lse == last->lse ? 0 : std::abs(sample.lse - last->lse);
        break;
      }
}

}  // namespace ringscope
