// Text from a checkpoint, from the draw of one byte to a whole run. Logits come from decoder.h.
//
// sample() draws byte i with probability in proportion to e^(logit_i / temperature). Temperature 0
// takes the likeliest byte, which is the limit. A draw depends on seed and place, not on earlier
// draws, so every rank draws the same byte by itself, and a text can be continued.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ring/wire_counter.h"
#include "core/threads/watchdog.h"
#include "core/training/checkpoint.h"
#include "core/training/decoder.h"

namespace ringscope {

struct Sampling {
  double temperature = 1;
  std::uint64_t seed = 0;
};

// Draw a byte from logits [vocab], vocab in [1, 256]; `place` numbers one seed's draws. Temperature
// 0 takes the first of equally likely bytes. Throw RunError when a logit is NaN or infinite.
std::uint8_t sample(const Sampling& sampling, Index vocab, const float* logits,
                    std::uint64_t place);

// ---
// A whole run: the ranks read the prompt as they would a text to train on, with K and V in the
// ring, and then continue it byte by byte, each with its share of the KV cache (decoder.h).
//
// Partition and number of ranks change logits only by rounding, which changes a byte only where the draw
// falls on the border between two, or where two are equally likely to the last bits.

struct GenerateOptions {
  // The model needs some text to begin with; this is the beginning of a line.
  std::string prompt = "\n";
  Index bytes = 200;  // generated after the prompt
  Sampling sampling;
};

inline constexpr Index kMostPromptBytes = Index{1} << 20;
inline constexpr Index kMostGeneratedBytes = 1'000'000;

// Throw InputError that names the setting, its value, and what is accepted. Not accepted are an
// empty prompt or one with bytes that the model does not know, numbers out of bounds, and a mask by
// which a byte attends later ones or which is for texts of one length.
void validate(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options);

// One rank's part in a run; only the text is the same on all ranks.
struct GeneratedShare {
  // Sent until the first byte can be drawn, which is the prefill's ring and the logits behind the
  // prompt, and in merges.
  WireCount prefill, decode;
  Index prompt_rows = 0, generated_rows = 0;  // in its shard of every layer
  Index shard_bytes = 0;                      // of all layers, in whole pages
  Index peak_bytes = 0;
  double prefill_s = 0;  // until the first byte can be drawn
  double decode_s = 0;   // from then on
};

// Called with each byte as soon as it is drawn. What it throws ends the run.
using OnByte = std::function<void(std::uint8_t)>;

// One rank of a run, over any communicator.
class GeneratingRank {
 public:
  // The arguments must be valid and outlive it, except that `comm` need only outlive generate().
  // `pulse` may be null. Throw std::bad_alloc.
  GeneratingRank(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options,
                 Communicator& comm, RankPulse* pulse = nullptr);

  // Return the bytes that follow the prompt, the same on every rank. All ranks call it, once;
  // on_byte is called on rank 0. Throw RunError when a peer fails, when a logit is NaN or infinite,
  // and after pulse->stop().
  std::string generate(const OnByte& on_byte = {});

  int rank() const { return comm_.rank(); }
  // Return this rank's part; valid after generate().
  const GeneratedShare& share() const { return share_; }

 private:
  void read_prompt();
  std::string go_on(const OnByte& on_byte);

  const GenerateOptions& options_;
  Partition prompt_;
  RankPulse* pulse_;
  WireCounter comm_;
  MemoryMeter meter_;  // of everything but the prefill
  ModelWeights weights_;
  MaskSpec mask_;
  ParameterStore store_;
  // These are the prefill's, and are freed when it is over.
  std::unique_ptr<ContextRing> ring_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Decoder> decoder_;
  GeneratedShare share_;
};

struct Generated {
  std::string text;                    // without the prompt
  std::vector<GeneratedShare> shares;  // by rank
};

// Generate on threads of this process, one of which calls on_byte. Throw InputError as validate()
// does, and RunError that names the rank that failed.
Generated generate_on_threads(const Checkpoint& checkpoint, const Deal& deal,
                              const GenerateOptions& options, const OnByte& on_byte = {});

class MpiSession;

// Run rank session.rank() of `deal`, which has the session's world_size, as a process, where there is MPI.
// Checkpoint and options are valid and the same on all ranks. Return the result of generate_on_threads() on
// rank 0, and an empty one elsewhere. When a rank fails or is silent for the timeout, all processes end.
Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint, const Deal& deal,
                          const GenerateOptions& options, const OnByte& on_byte = {});

// Return about as many bytes as `rank` holds at its peak, without what doesn't grow with model or text
// (some rows).
double generating_bytes(const TrainingSettings& settings, const Deal& deal,
                        const GenerateOptions& options, int rank);

}  // namespace ringscope
