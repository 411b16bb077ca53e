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
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/npy.h"
#include "tests/mpi_settings.h"
#include "tests/temporary_folder.h"

namespace ringscope {

// Words of a command line, or of what it is to say. A text stands for its words: "run --random" is
// the same as {"run", "--random"}.
struct Strings : std::vector<std::string> {
  using std::vector<std::string>::vector;
  Strings(const std::vector<std::string>& words) : std::vector<std::string>(words) {}
  Strings(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) push_back(word);
  }
  Strings(const char* text) : Strings(std::string(text)) {}
};

inline Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct ProgramResult {
  int status = -1;  // exit status; -1 when a signal ended it
  std::string out, err;
};

inline void expect_has(const std::string& text, const Strings& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

// "ringscope: " and one line, with all `parts`.
inline void expect_one_line(const ProgramResult& result, const Strings& parts = {}) {
  EXPECT_EQ(result.err.rfind("ringscope: ", 0), 0u) << result.err;
  ASSERT_FALSE(result.err.empty());
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  expect_has(result.err, parts);
}

// An exit status, and one line with all `parts` on stderr.
inline void expect_ended(const ProgramResult& result, int status, const Strings& parts) {
  EXPECT_EQ(result.status, status) << result.err;
  expect_one_line(result, parts);
}

inline rapidjson::Document json_of(const std::string& text) {
  rapidjson::Document json;
  json.Parse(text.c_str(), text.size());  // one object, or it is an error
  EXPECT_FALSE(json.HasParseError()) << text;
  return json;
}

// Every test gets an empty folder of its own.
class ProgramTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  // Paths below the folder, to see what a run left behind.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      names.insert(std::filesystem::relative(entry.path(), folder_.path()).string());
    return names;
  }

  void write_text(const std::string& name, const std::string& text) const {
    folder_.write(name, text);
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

  // Small Q, K and V: q.npy, k.npy and v.npy.
  void write_good_files() const {
    for (const char* name : {"q.npy", "k.npy", "v.npy"})
      write_tensor(name, {1, 2, 5, 3}, [](Index i) { return 0.1 * static_cast<double>(i % 7); });
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
  ProgramResult run(const Strings& arguments, const std::string& stdout_path = "") const {
    return run_words(Strings{RINGSCOPE_PROGRAM} + arguments, stdout_path);
  }

  // Runs it, expects success and silence on stderr, and returns what stdout said.
  std::string run_well(const Strings& arguments) const {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
  // The same with --json.
  rapidjson::Document run_for_json(const Strings& arguments) const {
    return json_of(run_well(arguments + "--json"));
  }

  // Runs it and expects refusal with `status`: one line with all `parts` and, of bad input, what would
  // be accepted; nothing on stdout, and no file that was not there before.
  void expect_refused(const Strings& arguments, const Strings& parts, int status = 2) const {
    std::string command = "ringscope";
    for (const std::string& argument : arguments) command += " " + argument;
    SCOPED_TRACE(command);
    const std::set<std::string> before = files();
    const ProgramResult result = run(arguments);
    expect_ended(result, status, status == 2 ? parts + "accepted" : parts);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(files(), before);
  }

  // Like run, in a shell that has executed `preparation`, such as "ulimit -f 8".
  ProgramResult run_after(const std::string& preparation, const Strings& arguments) const {
    return run_words(
        Strings{"/bin/sh", "-c", preparation + " && exec \"$0\" \"$@\"", RINGSCOPE_PROGRAM} +
        arguments);
  }

  // Why there can be no processes of ranks here, or "".
  std::string why_no_mpi() const {
    if (run_well("info").find("backend mpi   yes") == std::string::npos)
      return "this build has no MPI";
    return run_words({"/bin/sh", "-c", "command -v mpirun"}).status == 0 ? "" : "no mpirun here";
  }
  // Runs mpirun, whose `arguments` are "-np 2" and the program with its own.
  ProgramResult mpirun(const Strings& arguments) const {
    return run_words(Strings{"/usr/bin/env"} + mpi_settings() + mpirun_words() + arguments);
  }
  // Runs any program (words[0]: its path) in the test's folder.
  ProgramResult run_words(Strings words, const std::string& stdout_path = "") const {
    // Beside the folder, so that files() does not show them.
    const std::string out = stdout_path.empty() ? folder_.path() + ".stdout" : stdout_path;
    const std::string err = folder_.path() + ".stderr";
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool ready = ::chdir(folder_.path().c_str()) == 0 && redirect(out, STDOUT_FILENO) &&
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

  TemporaryFolder folder_;
};

}  // namespace ringscope
