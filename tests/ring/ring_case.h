// One ring run to be checked: its inputs, what it must give, and the command that reproduces it.
#pragma once

#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/npy.h"
#include "core/ring/run.h"
#include "tests/attention/blockwise_run.h"

namespace ringscope {

// A problem drawn from a seed, its oracle, and how far single-device attention in the same dtype is
// from that. The ring's error may be twice as much, plus `slack`.
struct RingReference {
  AttentionShape shape;
  DType dtype;
  std::string mask;
  float scale;
  std::uint64_t seed;
  AttentionInputs inputs;
  NaiveResult<double> oracle;
  BlockwiseRun single;

  RingReference(const AttentionShape& its_shape, DType its_dtype, const std::string& its_mask,
                float its_scale, std::uint64_t its_seed)
      : shape(its_shape), dtype(its_dtype), mask(its_mask), scale(its_scale), seed(its_seed) {
    const Tensors<float> in = random_tensors(shape, seed, dtype);
    inputs = {in.q, in.k, in.v, in.dout};
    const MaskSpec spec = MaskSpec::parse(mask);
    const Mask built = spec.for_seqlen(shape.seqlen);
    const auto whole = parts_of(shape.seqlen, shape.seqlen);
    oracle = naive(shape, built, scale, converted<double>(in),
                   NaiveOptions{.block_rows = 128, .threads = 1, .progress = {}});
    single = run_blockwise(shape, dtype, built, scale, in, whole, whole);
  }

  // For sums in another order, and results that round the other way.
  double slack() const { return dtype == DType::f32 ? 1e-6 : 2e-3; }

  RingConfig config(PartitionKind partition, int world_size, Scheme scheme = Scheme::ring) const {
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
  std::string command(const RingConfig& run) const {
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
           std::string(name_of(run.scheme)) + " --world-size " + std::to_string(run.world_size) +
           " --backward --dout " + dout + " --verify";
  }

  // A failure prints the command, once.
  void check(const RingConfig& config) const {
    const RingRun run = run_on_threads(config, inputs);
    bool pass = true;
    const auto compare = [&](const char* name, const std::vector<float>& value,
                             const std::vector<float>& single_device,
                             const std::vector<double>& expected) {
      const double error = max_abs_error(value, expected);
      const double tolerance = 2 * max_abs_error(single_device, expected) + slack();
      EXPECT_LE(error, tolerance) << name;
      pass = pass && error <= tolerance;
    };
    compare("out", run.outputs.out, single.out, oracle.out);
    compare("lse", run.outputs.lse, single.lse, oracle.lse);
    compare("dq", run.outputs.dq, single.dq, oracle.dq);
    compare("dk", run.outputs.dk, single.dk, oracle.dk);
    compare("dv", run.outputs.dv, single.dv, oracle.dv);
    if (!pass) ADD_FAILURE() << "reproduce with: " << command(config);
  }
};

}  // namespace ringscope
