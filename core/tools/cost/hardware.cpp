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

// An entry that is being read: one of both.
struct TableEntry {
  std::string kind, name;
  int line = 0;
  std::set<std::string_view> given = {};  // its figures
  Gpu gpu = {};
  Link link = {};
};

// A figure: its entry's kind, its name, unit and place.
struct TableFigure {
  std::string_view kind, name;
  double unit;
  double* (*place)(TableEntry&);
};

constexpr TableFigure kFigures[] = {
    {"gpu", "tflops_16bit", 1e12, [](TableEntry& e) { return &e.gpu.flops_16bit.emplace(); }},
    {"gpu", "tflops_f32", 1e12, [](TableEntry& e) { return &e.gpu.flops_f32.emplace(); }},
    {"gpu", "forward_share", 1, [](TableEntry& e) { return &e.gpu.forward_share; }},
    {"gpu", "backward_share", 1, [](TableEntry& e) { return &e.gpu.backward_share; }},
    {"gpu", "product_share", 1, [](TableEntry& e) { return &e.gpu.product_share.emplace(); }},
    {"gpu", "memory_gb", 1e9, [](TableEntry& e) { return &e.gpu.memory_bytes; }},
    {"gpu", "memory_gb_per_s", 1e9,
     [](TableEntry& e) { return &e.gpu.memory_bytes_per_s.emplace(); }},
    {"gpu", "call_us", 1e-6, [](TableEntry& e) { return &e.gpu.call_s.emplace(); }},
    {"gpu", "merge_ps", 1e-12, [](TableEntry& e) { return &e.gpu.merge_s.emplace(); }},
    {"link", "gb_per_s", 1e9, [](TableEntry& e) { return &e.link.bytes_per_s; }},
    {"link", "latency_us", 1e-6, [](TableEntry& e) { return &e.link.latency_s; }},
};

// Parses a table line by line.
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
    const bool is_head = words[0] == "gpu" || words[0] == "link";
    if (is_head) finish_entry();
    if (!is_head && entry_.line == 0)
      fail(line_,
           fmt::format("'{}' given before any entry; accepted: gpu NAME or link NAME", words[0]));
    if (words.size() != 2)
      fail(line_, fmt::format("{}: {} words after it; accepted: {} {}", words[0], words.size() - 1,
                              words[0], is_head ? "NAME" : "and one number"));
    is_head ? begin_entry(words[0], words[1]) : take_figure(words[0], words[1]);
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

  void begin_entry(const std::string& kind, const std::string& name) {
    if (!names_.insert(kind + " " + name).second)
      fail(line_, fmt::format("{} '{}' given twice; accepted: a name once", kind, name));
    entry_ = {kind, name, line_};
    entry_.gpu.name = entry_.link.name = name;
  }

  // Set the figure of the open entry that `field` names.
  void take_figure(const std::string& field, const std::string& text) {
    std::string accepted;
    for (const TableFigure& figure : kFigures) {
      if (figure.kind != entry_.kind) continue;
      accepted += (accepted.empty() ? "" : ", ") + std::string(figure.name);
      if (figure.name != field) continue;
      if (!entry_.given.insert(figure.name).second)
        fail(line_, fmt::format("{}: given twice in one entry; accepted: once", field));
      *figure.place(entry_) = number(field, text) * figure.unit;
      return;
    }
    fail(line_,
         fmt::format("field '{}' given in a {}; accepted: {}", field, entry_.kind, accepted));
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

  void finish_entry() {
    if (entry_.line == 0) return;
    const auto require = [this](const char* field, const char* other = "") {
      if (!entry_.given.contains(field) && !entry_.given.contains(other))
        fail(entry_.line,
             fmt::format("{} '{}' has no {}{}{}; accepted: an entry with it", entry_.kind,
                         entry_.name, field, *other ? " or " : "", other));
    };
    if (entry_.kind == "link") {
      require("gb_per_s");
      table_.links.push_back(entry_.link);
      return;
    }
    require("memory_gb");
    require("tflops_16bit", "tflops_f32");
    table_.gpus.push_back(entry_.gpu);
  }

  HardwareTable table_;
  int line_ = 0;
  TableEntry entry_;             // line 0 when none is open
  std::set<std::string> names_;  // of all entries
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
