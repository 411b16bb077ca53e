#include "tests/cuda/ptxas_log.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace ringscope::ptxas {
namespace {

// "cuda/kernels/05_tensor_cores.cu" -> "05_tensor_cores"
std::string stem(const std::string& path) {
  const std::size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return matches(text, pattern.substr(1)) || (!text.empty() && matches(text.substr(1), pattern));
  return !text.empty() && text[0] == pattern[0] && matches(text.substr(1), pattern.substr(1));
}

std::string erased(std::string text, std::string_view what) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
  return text;
}

const std::regex kCompiling(R"(Compiling entry function '([^']+)' for '(sm_\w+)')");
const std::regex kProperties(R"(Function properties for (\S+))");
const std::regex kFrame(
    R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
const std::regex kRegisters(R"(Used (\d+) registers)");
const std::regex kUsual(R"(: \d+ bytes gmem|Compile time =|bytes cmem|Overriding)");
const std::regex kFatal(
    R"(C7508|C7513|serializ|[Rr]egisters are spilled|setmaxnreg.*ignored|ignored.*setmaxnreg)");

}  // namespace

std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : mangled;
  for (const char* const noise : {"ringscope::cuda::", "ringscope::", "(anonymous namespace)::"})
    name = erased(name, noise);
  for (std::size_t at; (at = name.find("> >")) != std::string::npos;) name.erase(at + 1, 1);
  // The return type of a template ends at the first blank outside of brackets, the name at the
  // first parenthesis outside.
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ') begin = i + 1;
    if (depth == 0 && name[i] == '(') return name.substr(begin, i - begin);
  }
  return name.substr(begin);
}

Log parse_log(const std::string& source, std::string_view text) {
  Log log{source, {}, {}};
  std::istringstream lines{std::string(text)};
  std::string entry, architecture;
  std::optional<Function> function;
  const auto finish = [&] {
    if (function) log.functions.push_back(*function);
    function.reset();
  };
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, kFatal)) {
      log.messages.push_back(line);
    } else if (std::regex_search(line, found, kCompiling)) {
      finish();
      entry = found[1];
      architecture = found[2];
    } else if (std::regex_search(line, found, kProperties)) {
      finish();
      function = Function{short_name(found[1]), architecture, found[1] == entry, -1, 0, 0, 0};
    } else if (std::regex_search(line, found, kFrame) && function) {
      function->stack_bytes = std::stoi(found[1]);
      function->spill_stores = std::stoi(found[2]);
      function->spill_loads = std::stoi(found[3]);
    } else if (std::regex_search(line, found, kRegisters)) {
      // Said of the kernel, after the properties of all functions that it calls.
      if (function && function->entry) {
        function->registers = std::stoi(found[1]);
      } else {
        finish();
        for (auto f = log.functions.rbegin(); f != log.functions.rend(); ++f)
          if (f->entry && f->architecture == architecture && f->name == short_name(entry)) {
            f->registers = std::stoi(found[1]);
            break;
          }
      }
    } else if (!line.empty() && !std::regex_search(line, kUsual)) {
      log.messages.push_back(line);
    }
  }
  finish();
  return log;
}

std::vector<Budget> parse_budgets(std::string_view text) {
  std::vector<Budget> budgets;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    Budget budget;
    if (!(words >> budget.source)) continue;
    words >> budget.architecture >> budget.registers;
    std::getline(words >> std::ws, budget.pattern);
    const std::size_t end = budget.pattern.find_last_not_of(' ');
    budget.pattern.resize(end == std::string::npos ? 0 : end + 1);
    if (!budget.architecture.starts_with("sm_") || budget.registers <= 0 ||
        budget.registers > 255 || budget.pattern.empty())
      throw std::runtime_error("registers.txt, line " + std::to_string(number) +
                               ": not SOURCE sm_NN REGISTERS PATTERN");
    budgets.push_back(budget);
  }
  return budgets;
}

std::vector<std::string> complaints(const std::vector<Log>& logs,
                                    const std::vector<Budget>& budgets, const Expected& expected) {
  std::vector<std::string> all;
  std::set<const Budget*> used;
  for (const Log& log : logs) {
    for (const std::string& message : log.messages) all.push_back(log.source + ": " + message);
    for (const Function& f : log.functions) {
      const std::string who = log.source + ": " + f.name + " for " + f.architecture;
      if (f.spill_stores > 0 || f.spill_loads > 0)
        all.push_back(who + " spills " + std::to_string(f.spill_stores) + " bytes, reads back " +
                      std::to_string(f.spill_loads));
      if (!f.entry) continue;
      const auto budget = std::find_if(budgets.begin(), budgets.end(), [&](const Budget& b) {
        return b.source == stem(log.source) && b.architecture == f.architecture &&
               matches(f.name, b.pattern);
      });
      if (f.registers < 0) {
        all.push_back(who + ": the log does not say how many registers it uses");
      } else if (budget == budgets.end()) {
        all.push_back(who + " has no line in registers.txt; it uses " +
                      std::to_string(f.registers));
      } else {
        used.insert(&*budget);
        if (f.registers > budget->registers)
          all.push_back(who + " uses " + std::to_string(f.registers) + " registers, budget " +
                        std::to_string(budget->registers));
      }
    }
  }
  for (const Budget& budget : budgets)
    if (!used.contains(&budget))
      all.push_back("registers.txt: no kernel of " + budget.source + " is called " +
                    budget.pattern + " for " + budget.architecture);
  for (const auto& [source, architectures] : expected) {
    const auto log =
        std::find_if(logs.begin(), logs.end(), [&](const Log& l) { return l.source == source; });
    if (log == logs.end()) {
      all.push_back(source + ": no log of its compilation");
      continue;
    }
    for (const std::string& architecture : architectures)
      if (std::none_of(log->functions.begin(), log->functions.end(), [&](const Function& f) {
            return f.entry && f.architecture == architecture;
          }))
        all.push_back(source + ": no kernel was compiled for " + architecture);
  }
  return all;
}

std::string budgets_text(const std::vector<Log>& logs) {
  std::map<std::string, int> budgets;  // by everything but the registers
  for (const Log& log : logs)
    for (const Function& f : log.functions) {
      if (!f.entry) continue;
      const std::string pattern = std::regex_replace(f.name, std::regex("\\bb?f16\\b"), "*f16");
      int& registers = budgets[stem(log.source) + " " + f.architecture + " " + pattern];
      registers = std::max(registers, std::min(255, (f.registers + 7) / 8 * 8));
    }
  std::string text;
  for (const auto& [key, registers] : budgets) {
    std::istringstream words(key);
    std::string source, architecture, pattern;
    words >> source >> architecture;
    std::getline(words >> std::ws, pattern);
    text += source + " " + architecture + " " + std::to_string(registers) + " " + pattern + "\n";
  }
  return text;
}

}  // namespace ringscope::ptxas
