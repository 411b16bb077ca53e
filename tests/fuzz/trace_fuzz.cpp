// Whatever the trace reader accepts, written and read again, is the same; and it can be summed up.
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"

namespace {

std::string written(const ringscope::Recording& recording) {
  std::ostringstream out;
  write_chrome_trace(out, recording);
  return out.str();
}

std::optional<ringscope::Recording> parsed(std::string_view text) {
  try {
    return ringscope::parse_chrome_trace(text);
  } catch (const ringscope::InputError& error) {
    // One printable line that begins with the byte.
    const std::string_view message = error.what();
    if (!message.starts_with("byte ")) std::abort();
    for (const char c : message)
      if (c < ' ' || c > '~') std::abort();
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto recording = parsed({reinterpret_cast<const char*>(data), size});
  if (!recording) return 0;
  const std::string text = written(*recording);
  const auto again = parsed(text);
  // As text, because a NaN equals nothing.
  if (!again || written(*again) != text) std::abort();
  try {
    summarize(*recording);
  } catch (const ringscope::InputError&) {  // sums that do not fit
  }
  return 0;
}
