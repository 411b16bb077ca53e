// The next byte of a text, drawn from a model's logits: byte i with probability in proportion to
// e^(logit_i / temperature). Temperature 0 takes the likeliest, which is what that tends to.
//
// A pure function: what is drawn at a place of the text depends on seed and place, not on what was
// drawn before, so every rank draws the same byte by itself, and a text can be gone on with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/math.h"
#include "core/decode/merge.h"
#include "core/model/model_shape.h"
#include "core/problem/partition.h"
#include "core/ring/wire_counter.h"
#include "core/run/watchdog.h"
#include "core/train/checkpoint.h"

namespace ringscope {

struct Sampling {
  double temperature = 1;
  std::uint64_t seed = 0;
};

// Throws InputError that names the temperature: not finite, or below 0.
void validate(const Sampling& sampling);

// logits: [vocab], vocab in [1, 256]; `place` numbers the draws of one seed. Of equally likely
// bytes temperature 0 takes the first. Throws RunError when a logit is NaN or infinite.
std::uint8_t sample(const Sampling& sampling, Index vocab, const float* logits,
                    std::uint64_t place);

// ---
// Text from a checkpoint: the ranks read the prompt as they would a text to train on, K and V round
// the ring, and then go on with it byte by byte, each with its share of the KV cache (decoder.h).
//
// The text depends on checkpoint, prompt, temperature and seed. Who holds which rows, how many
// ranks there are and how results are merged changes logits by rounding alone; that changes a byte
// only where two are equally likely to the last bits, or the draw falls on the border between them.

struct GenerateOptions {
  // A text has to begin with something: this is a line's beginning.
  std::string prompt = "\n";
  Index bytes = 200;  // that follow
  Sampling sampling;
  MergeKind merge = MergeKind::ring;
};

inline constexpr Index kMostPromptBytes = Index{1} << 20;
inline constexpr Index kMostGeneratedBytes = 1'000'000;

// Throws InputError that names what can't be, its value, and what is accepted: an empty prompt or
// one with bytes that the model does not know, numbers out of bounds, a mask by which a byte
// attends later ones or which is for texts of one length.
void validate(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options);

// One rank's part in it, but for the text, which is the same on all.
struct GeneratedShare {
  // Sent in the prefill's ring, in handing the logits behind the prompt to all, and in merges
  // (below).
  WireCount prefill, handover, decode;
  Index prompt_rows = 0, generated_rows = 0;  // of its shard, in every layer
  Index shard_bytes = 0;                      // of all layers, in whole pages
  Index peak_bytes = 0;
  double prefill_s = 0;  // until the first byte can be drawn
  double decode_s = 0;   // from then on
};

// Called with each byte as soon as it is drawn. What it throws ends the run.
using OnByte = std::function<void(std::uint8_t)>;
// Called with the share of the prefill that is done, in [0, 1].
using OnPrefill = std::function<void(double)>;

// One rank, over whatever communicator it is given.
class GeneratingRank {
 public:
  // What is given must be valid and outlive it, but `comm` only generate(). `pulse` may be null.
  // Throws std::bad_alloc.
  GeneratingRank(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options,
                 Communicator& comm, RankPulse* pulse = nullptr);
  ~GeneratingRank();

  // Returns the bytes that follow the prompt, the same ones on every rank. All ranks call it, once;
  // on_byte and on_prefill are called on rank 0. Throws RunError when a peer fails, when a logit is
  // no number, and after pulse->stop().
  std::string generate(const OnByte& on_byte = {}, const OnPrefill& on_prefill = {});

  int rank() const { return comm_.rank(); }
  // After generate().
  const GeneratedShare& share() const { return share_; }

 private:
  struct Machinery;

  void read_prompt(const OnPrefill& on_prefill);
  std::string go_on(const OnByte& on_byte);
  void weigh();

  const Checkpoint& checkpoint_;
  const GenerateOptions& options_;
  Partition prompt_;
  RankPulse* pulse_;
  WireCounter comm_;
  std::unique_ptr<Machinery> machinery_;
  GeneratedShare share_;
};

struct Generated {
  std::string text;                    // without the prompt
  std::vector<GeneratedShare> shares;  // by rank
};

// On threads of this process; on_byte and on_prefill are called on one of them. Throws InputError
// as validate(); RunError that names the rank that failed.
Generated generate_on_threads(const Checkpoint& checkpoint, const Deal& deal,
                              const GenerateOptions& options, const OnByte& on_byte = {},
                              const OnPrefill& on_prefill = {});

// ---
// What generating a text takes, by formula: messages and bytes on the wire, and memory. N ranks, a
// text of one sequence.
//
//   prefill    a layer: N-1 hops of every rank's block of K and V
//   handover   the logits behind the prompt, from the rank that has its last row to all others: the
//              way down a tree
//   decode     a layer and byte: a merge (merge.h). After the last byte nothing is computed, so B
//              bytes take B-1 of them.
//
// Messages are counted as a ring sends them, from a rank to the next: one that is passed along
// counts at every hop.

// Of all ranks together.
WireCount prefill_wire(const ModelShape& shape, const Partition& prompt);
WireCount handover_wire(const ModelShape& shape, int world_size);
WireCount decode_wire(const ModelShape& shape, MergeKind merge, Index bytes, int world_size);

// What `rank` holds at its peak, in bytes, but for what does not grow with model or text (some
// rows). It is reached when the prompt has been read and its keys and values are taken over, or
// else at the end.
double generating_bytes(const ModelShape& shape, const Partition& prompt, Index bytes, int rank);

}  // namespace ringscope
