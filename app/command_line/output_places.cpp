#include "app/command_line/output_places.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "app/command_line/flags.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

// Return the real folder and name of a file made at `path`, through links that dangle too.
fs::path real_place(const std::string& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(place, error)); ++links)
    place = place.parent_path() / fs::read_symlink(place, error);
  place = fs::weakly_canonical(place, error);
  return place.has_filename() ? place : place.parent_path();  // "d/" is d
}

// Return whether writing one file or folder would replace the other. Devices and fifos are not
// replaced.
bool same_place(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::file_status status = fs::status(a, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) return false;
  return fs::equivalent(a, b, error) || real_place(a) == real_place(b);
}

bool is_inside(const OutputPlace& folder, const std::string& path) {
  if (!folder.is_folder || !folder.path) return false;
  const fs::path outer = real_place(*folder.path), inner = real_place(path);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Return whether writing to `path` would mix with stdout or replace its file. Nothing mixes in
// /dev/null.
bool is_stdout(const std::string& path) {
  const auto equal = [](const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  };
  struct stat out {
  }, file{}, null{};
  return ::fstat(STDOUT_FILENO, &out) == 0 && ::stat(path.c_str(), &file) == 0 &&
         equal(out, file) && !(::stat("/dev/null", &null) == 0 && equal(out, null));
}

}  // namespace

void add_files_in(const std::vector<std::string>& names, std::vector<std::string>& files) {
  for (const std::string& name : names)
    for (const std::string before : {"ranges:", "file:"})
      if (const std::size_t at = name.find(before); at != name.npos)
        files.push_back(name.substr(at + before.size()));
}

void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const char* const flag = places[i].flag;
    if (!places[i].path) continue;
    const std::string& path = *places[i].path;
    for (std::size_t j = 0; j < i; ++j) {
      if (!places[j].path) continue;
      const bool same = same_place(path, *places[j].path);
      if (same || is_inside(places[i], *places[j].path) || is_inside(places[j], path))
        throw InputError(fmt::format("{} '{}': {} {}; accepted: a {} for each output", flag, path,
                                     same ? "the same file as" : "one holds the other, of",
                                     places[j].flag, same ? "file" : "place"));
    }
    for (const std::string& input : inputs)
      if (same_place(path, input))
        throw InputError(fmt::format(
            "{} '{}': the same file as the input '{}'; accepted: another file", flag, path, input));
    if (json && is_stdout(path))
      throw InputError(fmt::format(
          "{} '{}': is stdout, where --json prints; accepted: another file, or no --json", flag,
          path));
    for_flag(flag, [&] {
      if (places[i].is_folder)
        AtomicFolder probe(path);
      else
        require_writable(path);
    });
  }
}

}  // namespace ringscope
