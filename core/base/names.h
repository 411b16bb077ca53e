// Enums whose values have names, which people write and read. Beside such an enum stands the list of
// them, in the order of its values:
//
//   constexpr auto names_of(Hops) { return list_of({"all", "needed"}); }
//
// From that come name_of() of a value, and kAllOf<Hops> with all values.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace ringscope {

template <std::size_t N>
constexpr auto list_of(const std::string_view (&names)[N]) {
  return std::to_array(names);
}

template <class E>
concept kHasNames = requires(E value) {
  names_of(value);
};

template <kHasNames E>
inline constexpr auto kNamesOf = names_of(E{});

template <kHasNames E>
constexpr std::string_view name_of(E value) {
  return kNamesOf<E>[static_cast<std::size_t>(value)];
}

template <kHasNames E>
constexpr auto all_values() {
  std::array<E, kNamesOf<E>.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<E>(i);
  return all;
}
template <kHasNames E>
inline constexpr auto kAllOf = all_values<E>();

}  // namespace ringscope
