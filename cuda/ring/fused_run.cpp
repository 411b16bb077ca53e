#include "cuda/ring/fused_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/threads/rank.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {
namespace {

// Return why step 12 does not take the problem, or an empty text.
std::string why_not_fused(const Problem& config, int blocks) {
  const DeviceQuery query = query_device();
  if (!query.device) return query.why_not;
  const HeadDims dims{config.shape.head_dim, config.shape.value_dim()};
  const std::string refused =
      refusal({.half = true, .hopper = true}, query.device->architecture, config.dtype, dims);
  if (!refused.empty()) return refused;
  if (config.scheme != default_scheme() || config.parts_blocks())
    return fmt::format("passes whole blocks around one ring, not as {} with hops {}",
                       config.scheme_name(), name_of(config.hops));
  if (config.backward) return "computes the forward pass alone";
  if (config.softcap > 0) return "caps no scores";
  if (config.mask.is_in_pieces())
    return fmt::format("takes masks that give a query one interval of keys, not {}",
                       config.mask.name());
  if (config.world_size > kMostFusedRanks)
    return fmt::format("takes up to {} ranks, not {}", kMostFusedRanks, config.world_size);
  if (const int all = multiprocessors(); blocks < 1 || blocks > all / config.world_size)
    return fmt::format(
        "runs all blocks at once, and {} of each of {} ranks on {} multiprocessors "
        "don't: give 1 to {}",
        blocks, config.world_size, all, all / config.world_size);
  if (config.shape.batch * config.shape.num_heads * config.max_query_rows() > 0x1p35)
    return "takes batch x heads x rows up to 2^35";
  return {};
}

int blocks_of(const Problem& config, int blocks) {
  return blocks != 0 ? blocks : std::max(1, multiprocessors() / config.world_size);
}

}  // namespace

FusedRun::FusedRun(const Problem& config, int blocks) : config_(config) {
  blocks = blocks_of(config, blocks);
  if (const std::string why = why_not_fused(config, blocks); !why.empty())
    throw InputError("kernel 12 fused_ring: " + why);
  problem_ = config_.ring_problem();
  const int ranks = config.world_size;
  const Index most_keys = problem_.partition.max_rows();
  ring_.shape = shape_of(problem_.params, 0, most_keys);
  ring_.softmax_scale = static_cast<float>(problem_.params.softmax_scale);
  ring_.world_size = ranks;
  ring_.blocks = blocks;
  const Index heads = config.shape.batch * config.shape.num_heads;
  const Index d = config.shape.head_dim, d_v = config.shape.value_dim();
  const Index slot_rows = ring_.matrices() * most_keys, chunks = ring_.chunks();
  if (config.has_sinks()) {
    sinks_ = Buffer<float>(&meter_, std::ssize(config.sink_logits));
    device_memory().copy_in(sinks_.data(), config.sink_logits.data(), sinks_.bytes());
    ring_.sink_logits = sinks_.data();
  }
  const Index flags_of_rank = (kSlots - 1) * chunks + ranks;
  flags_ = Buffer<int>(&meter_, ranks * flags_of_rank);
  counters_ = Buffer<StepCounters>(&meter_, Index{ranks} * ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Index rows = problem_.query_rows(rank), queries = heads * rows;
    Memory& memory = ranks_.emplace_back();
    memory.q = Buffer<std::byte>(&meter_, queries * d * 2);
    memory.k = Buffer<std::byte>(&meter_, kSlots * slot_rows * d * 2);
    memory.v = Buffer<std::byte>(&meter_, kSlots * slot_rows * d_v * 2);
    memory.allowed_keys = Buffer<RowInterval>(&meter_, ranks * rows);
    memory.row_max = Buffer<float>(&meter_, queries);
    memory.row_sum = Buffer<double>(&meter_, queries);
    memory.out = Buffer<float>(&meter_, queries * d_v);
    memory.lse = Buffer<float>(&meter_, queries);
    for (Buffer<std::byte>* keys : {&memory.k, &memory.v})  // rows that the rank does not have
      RINGSCOPE_CUDA(cudaMemset(keys->data(), 0, static_cast<std::size_t>(keys->bytes() / kSlots)));
    std::vector<RowInterval> allowed;
    for (int step = 0; step < ranks; ++step) {
      const Region region = problem_.region(rank, (rank - step + ranks) % ranks);
      for (Index i = 0; i < rows; ++i) {
        const Interval keys = region.allowed_rows(i);
        allowed.push_back(
            {static_cast<std::int32_t>(keys.first), static_cast<std::int32_t>(keys.last)});
      }
    }
    device_memory().copy_in(memory.allowed_keys.data(), allowed.data(),
                            memory.allowed_keys.bytes());
    int* const full = flags_.data() + rank * flags_of_rank;
    ring_.ranks[rank] = {static_cast<int>(rows),
                         static_cast<int>(problem_.rows(rank)),
                         memory.q.data(),
                         memory.k.data(),
                         memory.v.data(),
                         memory.allowed_keys.data(),
                         memory.row_max.data(),
                         memory.row_sum.data(),
                         memory.out.data(),
                         memory.lse.data(),
                         counters_.data() + Index{rank} * ranks,
                         full,
                         full + (kSlots - 1) * chunks};
  }
  RINGSCOPE_CUDA(cudaDeviceSynchronize());
}

void FusedRun::take(RowSource& source) {
  visit_dtype(config_.dtype, [&]<class Stored>(Stored) {
    std::vector<float> values(static_cast<std::size_t>(piece_values(config_.shape)));
    std::vector<Stored> stored(values.size());
    for (int rank = 0; rank < ring_.world_size; ++rank)
      for (const Tensor tensor : input_tensors(false)) {
        Memory& memory = ranks_[static_cast<std::size_t>(rank)];
        Buffer<std::byte>& to = tensor == Tensor::q   ? memory.q
                                : tensor == Tensor::k ? memory.k
                                                      : memory.v;
        const LocalRows rows = rows_of(tensor, problem_, rank);
        const Index width = width_of(config_.shape, tensor);
        const Index rows_of_head = tensor == Tensor::q ? rows.size() : Index{ring_.shape.rows_k};
        for_each_piece(config_.shape, tensor, rows, [&](const RowsOfHead& piece) {
          source.get(piece, values.data());
          const Index count = piece.count() * width;
          std::transform(values.begin(), values.begin() + count, stored.begin(),
                         from_float<Stored>);
          const Index at = (piece.head * rows_of_head + piece.first) * width;
          constexpr Index kBytes = sizeof(Stored);
          device_memory().copy_in(to.data() + at * kBytes, stored.data(), count * kBytes);
        });
      }
  });
}

void FusedRun::poison() {
  const auto fill = [](auto& buffer, Index from = 0) {
    if (buffer.bytes() > from)
      RINGSCOPE_CUDA(cudaMemset(reinterpret_cast<std::byte*>(buffer.data()) + from, 0xff,
                                static_cast<std::size_t>(buffer.bytes() - from)));
  };
  for (Memory& memory : ranks_) {
    fill(memory.k, memory.k.bytes() / kSlots);
    fill(memory.v, memory.v.bytes() / kSlots);
    fill(memory.row_max);
    fill(memory.row_sum);
    fill(memory.out);
    fill(memory.lse);
  }
  RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
}

void FusedRun::clear(cudaStream_t stream) const {
  RINGSCOPE_CUDA(
      cudaMemsetAsync(flags_.data(), 0, static_cast<std::size_t>(flags_.bytes()), stream));
  RINGSCOPE_CUDA(
      cudaMemsetAsync(counters_.data(), 0, static_cast<std::size_t>(counters_.bytes()), stream));
}

void FusedRun::launch(cudaStream_t stream, decltype(launch_fused_ring)* by) {
  clear(stream);
  by(ring_, config_.dtype, stream);
}

void FusedRun::launch_steps(const Kernel& kernel, cudaStream_t stream) const {
  clear(stream);
  for (int rank = 0; rank < ring_.world_size; ++rank) {
    if (ring_.ranks[rank].rows_q == 0) continue;
    for (int number = 0; number < ring_.world_size; ++number) {
      const FusedRank& owner = ring_.ranks[ring_.owner(rank, number)];
      ForwardStep step = ring_.step(rank, number);
      step.k = owner.k;
      step.v = owner.v;
      kernel.launch(step, config_.dtype, 0, stream);
    }
  }
}

AttentionOutputs FusedRun::outputs() const {
  AttentionOutputs outputs;
  outputs.resize(config_.shape, output_tensors(false));
  WholeOutputs whole(config_.shape, outputs);
  for (int rank = 0; rank < ring_.world_size; ++rank)
    for (const Tensor tensor : output_tensors(false)) {
      const Memory& memory = ranks_[static_cast<std::size_t>(rank)];
      const Buffer<float>& from = tensor == Tensor::out ? memory.out : memory.lse;
      std::vector<float> values(static_cast<std::size_t>(from.size()));
      device_memory().copy_out(values.data(), from.data(), from.bytes());
      const LocalRows rows = rows_of(tensor, problem_, rank);
      for_each_piece(config_.shape, tensor, rows, [&](const RowsOfHead& piece) {
        const Index at = piece.head * rows.size() + piece.first;
        whole.put(piece, values.data() + at * width_of(config_.shape, tensor));
      });
    }
  return outputs;
}

std::vector<StepCounters> FusedRun::counted() const {
  std::vector<StepCounters> counted(static_cast<std::size_t>(counters_.size()));
  device_memory().copy_out(counted.data(), counters_.data(), counters_.bytes());
  return counted;
}

double FusedRun::pairs() const {
  double pairs = 0;
  for (int rank = 0; rank < ring_.world_size; ++rank)
    for (int owner = 0; owner < ring_.world_size; ++owner)
      pairs += static_cast<double>(problem_.region(rank, owner).pairs());
  return pairs * static_cast<double>(config_.shape.batch * config_.shape.num_heads);
}

}  // namespace ringscope::cuda
