#include "core/train/loss_csv.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace ringscope {
namespace {

constexpr std::string_view kHeader = "step,loss";

// Parse a row such as "12,2.25". NaN and infinities are losses of training that has gone wrong.
bool parse_row(std::string_view line, StepLoss& row) {
  const char* const end = line.data() + line.size();
  const auto [comma, error] = std::from_chars(line.data(), end, row.step);
  if (error != std::errc() || comma == end || *comma != ',') return false;
  float loss = 0;
  const auto [stop, loss_error] = std::from_chars(comma + 1, end, loss);
  row.loss = loss;
  return loss_error == std::errc() && stop == end;
}

std::vector<StepLoss> parse(std::string_view text) {
  std::vector<StepLoss> losses;
  for (Index number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (number == 1) {
      if (line != kHeader)
        throw InputError(fmt::format("line 1 is not '{}'; a table of losses accepted", kHeader));
    } else {
      StepLoss row;
      const Index before = losses.empty() ? 0 : losses.back().step;
      if (end == std::string_view::npos || !parse_row(line, row) || row.step <= before)
        throw InputError(fmt::format(
            "line {} is no row of a table of losses; a step above {} and its loss accepted", number,
            before));
      losses.push_back(row);
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return losses;
}

}  // namespace

void write_loss_csv(const std::string& path, const std::vector<StepLoss>& losses) {
  std::string text(kHeader);
  text += '\n';
  for (const StepLoss& row : losses) text += fmt::format("{},{:.9g}\n", row.step, row.loss);
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::vector<StepLoss> read_loss_csv(const std::string& path) {
  try {
    const InputFile file(path, "table of losses");
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(text.data(), file.size(), 0);
    return parse(text);
  } catch (const InputError& error) {
    throw InputError(about_file(path, error.what()));
  }
}

}  // namespace ringscope
