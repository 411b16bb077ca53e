// Finds schemes by their names, reads and writes their numbers, and holds a job against its scheme.
#include "core/ring/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/scheme_table.h"

namespace ringscope {

namespace {

bool may_lack_numbers(const Scheme& scheme) { return scheme.numbers.starts_with('['); }
bool has_two_numbers(const Scheme& scheme) { return scheme.numbers.find('x') != std::string::npos; }

}  // namespace

std::span<const Scheme* const> all_schemes() { return kSchemes; }

const Scheme* default_scheme() { return &kRing; }

const Scheme* find_scheme(std::string_view name) {
  const auto found = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                  [&](const Scheme* scheme) { return scheme->name == name; });
  return found != std::end(kSchemes) ? *found : nullptr;
}

const Scheme* scheme_named(std::string_view name) {
  if (const Scheme* const scheme = find_scheme(name)) return scheme;
  throw std::invalid_argument(fmt::format("no scheme is called '{}'", name));
}

std::optional<NumberedScheme> read_scheme(std::string_view text) {
  const auto colon = text.find(':');
  const Scheme* const scheme = find_scheme(text.substr(0, colon));
  if (scheme == nullptr) return std::nullopt;
  NumberedScheme read{scheme, {1, 0}};
  if (colon == text.npos) {
    if (!scheme->numbers.empty() && !may_lack_numbers(*scheme)) return std::nullopt;
    return read;
  }
  if (scheme->numbers.empty()) return std::nullopt;
  const std::string_view numbers = text.substr(colon + 1);
  const bool has_two = has_two_numbers(*scheme);
  const auto times = has_two ? numbers.find('x') : numbers.size();
  if (times == numbers.npos) return std::nullopt;
  const auto first = parse_number<int>(numbers.substr(0, times));
  const auto second = has_two ? parse_number<int>(numbers.substr(times + 1)) : std::optional(0);
  if (!first || *first < 1 || !second || (has_two && *second < 1)) return std::nullopt;
  read.numbers = {*first, *second};
  return read;
}

Travel travel_of(const RunInfo& info) {
  if (info.travel) return *info.travel;
  const auto named = read_scheme(info.scheme);
  if (!named) return {};
  const auto& [scheme, numbers] = *named;
  Travel travel{.what = scheme->travels};
  const bool in_one_piece = numbers[0] == 1;
  travel.is_gathered =
      in_one_piece && (scheme->course == Course::gathers || scheme->course == Course::heads);
  travel.visits_all =
      scheme->course == Course::steps || (in_one_piece && scheme->course == Course::gathers);
  if (travel.what == Travels::both) travel.group = numbers[1];
  if (travel.what == Travels::heads)
    travel.group = layout_of(*scheme, info.world_size, numbers).heads_group;
  return travel;
}

const std::string& scheme_names() {
  static const std::string names = [] {
    std::string text;
    for (const Scheme* const scheme : kSchemes)
      text += fmt::format("{}{}{}", text.empty() ? "" : "|", scheme->name, scheme->numbers);
    return text;
  }();
  return names;
}

void set_scheme(Problem& job, std::string_view text) {
  const auto read = read_scheme(text);
  if (!read)
    throw InputError(
        fmt::format("'{}' given; accepted: {}, with numbers of at least 1", text, scheme_names()));
  job.scheme = read->scheme;
  job.numbers = read->numbers;
  if (job.scheme->counts_nodes) job.nodes = job.numbers[0];
}

std::optional<std::string> why_refused(const Problem& job) {
  if (job.scheme->accepted == nullptr) return std::nullopt;
  const std::string accepted = job.scheme->accepted(job);
  if (accepted.empty()) return std::nullopt;
  const int n = job.world_size;
  return fmt::format("'{}' given for {} rank{}, {} heads and {} kv heads; accepted: {}",
                     job.scheme_name(), n, n == 1 ? "" : "s", job.shape.num_heads,
                     job.shape.num_heads_kv, accepted);
}

void check_scheme(const Problem& job) {
  if (const auto why = why_refused(job)) throw InputError("scheme: " + *why);
}

std::string Problem::scheme_name() const {
  const std::string name(scheme->name);
  if (scheme->numbers.empty() || (may_lack_numbers(*scheme) && numbers[0] == 1)) return name;
  if (scheme->counts_nodes) return fmt::format("{}:{}", name, nodes);
  if (!has_two_numbers(*scheme)) return fmt::format("{}:{}", name, numbers[0]);
  return fmt::format("{}:{}x{}", name, numbers[0],
                     numbers[1] != 0 ? numbers[1] : world_size / numbers[0]);
}

RankLayout layout_of(const Scheme& scheme, int world_size, const SchemeNumbers& numbers) {
  if (world_size == 1 || scheme.layout == nullptr) return {};
  return scheme.layout(world_size, numbers);
}

Extras extras_of_share(const AttentionShape& shape, Index shares) {
  Extras extras;
  extras.kv_heads = ceil_div(shape.num_heads_kv, shares);
  extras.heads = shares <= shape.num_heads_kv
                     ? extras.kv_heads * shape.group_size()
                     : ceil_div(shape.group_size(), max_of(shares / shape.num_heads_kv, 1));
  return extras;
}

std::string divisors_text(int n) {
  std::string text;
  for (int k = 1; k <= n; ++k)
    if (n % k == 0) text += (text.empty() ? "" : ", ") + std::to_string(k);
  return text;
}

}  // namespace ringscope
