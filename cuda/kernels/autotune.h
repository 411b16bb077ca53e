// Chooses a tile size by measuring. It has classes of problems, a file of past choices, the timing
// of tiles, and the autotuner that puts them together.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/files.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// ---
// Groups problems that share a tile size. A step's class is its dtype, head_dim, sizes rounded up
// to powers of two, and allowed share of rows x keys in quarters, because full steps like large
// tiles and narrow windows small ones. Classes stop growing at a size that fills every GPU.

struct ShapeClass {
  DType dtype = DType::f32;
  int head_dim = 0;
  int log2_rows_q = 0, log2_rows_k = 0;
  int log2_heads = 0;  // of batch x heads
  int quarters = 4;    // 1..4: allowed pairs over rows_q x rows_k, rounded up

  bool operator==(const ShapeClass&) const = default;
};

inline constexpr int kLargestLog2Rows = 13;   // 8192: a tile's inner loop is long by then
inline constexpr int kLargestLog2Total = 17;  // rows_q x heads: 1024 blocks of 128 rows

// `share` is allowed pairs over rows_q x rows_k, in [0, 1].
ShapeClass shape_class_of(const StepShape& shape, DType dtype, double share);

// Return a problem of the class to time kernels on: the largest sizes, heads without groups.
StepShape representative(const ShapeClass& shape_class);

// Return the representative's allowed keys: a staircase with the class's share of all pairs.
std::vector<RowInterval> representative_keys(const ShapeClass& shape_class);

// Return, for example, "bf16 d128 q8192 k8192 h16 4/4".
std::string name_of(const ShapeClass& shape_class);

// ---
// The file that keeps the autotuner's choices. An unreadable file counts as empty and is written
// anew, because it holds nothing that cannot be measured again.

// One choice. All members but `tile` are its key.
struct CachedTile {
  std::string device, driver, build;
  int kernel = 0;
  std::string shape_class;
  TileShape tile;

  bool same_key(const CachedTile& other) const;
  bool operator==(const CachedTile&) const = default;
};

inline constexpr std::size_t kMostCachedTiles = 4096;  // the oldest are dropped

struct TileCache {
  std::vector<CachedTile> entries;  // oldest first
  std::string complaint;            // why an existing file was not believed

  const CachedTile* find(const CachedTile& key) const;
};

// Holds the right to change the file; other processes wait meanwhile. Creates the folder.
class TileCacheLock {
 public:
  // Throws InputError when the folder or the lock beside the file cannot be written.
  explicit TileCacheLock(const std::string& path);

 private:
  Descriptor descriptor_;
};

// Read the file. A missing file is an empty cache without complaint. Never throws.
TileCache read_tile_cache(const std::string& path);

// Add `entry` to what the file holds now. Throws InputError or RunError.
void add_to_tile_cache(const std::string& path, const CachedTile& entry);

// ---
// Times a kernel's compiled tiles on the device, on made-up problems, and chooses among them.

// Return the seconds of one step with tiles[tile] on the class's representative: the median of a
// few, by CUDA events. A forward step reads and writes its state, as most steps of a ring do. Uses
// device memory during the call. Throws CudaError; if only memory was short, the device stays
// usable.
double time_tile(const Kernel& kernel, const ShapeClass& shape_class, int tile);

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
  int choose(const Kernel& kernel, const ShapeClass& shape_class);
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
