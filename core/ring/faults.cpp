#include "core/ring/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

// Read all of `text` as a number >= 0. Return false when it is not one.
bool read_number(std::string_view text, int& number) {
  number = parse_number<int>(text).value_or(-1);
  return number >= 0;
}

}  // namespace

Injection parse_injection(std::string_view text) {
  const std::size_t kind_end = std::min(text.find('@'), text.size());
  const std::string_view kind = text.substr(0, kind_end);
  Injection injection;
  const auto* const fault = std::find_if(std::begin(kAllFaults), std::end(kAllFaults),
                                         [&](Fault known) { return kind == name_of(known); });
  bool is_known = fault != std::end(kAllFaults);
  if (is_known) injection.fault = *fault;
  if (is_known && kind_end < text.size()) {
    const std::string_view where = text.substr(kind_end + 1);
    const std::size_t rank_end = std::min(where.find(':'), where.size());
    is_known =
        read_number(where.substr(0, rank_end), injection.rank) &&
        (rank_end == where.size() || read_number(where.substr(rank_end + 1), injection.step));
  }
  if (!is_known)
    throw InputError(fmt::format("'{}' given; accepted: KIND[@RANK[:STEP]] with KIND one of {}",
                                 text, names_of_all(kAllFaults)));
  return injection;
}

void check_injection(const Injection& injection, int world_size) {
  const auto refuse = [&](const std::string& accepted) {
    throw InputError(fmt::format("inject: '{}' given with world-size {}; accepted: {}",
                                 to_string(injection), world_size, accepted));
  };
  if (world_size < 2) refuse("at least 2 ranks");
  if (injection.fault == Fault::no_overlap && (injection.rank >= 0 || injection.step != 0))
    refuse("no rank and no step, because it strikes every hop of all of them");
  if (injection.rank >= world_size) refuse(fmt::format("ranks 0 to {}", world_size - 1));
  // A fault strikes one of the forward pass's world_size - 1 hops, or one of its world_size blocks.
  const bool strikes_hop = !delays_computing(injection.fault);
  const int last = world_size - (strikes_hop ? 2 : 1);
  if (injection.step < 0 || injection.step > last)
    refuse(fmt::format("steps 0 to {}, the {} of the forward pass", last,
                       strikes_hop ? "hops" : "blocks"));
}

std::string to_string(const Injection& injection) {
  std::string text(name_of(injection.fault));
  if (injection.rank >= 0 || injection.step != 0) text += fmt::format("@{}", injection.rank);
  if (injection.step != 0) text += fmt::format(":{}", injection.step);
  return text;
}

}  // namespace ringscope
