#include "viz/window/preferences.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/fields.h"
#include "core/base/files.h"

namespace ringscope::viz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 16, kMostRecent = 8;
constexpr std::pair<const char*, float Splits::*> kSplits[] = {{"timeline", &Splits::timeline},
                                                               {"ring", &Splits::ring},
                                                               {"mask", &Splits::mask},
                                                               {"story", &Splits::story}};

// Return the member `name` of an object, or a null value if it is missing.
const rapidjson::Value& member(const rapidjson::Value& object, const char* name) {
  static const rapidjson::Value kNothing;
  return object.IsObject() && object.HasMember(name) ? object[name] : kNothing;
}

bool says(const rapidjson::Value& json, const char* name, const std::string& word) {
  const rapidjson::Value& value = member(json, name);
  return value.IsString() && value.GetString() == word;
}

// Return whether `files`, in any order, are all of a folder, which may be gone or hidden by now.
bool are_all_in(const std::string& folder, std::vector<std::string> files) {
  try {
    std::sort(files.begin(), files.end());
    return files == files_in({folder});
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::string preferences_path() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  fs::path folder;
  // The XDG specification says that a relative path must be ignored.
  if (config != nullptr && fs::path(config).is_absolute()) {
    folder = config;
  } else if (home != nullptr && fs::path(home).is_absolute()) {
    folder = fs::path(home) / ".config";
  } else {
    return "";
  }
  return (folder / "ringscope" / "viewer.json").string();
}

Preferences parse_preferences(const std::string& text) {
  Preferences p;
  rapidjson::Document json;
  json.Parse<rapidjson::kParseIterativeFlag>(text.c_str(), text.size());
  if (json.HasParseError() || !json.IsObject()) return p;
  if (says(json, "theme", "light")) p.theme = Theme::light;
  if (says(json, "color_by", "kind")) p.color_by = ColorBy::kind;
  for (const auto& [name, size] :
       {std::pair("width", &Preferences::width), {"height", &Preferences::height}})
    if (const auto& value = member(json, name);
        value.IsInt() && value.GetInt() >= 240 && value.GetInt() <= 16384)
      p.*size = value.GetInt();
  if (const auto& value = member(json, "text_scale"); value.IsNumber() &&
                                                      value.GetDouble() >= kLeastTextScale &&
                                                      value.GetDouble() <= kMostTextScale)
    p.text_scale = static_cast<float>(value.GetDouble());
  for (const auto& [name, split] : kSplits)
    if (const auto& value = member(member(json, "splits"), name);
        value.IsNumber() && value.GetDouble() > 0 && value.GetDouble() < 1)
      p.splits.*split = static_cast<float>(value.GetDouble());
  if (const auto& recent = member(json, "recent"); recent.IsArray())
    for (const rapidjson::Value& each : recent.GetArray()) {
      std::vector<std::string> files;
      if (each.IsString()) files.emplace_back(each.GetString());  // of an older version
      if (each.IsArray())
        for (const rapidjson::Value& file : each.GetArray())
          if (file.IsString()) files.emplace_back(file.GetString());
      if (!files.empty() && p.recent.size() < kMostRecent) p.recent.push_back(std::move(files));
    }
  return p;
}

float magnification(int width, int height) {
  return std::max(1.0f, std::floor(4 * std::min(static_cast<float>(width) / 1600,
                                                static_cast<float>(height) / 900)) /
                            4);
}

float changed_text_scale(float scale, int change) {
  if (change == 0) return 1;
  return std::clamp(scale + 0.125f * static_cast<float>(change), kLeastTextScale, kMostTextScale);
}

float scale_in_window(float content_scale, int width, int height, float text_scale) {
  const float as_at_first = std::max(content_scale, magnification(width, height));
  const float most = std::min(static_cast<float>(width) / 320, static_cast<float>(height) / 240);
  return std::min(as_at_first * text_scale, std::max(as_at_first, most));
}

void note_recent(Preferences& p, const Trace& trace) {
  std::error_code error;
  std::vector<std::string> files = {fs::absolute(trace.path, error).string()};
  for (const std::string& more : trace.more_paths)
    files.push_back(fs::absolute(more, error).string());
  const std::string folder = fs::path(files[0]).parent_path().string();
  if (files.size() > 1 && are_all_in(folder, files)) files = {folder};
  std::erase(p.recent, files);
  p.recent.insert(p.recent.begin(), std::move(files));
  p.recent.resize(std::min(p.recent.size(), kMostRecent));
  while (!p.recent.empty() && preferences_text(p).size() > kMostBytes) p.recent.pop_back();
}

std::string preferences_text(const Preferences& p) {
  Fields splits;
  for (const auto& [name, split] : kSplits)
    splits.push_back({name, std::round(double{p.splits.*split} * 1e4) / 1e4});
  return Json(Fields{{"theme", p.theme == Theme::light ? "light" : "dark"},
                     {"color_by", p.color_by == ColorBy::kind ? "kind" : "owner"},
                     {"width", p.width},
                     {"height", p.height},
                     {"text_scale", double{p.text_scale}},
                     {"splits", splits},
                     {"recent", p.recent}})
             .text() +
         "\n";
}

Preferences load_preferences() {
  const std::string path = preferences_path();
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_preferences(text);
}

void save_preferences(const Preferences& preferences) {
  const std::string path = preferences_path();
  if (path.empty()) return;
  try {
    fs::create_directories(fs::path(path).parent_path());
    AtomicFile file(path);
    file.write(preferences_text(preferences));
    file.commit();
  } catch (const std::exception&) {
    // The next run starts with the preferences saved before.
  }
}

}  // namespace ringscope::viz
