// What tests of `train` share: a text, a model that takes a moment, and how it is run.
#pragma once

#include <signal.h>

#include <chrono>
#include <thread>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {

// A model that takes a moment.
inline const Strings kTiny =
    "train --text t.txt --layers 1 --width 16 --heads 2 --heads-kv 1 --head-dim 8 --hidden 24 "
    "--batch 2 --seqlen 30 --lr 0.01";

class TrainCommandTest : public ProgramTest {
 protected:
  TrainCommandTest() {
    for (int i = 0; i < 40; ++i)
      text_ += "round and round the ring they go, " + std::to_string(i % 10) + "\n";
    write_text("t.txt", text_);
  }

  // A row of a table of losses; what it says of its run is empty where it says nothing.
  struct Row {
    Index step = 0;
    double loss = 0;
    std::string origin;

    bool operator==(const Row& other) const { return step == other.step && loss == other.loss; }
  };
  std::vector<Row> rows(const std::string& name) const {
    std::vector<Row> rows;
    for_each_line(bytes(name), [&](std::string_view line) {
      if (line.starts_with("step,loss,version,commit,command,seed,machine,time")) return;
      const std::size_t comma = line.find(','), end = line.find(',', comma + 1);
      const auto step = parse_number<Index>(line.substr(0, comma));
      const auto loss = parse_number<float>(line.substr(comma + 1, end - comma - 1));
      ASSERT_TRUE(step && loss && end != line.npos) << line;
      rows.push_back(
          {*step, *loss, line.substr(end) == ",,,,,," ? "" : std::string(line.substr(end))});
    });
    return rows;
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> result;
    for (const Row& row : rows(name)) {
      EXPECT_EQ(row.step, static_cast<Index>(result.size()) + 1);
      result.push_back(row.loss);
    }
    return result;
  }
  std::string bytes(const std::string& name) const { return contents_of(path(name)); }

  // Kills the program a moment after it has written `file`.
  void run_until_there_is(const std::string& file, const Strings& arguments) const {
    using std::chrono::steady_clock;
    Strings words = Strings{RINGSCOPE_PROGRAM} + arguments;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string folder = path("");
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder.c_str()) == 0) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ASSERT_GT(child, 0);
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(path(file)) && steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    ASSERT_TRUE(std::filesystem::exists(path(file)));
  }

  std::string text_;
};

}  // namespace ringscope
