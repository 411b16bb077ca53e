// Text from a checkpoint, from the draw of one byte to a whole run. Logits come from a decoder.
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
#include "core/training/decode_attention.h"
#include "core/training/matrix_product.h"
#include "core/training/model.h"

namespace ringscope {

// ---
// A model that continues a text, byte by byte, on the ranks that have read its beginning. It
// doesn't choose the bytes (generate.h).
//
//   prefill    the model's forward pass over the prompt, with K and V in the ring; the keys and
//              values of each layer stay where they are and become its shard
//   decode     for each new byte, in each layer: every rank computes the row (all have the weights
//              and the row), the position's home rank keeps its key and value, all ranks attend
//              what they have, and the results are merged
//
// The row goes through the same products as in a prefill, which give it the same bits whatever rows
// are beside it (matrix_product.h). So a step differs from the prefill's row only by rounding
// inside attention, and all ranks have the same bits at every point, without messages to agree on
// them.
//
// Messages carry once the logits behind the prompt, around the ring from the rank of its last row,
// and then a merge for every layer and byte (merge_cost()).

class Decoder {
 public:
  // Take over the keys and values that the model's last forward pass, over `prompt`, left on this
  // rank. `mask` is for the longest text that this may become; within the prompt it is the
  // prompt's, and beyond it no position attends later ones. All but `model` must outlive it; meter
  // may be null. Send nothing.
  Decoder(const ModelWeights& weights, const ParameterStore& store, Model& model,
          const RingProblem& prompt, const Mask& mask, Communicator& comm, MemoryMeter* meter);

  // Send the logits behind the prompt from the rank of its last row to all. `model` is the
  // constructor's. All ranks call it, once and before all below. Throw RunError when a peer fails;
  // a hop may then use the decoder's memory until the communicator ends. (So the constructor does
  // not do it: when it throws, its object is gone at once.)
  void share_logits(const Model& model);

  // Return the logits of the next byte, [batch, vocab], the same bits on every rank.
  const float* logits() const { return logits_.data(); }
  // Return the position of the next byte.
  Index position() const { return position_; }
  // Go on by one position with `bytes`, one for each sequence of the batch. All ranks call it with
  // the same bytes, within the mask's positions. Throw RunError when a peer fails.
  void step(const std::uint8_t* bytes);

  const KvShard& shard(Index layer) const { return shards_[layer]; }

 private:
  void attend(const LayerWeights& layer, KvShard& shard);
  void feed_forward(const LayerWeights& layer);
  void norm(const Parameter& gain);
  void project(const Parameter& weight, Buffer<float>& to);

  const ModelWeights& weights_;
  const ParameterStore& store_;
  AttentionParams params_;
  Partition prompt_;
  Mask mask_;
  Communicator& comm_;
  Index batch_;
  Index position_;
  std::vector<KvShard> shards_;  // by layer
  DecodeAttention attention_;
  MatrixProduct product_;
  Buffer<float> stream_, normed_, rms_;      // [batch, width], and one number per row
  Buffer<float> query_, key_, value_, out_;  // [batch, heads, head_dim]
  Buffer<float> hidden_, up_;                // [batch, hidden]
  Buffer<float> logits_;
};

// ---

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
// ring, and then continue it byte by byte, each with its share of the KV cache.
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
