// Writes small pickles as a flight recorder's dump has them, for the tests and the fuzzer's corpus.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringscope::pickles {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}
inline std::string of(const std::string& text) { return 'X' + little(text.size(), 4) + text; }
inline std::string of(int number) { return 'J' + little(static_cast<std::uint32_t>(number), 4); }
inline std::string of(bool truth) { return truth ? "\x88" : "\x89"; }
inline std::string list(const std::vector<std::string>& items) {
  std::string text = "](";
  for (const std::string& item : items) text += item;
  return text + 'e';
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) text += of(key) + value;
  return text + 'u';
}
inline std::string whole(const std::string& value) { return "\x80\x02" + value + '.'; }

// An entry of group `group`, which the rank knows by the number `group` + 5.
inline std::string entry(int group, const std::string& name, int sequence, const std::string& state,
                         bool is_p2p = false) {
  return dict({{"process_group", of(std::to_string(group)) + of(std::string("GROUP")) + '\x86'},
               {"pg_id", of(group + 5)},
               {is_p2p ? "p2p_seq_id" : "collective_seq_id", of(sequence)},
               {"profiling_name", of("nccl:" + name)},
               {"state", of(state)},
               {"is_p2p", of(is_p2p)}});
}
// The dump of one rank of a job with one group, 0, of `ranks`: "[0, 1]".
inline std::string dump(const std::string& ranks, int completed,
                        const std::vector<std::string>& entries) {
  return whole(
      dict({{"pg_config", dict({{"0", dict({{"ranks", of(ranks)}})}})},
            {"pg_status", dict({{"5", dict({{"last_completed_collective", of(completed)}})}})},
            {"entries", list(entries)}}));
}

}  // namespace ringscope::pickles
