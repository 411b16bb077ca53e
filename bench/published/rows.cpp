#include "bench/published/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr const char* kColumns[] = {
    "source",   "hardware", "link", "world_size", "seqlen", "batch",  "heads", "kv_heads",
    "head_dim", "dtype",    "mask", "pass",       "scheme", "metric", "value", "note"};
constexpr Index kMostBytes = Index{16} << 20;
constexpr Index kMostRows = 100'000;

// Return the fields of the next record and move `at` behind it. A quoted field may hold commas,
// doubled quotes and line ends, which `line` counts.
std::vector<std::string> next_record(const std::string& text, std::size_t& at, int& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        fields.back() += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      return fields;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) throw InputError(fmt::format("line {}: a quote that does not end", line));
  return fields;
}

[[noreturn]] void refuse(int line, const char* column, const std::string& text,
                         const std::string& accepted) {
  std::string shown = text.substr(0, 40);
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 32) c = '?';
  throw InputError(
      fmt::format("line {}: {} '{}' given; accepted: {}", line, column, shown, accepted));
}

// Return a whole number from 1 to `most`, or `otherwise` for an empty field.
Index count_in(const std::string& text, int line, const char* column, Index most,
               std::optional<Index> otherwise) {
  if (otherwise && (text.empty() || text == "-")) return *otherwise;
  const auto count = parse_number<Index>(text);
  if (!count || *count < 1 || *count > most)
    refuse(line, column, text, fmt::format("a whole number from 1 to {}", most));
  return *count;
}

PublishedRow row_of(const std::vector<std::string>& fields, int line) {
  PublishedRow row;
  row.line = line;
  row.source = fields[0], row.hardware = fields[1], row.link = fields[2];
  row.world_size = static_cast<int>(count_in(fields[3], line, kColumns[3], 2048, std::nullopt));
  row.seqlen = count_in(fields[4], line, kColumns[4], Index{1} << 30, std::nullopt);
  row.batch = count_in(fields[5], line, kColumns[5], 1 << 20, 1);
  row.heads = count_in(fields[6], line, kColumns[6], 1 << 16, std::nullopt);
  row.kv_heads = count_in(fields[7], line, kColumns[7], row.heads, row.heads);
  row.head_dim = count_in(fields[8], line, kColumns[8], 1 << 12, 128);
  row.dtype = fields[9], row.mask = fields[10], row.pass = fields[11];
  row.scheme = fields[12], row.metric = fields[13], row.note = fields[15];
  if (fields[14].empty()) return row;
  row.value = parse_number<double>(fields[14]);
  if (!row.value || !(*row.value > 0) || !std::isfinite(*row.value))
    refuse(line, "value", fields[14], "a number above 0, or nothing");
  return row;
}

}  // namespace

std::vector<PublishedRow> read_published(const std::string& path) {
  const std::string text = read_file(path, "CSV of measurements", kMostBytes);
  return with_path_in_errors(path, [&] {
    std::size_t at = text.rfind("\xEF\xBB\xBF", 0) == 0 ? 3 : 0;
    int line = 1;
    const std::vector<std::string> header = next_record(text, at, line);
    if (!std::equal(header.begin(), header.end(), std::begin(kColumns), std::end(kColumns)))
      refuse(1, "header", header.front(), "source,hardware,link,world_size,...,value,note");
    std::vector<PublishedRow> rows;
    while (at < text.size()) {
      const int begin = line;
      const std::vector<std::string> fields = next_record(text, at, line);
      if (fields.size() == 1 && fields[0].empty()) continue;
      if (fields.size() != std::size(kColumns))
        throw InputError(fmt::format("line {}: {} fields; accepted: {}", begin, fields.size(),
                                     std::size(kColumns)));
      rows.push_back(row_of(fields, begin));
      if (static_cast<Index>(rows.size()) > kMostRows)
        throw InputError(fmt::format("line {}: too many rows; accepted: {}", begin, kMostRows));
    }
    if (rows.empty()) throw InputError("no row; accepted: one or more");
    return rows;
  });
}

const std::vector<MachineFigures>& published_machines() {
  static const std::vector<MachineFigures> all = [] {
    const std::string text =
        read_file(RINGSCOPE_SOURCE_DIR "/bench/published/machines.csv", "CSV of machines");
    std::vector<MachineFigures> machines;
    std::size_t at = 0;
    int line = 1;
    next_record(text, at, line);  // the header
    while (at < text.size()) {
      const std::vector<std::string> fields = next_record(text, at, line);
      const auto number = [&](std::size_t i) {
        return parse_number<double>(fields.at(i)).value_or(0);
      };
      const auto rate = [&](std::size_t i) { return KernelRate{number(i), number(i + 1)}; };
      machines.push_back({fields.at(0), fields.at(1), fields.at(2), fields.at(3), rate(4), rate(6),
                          number(8), number(9), number(10), number(11), number(12), fields.at(17),
                          fields.at(18), rate(13), rate(15)});
    }
    return machines;
  }();
  return all;
}

// ---
// Layouts.

namespace {

// Return the lists in brackets, each scaled to `positions`.
std::vector<Layout> lists_in(const std::string& note, double positions) {
  std::vector<Layout> layouts;
  for (std::size_t at = 0; (at = note.find('[', at)) != note.npos; ++at) {
    Layout layout;
    double sum = 0;
    const std::string inside = note.substr(at + 1, note.find(']', at) - at - 1);
    for (const std::string_view part : split(inside, ','))
      if (const auto length = parse_number<double>(part); length && *length > 0) {
        layout.push_back(*length);
        sum += *length;
      }
    if (layout.empty() || !std::isfinite(sum)) continue;
    for (double& length : layout) length *= positions / sum;
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

// Return the packs that the source's sampler draws with its seed (42, of numpy's default generator)
// for the sequences that its figures have, which packs.csv holds; for others those of the next
// longer sequence, or of the longest, scaled.
std::vector<Layout> published_packs(Index positions) {
  static const std::map<Index, std::vector<Layout>> all = [] {
    std::map<Index, std::vector<Layout>> packs;
    const std::string path = RINGSCOPE_SOURCE_DIR "/bench/published/packs.csv";
    bool is_header = true;
    const std::string text = read_file(path, "CSV of packs");
    for (const std::string_view line : split(text, '\n')) {
      const std::vector<std::string_view> fields = split(line, ',');
      if (std::exchange(is_header, false) || fields.size() != 4) continue;
      std::vector<Index> numbers;
      for (const std::string_view field : fields)
        numbers.push_back(parse_number<Index>(field).value_or(0));
      std::vector<Layout>& of_positions = packs[numbers[0]];
      of_positions.resize(std::max(of_positions.size(), static_cast<std::size_t>(numbers[1] + 1)));
      of_positions.back().insert(of_positions.back().end(), static_cast<std::size_t>(numbers[3]),
                                 static_cast<double>(numbers[2]));
    }
    return packs;
  }();
  auto found = all.lower_bound(positions);
  if (found == all.end()) found = std::prev(found);
  std::vector<Layout> packs = found->second;
  for (Layout& layout : packs)
    for (double& length : layout) length *= static_cast<double>(positions) / found->first;
  return packs;
}

constexpr const char* kFourLayouts = "[8192] [256,7392,544] [4096,4096] [3104,3200,1600,160,128]";

}  // namespace

std::vector<Layout> layouts_of(const PublishedRow& row) {
  const auto positions = static_cast<double>(row.seqlen);
  const auto in_mask = [&](const char* word) { return row.mask.find(word) != row.mask.npos; };
  if (in_mask("varlen")) return published_packs(row.seqlen);
  if (!in_mask("documents")) return {{positions}};
  if (auto lists = lists_in(row.note, positions); !lists.empty()) return lists;
  if (in_mask("4 layouts")) return lists_in(kFourLayouts, positions);
  int segments = 8;
  double filled = 100;
  const std::size_t at = row.mask.find('(');
  if (at != row.mask.npos)
    std::sscanf(row.mask.c_str() + at, "(%d segments, %lf %%", &segments, &filled);
  segments = std::clamp(segments, 1, 1 << 16);
  filled = filled > 0 && filled <= 100 ? filled : 100;
  return {Layout(static_cast<std::size_t>(segments), positions * filled / 100 / segments)};
}

}  // namespace ringscope
