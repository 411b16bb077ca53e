// What ptxas said while kernels were compiled, read from the logs that cuda/ptxas_log.sh keeps, and
// what is wrong with it: spills, wgmma made serial, registers beyond the budget of
// cuda/kernels/registers.txt, kernels that are missing.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope::ptxas {

// One function compiled for one architecture.
struct Function {
  std::string name;          // as people write it, without namespaces and parameters
  std::string architecture;  // "sm_90a"
  bool entry = false;        // a kernel; otherwise a function that was not inlined
  int registers = -1;        // -1: not said
  int stack_bytes = 0;
  int spill_stores = 0;  // bytes
  int spill_loads = 0;
};

// What one compiler call said.
struct Log {
  std::string source;  // "cuda/kernels/05_tensor_cores.cu"
  std::vector<Function> functions;
  std::vector<std::string> messages;  // lines that are not part of ptxas's usual report
};

Log parse_log(const std::string& source, std::string_view text);

// "void ringscope::cuda::(anonymous namespace)::kernel<__half, 64>(Step)" to "kernel<__half, 64>".
std::string short_name(const std::string& mangled);

// A line of registers.txt: at most `registers` for the kernels of `source` (a file's name without
// ending) whose short name matches `pattern` (* stands for anything), on `architecture`.
struct Budget {
  std::string source, architecture, pattern;
  int registers = 0;
};

// Lines "SOURCE ARCHITECTURE REGISTERS PATTERN"; # begins a comment. Throws std::runtime_error that
// names the line.
std::vector<Budget> parse_budgets(std::string_view text);

// Which architectures the kernels of a file are to be there for.
using Expected = std::map<std::string, std::vector<std::string>>;  // source -> architectures

// One line for each thing that is wrong; empty when all is well.
std::vector<std::string> complaints(const std::vector<Log>& logs,
                                    const std::vector<Budget>& budgets, const Expected& expected);

// registers.txt as the logs would have it, to be looked at before it is committed. Registers are
// rounded up to eights, in which a GPU hands them out, and the two 16-bit types share a line.
std::string budgets_text(const std::vector<Log>& logs);

}  // namespace ringscope::ptxas
