// Algorithms over a whole range, called as those of std::ranges. The libc++ that compiles the viewer for
// browsers has none of these yet.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace ringscope::ranges {

template <class Range, class Test>
bool all_of(const Range& range, Test test) {
  return std::all_of(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Test>
bool any_of(const Range& range, Test test) {
  return std::any_of(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Test>
bool none_of(const Range& range, Test test) {
  return std::none_of(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Test>
auto count_if(const Range& range, Test test) {
  return std::count_if(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Value>
auto find(Range&& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value);
}
template <class Range, class Test>
auto find_if(Range&& range, Test test) {
  return std::find_if(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Test>
auto partition_point(Range&& range, Test test) {
  return std::partition_point(std::begin(range), std::end(range), std::move(test));
}
template <class Range, class Value>
void fill(Range&& range, const Value& value) {
  std::fill(std::begin(range), std::end(range), value);
}
template <class Range, class To, class Change>
void transform(const Range& range, To to, Change change) {
  std::transform(std::begin(range), std::end(range), to, std::mem_fn(change));
}

// Return a comparison of what `of` is of two values.
template <class Less, class Of>
auto comparison(Less less, Of of) {
  return [less = std::move(less), of = std::move(of)](const auto& a, const auto& b) -> bool {
    return less(std::invoke(of, a), std::invoke(of, b));
  };
}

template <class Range, class Less = std::less<>, class Of = std::identity>
void sort(Range&& range, Less less = {}, Of of = {}) {
  std::sort(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Less = std::less<>, class Of = std::identity>
void stable_sort(Range&& range, Less less = {}, Of of = {}) {
  std::stable_sort(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Less = std::less<>, class Of = std::identity>
bool is_sorted(const Range& range, Less less = {}, Of of = {}) {
  return std::is_sorted(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Less = std::less<>, class Of = std::identity>
auto min_element(Range&& range, Less less = {}, Of of = {}) {
  return std::min_element(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Less = std::less<>, class Of = std::identity>
auto max_element(Range&& range, Less less = {}, Of of = {}) {
  return std::max_element(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Less = std::less<>, class Of = std::identity>
auto minmax_element(Range&& range, Less less = {}, Of of = {}) {
  return std::minmax_element(std::begin(range), std::end(range), comparison(less, of));
}
template <class Range, class Value, class Less = std::less<>, class Of = std::identity>
auto upper_bound(Range&& range, const Value& value, Less less = {}, Of of = {}) {
  return std::upper_bound(
      std::begin(range), std::end(range), value,
      [&](const Value& a, const auto& b) -> bool { return less(a, std::invoke(of, b)); });
}

}  // namespace ringscope::ranges
