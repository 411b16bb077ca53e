#include "core/base/describe.h"

#include <algorithm>

namespace ringscope {

double number_in(std::string_view text, const Range& range) {
  const std::optional<double> value = parse_number<double>(text);
  if (value && (*value > range.least || (range.from_least && *value == range.least)) &&
      *value <= range.most)
    return *value;
  throw InputError(fmt::format("'{}' given; accepted: {}", text, range.words));
}

std::vector<double> numbers_in(std::string_view list, const Range& range) {
  std::vector<double> numbers;
  for (const std::string_view number : split(list, ','))
    numbers.push_back(number_in(number, range));
  return numbers;
}

std::string key_of(const MemberRow& row) {
  std::string key(row.key.empty() ? row.name : row.key);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace ringscope
