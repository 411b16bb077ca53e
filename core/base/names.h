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

// Return whether V is one of its enum's values: compilers print another as a number, "(Hops)2".
template <auto V>
constexpr bool is_listed_value() {
  return std::string_view(__PRETTY_FUNCTION__).find("= (") == std::string_view::npos;
}
// Return whether there are as many names as values.
template <kHasNames E>
constexpr bool names_every_value() {
  constexpr std::size_t names = kNamesOf<E>.size();
  return is_listed_value<static_cast<E>(names - 1)>() && !is_listed_value<static_cast<E>(names)>();
}

template <kHasNames E>
constexpr std::string_view name_of(E value) {
  static_assert(names_every_value<E>());
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
