// Prints the GPU as one JSON object, or on stderr why none can be used (exit status 3).
#include <fmt/format.h>

#include <cstdio>

#include "cuda/base/device_info.h"

int main() {
  const ringscope::cuda::DeviceQuery query = ringscope::cuda::query_device();
  if (!query.device) {
    fmt::print(stderr, "{}\n", query.why_not);
    return 3;
  }
  const ringscope::cuda::DeviceInfo& device = *query.device;
  std::string name;  // without characters that JSON must escape
  for (const char c : device.name)
    if (static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\') name += c;
  fmt::print(
      "{{\"name\": \"{}\", \"architecture\": {}, \"multiprocessors\": {}, \"memory_bytes\": {}, "
      "\"l2_bytes\": {}, \"driver\": \"{}\", \"runtime\": \"{}\"}}\n",
      name, device.architecture, device.multiprocessors, device.memory_bytes, device.l2_bytes,
      device.driver, device.runtime);
}
