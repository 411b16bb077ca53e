// How long a compiled tile takes, on the device, on a problem made up for the purpose.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/shape_class.h"

namespace ringscope::cuda {

// Seconds of one step with tiles[tile] on the class's representative: the median of a few, by CUDA
// events. A forward step carries its state in and out, as most steps of a ring do. Takes device
// memory for the time of the call. Throws CudaError; the device is usable afterwards when memory
// was all that was short.
double time_tile(const ForwardKernel& kernel, const ShapeClass& shape_class, int tile);
double time_tile(const BackwardKernel& kernel, const ShapeClass& shape_class, int tile);

// ---
// Chooses among a kernel's compiled tiles by timing them once a shape class, and keeps the choice
// in a file, by device, driver and build. Another tile sums in another order, so a choice that came
// out differently from run to run would change the last digits of results: only a choice that can
// be kept is made by timing, and a kept one stays. Without a place to keep it, with
// RINGSCOPE_TUNE=0 and on the host model it is the kernel's first tile.

struct TunerOptions {
  bool measure = false;    // false: always the first tile
  std::string cache_path;  // empty: no place to keep choices
  std::string device, driver, build;
};

// From the environment: RINGSCOPE_TUNE, XDG_CACHE_HOME, HOME.
TunerOptions tuner_options(const DeviceInfo& device);

enum class ChosenBy { default_tile, timing, cache };

struct TileChoice {
  int kernel = 0;  // number
  std::string shape_class;
  TileShape tile;
  ChosenBy by = ChosenBy::default_tile;
  std::vector<std::pair<TileShape, double>> seconds;  // of all tiles, when timed
};

// Seconds that tiles[tile] takes. May throw CudaError; that tile is left out then.
using TileTimer = std::function<double(int tile)>;

// Thread-safe; processes that share a file take turns.
class Autotuner {
 public:
  explicit Autotuner(TunerOptions options) : options_(std::move(options)) {}

  // The tile to launch `kernel` with, for steps of `shape_class`. May time, so ask before timed
  // work is on the device. Throws nothing of CUDA's or the file's; see remark().
  int choose(const ForwardKernel& kernel, const ShapeClass& shape_class);
  int choose(const BackwardKernel& kernel, const ShapeClass& shape_class);
  // The same with a timer of the caller's.
  int choose(int number, std::span<const TileShape> tiles, const ShapeClass& shape_class,
             const TileTimer& timer);

  // Those that were asked for so far, in order of kernel and class.
  std::vector<TileChoice> choices() const;
  // A line for each choice: "kernel 05, bf16 d128 q8192 k8192 h16 4/4: tile 128x64, timed …".
  std::string text() const;
  // Why choices could not be kept or read; empty when all is well.
  std::string remark() const;

 private:
  TileChoice make_choice(int number, std::span<const TileShape> tiles,
                         const ShapeClass& shape_class, const TileTimer& timer);

  TunerOptions options_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, std::string>, TileChoice> choices_;
  std::string remark_;
};

}  // namespace ringscope::cuda
