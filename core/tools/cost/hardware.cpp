#include "core/tools/cost/hardware.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

extern const char kBuiltinHardware[];

namespace ringscope {
namespace {

// The figures of an entry: their names, units, and places.
template <class Entry>
struct TableFigure {
  std::string_view name;
  double unit;
  double* (*place)(Entry&);
};

constexpr TableFigure<Gpu> kGpuFigures[] = {
    {"tflops_16bit", 1e12, [](Gpu& gpu) { return &gpu.flops_16bit.emplace(); }},
    {"tflops_f32", 1e12, [](Gpu& gpu) { return &gpu.flops_f32.emplace(); }},
    {"forward_share", 1, [](Gpu& gpu) { return &gpu.forward_share; }},
    {"backward_share", 1, [](Gpu& gpu) { return &gpu.backward_share; }},
    {"memory_gb", 1e9, [](Gpu& gpu) { return &gpu.memory_bytes; }},
    {"memory_gb_per_s", 1e9, [](Gpu& gpu) { return &gpu.memory_bytes_per_s.emplace(); }},
};
constexpr TableFigure<Link> kLinkFigures[] = {
    {"gb_per_s", 1e9, [](Link& link) { return &link.bytes_per_s; }},
    {"latency_us", 1e-6, [](Link& link) { return &link.latency_s; }},
};

// Parse a table line by line. Errors name the current line.
class Parser {
 public:
  explicit Parser(const std::string& source) { table_.source = source; }

  void take(std::string_view line) {
    ++line_;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    // Reject characters that can't be printed, so that every later message can quote the word.
    for (const std::string& word : words)
      if (!can_be_quoted(word)) fail(line_, kNotQuotable);
    if (words[0] == "gpu" || words[0] == "link") {
      finish_entry();
      begin_entry(words);
    } else {
      take_figure(words);
    }
  }

  HardwareTable finish() {
    finish_entry();
    if (table_.gpus.empty() && table_.links.empty())
      throw InputError(fmt::format(
          "{}: no entry in it; accepted: lines 'gpu NAME' or 'link NAME', each followed "
          "by its figures",
          table_.source));
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what) const {
    throw InputError(fmt::format("{}: line {}: {}", table_.source, line, what));
  }

  void begin_entry(const std::vector<std::string>& words) {
    if (words.size() != 2)
      fail(line_, fmt::format("{}: {} words after it; accepted: {} NAME", words[0],
                              words.size() - 1, words[0]));
    if (!names_.insert(words[0] + " " + words[1]).second)
      fail(line_, fmt::format("{} '{}' given twice; accepted: a name once", words[0], words[1]));
    is_gpu_ = words[0] == "gpu";
    entry_line_ = line_;
    fields_.clear();
    is_gpu_ ? (table_.gpus.emplace_back().name = words[1])
            : (table_.links.emplace_back().name = words[1]);
  }

  void take_figure(const std::vector<std::string>& words) {
    const std::string& field = words[0];
    if (entry_line_ == 0)
      fail(line_,
           fmt::format("'{}' given before any entry; accepted: gpu NAME or link NAME", field));
    if (words.size() != 2)
      fail(line_, fmt::format("{}: {} words after it; accepted: {} and one number", field,
                              words.size() - 1, field));
    is_gpu_ ? take_figure_of(table_.gpus.back(), kGpuFigures, words)
            : take_figure_of(table_.links.back(), kLinkFigures, words);
  }

  // Set the figure of the open entry that words[0] names.
  template <class Entry, std::size_t N>
  void take_figure_of(Entry& entry, const TableFigure<Entry> (&figures)[N],
                      const std::vector<std::string>& words) {
    const std::string& field = words[0];
    std::string accepted;
    for (const TableFigure<Entry>& figure : figures) {
      accepted += (accepted.empty() ? "" : ", ") + std::string(figure.name);
      if (figure.name != field) continue;
      if (!fields_.insert(field).second)
        fail(line_, fmt::format("{}: given twice in one entry; accepted: once", field));
      *figure.place(entry) = number(field, words[1]) * figure.unit;
      return;
    }
    fail(line_, fmt::format("field '{}' given in a {}; accepted: {}", field,
                            is_gpu_ ? "gpu" : "link", accepted));
  }

  double number(const std::string& field, const std::string& text) const {
    const std::optional<double> value = parse_number<double>(text);
    const bool is_share = field.ends_with("_share"), may_be_zero = field == "latency_us";
    const double most = is_share ? 1 : 1e12;  // far beyond any machine, far below overflow
    const bool good = value && *value <= most && *value >= (may_be_zero ? 0 : 1e-9);
    if (!good)
      fail(line_, fmt::format("{}: '{}' given; accepted: a number from {} to {}", field, text,
                              may_be_zero ? "0" : "1e-9", is_share ? "1" : "1e12"));
    return *value;
  }

  void finish_entry() const {
    if (entry_line_ == 0) return;
    const auto require = [this](bool given, const char* field) {
      if (given) return;
      const std::string& name = is_gpu_ ? table_.gpus.back().name : table_.links.back().name;
      fail(entry_line_, fmt::format("{} '{}' has no {}; accepted: an entry with it",
                                    is_gpu_ ? "gpu" : "link", name, field));
    };
    if (is_gpu_) {
      require(fields_.contains("memory_gb"), "memory_gb");
      require(fields_.contains("tflops_16bit") || fields_.contains("tflops_f32"),
              "tflops_16bit or tflops_f32");
    } else {
      require(fields_.contains("gb_per_s"), "gb_per_s");
    }
  }

  HardwareTable table_;
  int line_ = 0;
  int entry_line_ = 0;  // line of the open entry's head; 0 when none is open
  bool is_gpu_ = false;
  std::set<std::string> names_;   // of all entries
  std::set<std::string> fields_;  // of the open entry
};

bool equal_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

template <class Entry>
const Entry* find_in(const std::vector<Entry>& entries, std::string_view name) {
  for (const Entry& entry : entries)
    if (equal_but_for_case(entry.name, name)) return &entry;
  return nullptr;
}

template <class Entry>
std::string names_of(const std::vector<Entry>& entries) {
  std::string names;
  for (const Entry& entry : entries) names += (names.empty() ? "" : ", ") + entry.name;
  return names;
}

HardwareTable read_hardware(const std::string& path) {
  return parse_hardware(read_table(path, "file of hardware figures"), path);
}

bool exists(const std::string& path) {
  struct stat ignored;
  return ::stat(path.c_str(), &ignored) == 0;
}

// Find an entry. `kind` is "gpu" or "link", and `entries` selects the table's list of them.
template <class Entry>
Entry find(const char* kind, const std::string& text, std::vector<Entry> HardwareTable::*entries) {
  const std::vector<Entry>& builtin = builtin_hardware().*entries;
  if (const Entry* entry = find_in(builtin, text)) return *entry;

  // A path may contain colons, so `text` is a path if it exists as a whole.
  std::string path = text, name;
  if (const std::size_t colon = text.rfind(':'); !exists(text) && colon != std::string::npos) {
    path = text.substr(0, colon);
    name = text.substr(colon + 1);
  }
  if (!exists(path))
    throw InputError(
        fmt::format("'{}' given; accepted: {}, {}or a file with a {} in it (FILE or "
                    "FILE:NAME)",
                    text, names_of(builtin),
                    kind == std::string_view("link") ? "GB/S,US as in 50,10, " : "", kind));
  const HardwareTable table = read_hardware(path);
  const std::vector<Entry>& mine = table.*entries;
  if (name.empty() && mine.size() == 1) return mine.front();
  if (const Entry* entry = find_in(mine, name)) return *entry;
  throw InputError(about_file(
      path, mine.empty() ? fmt::format("no {} in it; accepted: a file with one", kind)
                         : fmt::format("{} '{}' asked for; accepted: {}:NAME with one of {}", kind,
                                       name, path, names_of(mine))));
}

}  // namespace

double Gpu::peak_flops(DType dtype) const {
  const bool is_f32 = dtype == DType::f32;
  const std::optional<double>& rate = is_f32 ? flops_f32 : flops_16bit;
  if (rate) return *rate;
  throw InputError(fmt::format("gpu {} has no {} for {}; accepted: {}", name,
                               is_f32 ? "tflops_f32" : "tflops_16bit", name_of(dtype),
                               is_f32 ? "bf16, f16" : "f32"));
}

HardwareTable parse_hardware(std::string_view text, const std::string& source) {
  Parser parser(source);
  for_each_line(text, [&](std::string_view line) { parser.take(line); });
  return parser.finish();
}

const HardwareTable& builtin_hardware() {
  static const HardwareTable table =
      parse_hardware(kBuiltinHardware, "core/tools/cost/hardware.txt");
  return table;
}

Gpu find_gpu(const std::string& text) { return find("gpu", text, &HardwareTable::gpus); }

Link find_link(const std::string& text) {
  if (const std::size_t comma = text.find(','); comma != text.npos && !exists(text)) {
    const auto gb_per_s = parse_number<double>(text.substr(0, comma)),
               us = parse_number<double>(text.substr(comma + 1));
    if (gb_per_s && us && *gb_per_s >= 1e-9 && *gb_per_s <= 1e12 && *us >= 0 && *us <= 1e12)
      return {text, *gb_per_s * 1e9, *us * 1e-6};
    throw InputError(fmt::format(
        "'{}' given; accepted: GB/s above 0 one way and microseconds, as in 50,10", text));
  }
  return find("link", text, &HardwareTable::links);
}

}  // namespace ringscope
