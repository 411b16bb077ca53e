// Whatever the reader of profiles accepts can be looked through for a ring, and a ring that is found
// is a recording that can be written and read. The bytes stand for every rank of a job of two.
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tools/foreign/kineto.h"
#include "core/trace/chrome_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::optional<ringscope::RankProfile> profile;
  try {
    profile = ringscope::parse_profile({reinterpret_cast<const char*>(data), size}, "file");
  } catch (const ringscope::InputError& error) {
    if (!std::string_view(error.what()).starts_with("byte ")) std::abort();
  }
  if (!profile) return 0;
  std::vector<ringscope::RankProfile> ranks(2, *profile);
  for (int rank = 0; rank < 2; ++rank) {
    ranks[static_cast<std::size_t>(rank)].rank = rank;
    ranks[static_cast<std::size_t>(rank)].world_size = 2;
  }
  ranks[1].base_time_ns /= 2;
  // Rank 1 of a causal ring attends twice as often.
  for (const bool causal : {false, true}) {
    if (causal)
      for (auto& spans : ranks[1].attention) spans.insert(spans.end(), spans.begin(), spans.end());
    const ringscope::InferredRing ring = ringscope::infer_ring(ranks);
    if (!ring.recording) continue;
    std::ostringstream out;
    ringscope::write_chrome_trace(out, *ring.recording);
    if (ringscope::parse_chrome_trace(out.str()).events.size() != 2) std::abort();
  }
  return 0;
}
