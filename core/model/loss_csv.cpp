#include "core/model/loss_csv.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::string_view kHeader = "step,loss", kNoOrigin = ",,,,,,",
                           kOriginHeader = ",version,commit,command,seed,machine,time";

// Return whether `text` is six fields of CSV, each after a comma.
bool is_origin(std::string_view text) {
  bool quoted = false;
  Index fields = 0;
  for (const char c : text) {
    quoted ^= c == '"';
    fields += c == ',' && !quoted;
  }
  return text.starts_with(',') && fields == std::ssize(kNoOrigin) && !quoted;
}

// Parse a row such as "12,2.25". NaN and infinities are losses of training that has gone wrong.
std::optional<StepLoss> parse_row(std::string_view line, bool has_origin) {
  const std::size_t comma = line.find(',');
  const std::size_t end = has_origin ? line.find(',', comma + 1) : line.size();
  if (comma == line.npos || end == line.npos) return std::nullopt;
  const auto step = parse_number<Index>(line.substr(0, comma));
  const auto loss = parse_number<float>(line.substr(comma + 1, end - comma - 1));
  const std::string_view origin = line.substr(end);
  if (!step || !loss || (has_origin && !is_origin(origin))) return std::nullopt;
  return StepLoss{*step, *loss, std::string(origin == kNoOrigin ? "" : origin)};
}

std::vector<StepLoss> parse(std::string_view text) {
  std::vector<StepLoss> losses;
  bool has_origin = false;
  for (Index number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (number == 1) {
      has_origin = line == std::string(kHeader) + std::string(kOriginHeader);
      if (!has_origin && line != kHeader)
        throw InputError(fmt::format("line 1 is not '{}'; a table of losses accepted", kHeader));
    } else {
      const std::optional<StepLoss> row = parse_row(line, has_origin);
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
  std::string text = fmt::format("{}{}\n", kHeader, kOriginHeader);
  for (const StepLoss& row : losses)
    text += fmt::format("{},{:.9g}{}\n", row.step, row.loss,
                        row.origin.empty() ? kNoOrigin : row.origin);
  write_file(path, text);
}

std::vector<StepLoss> read_loss_csv(const std::string& path) {
  const std::string text = read_file(path, "table of losses");
  return with_path_in_errors(path, [&] { return parse(text); });
}

}  // namespace ringscope
