// Whatever the reader of a flight recorder's dumps accepts can be explained, alone and beside
// another rank's dump of the same bytes.
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/tools/foreign/flight_recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    ringscope::FlightDump dump =
        ringscope::parse_flight_dump({reinterpret_cast<const char*>(data), size}, 0);
    ringscope::explain_hang({dump});
    ringscope::FlightDump other = dump;
    other.rank = 1;
    ringscope::explain_hang({dump, other});
  } catch (const ringscope::InputError& error) {
    const std::string_view message = error.what();
    if (!message.starts_with("byte ")) std::abort();
    for (const char c : message)
      if (c < ' ' || c > '~') std::abort();
  }
  return 0;
}
