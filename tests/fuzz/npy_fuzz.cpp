// Whatever the .npy readers accept, written and read again, is the same to the last bit.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/npy.h"

namespace {

using ringscope::NpyArray;

std::string image_of(const NpyArray& array) {
  std::string text = ringscope::npy_header({array.shape.begin(), array.shape.end()}, array.was_f64);
  const auto append = [&text](const auto& values) {
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  if (array.was_f64) {
    append(std::vector<double>(array.values.begin(), array.values.end()));
  } else {
    append(array.values);
  }
  return text;
}

bool same(const NpyArray& a, const NpyArray& b) {
  return a.shape == b.shape && a.was_f64 == b.was_f64 && a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<ringscope::Index> integers = ringscope::parse_npy_integers(text);
    if (integers.empty() || integers.size() > size) std::abort();
  } catch (const ringscope::InputError& error) {
    for (const char c : std::string_view(error.what()))
      if (c < ' ' || c > '~') std::abort();
  }
  try {
    const NpyArray array = ringscope::parse_npy(text);
    if (!same(ringscope::parse_npy(image_of(array)), array)) std::abort();
  } catch (const ringscope::InputError& error) {
    // One printable line.
    for (const char c : std::string_view(error.what()))
      if (c < ' ' || c > '~') std::abort();
  }
  return 0;
}
