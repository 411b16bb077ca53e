// Reading an enumerator by the name that name_of() gives it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ringscope {

// The value among `all` whose name is `text`. Throws InputError that lists the accepted names.
template <class E, std::size_t N>
E parse_name(std::string_view text, const E (&all)[N]) {
  std::string accepted;
  for (const E value : all) {
    if (text == name_of(value)) return value;
    accepted += (accepted.empty() ? "" : ", ") + std::string(name_of(value));
  }
  throw InputError("'" + std::string(text) + "' given; accepted: " + accepted);
}

}  // namespace ringscope
