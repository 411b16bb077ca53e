#include "core/train/loss_csv.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::string_view kHeader = "step,loss";

// Parse a row such as "12,2.25". NaN and infinities are losses of training that has gone wrong.
std::optional<StepLoss> parse_row(std::string_view line) {
  const std::vector<std::string_view> fields = split(line, ',');
  if (fields.size() != 2) return std::nullopt;
  const auto step = parse_number<Index>(fields[0]);
  const auto loss = parse_number<float>(fields[1]);
  if (!step || !loss) return std::nullopt;
  return StepLoss{*step, *loss};
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
      const std::optional<StepLoss> row = parse_row(line);
      const Index before = losses.empty() ? 0 : losses.back().step;
      if (end == std::string_view::npos || !row || row->step <= before)
        throw InputError(fmt::format(
            "line {} is no row of a table of losses; a step above {} and its loss accepted", number,
            before));
      losses.push_back(*row);
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
  write_file(path, text);
}

std::vector<StepLoss> read_loss_csv(const std::string& path) {
  const std::string text = read_file(path, "table of losses");
  return with_path_in_errors(path, [&] { return parse(text); });
}

}  // namespace ringscope
