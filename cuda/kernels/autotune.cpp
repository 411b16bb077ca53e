#include "cuda/kernels/autotune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>

#include "cuda/base/build_commit.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/step_problem.h"
#include "cuda/kernels/tile_cache.h"

namespace ringscope::cuda {

namespace {

constexpr int kWarmUps = 2;
constexpr int kRepeats = 5;

template <class Enqueue>
double median_seconds(Enqueue enqueue) {
  Stream stream;
  Event begin(EventKind::timed), end(EventKind::timed);
  for (int i = 0; i < kWarmUps; ++i) enqueue(stream.get());
  std::array<double, kRepeats> seconds{};
  for (double& s : seconds) {
    begin.record(stream.get());
    enqueue(stream.get());
    end.record(stream.get());
    end.wait();
    s = static_cast<double>(end.ms_since(begin)) * 1e-3;
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

// Clear the status of a failed call, because a later call would seem to have failed.
template <class Time>
double forgetting_errors(Time time) try {
  return time();
} catch (const CudaError&) {
  static_cast<void>(cudaGetLastError());
  throw;
}

}  // namespace

double time_tile(const ForwardKernel& kernel, const ShapeClass& shape_class, int tile) {
  return forgetting_errors([&] {
    StepProblem problem(representative(shape_class), shape_class.dtype, KernelPass::forward,
                        representative_keys(shape_class));
    const bool whole = !kernel.carries_state;
    const ForwardStep step = problem.forward(whole, whole);
    return median_seconds(
        [&](cudaStream_t stream) { kernel.launch(step, shape_class.dtype, tile, stream); });
  });
}

double time_tile(const BackwardKernel& kernel, const ShapeClass& shape_class, int tile) {
  return forgetting_errors([&] {
    StepProblem problem(representative(shape_class), shape_class.dtype, KernelPass::backward,
                        representative_keys(shape_class));
    const BackwardStep step = problem.backward();
    return median_seconds(
        [&](cudaStream_t stream) { kernel.launch(step, shape_class.dtype, tile, stream); });
  });
}

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_path() {
  // The XDG base directory specification says to ignore relative paths.
  if (const auto cache = environment("XDG_CACHE_HOME"); cache.starts_with('/'))
    return fmt::format("{}/ringscope/tiles.json", cache);
  if (const auto home = environment("HOME"); home.starts_with('/'))
    return fmt::format("{}/.cache/ringscope/tiles.json", home);
  return "";
}

std::string to_string(TileShape tile) { return fmt::format("{}x{}", tile.rows, tile.keys); }

// Return the first of the fastest tiles, or nullopt when none could be timed.
std::optional<int> fastest(const std::vector<double>& seconds) {
  std::optional<int> best;
  for (int tile = 0; tile < std::ssize(seconds); ++tile) {
    const double s = seconds[static_cast<std::size_t>(tile)];
    if (!std::isfinite(s) || s <= 0) continue;
    if (!best || s < seconds[static_cast<std::size_t>(*best)]) best = tile;
  }
  return best;
}

std::vector<double> time_all(std::size_t tiles, const TileTimer& timer) {
  std::vector<double> seconds(tiles, NAN);
  for (std::size_t tile = 0; tile < tiles; ++tile) try {
      seconds[tile] = timer(static_cast<int>(tile));
    } catch (const std::exception&) {
      // There may be too little memory for this tile; the others may still run.
    }
  return seconds;
}

}  // namespace

TunerOptions tuner_options(const DeviceInfo& device) {
  TunerOptions options;
#ifndef RINGSCOPE_MODEL
  options.measure = environment("RINGSCOPE_TUNE") != "0";
#endif
  options.cache_path = cache_path();
  options.device = device.name;
  options.driver = device.driver;
  options.build = build_commit();
  return options;
}

int Autotuner::choose(const ForwardKernel& kernel, const ShapeClass& shape_class) {
  return choose(kernel.number, kernel.tiles, shape_class,
                [&](int tile) { return time_tile(kernel, shape_class, tile); });
}

int Autotuner::choose(const BackwardKernel& kernel, const ShapeClass& shape_class) {
  return choose(kernel.number, kernel.tiles, shape_class,
                [&](int tile) { return time_tile(kernel, shape_class, tile); });
}

int Autotuner::choose(int number, std::span<const TileShape> tiles, const ShapeClass& shape_class,
                      const TileTimer& timer) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(number, name_of(shape_class));
  auto known = choices_.find(key);
  if (known == choices_.end())
    known = choices_.emplace(key, make_choice(number, tiles, shape_class, timer)).first;
  const auto at = std::find(tiles.begin(), tiles.end(), known->second.tile);
  return at == tiles.end() ? 0 : static_cast<int>(at - tiles.begin());
}

TileChoice Autotuner::make_choice(int number, std::span<const TileShape> tiles,
                                  const ShapeClass& shape_class, const TileTimer& timer) {
  TileChoice choice{number,
                    name_of(shape_class),
                    tiles.empty() ? TileShape{} : tiles[0],
                    ChosenBy::default_tile,
                    {}};
  if (tiles.size() < 2 || !options_.measure) return choice;
  if (options_.cache_path.empty()) {
    remark_ = "no XDG_CACHE_HOME and no HOME to keep tile choices in; default tiles are used";
    return choice;
  }
  CachedTile kept{options_.device, options_.driver, options_.build, number, choice.shape_class, {}};
  const auto known = [&] {
    const TileCache cache = read_tile_cache(options_.cache_path);
    if (!cache.complaint.empty())
      remark_ = fmt::format("{} is {}; it is written anew", options_.cache_path, cache.complaint);
    const CachedTile* found = cache.find(kept);
    if (found == nullptr || std::find(tiles.begin(), tiles.end(), found->tile) == tiles.end())
      return false;
    choice.tile = found->tile;
    choice.by = ChosenBy::cache;
    return true;
  };
  if (known()) return choice;
  try {
    const TileCacheLock lock(options_.cache_path);
    if (known()) return choice;  // timed by another process meanwhile
    const std::vector<double> seconds = time_all(tiles.size(), timer);
    const std::optional<int> best = fastest(seconds);
    if (!best) return choice;
    kept.tile = tiles[static_cast<std::size_t>(*best)];
    add_to_tile_cache(options_.cache_path, kept);
    choice.tile = kept.tile;
    choice.by = ChosenBy::timing;
    for (std::size_t i = 0; i < tiles.size(); ++i)
      choice.seconds.emplace_back(tiles[i], seconds[i]);
  } catch (const std::exception& error) {
    remark_ = fmt::format("tile choices can't be kept: {}; default tiles are used", error.what());
  }
  return choice;
}

std::vector<TileChoice> Autotuner::choices() const {
  const std::lock_guard lock(mutex_);
  std::vector<TileChoice> all;
  for (const auto& [key, choice] : choices_) all.push_back(choice);
  return all;
}

std::string Autotuner::text() const {
  std::string text;
  for (const TileChoice& choice : choices()) {
    text += fmt::format("kernel {:02}, {}: tile {}", choice.kernel, choice.shape_class,
                        to_string(choice.tile));
    if (choice.by == ChosenBy::cache) text += ", timed earlier";
    if (choice.by == ChosenBy::timing) {
      text += ", timed now:";
      for (const auto& [tile, seconds] : choice.seconds)
        text += std::isfinite(seconds)
                    ? fmt::format(" {} {:.3f} ms", to_string(tile), seconds * 1e3)
                    : fmt::format(" {} failed", to_string(tile));
    }
    text += '\n';
  }
  return text;
}

std::string Autotuner::remark() const {
  const std::lock_guard lock(mutex_);
  return remark_;
}

}  // namespace ringscope::cuda
