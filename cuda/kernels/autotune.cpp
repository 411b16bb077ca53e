#include "cuda/kernels/autotune.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/base/error.h"
#include "cuda/base/build_commit.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {

namespace {

// Return the smallest n with 2^n >= x.
int log2_rounded_up(long long x) {
  return x <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned long long>(x - 1)));
}

}  // namespace

ShapeClass shape_class_of(const StepShape& shape, DType dtype, double share) {
  ShapeClass c;
  c.dtype = dtype;
  c.head_dim = shape.head_dim;
  c.log2_rows_q = std::min(log2_rounded_up(shape.rows_q), kLargestLog2Rows);
  c.log2_rows_k = std::min(log2_rounded_up(shape.rows_k), kLargestLog2Rows);
  const long long heads = static_cast<long long>(shape.batch) * shape.heads;
  c.log2_heads = std::min(log2_rounded_up(heads), kLargestLog2Total - c.log2_rows_q);
  c.quarters = std::clamp(static_cast<int>(std::ceil(share * 4)), 1, 4);
  return c;
}

StepShape representative(const ShapeClass& shape_class) {
  StepShape shape;
  shape.heads = shape.heads_kv = 1 << shape_class.log2_heads;
  shape.rows_q = 1 << shape_class.log2_rows_q;
  shape.rows_k = 1 << shape_class.log2_rows_k;
  shape.head_dim = shape_class.head_dim;
  return shape;
}

std::vector<RowInterval> representative_keys(const ShapeClass& shape_class) {
  const StepShape shape = representative(shape_class);
  const double share = shape_class.quarters / 4.0;
  // The line y = x + shift, cut off at 0 and 1, has `share` of the unit square below it.
  const double shift = share > 0.5 ? 1 - std::sqrt(2 * (1 - share)) : std::sqrt(2 * share) - 1;
  std::vector<RowInterval> keys(static_cast<std::size_t>(shape.rows_q));
  for (int i = 0; i < shape.rows_q; ++i) {
    const double end = std::clamp((i + 0.5) / shape.rows_q + shift, 0.0, 1.0);
    keys[static_cast<std::size_t>(i)] = {
        0, static_cast<std::int32_t>(std::lround(end * shape.rows_k))};
  }
  return keys;
}

std::string name_of(const ShapeClass& c) {
  return fmt::format("{} d{} q{} k{} h{} {}/4", ringscope::name_of(c.dtype), c.head_dim,
                     1 << c.log2_rows_q, 1 << c.log2_rows_k, 1 << c.log2_heads, c.quarters);
}

namespace {

constexpr int kFormat = 1;
constexpr Index kMostBytes = 4 << 20;

using Json = rapidjson::Value;

const Json* member(const Json& object, const char* name) {
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

// Whether f(name, member) holds for every member that the file has of a choice.
template <class Entry, class F>
bool for_all_members(Entry& entry, const F& f) {
  return f("device", entry.device) && f("driver", entry.driver) && f("build", entry.build) &&
         f("kernel", entry.kernel) && f("class", entry.shape_class) &&
         f("tile_rows", entry.tile.rows) && f("tile_keys", entry.tile.keys);
}

// Set the value that `object` has under `name`. Return whether it has one, a number above 0 or a text.
bool take(const Json& object, const char* name, int& number) {
  const Json* value = member(object, name);
  return value != nullptr && value->IsInt() && (number = value->GetInt()) > 0;
}
bool take(const Json& object, const char* name, std::string& text) {
  const Json* value = member(object, name);
  if (value == nullptr || !value->IsString()) return false;
  text.assign(value->GetString(), value->GetStringLength());
  return true;
}

std::string json_of(const std::vector<CachedTile>& entries) {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 1);
  writer.StartObject();
  writer.Key("format");
  writer.Int(kFormat);
  writer.Key("tiles");
  writer.StartArray();
  for (const CachedTile& entry : entries) {
    writer.StartObject();
    for_all_members(entry, [&]<class T>(const char* name, const T& value) {
      writer.Key(name);
      if constexpr (std::is_same_v<T, int>)
        return writer.Int(value);
      else
        return writer.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
    });
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

TileCache parse(const std::string& text) {
  rapidjson::Document document;
  // Parse iteratively, because a hostile depth of brackets must not use up the stack.
  document.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (document.HasParseError())
    return {{}, fmt::format("not JSON at byte {}", document.GetErrorOffset())};
  int format = 0;
  if (!document.IsObject() || !take(document, "format", format) || format != kFormat)
    return {{}, fmt::format("not of format {}", kFormat)};
  const Json* tiles = member(document, "tiles");
  if (tiles == nullptr || !tiles->IsArray()) return {{}, "without a list of tiles"};
  TileCache cache;
  for (const Json& object : tiles->GetArray()) {
    CachedTile entry;
    if (object.IsObject() && for_all_members(entry, [&](const char* name, auto& value) {
          return take(object, name, value);
        }))
      cache.entries.push_back(entry);
    else
      cache.complaint = "with an entry that is no choice of a tile";
  }
  return cache;
}

}  // namespace

bool CachedTile::same_key(const CachedTile& o) const {
  return std::tie(device, driver, build, kernel, shape_class) ==
         std::tie(o.device, o.driver, o.build, o.kernel, o.shape_class);
}

const CachedTile* TileCache::find(const CachedTile& key) const {
  for (const CachedTile& entry : entries)
    if (entry.same_key(key)) return &entry;
  return nullptr;
}

TileCacheLock::TileCacheLock(const std::string& path) {
  std::error_code ignored;  // opening says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string lock = path + ".lock";
  descriptor_ = Descriptor(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!descriptor_.is_open())
    throw InputError(fmt::format("can't write {}: {}", lock, std::strerror(errno)));
  while (::flock(descriptor_.get(), LOCK_EX) != 0)
    if (errno != EINTR)
      throw InputError(fmt::format("can't lock {}: {}", lock, std::strerror(errno)));
}

TileCache read_tile_cache(const std::string& path) try {
  if (!std::filesystem::exists(path)) return {};
  const InputFile file(path, "file of tile choices");
  if (file.size() > kMostBytes) return {{}, fmt::format("larger than {} bytes", kMostBytes)};
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), file.size(), 0);
  return parse(text);
} catch (const std::exception& error) {
  return {{}, error.what()};
}

void add_to_tile_cache(const std::string& path, const CachedTile& entry) {
  std::vector<CachedTile> entries = read_tile_cache(path).entries;
  std::erase_if(entries, [&](const CachedTile& other) { return other.same_key(entry); });
  entries.push_back(entry);
  if (entries.size() > kMostCachedTiles)
    entries.erase(entries.begin(), entries.end() - kMostCachedTiles);
  AtomicFile file(path);
  file.write(json_of(entries));
  file.commit();
}

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

}  // namespace

double time_tile(const Kernel& kernel, const ShapeClass& shape_class, int tile) try {
  StepProblem problem(representative(shape_class), shape_class.dtype, kernel.pass(),
                      representative_keys(shape_class));
  const bool whole = !kernel.carries_state;
  return median_seconds(
      [&](cudaStream_t stream) { problem.launch(kernel, tile, whole, whole, stream); });
} catch (const CudaError&) {
  // A later call must not seem to have failed.
  static_cast<void>(cudaGetLastError());
  throw;
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

int Autotuner::choose(const Kernel& kernel, const ShapeClass& shape_class) {
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
