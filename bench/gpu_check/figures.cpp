// Computes the figures that count from all measurements. Each is a ratio of two measurements of one
// run, or TFLOP/s of the fastest tile.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "bench/gpu_check/readers.h"

namespace ringscope::gpu_check {
namespace {

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '/');) words.push_back(word);
  return words;
}

double figure_in(const Measurement& m, const std::string& name) {
  const auto found = m.figures.find(name);
  return m.problem.empty() && found != m.figures.end() ? found->second : 0;
}

bool is_backward(const std::string& kernel) { return kernel >= "08"; }

// The fastest tile of each kernel on a shape such as "bf16/d128/8192/causal".
struct Fastest {
  double tflops = 0;
  std::string tile;
};
std::map<std::string, Fastest> fastest_of_kernels(const std::vector<Measurement>& ours,
                                                  const std::string& shape) {
  std::map<std::string, Fastest> kernels;
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 7 || (words[0] != "main" && words[0] != "more")) continue;
    if (fmt::format("{}/{}/{}/{}", words[2], words[3], words[4], words[5]) != shape) continue;
    Fastest& best = kernels[words[1]];
    if (const double tflops = figure_in(m, "TFLOPs"); tflops > best.tflops)
      best = {tflops, words[6]};
  }
  return kernels;
}

double library_tflops(const std::vector<Measurement>& library, const std::string& name) {
  for (const Measurement& m : library)
    if (m.name == name) return figure_in(m, "TFLOPs");
  return 0;
}

// Compare the best kernel of a pass on a shape with the library's.
void compare(const std::vector<Measurement>& ours, const std::vector<Measurement>& library,
             bool backward, const std::string& shape, const std::string& goal,
             std::vector<Figure>& figures) {
  std::string best;
  Fastest fastest;
  for (const auto& [kernel, its] : fastest_of_kernels(ours, shape))
    if (is_backward(kernel) == backward && its.tflops > fastest.tflops) {
      best = kernel;
      fastest = its;
    }
  if (fastest.tflops <= 0) return;
  const std::string pass = backward ? "backward" : "forward";
  const std::string what = pass + " " + shape;
  figures.push_back(
      {fmt::format("{}: TFLOP/s of {} {}", what, best, fastest.tile), fastest.tflops, ""});
  for (const char* const name : {"cudnn", "flash"})
    if (const double tflops = library_tflops(library, fmt::format("{}/{}/{}", name, pass, shape));
        tflops > 0)
      figures.push_back({fmt::format("{}: over {}", what, name), fastest.tflops / tflops,
                         std::string(name) == "cudnn" ? goal : ""});
  if (const double tflops = library_tflops(library, "matmul/bf16/8192"); tflops > 0)
    figures.push_back({what + ": over the matrix product", fastest.tflops / tflops, ""});
}

// Add one figure per kernel: the smallest cost among its tiles.
void smallest_carry_cost(const std::vector<Measurement>& ours, std::vector<Figure>& figures) {
  std::map<std::string, double> costs;
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 7 || words[0] != "carried_state" || !m.problem.empty() ||
        !m.figures.contains("carry_cost"))
      continue;
    const std::string what =
        fmt::format("carried state at {} rows {}, {}", words[4], words[5], words[1]);
    const double cost = m.figures.at("carry_cost");
    const auto [at, is_new] = costs.emplace(what, cost);
    if (!is_new) at->second = std::min(at->second, cost);
  }
  for (const auto& [what, cost] : costs)
    figures.push_back(
        {what, cost, what.find("at 16384 rows") != std::string::npos ? "<= 0.04" : ""});
}

}  // namespace

std::vector<Figure> figures_of(const std::vector<Measurement>& ours,
                               const std::vector<Measurement>& library) {
  std::vector<Figure> figures;
  for (const bool backward : {false, true})
    for (const int rows : {4096, 8192, 16384})
      for (const char* const mask : {"full", "causal", "full-mha", "causal-mha"})
        compare(ours, library, backward, fmt::format("bf16/d128/{}/{}", rows, mask),
                rows == 4096 ? "" : (backward ? ">= 0.9" : ">= 1.0"), figures);
  for (const char* const shape : {"f32/d128/4096/full", "bf16/d128/8192/full"})
    for (const auto& [kernel, its] : fastest_of_kernels(ours, shape))
      if (its.tflops > 0)
        figures.push_back(
            {fmt::format("ladder, {}: TFLOP/s of {} {}", shape, kernel, its.tile), its.tflops, ""});
  smallest_carry_cost(ours, figures);
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 2 || words[0] != "ring_balance" || !m.problem.empty()) continue;
    figures.push_back({"8 ranks, causal: contiguous / zigzag, " + words[1],
                       figure_in(m, "contiguous_over_zigzag"), ">= 1.8"});
    if (const double ceiling = figure_in(m, "zigzag_ceiling"); ceiling > 0)
      figures.push_back({"8 ranks, causal: zigzag's share of its ceiling, " + words[1],
                         figure_in(m, "zigzag_balance") / ceiling, ">= 0.95"});
  }
  return figures;
}

}  // namespace ringscope::gpu_check
