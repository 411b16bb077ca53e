// The file that keeps the autotuner's choices. An unreadable file counts as empty and is written
// anew, because it holds nothing that cannot be measured again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

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
  ~TileCacheLock();
  TileCacheLock(const TileCacheLock&) = delete;
  TileCacheLock& operator=(const TileCacheLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Read the file. A missing file is an empty cache without complaint. Never throws.
TileCache read_tile_cache(const std::string& path);

// Add `entry` to what the file holds now. Throws InputError or RunError.
void add_to_tile_cache(const std::string& path, const CachedTile& entry);

}  // namespace ringscope::cuda
