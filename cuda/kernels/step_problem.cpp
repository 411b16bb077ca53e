#include "cuda/kernels/step_problem.h"

#include <algorithm>
#include <cmath>

#include "cuda/base/check.h"

namespace ringscope::cuda {

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
  const Index keys = heads_kv * shape.rows_k, d = shape.head_dim, d_v = shape.value_dim();
  q_ = random_values(rows * d, RandomTensor::q);
  k_ = random_values(keys * d, RandomTensor::k);
  v_ = random_values(keys * d_v, RandomTensor::v);
  allowed_keys_ = Buffer<RowInterval>(&meter_, shape.rows_q);
  if (pass == KernelPass::backward) allowed_queries_ = Buffer<RowInterval>(&meter_, shape.rows_k);
  for (const RowInterval& row : allowed_keys)
    pairs_ += static_cast<double>(heads) * std::max(0, row.last - row.first);
  device_memory().copy_in(allowed_keys_.data(), allowed_keys.data(), allowed_keys_.bytes());
  if (pass == KernelPass::backward) {
    launch_allowed_queries(allowed_keys_.data(), shape.rows_q, allowed_queries_.data(),
                           shape.rows_k, nullptr);
    RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
  }
  // Scores are drawn from N(0, 1), so exp(score) has the mean sqrt(e).
  row_max_ = filled(rows, 0.0f);
  row_sum_ = filled(rows, 1.65 * shape.rows_k);
  counters_ = filled(1, StepCounters{});
  out_ = filled(rows * d_v, 1.0f);
  if (pass == KernelPass::forward) {
    lse_ = Buffer<float>(&meter_, rows);
    return;
  }
  dout_ = random_values(rows * d_v, RandomTensor::dout);
  delta_ = filled(rows, 0.5f);
  workspace_ = Buffer<std::byte>(&meter_, backward_workspace_bytes(shape));
  dq_ = Buffer<float>(&meter_, rows * d);
  dk_ = Buffer<float>(&meter_, keys * d);
  dv_ = Buffer<float>(&meter_, keys * d_v);
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

BackwardStep StepProblem::backward(bool first) {
  BackwardStep step;
  step.first = first;
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
  step.workspace = workspace_.data();
  step.counters = counters_.data();
  return step;
}

void StepProblem::launch(const Kernel& kernel, int tile, bool first, bool last,
                         cudaStream_t stream) {
  if (pass_ == KernelPass::backward) return kernel.launch(backward(first), dtype_, tile, stream);
  ForwardStep step = forward(first, last);
  if (out_16_.bytes() > 0 && kernel.limits.hopper && first && last) step.out_16 = out_16_.data();
  kernel.launch(step, dtype_, tile, stream);
}

void StepProblem::launch_whole_backward(const Kernel& kernel, int tile, cudaStream_t stream) {
  launch_delta(dout_.data(), dtype_, out_.data(), delta_.data(), delta_.size(), shape_.value_dim(),
               stream);
  launch(kernel, tile, true, true, stream);
}

double StepProblem::flops() const {
  const int d = shape_.head_dim, d_v = shape_.value_dim();
  return 2 * pairs_ * (pass_ == KernelPass::forward ? d + d_v : 3 * d + 2 * d_v);
}

void StepProblem::poison() {
  for (Buffer<float>* written : {&out_, &lse_, &dq_, &dk_, &dv_}) {
    const bool is_read = pass_ == KernelPass::backward && written == &out_;
    if (written->bytes() > 0 && !is_read)
      RINGSCOPE_CUDA(cudaMemset(written->data(), 0xff, static_cast<std::size_t>(written->bytes())));
  }
  if (out_16_.bytes() > 0)
    RINGSCOPE_CUDA(cudaMemset(out_16_.data(), 0xff, static_cast<std::size_t>(out_16_.bytes())));
  // A cudaMemset may return early, and a timed stream does not wait for the default one.
  RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
}

std::vector<const Buffer<float>*> StepProblem::written() const {
  if (pass_ == KernelPass::forward) return {&out_, &lse_};
  return {&dq_, &dk_, &dv_};
}

bool StepProblem::has_nan() {
  const auto has = [](const auto& values, DType dtype, Index count) {
    return compare(values.data(), values.data(), dtype, count, 128, 1).nans > 0;
  };
  for (const Buffer<float>* values : written()) {
    const bool is_rounded = values == &out_ && out_16_.bytes() > 0;
    if (is_rounded ? has(out_16_, dtype_, out_.size()) : has(*values, DType::f32, values->size()))
      return true;
  }
  return false;
}

void StepProblem::keep() {
  kept_.clear();
  for (const Buffer<float>* values : written()) {
    kept_.emplace_back(&meter_, values->size());
    RINGSCOPE_CUDA(cudaMemcpy(kept_.back().data(), values->data(),
                              static_cast<std::size_t>(values->bytes()), cudaMemcpyDeviceToDevice));
  }
}

std::vector<Comparison> StepProblem::compare_kept() const {
  std::vector<Comparison> all;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const bool is_of_values = written()[i] == &out_ || written()[i] == &dv_;
    const Index row_length = written()[i] == &lse_ ? 1
                             : is_of_values        ? shape_.value_dim()
                                                   : shape_.head_dim;
    const auto compared = [&](float least_scale) {
      return compare(kept_[i].data(), written()[i]->data(), DType::f32, kept_[i].size(), row_length,
                     least_scale);
    };
    const double count = static_cast<double>(std::max<Index>(kept_[i].size(), 1));
    all.push_back(compared(static_cast<float>(std::sqrt(compared(1).squares / count))));
  }
  return all;
}

std::vector<std::vector<float>> StepProblem::outputs() {
  std::vector<std::vector<float>> values;
  for (const Buffer<float>* tensor : written()) {
    values.emplace_back(static_cast<std::size_t>(tensor->size()));
    device_memory().copy_out(values.back().data(), tensor->data(), tensor->bytes());
  }
  if (out_16_.bytes() > 0)
    visit_dtype(dtype_, [&]<class T>(T) {
      std::vector<T> rounded(values[0].size());
      device_memory().copy_out(rounded.data(), out_16_.data(), out_16_.bytes());
      std::transform(rounded.begin(), rounded.end(), values[0].begin(),
                     [](T x) { return to_float(x); });
    });
  return values;
}

}  // namespace ringscope::cuda
