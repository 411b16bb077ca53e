#include "core/base/text.h"
#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "core/base/files.h"
#include "core/base/ranges.h"

namespace ringscope {

std::optional<std::int64_t> parse_size(std::string_view text) {
  const std::size_t power = text.empty() ? 0 : std::string_view("kKmMgG").find(text.back()) / 2 + 1;
  if (power < 1 || power > 3) return parse_number<std::int64_t>(text);
  const auto number = parse_number<std::int64_t>(text.substr(0, text.size() - 1));
  const int bits = static_cast<int>(10 * power);
  if (!number || *number < 0 || *number > std::numeric_limits<std::int64_t>::max() >> bits)
    return {};
  // People write 65k, 131k or 262k for the power of two that begins with so many thousands.
  if (power == 1)
    for (std::int64_t size = 1024; size < std::int64_t{1} << 40; size *= 2)
      if (size / 1000 == *number) return size;
  return *number * (std::int64_t{1} << bits);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string read_table(const std::string& path, const std::string& kind) {
  return read_file(path, kind, Index{1} << 20);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty()) return words;
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > most ? shown + "..." : shown;
}

bool can_be_quoted(std::string_view word) {
  return ranges::none_of(word, [](char c) { return c <= ' ' || c > '~' || c == '"' || c == '\\'; });
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds >= 1e-7 || seconds <= 0) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string gib_text(double bytes) {
  constexpr double kKib = 1024, kMib = 1024 * kKib, kGib = 1024 * kMib;
  if (bytes >= 0.995 * kGib) return fmt::format("{:.2f} GiB", bytes / kGib);
  if (bytes >= 0.995 * kMib) return fmt::format("{:.2f} MiB", bytes / kMib);
  return fmt::format("{:.2f} KiB", bytes / kKib);
}

std::string numbers_text(std::string_view what, const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last < i + 2) last = i;
    parts.push_back(last == i ? std::to_string(numbers[i])
                              : fmt::format("{} to {}", numbers[i], numbers[last]));
    i = last + 1;
  }
  std::string text = fmt::format("{}{} ", what, numbers.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string count_text(Index count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
  }
  return out;
}

std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text;
  for (std::size_t begin; (begin = page.find("{{")) != page.npos;) {
    const std::size_t end = page.find("}}", begin);
    text += page.substr(0, begin);
    for (const auto& [key, value] : values)
      if (key == page.substr(begin + 2, end - begin - 2)) text += value;
    page.remove_prefix(end + 2);
  }
  return text.append(page);
}

}  // namespace ringscope
