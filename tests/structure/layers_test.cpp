// The tree as it is keeps the rules of layers.h, and the rules notice a tree that does not.
#include "tests/structure/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace ringscope::structure {
namespace {

namespace fs = std::filesystem;

bool is_cpp(const fs::path& path) {
  const std::set<std::string> extensions = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh"};
  return extensions.contains(path.extension().string());
}

// Build trees, recordings and git's own folder are not the project's.
bool is_foreign(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with(".") || name == "build" || name == "runs" ||
         fs::exists(folder / "CMakeCache.txt");
}

std::vector<SourceFile> read_tree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    if (entry->is_directory() && is_foreign(entry->path())) entry.disable_recursion_pending();
    if (!entry->is_regular_file() || !is_cpp(entry->path())) continue;
    std::ostringstream text;
    text << std::ifstream(entry->path()).rdbuf();
    files.push_back({entry->path().lexically_relative(root).generic_string(), text.str()});
  }
  return files;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A file at `path` whose includes are written as given, quotes and all.
SourceFile file(const std::string& path, const std::vector<std::string>& includes = {}) {
  std::string text;
  for (const std::string& include : includes) text += "#include " + include + "\n";
  return {path, text};
}

// The files alone must be flawless, so that the complaint can only be about what was added to them.
void expect_one_complaint(const std::vector<SourceFile>& files, const std::string& what) {
  const std::vector<std::string> complaints = complaints_about(files);
  EXPECT_EQ(complaints.size(), 1u) << joined(complaints);
  EXPECT_NE(joined(complaints).find(what), std::string::npos) << joined(complaints);
}

TEST(Layers, TheTreeKeepsTheRules) {
  const std::vector<SourceFile> files = read_tree(RINGSCOPE_SOURCE_DIR);
  const auto holds = [&files](std::string_view path) {
    return std::any_of(files.begin(), files.end(), [&](const auto& f) { return f.path == path; });
  };
  ASSERT_TRUE(holds("core/ring/ring.h") && holds("tests/structure/layers_test.cpp"))
      << "the walk found only " << files.size() << " files";
  EXPECT_EQ(joined(complaints_about(files)), "");
}

// Whoever names one of a kind would have to be told of the next one. CONTRIBUTING says what adding one
// takes; these are all who may know it.
struct Kind {
  const char* name;
  const char* known_by;       // what a file that knows one of them has in it
  const char* those_who_may;  // paths
};

constexpr Kind kKinds[] = {
    // What core/trace tells apart lies below the schemes.
    {"scheme",
     R"re("(allgather|ulysses|pass-q|two-level|hybrid|mesh|multi-ring|groupcast|bidirectional)[":]|scheme_table\.h)re",
     R"re(core/ring/.*|core/trace/scheme_names\.h)re"},
    // Which masks a wrong result may have come from is a list of guesses.
    {"mask", R"re("(window|sink|prefix)[":]|\b(mask|piece|spec)\.(window|sink))re",
     R"re(core/problem/.*|core/tools/check/.*hypotheses\.cpp)re"},
    // A closed form's sample, the order of preference among equals, guesses, and pictures of one of them.
    {"deal", R"re(PartitionKind::(striped|fold))re",
     R"re(core/problem/partition\.(h|cpp)|core/tools/cost/(balance|choices)\.cpp|core/tools/check/hypotheses\.cpp|viz/data/mask/mask_painter\.cpp)re"},
    {"panel", R"re(draw_(softmax|compare|what_if|selection_table)\()re",
     R"re(viz/panels/.*|viz/window/workspace\.cpp)re"},
    {"kernel", R"re((shared|register)_tiles_kernel)re", R"re(cuda/kernels/.*)re"},
};

TEST(Layers, WhatIsAddedIsToldToFew) {
  const std::vector<SourceFile> files = read_tree(RINGSCOPE_SOURCE_DIR);
  for (const Kind& kind : kKinds) {
    const std::regex known_by(kind.known_by), those_who_may(kind.those_who_may);
    int knowing = 0;
    for (const SourceFile& file : files) {
      if (!std::regex_search(file.path, std::regex("^(app|core|cuda|viz)/"))) continue;
      if (!std::regex_search(file.text, known_by)) continue;
      ++knowing;
      EXPECT_TRUE(std::regex_match(file.path, those_who_may))
          << file.path << " knows a " << kind.name;
    }
    EXPECT_GT(knowing, 0) << kind.name;
  }
}

// What a reader of ring attention has to know can be read without the tools, the processes and the training.
TEST(Layers, TheSpineStandsAlone) {
  int seen = 0;
  for (const SourceFile& file : read_tree(RINGSCOPE_SOURCE_DIR)) {
    const bool in_core = file.path.starts_with("core/");
    if (!in_core || std::regex_search(file.path, std::regex("^core/(tools|processes|training)/")))
      continue;
    ++seen;
    for (const Include& include : includes_of(file.text))
      EXPECT_FALSE(std::regex_search(include.path, std::regex("^core/(tools|processes|training)/")))
          << file.path << " includes " << include.path;
  }
  EXPECT_GT(seen, 60);
}

// The viewer for browsers gets some parts of core (viz/browser/CMakeLists.txt), so these need no other;
// core/tools/cost/measure.cpp may, because nobody measures there. Several files are compiled as one, so
// their types and constants have names of their own.
TEST(Layers, WhatBrowsersGetNeedsNothingElse) {
  const auto is_there = [](std::string_view path) {
    constexpr std::string_view kParts[] = {"attention",     "base",          "problem",
                                           "ring",          "trace",         "tools/cost",
                                           "tools/explain", "tools/foreign", "tools/sim"};
    return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
      return path.starts_with("core/" + std::string(part) + "/");
    });
  };
  int seen = 0;
  std::map<std::string, std::string> homes;  // by part and name
  const std::regex type(R"(^(class|struct) (\w+)[^;]*$)"), constant(R"(\b(k[A-Z]\w*)[\[\]]* =)");
  for (const SourceFile& file : read_tree(RINGSCOPE_SOURCE_DIR)) {
    const std::string part = is_there(file.path) ? "core" : file.path.substr(0, 10);
    const bool is_joined = part == "core" || part.starts_with("viz/");
    std::istringstream text(is_joined && file.path.ends_with(".cpp") ? file.text : "");
    for (std::string line; std::getline(text, line);) {
      const bool constants = line.starts_with("constexpr ");
      std::sregex_iterator it(line.begin(), line.end(), constants ? constant : type), end;
      for (; it != end; ++it) {
        const std::string name = (*it)[constants ? 1 : 2];
        const std::string home = homes.insert({part + " " + name, file.path}).first->second;
        EXPECT_EQ(home, file.path) << "both have a " << name;
      }
    }
    if (!is_there(file.path) || file.path == "core/tools/cost/measure.cpp") continue;
    ++seen;
    EXPECT_EQ(file.text.find("std::ranges::"), std::string::npos)
        << file.path << ": the compiler for browsers lacks them; see core/base/ranges.h";
    for (const Include& include : includes_of(file.text))
      EXPECT_TRUE(!include.path.starts_with("core/") || is_there(include.path))
          << file.path << " includes " << include.path;
  }
  EXPECT_GT(seen, 100);
  EXPECT_GT(homes.size(), 300u);
}

TEST(Layers, ReadsIncludes) {
  const auto includes = includes_of(
      "// #include \"commented\"\n"
      "#include \"core/base/math.h\"\r\n"
      "  #  include<vector>\n"
      "#include \"unfinished\n"
      "#define X 1\n"
      "#include MACRO\n"
      "#include <last>");
  ASSERT_EQ(includes.size(), 3u);
  EXPECT_EQ(includes[0].path, "core/base/math.h");
  EXPECT_TRUE(includes[0].quoted);
  EXPECT_EQ(includes[1].path, "vector");
  EXPECT_FALSE(includes[1].quoted);
  EXPECT_EQ(includes[2].path, "last");
}

// A layer sees neither what is above it nor what shares its line; viz and cuda don't see each other.
TEST(Layers, SeeOnlyWhatLiesBelow) {
  const auto including = [](const std::string& from, const std::string& to) {
    return std::vector<SourceFile>{file(to + "/other.h"),
                                   file(from + "/x.cpp", {"\"" + to + "/other.h\""})};
  };
  for (const auto& [low, high] : {std::pair<std::string, std::string>{"core/base", "core/problem"},
                                  {"core/ring", "core/tools/cost"},
                                  {"core/training", "core/tools/foreign"},
                                  {"viz/data", "viz/panels"},
                                  {"cuda/ptx", "cuda/ring"},
                                  {"core/tools/foreign", "viz/data"},
                                  {"bench", "app"}}) {
    EXPECT_EQ(joined(complaints_about(including(high, low))), "");
    expect_one_complaint(including(low, high), low + " does not see " + high);
  }
  for (const auto& [one, other] :
       {std::pair<std::string, std::string>{"core/trace", "core/reference"},
        {"core/processes/mpi", "core/tools/sim"},
        {"viz/window", "cuda/base"}}) {
    expect_one_complaint(including(one, other), one + " does not see " + other);
    expect_one_complaint(including(other, one), other + " does not see " + one);
  }
}

TEST(Layers, IncludesAreWrittenFromTheRoot) {
  const SourceFile math = file("core/base/math.h");
  for (const char* wrong :
       {"\"math.h\"", "\"../base/math.h\"", "\"base/math.h\"", "\"core/base/gone.h\""})
    expect_one_complaint({math, file("core/problem/shape.h", {wrong})}, "no file of that path");
  expect_one_complaint({math, file("core/problem/shape.h", {"<core/base/math.h>"})}, "in brackets");
  EXPECT_EQ(joined(complaints_about(
                {math, file("core/problem/shape.h", {"\"core/base/math.h\"", "<vector>"})})),
            "");
}

// Of one file each: where it lies, how long it is, and what it tests.
TEST(Layers, FilesLieWhereTheyBelong) {
  const auto expect_none = [](const std::vector<SourceFile>& files) {
    EXPECT_EQ(joined(complaints_about(files)), "");
  };
  for (const char* path : {"main.cpp", "core/loose.h", "core/other/a.h", "helpers/a.h",
                           "corely/base/a.h", "viz/a.h", "viz/other/a.h", "cuda/a.h"})
    expect_one_complaint({file(path)}, "lies in no layer");
  for (const char* path : {"core/base/util/a.h", "tests/common/a.h", "viz/data/utils/b/a.h"})
    expect_one_complaint({file(path)}, "lies in a folder called");
  expect_none({file("viz/data/common.h"), file("viz/data/utility/a.h")});
  const SourceFile source = file("core/base/a.h");
  expect_none({source, file("tests/core/base/a_test.cpp"), file("tests/core/base/driver/a.cpp")});
  expect_one_complaint({source, file("tests/core/tools/sim/a_test.cpp")}, "tests core/tools/sim/");
  std::vector<SourceFile> files;
  for (int i = 0; i < kMaxFiles; ++i)
    files.push_back(file("core/base/" + std::to_string(i) + ".h"));
  expect_none(files);
  files.push_back(file("core/base/last.h"));
  expect_one_complaint(files, "holds 41 files");
  SourceFile long_file{"viz/data/a.cpp", std::string(kMaxLines, '\n')};
  expect_none({long_file});
  long_file.text += '\n';
  expect_one_complaint({long_file}, "801 lines long");
}

TEST(Layers, CyclesAreFound) {
  expect_one_complaint({file("viz/data/a.h", {"\"viz/data/a.h\""})}, "viz/data/a.h > viz/data/a.h");
  expect_one_complaint(
      {file("viz/data/a.h", {"\"viz/data/b.h\""}), file("viz/data/b.h", {"\"viz/data/c.h\""}),
       file("viz/data/c.h", {"\"viz/data/a.h\""})},
      "viz/data/a.h > viz/data/b.h > viz/data/c.h > viz/data/a.h");
  // Two ways to the same file are no cycle.
  EXPECT_EQ(
      joined(complaints_about({file("viz/data/a.h", {"\"viz/data/b.h\"", "\"viz/data/c.h\""}),
                               file("viz/data/b.h", {"\"viz/data/c.h\""}), file("viz/data/c.h")})),
      "");
}

// A program that reads a file which has moved may fail only where few look: in a sanitizer's preset.
TEST(Layers, PathsInTheSourcesExist) {
  const std::filesystem::path root = RINGSCOPE_SOURCE_DIR;
  // The name is put together, so that this line holds no path.
  const std::regex path(
      "RINGSCOPE_SOURCE"
      R"(_DIR\)*[\s+/]*"/?([\w./-]+))");
  int found = 0;
  for (const SourceFile& source : read_tree(RINGSCOPE_SOURCE_DIR)) {
    const std::sregex_iterator end;
    for (std::sregex_iterator it(source.text.begin(), source.text.end(), path); it != end; ++it) {
      const std::string named = (*it)[1];
      if (named.starts_with("build/")) continue;
      EXPECT_TRUE(std::filesystem::exists(root / named)) << source.path << " names " << named;
      ++found;
    }
  }
  EXPECT_GE(found, 20);
}

// What else a machine does must not matter: nothing is expected to have taken at most so long.
TEST(Layers, NoTestKnowsTheClock) {
  const auto bounds_a_time = [](const std::string& text) {
    static const std::regex bound(R"(_L[ET]\(.*(\btook\b|elapsed|steady_clock|_since\(|chrono))");
    for (std::size_t at = 0; (at = text.find("_L", at)) != text.npos; ++at) {
      std::string statement = text.substr(at, text.find(';', at) - at);
      std::replace(statement.begin(), statement.end(), '\n', ' ');
      if (statement.size() < 400 && std::regex_search(statement, bound)) return true;
    }
    return false;
  };
  EXPECT_TRUE(
      bounds_a_time("EXPECT"
                    "_LE(took.count(), 3);"));
  EXPECT_TRUE(
      bounds_a_time("EXPECT"
                    "_LT(steady_clock::now() - begin,\n seconds(3));"));
  for (const SourceFile& file : read_tree(RINGSCOPE_SOURCE_DIR))
    if (file.path.starts_with("tests/") && file.path != "tests/structure/layers_test.cpp") {
      EXPECT_FALSE(bounds_a_time(file.text)) << file.path;
    }
}

// Two runs of the tests at the same time must not write the same files: a name in the folder for temporary files has the
// number of its process, or is drawn.
TEST(Layers, NoTestSharesAFile) {
  const auto shares = [](const std::string& text) {
    for (const std::string folder : {"TempDir() +", "temp_directory_path() /"})
      for (std::size_t at = 0; (at = text.find(folder, at)) != text.npos; ++at) {
        const std::string name = text.substr(at, text.find(';', at) - at);
        if (name.find("getpid()") == name.npos && name.find("XXXXXX") == name.npos) return true;
      }
    return false;
  };
  EXPECT_TRUE(shares("path = TempDir() + \"a.json\"; ::getpid();"));
  EXPECT_FALSE(shares("path = TempDir() +\n \"a\" + std::to_string(::getpid());"));
  for (const SourceFile& file : read_tree(RINGSCOPE_SOURCE_DIR))
    if (file.path.starts_with("tests/") && file.path != "tests/structure/layers_test.cpp") {
      EXPECT_FALSE(shares(file.text)) << file.path;
    }
}

// tests/mutation/mutants.tsv names its mutants' places by file and line. Whoever changes such a line takes the mutant along
// to where its code went, or out of the table with its code.
TEST(Layers, MutantsStandWhereTheirTableSays) {
  const std::vector<SourceFile> files = read_tree(RINGSCOPE_SOURCE_DIR);
  const auto stands = [&](const std::string& path, int nth, const std::string& line) {
    for (const SourceFile& file : files) {
      std::istringstream text(file.path == path ? file.text : "");
      for (std::string each; std::getline(text, each);)
        if (each.find_first_not_of(" \t") != each.npos &&
            each.substr(each.find_first_not_of(" \t")) == line && nth-- == 0)
          return true;
    }
    return false;
  };
  std::ifstream table(RINGSCOPE_SOURCE_DIR "/tests/mutation/mutants.tsv");
  int mutants = 0;
  for (std::string row; std::getline(table, row);) {
    if (row.starts_with("#") || row.starts_with("id\t")) continue;
    std::istringstream fields(row);
    std::string id, path, nth, line, column, from;
    for (std::string* field : {&id, &path, &nth, &line, &column, &from})
      std::getline(fields, *field, '\t');
    EXPECT_TRUE(stands(path, std::stoi(nth), line)) << id << ": " << path << ": " << line;
    const std::string there = line.substr(std::stoul(column));  // a statement may go on below
    EXPECT_TRUE(there.starts_with(from) || from.starts_with(there)) << id << ": " << from;
    ++mutants;
  }
  EXPECT_GT(mutants, 50);
}

// CONTRIBUTING.md says how long it takes to read ring attention; so it is told the truth about.
TEST(Layers, TheHalfHourListIsTrue) {
  const std::vector<SourceFile> files = read_tree(RINGSCOPE_SOURCE_DIR);
  std::ifstream page(RINGSCOPE_SOURCE_DIR "/CONTRIBUTING.md");
  const std::regex row(R"(\| \[([\w/.]+)\]\(\1\) \| (\d+) \|.*)");
  int listed = 0, total = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const SourceFile& f) { return f.path == match[1]; });
    ASSERT_NE(found, files.end()) << match[1];
    EXPECT_EQ(std::count(found->text.begin(), found->text.end(), '\n'), std::stoi(match[2]))
        << match[1];
    total += std::stoi(match[2]);
    ++listed;
  }
  EXPECT_EQ(listed, 6);
  EXPECT_LE(total, 700);
}

}  // namespace
}  // namespace ringscope::structure
