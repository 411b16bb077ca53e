#include "cuda/kernels/step_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/allowed_rows.h"

namespace ringscope::cuda {

namespace {

template <class Kernel>
[[noreturn]] void refuse(const Kernel& kernel, const std::string& why) {
  throw InputError(fmt::format("kernel {:02} {}: {}", kernel.number, kernel.name, why));
}

template <class Kernel>
void check_launch(const Kernel& kernel, const StepShape& shape, DType dtype, int tile) {
  // Do not check the architecture, because the driver does.
  const std::string refused = refusal({.f32 = kernel.limits.f32,
                                       .half = kernel.limits.half,
                                       .max_head_dim = kernel.limits.max_head_dim,
                                       .only_64_and_128 = kernel.limits.only_64_and_128},
                                      kOldestArchitecture, dtype, shape.head_dim);
  if (!refused.empty()) refuse(kernel, refused);
  if (tile < 0 || tile >= static_cast<int>(kernel.tiles.size()))
    refuse(kernel, fmt::format("has tiles 0 to {}, not {}", kernel.tiles.size() - 1, tile));
  if (shape.batch < 0 || shape.rows_q < 0 || shape.rows_k < 0 || shape.heads < 1 ||
      shape.heads_kv < 1 || shape.heads % shape.heads_kv != 0)
    refuse(kernel,
           fmt::format("batch {}, heads {}, heads_kv {}, rows_q {}, rows_k {} given", shape.batch,
                       shape.heads, shape.heads_kv, shape.rows_q, shape.rows_k));
  if (shape.batch > 65535 || shape.heads > 65535)
    refuse(kernel,
           fmt::format("takes a batch and heads up to 65535 (a grid's limit), not {} and {}",
                       shape.batch, shape.heads));
}

}  // namespace

void check_forward_launch(const ForwardKernel& kernel, const ForwardStep& step, DType dtype,
                          int tile) {
  check_launch(kernel, step.shape, dtype, tile);
  if (!kernel.carries_state && !(step.first && step.last))
    refuse(kernel, "carries no state, so it takes no step that is not both the first and the last");
}

void check_backward_launch(const BackwardKernel& kernel, const BackwardStep& step, DType dtype,
                           int tile) {
  check_launch(kernel, step.shape, dtype, tile);
}

void check_shared_memory(const ForwardKernel& kernel, int tile, std::size_t bytes) {
  int device = 0, has = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  RINGSCOPE_CUDA(cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (bytes <= static_cast<std::size_t>(has)) return;
  const TileShape shape = kernel.tiles[static_cast<std::size_t>(tile)];
  throw InputError(fmt::format(
      "kernel {:02} {}: tiles of {} x {} need {} bytes of shared memory, the device has "
      "{}; smaller tiles are accepted",
      kernel.number, kernel.name, shape.rows, shape.keys, bytes, has));
}

namespace {

// Tensors repeat a block of this many drawn values, so drawing takes little time. The number is
// odd, so that the rows of one tensor differ.
constexpr Index kDrawn = (Index{1} << 18) + 3;

std::vector<std::byte> drawn(DType dtype, RandomTensor tensor, Index count) {
  return visit_dtype(dtype, [&]<class T>(T) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
    auto* const values = reinterpret_cast<T*>(bytes.data());
    for (Index i = 0; i < count; ++i)
      values[i] = from_float<T>(static_cast<float>(normal(1, tensor, i)));
    return bytes;
  });
}

}  // namespace

StepProblem::StepProblem(const StepShape& shape, DType dtype, KernelPass pass,
                         const std::vector<RowInterval>& allowed_keys)
    : shape_(shape), dtype_(dtype), pass_(pass) {
  const Index heads = Index{shape.batch} * shape.heads,
              heads_kv = Index{shape.batch} * shape.heads_kv;
  const Index rows = heads * shape.rows_q;
  const Index q_values = rows * shape.head_dim, k_values = heads_kv * shape.rows_k * shape.head_dim;
  q_ = random_values(q_values, RandomTensor::q);
  k_ = random_values(k_values, RandomTensor::k);
  v_ = random_values(k_values, RandomTensor::v);
  allowed_keys_ = Buffer<RowInterval>(&meter_, shape.rows_q);
  if (pass == KernelPass::backward) allowed_queries_ = Buffer<RowInterval>(&meter_, shape.rows_k);
  set_allowed_keys(allowed_keys);
  // Scores are drawn from N(0, 1), so exp(score) has the mean sqrt(e).
  row_max_ = filled(rows, 0.0f);
  row_sum_ = filled(rows, 1.65 * shape.rows_k);
  counters_ = filled(1, StepCounters{});
  if (pass == KernelPass::forward) {
    out_ = filled(q_values, 1.0f);
    lse_ = Buffer<float>(&meter_, rows);
    return;
  }
  dout_ = random_values(q_values, RandomTensor::dout);
  delta_ = filled(rows, 0.5f);
  dq_ = filled(q_values, 0.0f);
  dk_ = Buffer<float>(&meter_, k_values);
  dv_ = Buffer<float>(&meter_, k_values);
}

void StepProblem::set_allowed_keys(const std::vector<RowInterval>& allowed_keys) {
  pairs_ = 0;
  for (const RowInterval& keys : allowed_keys)
    pairs_ += static_cast<double>(Index{shape_.batch} * shape_.heads) *
              std::max(0, keys.last - keys.first);
  device_memory().copy_in(allowed_keys_.data(), allowed_keys.data(), allowed_keys_.bytes());
  if (pass_ == KernelPass::forward) return;
  launch_allowed_queries(allowed_keys_.data(), shape_.rows_q, allowed_queries_.data(),
                         shape_.rows_k, nullptr);
  RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
}

template <class T>
Buffer<T> StepProblem::filled(Index count, T value) {
  Buffer<T> buffer(&meter_, count);
  const std::vector<T> values(static_cast<std::size_t>(std::min(count, kDrawn)), value);
  for (Index at = 0; at < count; at += kDrawn)
    device_memory().copy_in(buffer.data() + at, values.data(),
                            std::min(kDrawn, count - at) * static_cast<Index>(sizeof(T)));
  return buffer;
}

Buffer<std::byte> StepProblem::random_values(Index count, RandomTensor tensor) {
  const std::vector<std::byte> block = drawn(dtype_, tensor, std::min(count, kDrawn));
  Buffer<std::byte> buffer(&meter_, count * bytes_of(dtype_));
  for (Index at = 0; at < buffer.bytes(); at += std::ssize(block))
    device_memory().copy_in(buffer.data() + at, block.data(),
                            std::min(std::ssize(block), buffer.bytes() - at));
  return buffer;
}

ForwardStep StepProblem::forward(bool first, bool last) {
  ForwardStep step;
  step.shape = shape_;
  step.softmax_scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  step.first = first;
  step.last = last;
  step.q = q_.data();
  step.k = k_.data();
  step.v = v_.data();
  step.allowed_keys = allowed_keys_.data();
  step.row_max = row_max_.data();
  step.row_sum = row_sum_.data();
  step.out = out_.data();
  step.lse = lse_.data();
  step.counters = counters_.data();
  return step;
}

BackwardStep StepProblem::backward() {
  BackwardStep step;
  step.shape = shape_;
  step.softmax_scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  step.q = q_.data();
  step.k = k_.data();
  step.v = v_.data();
  step.dout = dout_.data();
  step.allowed_keys = allowed_keys_.data();
  step.allowed_queries = allowed_queries_.data();
  step.row_max = row_max_.data();
  step.row_sum = row_sum_.data();
  step.delta = delta_.data();
  step.dq = dq_.data();
  step.dk = dk_.data();
  step.dv = dv_.data();
  step.counters = counters_.data();
  return step;
}

double StepProblem::flops(KernelPass pass) const {
  return (pass == KernelPass::forward ? 4 : 10) * pairs_ * shape_.head_dim;
}

void StepProblem::poison(bool state_too) {
  if (state_too && out_.bytes() > 0)
    RINGSCOPE_CUDA(cudaMemset(out_.data(), 0xff, static_cast<std::size_t>(out_.bytes())));
  for (Buffer<float>* written : {&lse_, &dk_, &dv_})
    if (written->bytes() > 0)
      RINGSCOPE_CUDA(cudaMemset(written->data(), 0xff, static_cast<std::size_t>(written->bytes())));
  // A cudaMemset may return early, and a timed stream does not wait for the default one.
  RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
}

bool StepProblem::has_nan() {
  if (pass_ == KernelPass::forward) return any_nan(out_) || any_nan(lse_);
  return any_nan(dq_) || any_nan(dk_) || any_nan(dv_);
}

bool StepProblem::any_nan(Buffer<float>& values) {
  std::vector<float> host(static_cast<std::size_t>(std::min<Index>(values.size(), Index{1} << 22)));
  for (Index at = 0; at < values.size(); at += std::ssize(host)) {
    const Index count = std::min<Index>(std::ssize(host), values.size() - at);
    device_memory().copy_out(host.data(), values.data() + at,
                             count * static_cast<Index>(sizeof(float)));
    if (std::any_of(host.begin(), host.begin() + count, [](float x) { return std::isnan(x); }))
      return true;
  }
  return false;
}

}  // namespace ringscope::cuda
