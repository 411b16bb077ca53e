#include "core/tools/cost/hardware.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/base/describe.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

extern const char kBuiltinHardware[];

namespace ringscope {

// ---
// An entry's figures, as lines of a table have them.

void read_value(std::optional<double>& to, std::string_view text, const MemberRow& row) {
  to = row.unit * number_in(text, row.range);
}

// Far beyond any machine, far below overflow.
constexpr Range kFigures = {1e-9, 1e12, true, "a number from 1e-9 to 1e12"};
constexpr Range kShares = {1e-9, 1, true, "a number from 1e-9 to 1"};
constexpr Range kLatencies = {0, 1e12, true, "a number from 0 to 1e12"};

template <class S, class F>
requires kIs<S, Gpu>
void describe(S& gpu, F&& row) {
  row(MemberRow("tflops_16bit", "X").in(kFigures).times(1e12), gpu.flops_16bit);
  row(MemberRow("tflops_8bit", "X").in(kFigures).times(1e12), gpu.flops_8bit);
  row(MemberRow("tflops_f32", "X").in(kFigures).times(1e12), gpu.flops_f32);
  row(MemberRow("forward_share", "X").in(kShares), gpu.forward_share);
  row(MemberRow("backward_share", "X").in(kShares), gpu.backward_share);
  row(MemberRow("product_share", "X").in(kShares), gpu.product_share);
  row(MemberRow("product_share_8bit", "X").in(kShares), gpu.product_share_8bit);
  row(MemberRow("fa2_forward_share", "X").in(kShares), gpu.fa2.forward);
  row(MemberRow("fa2_backward_share", "X").in(kShares), gpu.fa2.backward);
  row(MemberRow("fa3_forward_share", "X").in(kShares), gpu.fa3.forward);
  row(MemberRow("fa3_backward_share", "X").in(kShares), gpu.fa3.backward);
  row(MemberRow("cudnn_forward_share", "X").in(kShares), gpu.cudnn.forward);
  row(MemberRow("cudnn_backward_share", "X").in(kShares), gpu.cudnn.backward);
  row(MemberRow("memory_gb", "X").in(kFigures).times(1e9), gpu.memory_bytes);
  row(MemberRow("memory_gb_per_s", "X").in(kFigures).times(1e9), gpu.memory_bytes_per_s);
  row(MemberRow("host_gb_per_s", "X").in(kFigures).times(1e9), gpu.host_bytes_per_s);
  row(MemberRow("call_us", "X").in(kFigures).times(1e-6), gpu.call_s);
  row(MemberRow("merge_ps", "X").in(kFigures).times(1e-12), gpu.merge_s);
}
template <class S, class F>
requires kIs<S, Link>
void describe(S& link, F&& row) {
  row(MemberRow("gb_per_s", "X").in(kFigures).times(1e9), link.bytes_per_s);
  row(MemberRow("latency_us", "X").in(kLatencies).times(1e-6), link.latency_s);
}

// Return what an entry lacks, or "".
std::string lack_of(const Gpu& gpu) {
  if (gpu.memory_bytes == 0) return "memory_gb";
  return gpu.flops_16bit || gpu.flops_f32 ? "" : "tflops_16bit or tflops_f32";
}
std::string lack_of(const Link& link) { return link.bytes_per_s == 0 ? "gb_per_s" : ""; }

std::string_view name_of(const Gpu& gpu) { return gpu.name; }
std::string_view name_of(const Link& link) { return link.name; }

namespace {

// Parses a table line by line.
class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  void take(std::string_view line) {
    ++line_;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    // Reject characters that can't be printed, so that every later message can quote the word.
    for (const std::string& word : words)
      if (!can_be_quoted(word)) fail(line_, kNotQuotable);
    const bool is_head = words[0] == "gpu" || words[0] == "link";
    if (!is_head && kind_.empty())
      fail(line_,
           fmt::format("'{}' given before any entry; accepted: gpu NAME or link NAME", words[0]));
    if (words.size() != 2)
      fail(line_, fmt::format("{}: {} words after it; accepted: {} {}", words[0], words.size() - 1,
                              words[0], is_head ? "NAME" : "and one number"));
    if (is_head)
      begin_entry(words[0], words[1]);
    else if (kind_ == "gpu")
      take_figure(table_.gpus.back(), words[0], words[1]);
    else
      take_figure(table_.links.back(), words[0], words[1]);
  }

  HardwareTable finish() const {
    if (kind_.empty())
      throw InputError(fmt::format(
          "{}: no entry in it; accepted: lines 'gpu NAME' or 'link NAME', each followed "
          "by its figures",
          source_));
    for (const Gpu& gpu : table_.gpus) require_whole("gpu", gpu);
    for (const Link& link : table_.links) require_whole("link", link);
    return table_;
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what) const {
    throw InputError(fmt::format("{}: line {}: {}", source_, line, what));
  }

  void begin_entry(const std::string& kind, const std::string& name) {
    if (!begun_.emplace(kind + name, line_).second)
      fail(line_, fmt::format("{} '{}' given twice; accepted: a name once", kind, name));
    kind_ = kind;
    given_.clear();
    (kind == "gpu" ? table_.gpus.emplace_back().name : table_.links.emplace_back().name) = name;
  }

  template <class Entry>
  void take_figure(Entry& entry, const std::string& field, const std::string& text) {
    if (!given_.insert(field).second)
      fail(line_, fmt::format("{}: given twice in one entry; accepted: once", field));
    try {
      if (read_member(entry, field, text, field)) return;
    } catch (const InputError& error) {
      fail(line_, error.what());
    }
    std::string accepted;
    describe(entry, [&](const MemberRow& row, const auto&) {
      accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
    });
    fail(line_, fmt::format("field '{}' given in a {}; accepted: {}", field, kind_, accepted));
  }

  template <class Entry>
  void require_whole(const std::string& kind, const Entry& entry) const {
    if (const std::string lack = lack_of(entry); !lack.empty())
      fail(begun_.at(kind + entry.name),
           fmt::format("{} '{}' has no {}; accepted: an entry with it", kind, entry.name, lack));
  }

  std::string source_;
  HardwareTable table_;
  int line_ = 0;
  std::string kind_;                  // of the open entry; "": none is open
  std::set<std::string> given_;       // its figures
  std::map<std::string, int> begun_;  // lines of entries, by kind and name
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
                    text, names_of_all(builtin),
                    kind == std::string_view("link") ? "GB/S,US as in 50,10, " : "", kind));
  const HardwareTable table = parse_hardware(read_table(path, "file of hardware figures"), path);
  const std::vector<Entry>& mine = table.*entries;
  if (name.empty() && mine.size() == 1) return mine.front();
  if (const Entry* entry = find_in(mine, name)) return *entry;
  throw InputError(about_file(
      path, mine.empty() ? fmt::format("no {} in it; accepted: a file with one", kind)
                         : fmt::format("{} '{}' asked for; accepted: {}:NAME with one of {}", kind,
                                       name, path, names_of_all(mine))));
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

void take_kernels(Gpu& gpu, std::string_view library) {
  const Gpu::Shares& shares = library == "fa2" ? gpu.fa2 : library == "fa3" ? gpu.fa3 : gpu.cudnn;
  if (!shares.forward || !shares.backward)
    throw InputError(
        fmt::format("'{}' given for gpu {}, which has no {}_forward_share and {}_backward_share; "
                    "accepted: one that has",
                    library, gpu.name, library, library));
  gpu.product_share = gpu.product_share.value_or(gpu.forward_share);
  gpu.forward_share = *shares.forward;
  gpu.backward_share = *shares.backward;
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
