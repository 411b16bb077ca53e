#include "core/cost/kernel_bench.h"

#include "core/base/random.h"

namespace ringscope {
namespace {

Buffer<std::byte> random_values(Index count, DType dtype, std::uint64_t seed) {
  Buffer<std::byte> bytes(nullptr, count * bytes_of(dtype));
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    Stored* const to = reinterpret_cast<Stored*>(bytes.data());
    for (Index i = 0; i < count; ++i)
      to[i] = from_float<Stored>(static_cast<float>(normal(seed, RandomTensor::q, i)));
  });
  return bytes;
}

}  // namespace

KernelBench::KernelBench(Index head_dim, DType dtype)
    : params_{1, 1, 1, head_dim, dtype, default_softmax_scale(head_dim)},
      scratch_(nullptr, head_dim, true),
      q_(random_values(kRows * head_dim, dtype, 1)),
      dout_(random_values(kRows * head_dim, dtype, 2)),
      kv_(random_values(kBlocks * 2 * kKeys * head_dim, dtype, 3)),
      out_(nullptr, kRows * head_dim),
      dq_(nullptr, kRows * head_dim),
      gradient_(nullptr, 2 * kKeys * head_dim) {
  begin_attention(params_, query(0, kRows), state(0));
}

// Under a full mask only the numbers of rows count.
Region KernelBench::region(Index rows, Index keys) const {
  const Index seqlen = kRows + kKeys;
  const auto first = [&](Index count) { return LocalRows{{{0, 1, count}, {seqlen, 1, 0}}, false}; };
  return {Mask{.seqlen = seqlen}, first(rows), first(keys)};
}

// Rank 0's queries and the keys of rank 1, of two ranks.
Region KernelBench::causal_region() {
  const auto striped = [](Index first) {
    return LocalRows{{{first, 2, kKeys}, {2 * kKeys, 2, 0}}, false};
  };
  return {Mask{.seqlen = 2 * kKeys, .causal = true}, striped(0), striped(1)};
}

QueryBlock KernelBench::query(Index row, Index rows) const {
  const Index at = row * params_.head_dim * bytes_of(params_.dtype);
  return {q_.data() + at, dout_.data() + at, rows};
}

KvBlock KernelBench::next_block(Index keys) {
  block_ = (block_ + 1) % kBlocks;
  return {kv_.data() + block_ * 2 * kKeys * params_.head_dim * bytes_of(params_.dtype), keys};
}

SoftmaxState KernelBench::state(Index row) {
  return {row_max_.data() + row, row_sum_.data() + row, out_.data() + row * params_.head_dim,
          lse_.data() + row};
}

BackwardState KernelBench::backward_state(Index row) {
  return {row_max_.data() + row, row_sum_.data() + row, out_.data() + row * params_.head_dim,
          delta_.data() + row, dq_.data() + row * params_.head_dim};
}

void KernelBench::attend(Index row, const Region& region) {
  attend_block(params_, region, query(row, region.queries.size()), next_block(region.keys.size()),
               state(row), scratch_);
}

void KernelBench::attend_backward(Index row, const Region& region) {
  attend_block_backward(params_, region, query(row, region.queries.size()),
                        next_block(region.keys.size()), backward_state(row),
                        {gradient_.data(), region.keys.size()}, scratch_);
}

void KernelBench::forward() { attend(0, region(kRows, kKeys)); }

void KernelBench::forward_by_rows() {
  for (Index row = 0; row < kRows; row += kRowPiece) attend(row, region(kRowPiece, kKeys));
}

void KernelBench::forward_by_keys() {
  for (Index key = 0; key < kKeys; key += kKeyPiece) attend(0, region(kRows, kKeyPiece));
}

void KernelBench::forward_causal() { attend(0, causal_region()); }

void KernelBench::begin_backward_pass() {
  begin_attention(params_, query(0, kRows), state(0));
  forward();
  finish_attention(params_, query(0, kRows), state(0));
  ringscope::begin_backward(params_, query(0, kRows), backward_state(0));
}

void KernelBench::backward() { attend_backward(0, region(kRows, kKeys)); }

void KernelBench::backward_by_rows() {
  for (Index row = 0; row < kRows; row += kRowPiece) attend_backward(row, region(kRowPiece, kKeys));
}

void KernelBench::backward_by_keys() {
  for (Index key = 0; key < kKeys; key += kKeyPiece) attend_backward(0, region(kRows, kKeyPiece));
}

void KernelBench::backward_causal() { attend_backward(0, causal_region()); }

void KernelBench::begin_and_finish() {
  begin_attention(params_, query(0, kRows), state(0));
  finish_attention(params_, query(0, kRows), state(0));
}

void KernelBench::begin_and_finish_backward() {
  ringscope::begin_backward(params_, query(0, kRows), backward_state(0));
  finish_backward(params_, query(0, kRows), backward_state(0));
}

}  // namespace ringscope
