// Runs a program with a time limit. Processes that it leaves running are killed.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringscope::gpu_check {

struct Child {
  std::vector<std::string> arguments;  // [0]: the program, looked up in PATH when it has no slash
  double limit_s = 60;
  std::string log;  // file that gets its stderr, and its stdout unless `out` is given
  std::string out;  // file that gets its stdout
  std::vector<std::pair<std::string, std::string>> environment;  // added to our own
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal; 127 when it could not be started
  bool cut_off = false;
  double seconds = 0;
};

// Run a program to its end. Throw std::runtime_error when no process can be made.
Outcome run(const Child& child);

// Return the whole file, or its last `bytes` bytes; "" if there is no file.
std::string text_of(const std::string& path);
std::string tail_of(const std::string& path, std::size_t bytes = 1500);

// Return the path of a program in PATH, or "" if it is not there.
std::string find_program(const std::string& name);

}  // namespace ringscope::gpu_check
