// What tests of the built program share: running it, files for it to read, and a folder that goes
// away.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/npy.h"

namespace ringscope {

// Words of a command line.
using Strings = std::vector<std::string>;

inline Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct ProgramResult {
  int status = -1;  // exit status; -1 when a signal ended it
  std::string out, err;
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Every test gets an empty folder of its own.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string pattern = testing::TempDir() + "ringscope-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
  }
  ~ProgramTest() override {
    std::error_code ignored;  // what can not be removed is left to the system
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Paths below the folder, to see what a run left behind.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      names.insert(std::filesystem::relative(entry.path(), folder_).string());
    return names;
  }

  void write_text(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // A float32 .npy file; element i has the value f(i).
  template <class F>
  void write_tensor(const std::string& name, const std::vector<Index>& shape, F&& f,
                    bool f64 = false) const {
    Index count = 1;
    for (const Index size : shape) count *= size;
    std::vector<float> values;
    for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(f(i)));
    write_npy(path(name), shape, values.data(), f64);
  }

  // The values of an array of `count` values, whatever its rank: the end of the file.
  std::vector<float> read_values(const std::string& name, std::size_t count) const {
    const std::string bytes = contents_of(path(name));
    std::vector<float> values(count);
    if (bytes.size() < count * sizeof(float)) {
      ADD_FAILURE() << name << " has " << bytes.size() << " bytes";
      return values;
    }
    std::memcpy(values.data(), bytes.data() + bytes.size() - count * sizeof(float),
                count * sizeof(float));
    return values;
  }

  // Runs the program in the test's folder and waits for its end. `stdout_path`: where stdout goes
  // instead.
  ProgramResult run(const std::vector<std::string>& arguments,
                    const std::string& stdout_path = "") const {
    std::vector<std::string> words{RINGSCOPE_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_words(words, stdout_path);
  }

  // Runs it, expects success and silence on stderr, and returns what stdout said.
  std::string run_well(const std::vector<std::string>& arguments) const {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
  // The same with --json.
  rapidjson::Document run_for_json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    rapidjson::Document json;
    const std::string out = run_well(arguments);
    json.Parse(out.c_str(), out.size());
    EXPECT_FALSE(json.HasParseError()) << out;
    return json;
  }

  // Like run, in a shell that has executed `preparation`, such as "ulimit -f 8".
  ProgramResult run_after(const std::string& preparation,
                          const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{"/bin/sh", "-c", preparation + " && exec \"$0\" \"$@\"",
                                   RINGSCOPE_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_words(words, "");
  }

  // Runs any program (words[0]: its path) in the test's folder.
  ProgramResult run_words(std::vector<std::string> words,
                          const std::string& stdout_path = "") const {
    // Beside the folder, so that files() does not show them.
    const std::string out = stdout_path.empty() ? folder_ + ".stdout" : stdout_path;
    const std::string err = folder_ + ".stderr";
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool ready = ::chdir(folder_.c_str()) == 0 && redirect(out, STDOUT_FILENO) &&
                         redirect(err, STDERR_FILENO);
      if (ready) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    int status = 0;
    ProgramResult result;
    if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status))
      result.status = WEXITSTATUS(status);
    if (stdout_path.empty()) {
      result.out = contents_of(out);
      std::filesystem::remove(out);
    }
    result.err = contents_of(err);
    std::filesystem::remove(err);
    return result;
  }

 private:
  static bool redirect(const std::string& to, int descriptor) {
    const int file = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return file >= 0 && ::dup2(file, descriptor) >= 0;
  }

  std::string folder_;
};

// "ringscope: " and one line.
inline void expect_one_line(const ProgramResult& result) {
  EXPECT_EQ(result.err.rfind("ringscope: ", 0), 0u) << result.err;
  ASSERT_FALSE(result.err.empty());
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

}  // namespace ringscope
