#include "cuda/kernels/tile_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files.h"

namespace ringscope::cuda {
namespace {

constexpr int kFormat = 1;
constexpr Index kMostBytes = 4 << 20;

using Json = rapidjson::Value;

const Json* member(const Json& object, const char* name) {
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

std::optional<std::string> string_in(const Json& object, const char* name) {
  const Json* value = member(object, name);
  if (value == nullptr || !value->IsString()) return std::nullopt;
  return std::string(value->GetString(), value->GetStringLength());
}

std::optional<int> positive_in(const Json& object, const char* name) {
  const Json* value = member(object, name);
  if (value == nullptr || !value->IsInt() || value->GetInt() <= 0) return std::nullopt;
  return value->GetInt();
}

std::optional<CachedTile> entry_of(const Json& object) {
  if (!object.IsObject()) return std::nullopt;
  const auto device = string_in(object, "device"), driver = string_in(object, "driver"),
             build = string_in(object, "build"), shape_class = string_in(object, "class");
  const auto kernel = positive_in(object, "kernel"), rows = positive_in(object, "tile_rows"),
             keys = positive_in(object, "tile_keys");
  if (!device || !driver || !build || !shape_class || !kernel || !rows || !keys)
    return std::nullopt;
  return CachedTile{*device, *driver, *build, *kernel, *shape_class, {*rows, *keys}};
}

std::string json_of(const std::vector<CachedTile>& entries) {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 1);
  const auto put = [&writer](const char* name, const std::string& value) {
    writer.Key(name);
    writer.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  };
  const auto put_number = [&writer](const char* name, int value) {
    writer.Key(name);
    writer.Int(value);
  };
  writer.StartObject();
  put_number("format", kFormat);
  writer.Key("tiles");
  writer.StartArray();
  for (const CachedTile& entry : entries) {
    writer.StartObject();
    put("device", entry.device);
    put("driver", entry.driver);
    put("build", entry.build);
    put_number("kernel", entry.kernel);
    put("class", entry.shape_class);
    put_number("tile_rows", entry.tile.rows);
    put_number("tile_keys", entry.tile.keys);
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
  if (!document.IsObject() || positive_in(document, "format") != kFormat)
    return {{}, fmt::format("not of format {}", kFormat)};
  const Json* tiles = member(document, "tiles");
  if (tiles == nullptr || !tiles->IsArray()) return {{}, "without a list of tiles"};
  TileCache cache;
  for (const Json& object : tiles->GetArray()) {
    if (const auto entry = entry_of(object)) {
      cache.entries.push_back(*entry);
    } else {
      cache.complaint = "with an entry that is no choice of a tile";
    }
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
  descriptor_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw InputError(fmt::format("can't write {}: {}", lock, std::strerror(errno)));
  while (::flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(descriptor_);
    throw InputError(fmt::format("can't lock {}: {}", lock, std::strerror(error)));
  }
}

TileCacheLock::~TileCacheLock() { ::close(descriptor_); }

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

}  // namespace ringscope::cuda
