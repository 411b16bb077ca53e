// Runs a program with a time limit; what it leaves running ends with it.
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

// Throws std::runtime_error when no process can be made.
Outcome run(const Child& child);

// The whole file, empty when it is not there; the end of it, for people.
std::string text_of(const std::string& path);
std::string tail_of(const std::string& path, std::size_t bytes = 1500);

// The path of a program in PATH, empty when it is not there.
std::string find_program(const std::string& name);

}  // namespace ringscope::gpu_check
