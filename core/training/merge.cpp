#include "core/training/merge.h"

#include <algorithm>
#include <span>

#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"
#include "core/training/all_reduce.h"

namespace ringscope {

MergeCost merge_cost(MergeKind kind, Index heads, Index head_dim_v, int world_size) {
  const Index n = world_size, b = 4 * (head_dim_v + 1);
  MergeCost cost{.rounds = 2 * (n - 1), .messages = 2 * (n - 1), .bytes = 2 * (n - 1) * heads * b};
  if (kind == MergeKind::ring) {
    cost.messages *= min_of(n, heads);
    cost.way_bytes = cost.rounds * ceil_div(heads, n) * b;
    return cost;
  }
  cost.rounds = 0;
  for (Index reached = 1; reached < n; reached *= 2) cost.rounds += 2;
  cost.way_bytes = cost.rounds * heads * b;
  return cost;
}

Merger::Merger(const AttentionShape& shape, int world_size, MemoryMeter* meter)
    : heads_(row_values(shape, 1)),
      stride_(shape.value_dim() + 1),
      incoming_(meter, world_size == 1 ? 0 : ceil_div(heads_, world_size) * stride_),
      wide_(meter, world_size == 1 ? 0 : 2 * shape.value_dim()) {}

void Merger::merge(Communicator& comm, float* partial) {
  if (comm.world_size() == 1) return;
  ring_all_reduce(
      comm, Pass::forward, heads_, stride_, partial, incoming_.data(),
      [this](float* into, const float* other, Index heads) { merge_heads(into, other, heads); });
}

void Merger::merge_heads(float* into, const float* other, Index heads) {
  const Index d = stride_ - 1;
  const std::span a(wide_.data(), static_cast<std::size_t>(d));
  const std::span b(wide_.data() + d, static_cast<std::size_t>(d));
  for (Index h = 0; h < heads; ++h, into += stride_, other += stride_) {
    std::copy_n(into, d, a.begin());
    std::copy_n(other, d, b.begin());
    double lse = into[d];
    merge_by_lse<double>(lse, a, other[d], b);
    std::transform(a.begin(), a.end(), into, mean_of_values);
    into[d] = static_cast<float>(lse);
  }
}

}  // namespace ringscope
