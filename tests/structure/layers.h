// The rules that hold the tree together, as a function from source files to complaints:
//
//   - a file includes only its own layer and those below it;
//   - an include of the project's own is written from the root, in quotes, and its file exists;
//   - no file includes itself, directly or through others;
//   - no folder is called util or common, where anything would fit;
//   - no file is longer than a reader wants to hold in mind, and no folder has more files than he
//     finds his way in;
//   - a folder of tests of core has its counterpart in core.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope::structure {

struct SourceFile {
  std::string path;  // from the root, with '/'
  std::string text;
};

struct Include {
  std::string path;
  bool quoted = true;  // "path"; otherwise <path>
};

inline constexpr int kMaxLines = 800;
inline constexpr int kMaxFiles = 40;

// From the lowest to the highest. Layers of one row do not see each other.
inline const std::vector<std::vector<std::string>> kRows = {
    {"core/base"},
    {"core/problem"},
    {"core/attention"},
    {"core/trace", "core/reference"},
    {"core/ring"},
    {"core/threads"},
    // Above threads, the spine is over.
    {"core/tools/check", "core/tools/cost", "core/processes/supervision"},
    {"core/processes/mpi", "core/tools/sim"},
    {"core/tools/explain", "core/training"},
    {"core/tools/foreign"},
    {"viz/data", "cuda/emulator"},
    {"viz/panels", "cuda/base"},
    {"viz/window", "cuda/ptx"},
    {"viz/browser", "cuda/kernels"},
    {"cuda/ring"},
    {"cuda/nccl"},
    {"lessons"},
    {"bench", "tests"},
    {"app"}};

struct Layer {
  std::string name;
  int row = 0;
};

// None when `path` lies in no layer.
inline std::optional<Layer> layer_of(std::string_view path) {
  for (int row = 0; row < std::ssize(kRows); ++row)
    for (const std::string& name : kRows[static_cast<std::size_t>(row)])
      if (path.starts_with(name + "/")) return Layer{name, row};
  return std::nullopt;
}

inline bool may_see(const Layer& from, const Layer& to) {
  const bool is_viz = from.name.starts_with("viz/") || to.name.starts_with("viz/");
  const bool is_cuda = from.name.starts_with("cuda/") || to.name.starts_with("cuda/");
  if (is_viz && is_cuda) return false;  // they meet in a trace file
  return from.name == to.name || to.row < from.row;
}

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The include directives of a source text, in order.
inline std::vector<Include> includes_of(std::string_view text) {
  static constexpr std::string_view kBlank = " \t\r";
  std::vector<Include> includes;
  for (const std::string& whole_line : split(text, '\n')) {
    std::string_view line = whole_line;
    const auto skip = [&line](std::string_view word) {
      line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
      if (!line.starts_with(word)) return false;
      line.remove_prefix(word.size());
      return true;
    };
    if (!skip("#") || !skip("include")) continue;
    const bool quoted = skip("\"");
    if (!quoted && !skip("<")) continue;
    const std::size_t end = line.find(quoted ? '"' : '>');
    if (end != std::string_view::npos)
      includes.push_back({std::string(line.substr(0, end)), quoted});
  }
  return includes;
}

// One line for each broken rule; empty when all hold.
class Checker {
 public:
  explicit Checker(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) includes_[file.path] = includes_of(file.text);
    for (const SourceFile& file : files) check_file(file);
    check_folders(files);
    for (const auto& [path, includes] : includes_) look_for_cycle(path);
  }

  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void complain(const std::string& path, const std::string& what) {
    complaints_.push_back(path + ": " + what);
  }

  void check_file(const SourceFile& file) {
    const std::vector<std::string> parts = split(file.path, '/');
    for (auto folder = parts.begin(); folder != std::prev(parts.end()); ++folder)
      if (*folder == "util" || *folder == "utils" || *folder == "common")
        complain(file.path, "lies in a folder called " + *folder);

    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (lines > kMaxLines) complain(file.path, "is " + std::to_string(lines) + " lines long");

    const std::optional<Layer> layer = layer_of(file.path);
    if (!layer) return complain(file.path, "lies in no layer");
    for (const Include& include : includes_.at(file.path))
      check_include(file.path, *layer, include);
  }

  void check_folders(const std::vector<SourceFile>& files) {
    std::map<std::string, int> files_in;
    for (const SourceFile& file : files) ++files_in[file.path.substr(0, file.path.rfind('/'))];
    for (const auto& [folder, count] : files_in) {
      if (count > kMaxFiles) complain(folder, "holds " + std::to_string(count) + " files");
      const std::vector<std::string> parts = split(folder, '/');
      if (parts.size() < 3 || parts[0] != "tests" || parts[1] != "core") continue;
      const bool in_room = parts[2] == "tools" || parts[2] == "processes";
      if (in_room && parts.size() == 3) continue;
      const std::string tested = "core/" + parts[2] + "/" + (in_room ? parts[3] + "/" : "");
      if (std::none_of(files.begin(), files.end(),
                       [&](const SourceFile& file) { return file.path.starts_with(tested); }))
        complain(folder, "tests " + tested + ", which is not there");
    }
  }

  void check_include(const std::string& path, const Layer& layer, const Include& include) {
    const bool is_ours = includes_.contains(include.path);
    if (include.quoted && !is_ours)
      return complain(path,
                      "includes \"" + include.path + "\", no file of that path from the root");
    if (!is_ours) return;
    if (!include.quoted)
      complain(path, "includes <" + include.path + ">, a file of ours, in brackets");
    const std::optional<Layer> seen = layer_of(include.path);
    if (seen && !may_see(layer, *seen))
      complain(path,
               "includes " + include.path + ", but " + layer.name + " does not see " + seen->name);
  }

  // Depth first. A cycle is complained about once, at the file by which it was entered.
  void look_for_cycle(const std::string& path) {
    if (finished_.contains(path)) return;
    const auto on_way = std::find(way_.begin(), way_.end(), path);
    if (on_way != way_.end()) {
      std::string cycle;
      for (auto step = on_way; step != way_.end(); ++step) cycle += *step + " > ";
      return complain(path, "includes itself: " + cycle + path);
    }
    way_.push_back(path);
    for (const Include& include : includes_.at(path))
      if (includes_.contains(include.path)) look_for_cycle(include.path);
    way_.pop_back();
    finished_.insert(path);
  }

  std::map<std::string, std::vector<Include>> includes_;
  std::vector<std::string> complaints_;
  std::vector<std::string> way_;
  std::set<std::string> finished_;
};

inline std::vector<std::string> complaints_about(const std::vector<SourceFile>& files) {
  return Checker(files).complaints();
}

}  // namespace ringscope::structure
