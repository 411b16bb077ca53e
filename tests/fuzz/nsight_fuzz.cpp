// Whatever the reader of Nsight Systems' exports accepts can be looked through for a ring, alone and
// as the exports of two nodes. SQLite reads files alone, so the bytes are written to one.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/error.h"
#include "core/foreign/kineto.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const std::string path =
      std::filesystem::temp_directory_path() / ("nsight_fuzz_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const std::vector<std::string>& paths : {std::vector{path}, {path, path}}) try {
      std::vector<ringscope::RankProfile> ranks;
      ringscope::for_nsight_ranks(paths, [&](const auto& name, const auto& text) {
        if (text.size() > 100 * (size + 100'000)) std::abort();
        ranks.push_back(ringscope::parse_profile(text, name).value());
      });
      ringscope::infer_ring(ranks);
    } catch (const ringscope::InputError& error) {
      if (!std::string_view(error.what()).starts_with(path + ": ")) std::abort();
      for (const char* c = error.what(); *c != 0; ++c)
        if (*c < ' ' || *c > '~') std::abort();
    }
  return 0;
}
