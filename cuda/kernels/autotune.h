// Times a kernel's compiled tiles on the device, on made-up problems, and chooses among them.
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

// Return the seconds of one step with tiles[tile] on the class's representative: the median of a
// few, by CUDA events. A forward step reads and writes its state, as most steps of a ring do. Uses
// device memory during the call. Throws CudaError; if only memory was short, the device stays
// usable.
double time_tile(const ForwardKernel& kernel, const ShapeClass& shape_class, int tile);
double time_tile(const BackwardKernel& kernel, const ShapeClass& shape_class, int tile);

// ---
// Autotuner times a kernel's compiled tiles once per shape class, and keeps the choice in a file,
// by device, driver and build. Different tiles sum in different orders, so a choice that changed
// from run to run would change the last digits of results. Therefore only a choice that can be kept
// is timed, and a kept one stays. Without a place to keep it, with RINGSCOPE_TUNE=0 and on the host
// model, the choice is the kernel's first tile.

struct TunerOptions {
  bool measure = false;    // false: always the first tile
  std::string cache_path;  // empty: no place to keep choices
  std::string device, driver, build;
};

// Read the options from the environment: RINGSCOPE_TUNE, XDG_CACHE_HOME, HOME.
TunerOptions tuner_options(const DeviceInfo& device);

enum class ChosenBy { default_tile, timing, cache };

struct TileChoice {
  int kernel = 0;  // the kernel's number
  std::string shape_class;
  TileShape tile;
  ChosenBy by = ChosenBy::default_tile;
  std::vector<std::pair<TileShape, double>> seconds;  // of all tiles, when timed
};

// Returns the seconds that tiles[tile] takes. If it throws CudaError, the tile is left out.
using TileTimer = std::function<double(int tile)>;

// Thread-safe. Processes that share a file take turns.
class Autotuner {
 public:
  explicit Autotuner(TunerOptions options) : options_(std::move(options)) {}

  // Return the tile to launch `kernel` with, for steps of `shape_class`. It may run timings, so
  // call it before timed work is enqueued. Never throws CUDA or file errors; see remark().
  int choose(const ForwardKernel& kernel, const ShapeClass& shape_class);
  int choose(const BackwardKernel& kernel, const ShapeClass& shape_class);
  // Likewise, with a timer of the caller's.
  int choose(int number, std::span<const TileShape> tiles, const ShapeClass& shape_class,
             const TileTimer& timer);

  // Return the choices asked for so far, in order of kernel and class.
  std::vector<TileChoice> choices() const;
  // Return a line per choice: "kernel 05, bf16 d128 q8192 k8192 h16 4/4: tile 128x64, timed …".
  std::string text() const;
  // Return why choices could not be kept or read, or an empty text.
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
