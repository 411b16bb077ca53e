// One ring run to be checked: its inputs, what it must give, and the command that reproduces it.
#pragma once

#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/base/npy.h"
#include "core/threads/run.h"
#include "tests/core/attention/blockwise_run.h"

namespace ringscope {

// ThreadSanitizer makes a ring ten times slower, and watches threads, not numbers: a part of the
// cases is enough for it.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// The seed of a test that draws its cases: new every time and printed, or as RINGSCOPE_TEST_SEED says.
inline std::uint64_t drawn_seed() {
  const char* const given = std::getenv("RINGSCOPE_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("RINGSCOPE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Every row of `width` values in reverse order. Reversing the coordinates of Q and K, and of V, out and
// dO, leaves the problem the same and rounds it differently.
template <class T>
std::vector<T> reversed_rows(std::vector<T> tensor, Index width) {
  for (auto row = tensor.begin(); row != tensor.end(); row += width) std::reverse(row, row + width);
  return tensor;
}

// Every kind of mask, and combinations of them.
inline std::vector<std::string> masks_for(Index seqlen) {
  const auto text = [](Index x) { return std::to_string(x); };
  const Index cut = seqlen / 3;
  const std::string documents =
      "documents:" + (cut == 0 ? text(seqlen) : text(cut) + ",1," + text(seqlen - cut - 1));
  const std::string window = "window:" + text(3 + seqlen / 20),
                    prefix = "prefix:" + text(seqlen / 2);
  return {"full",
          "causal",
          window,
          "causal+" + window,
          prefix,
          documents,
          "causal+" + documents,
          "causal+" + window + "+" + documents,
          prefix + "+" + documents};
}

// A problem drawn from a seed, its oracle, and how far single-device attention in the same dtype is
// from that: the largest of three runs that round differently, since the largest error of one is a
// matter of luck. (Of the first two it still was: rings of 5,000 random cases came to 0.76 of what
// they may, and one once beyond it. Of few coordinates the order hardly matters.) The ring's error
// may be twice as much, plus `slack`.
struct RingReference {
  static constexpr Index kTileRows = 40;

  AttentionShape shape;
  DType dtype;
  std::string mask;
  float scale;
  std::uint64_t seed;
  AttentionInputs inputs;
  NaiveResult<double> oracle;
  BlockwiseRun single;
  BlockwiseRun single_reversed;  // in reversed coordinates
  BlockwiseRun single_tiled;     // block by block

  RingReference(const AttentionShape& its_shape, DType its_dtype, const std::string& its_mask,
                float its_scale, std::uint64_t its_seed)
      : shape(its_shape), dtype(its_dtype), mask(its_mask), scale(its_scale), seed(its_seed) {
    const Tensors<float> in = random_tensors(shape, seed, dtype);
    inputs = {in.q, in.k, in.v, in.dout};
    const MaskSpec spec = MaskSpec::parse(mask);
    const Mask built = spec.for_seqlen(shape.seqlen);
    const auto whole = parts_of(shape.seqlen, shape.seqlen);
    oracle = naive(shape, built, scale, converted<double>(in),
                   NaiveOptions{.block_rows = 128, .threads = 1, .queries = {}, .progress = {}});
    single = run_blockwise(shape, dtype, built, scale, in, whole, whole);
    const Index d = shape.head_dim;
    single_reversed = run_blockwise(shape, dtype, built, scale,
                                    {reversed_rows(in.q, d), reversed_rows(in.k, d),
                                     reversed_rows(in.v, d), reversed_rows(in.dout, d)},
                                    whole, whole);
    const auto tiles = parts_of(shape.seqlen, kTileRows);
    single_tiled = run_blockwise(shape, dtype, built, scale, in, tiles, tiles);
  }

  // For sums in another order, and results that round the other way. In f32 the slack is 1e-6 of the
  // tensor's largest value where that exceeds 1: from 16 on, 1e-6 is less than a half of its last
  // digit, which no sum in f32 can promise.
  double slack(const std::vector<double>& expected) const {
    if (dtype != DType::f32) return 2e-3;
    return 1e-6 * std::max(1.0, max_abs_error(expected, std::vector<double>(expected.size(), 0.0)));
  }

  Problem config(const PartitionSpec& partition, int world_size,
                 const Scheme* scheme = scheme_named("ring")) const {
    return {.shape = shape,
            .dtype = dtype,
            .softmax_scale = scale,
            .mask = MaskSpec::parse(mask),
            .partition = partition,
            .world_size = world_size,
            .scheme = scheme,
            .backward = true};
  }

  // The command line of a run. dO is not among what --random draws, so it is written to a file.
  std::string command(const Problem& run, const std::string& backend) const {
    const std::string dout =
        (std::filesystem::temp_directory_path() /
         ("ringscope_dout_" + std::to_string(::getpid()) + "_" + std::to_string(seed) + ".npy"))
            .string();
    write_npy(dout, {shape.batch, shape.num_heads, shape.seqlen, shape.head_dim},
              inputs.dout.data(), false);
    char exact_scale[64];
    std::snprintf(exact_scale, sizeof exact_scale, "%.9g", static_cast<double>(scale));
    return "ringscope run --random --seed " + std::to_string(seed) + " --batch " +
           std::to_string(shape.batch) + " --heads " + std::to_string(shape.num_heads) +
           " --heads-kv " + std::to_string(shape.num_heads_kv) + " --seqlen " +
           std::to_string(shape.seqlen) + " --head-dim " + std::to_string(shape.head_dim) +
           " --dtype " + std::string(name_of(dtype)) + " --scale " + exact_scale + " --mask " +
           mask + " --partition " + std::string(name_of(run.partition)) + " --scheme " +
           run.scheme_name() +
           (run.scheme == scheme_named("ring") ? " --kv-buffers " + std::to_string(run.kv_buffers)
                                               : "") +
           " --world-size " + std::to_string(run.world_size) + " --backend " + backend +
           " --backward --dout " + dout + " --verify";
  }

  void check(const Problem& config) const { check(config, run_on_threads(config, inputs)); }
  // A failure prints the command, once. `rounding` are errors that dq, dk and dv of matrix units have
  // besides, because these take P and dS in the dtype; on CPUs they stay in f32.
  void check(const Problem& config, const RingRun& run,
             const std::array<double, 3>& rounding = {}) const {
    bool pass = true;
    for (const Tensor tensor : output_tensors(config.backward)) {
      const std::vector<double>& expected = values_of(oracle, tensor);
      const int gradient = static_cast<int>(tensor) - static_cast<int>(Tensor::dq);
      const double error = max_abs_error(values_of(run.outputs, tensor), expected);
      const double single_error =
          std::max({max_abs_error(values_of(single, tensor), expected),
                    max_abs_error(values_of(single_reversed, tensor),
                                  reversed_rows(expected, width_of(shape, tensor))),
                    max_abs_error(values_of(single_tiled, tensor), expected),
                    gradient < 0 ? 0 : rounding[static_cast<std::size_t>(gradient)]});
      const double tolerance = 2 * single_error + slack(expected);
      EXPECT_LE(error, tolerance) << name_of(tensor);
      pass = pass && error <= tolerance;
    }
    if (!pass) ADD_FAILURE() << "reproduce with: " << command(config, run.recording.info.backend);
  }
};

}  // namespace ringscope
