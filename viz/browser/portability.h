// What the compiler for browsers lacks of C++20's library (emscripten with libc++ 14): std::bit_cast,
// std::jthread, and std::from_chars and std::to_chars for floating-point numbers. Only the build for
// browsers includes this, before every file (viz/browser/CMakeLists.txt), and each part stands aside for
// a library that has it.
#pragma once

#include <bit>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace std {

#ifndef __cpp_lib_jthread
// Run the work at once, because a page has one thread.
class jthread {
 public:
  template <class F, class... Arguments>
  explicit jthread(F&& work, Arguments&&... arguments) {
    forward<F>(work)(forward<Arguments>(arguments)...);
  }
  void join() {}
};
#endif

#ifndef __cpp_lib_bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
#endif

#ifndef __cpp_lib_to_chars
// Parse the longest decimal number at `first`, as the standard asks: no blanks, no plus, no
// hexadecimal digits.
template <class Real>
requires floating_point<Real> from_chars_result from_chars(const char* first, const char* last,
                                                           Real& value) {
  const auto is_digit = [last](const char* at) { return at != last && *at >= '0' && *at <= '9'; };
  const char* at = first != last && *first == '-' ? first + 1 : first;
  if (!is_digit(at) && !(at != last && (*at == '.' ? is_digit(at + 1) : *at == 'i' || *at == 'n')))
    return {first, errc::invalid_argument};
  // strtod needs an end, and would go on into "0x".
  string text(first, last);
  if (const size_t x = text.find_first_of("xX"); x != string::npos) text.resize(x);
  char* stop = nullptr;
  errno = 0;
  Real parsed;
  if constexpr (is_same_v<Real, float>)
    parsed = strtof(text.c_str(), &stop);
  else if constexpr (is_same_v<Real, double>)
    parsed = strtod(text.c_str(), &stop);
  else
    parsed = strtold(text.c_str(), &stop);
  const char* const end = first + (stop - text.c_str());
  if (end == first) return {first, errc::invalid_argument};
  if (errno == ERANGE && (parsed == 0 || parsed - parsed != 0))
    return {end, errc::result_out_of_range};
  value = parsed;
  return {end, errc()};
}

// Write the shortest of the usual formats that reads back to the same bits. `value` is finite.
inline to_chars_result to_chars(char* first, char* last, float value) {
  char text[32];
  int length = 0;
  for (int digits = 1; digits <= 9; ++digits) {
    length = snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
    if (strtof(text, nullptr) == value) break;
  }
  if (last - first < length) return {last, errc::value_too_large};
  memcpy(first, text, static_cast<size_t>(length));
  return {first + length, errc()};
}
#endif

}  // namespace std
