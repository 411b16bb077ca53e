// Tests what attention with all scores written out takes.
#include <memory>
#include <span>
#include <vector>

#include "core/attention/online_softmax.h"
#include "core/tools/cost/amounts.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

// Adds up what the vectors that use it take.
std::size_t counted_bytes = 0;
template <class T>
struct CountingAllocator {
  using value_type = T;
  CountingAllocator() = default;
  template <class U>
  explicit CountingAllocator(const CountingAllocator<U>&) {}
  T* allocate(std::size_t count) {
    counted_bytes += count * sizeof(T);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) { std::allocator<T>().deallocate(memory, count); }
  bool operator==(const CountingAllocator&) const { return true; }
};

// Compute one head in f32 as the formula reads: all scores, then their softmax, then the product
// with V.
struct PlainAttention {
  double bytes;  // of scores and softmax
  double error;  // of the output, against naive_attention
};

PlainAttention plain_attention(Index seqlen, bool with_softmax = true) {
  const AttentionShape shape{1, 1, 1, seqlen, 2};
  const Tensors<float> in = random_tensors(shape, 1);
  const auto rows = static_cast<std::size_t>(seqlen);
  counted_bytes = 0;
  std::vector<float, CountingAllocator<float>> scores(rows * rows), weights(rows * rows);
  std::vector<float> out(2 * rows);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < rows; ++j)
      scores[i * rows + j] = in.q[2 * i] * in.k[2 * j] + in.q[2 * i + 1] * in.k[2 * j + 1];
  if (!with_softmax) weights = scores;
  for (std::size_t i = 0; i < rows && with_softmax; ++i)
    safe_softmax<float>(std::span(scores).subspan(i * rows, rows),
                        std::span(weights).subspan(i * rows, rows));
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < rows; ++j)
      for (std::size_t x = 0; x < 2; ++x) out[2 * i + x] += weights[i * rows + j] * in.v[2 * j + x];
  NaiveOptions blocks;
  blocks.block_rows = 64;
  const auto truth = naive_attention<float>(shape, Mask{.seqlen = seqlen}, 1, in.q.data(),
                                            in.k.data(), in.v.data(), nullptr, blocks);
  return {static_cast<double>(counted_bytes), max_abs_error(out, truth.out)};
}

double measured_peak(Index seqlen, int world_size) {
  return static_cast<double>(recorded_run(config_of(1, 1, seqlen, 16, world_size)).peak_bytes[0]);
}

CLAIM(C01, NaiveScoresAreQuadratic, holds, "S0, S3", "S0, Attention and Memory; S3, entry 1") {
  const PlainAttention plain = plain_attention(512), twice = plain_attention(1024);
  const double tiled = measured_peak(2048, 1) / measured_peak(1024, 1);
  return {
      "Scores and their softmax have a row and a column for every position, so twice the sequence "
      "takes four times the memory in naive attention.",
      "The two matrices of 512 positions take {0} bytes per head in f32, and {1} times that at "
      "twice "
      "the length, counted by the allocator of an attention that computes one after the other. "
      "Attended tile by tile, all that a rank holds, Q, K, V and output included, grows {3} times "
      "from 4,096 to 8,192 positions.",
      {Figure("bytes of both matrices, 512 positions, f32", plain.bytes,
              exactly(2 * 4.0 * 512 * 512), {"one matrix only", plain.bytes / 2},
              2 * 4.0 * 512 * 512),
       Figure("the same at 1,024 over 512 positions", twice.bytes / plain.bytes, exactly(4),
              {"attended tile by tile", tiled}, 4),
       Figure("largest error of that attention, 512 positions, f32", plain.error, at_most(1e-5),
              {"no softmax", plain_attention(512, false).error}, kNothing, Shown::bound),
       Figure("measured peak of one rank that attends tile by tile, 8,192 over 4,096 positions",
              measured_peak(8192, 1) / measured_peak(4096, 1), {1.5, 2},
              {"the scores' growth", twice.bytes / plain.bytes})}};
}

CLAIM(C36, NaiveScoresScaleWithHeadsNotWidth, wrong, "S3", "entry 4") {
  return {
      "Vanilla attention takes 2 b H d S^2 bytes, which for H d = 4,096 and a million tokens are 8 "
      "PB per layer.",
      "There is one matrix of scores per head, not one for every value of the width: with 32 heads "
      "{0} TB.",
      {Figure("TB of scores in 16 bits, a million tokens, 32 heads",
              score_matrix_bytes({1, 32, 32, 1'000'000, 128}, 2) / 1e12, exactly(64),
              {"4,096, the width, in the heads' place",
               score_matrix_bytes({1, 4096, 4096, 1'000'000, 1}, 2) / 1e12},
              8192)}};
}

}  // namespace
}  // namespace ringscope::claims
