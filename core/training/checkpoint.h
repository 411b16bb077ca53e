// The settings that determine a training run, whichever ranks compute it. With the same settings,
// text and world_size every run ends with the same bits; another world_size differs by rounding.
//
// A checkpoint is a training run as a file, from which it goes on as if it had never stopped:
// settings, weights, and what AdamW remembers. It doesn't mention ranks, so another number of them
// can take it up.
//
// It consists of 64-bit words, little-endian: a magic number, a header of counts and settings, which gives
// the file's length, the mask's text, the weights and the moments as f32, and a checksum of all of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/training/model.h"

namespace ringscope {

struct TrainingSettings {
  ModelShape shape;
  AdamWSettings adam;
  Index batch = 4;     // sequences per step
  Index seqlen = 256;  // of each sequence
  std::string mask = "causal";
  std::uint64_t seed = 0;  // of the first weights and of the pieces of text

  bool operator==(const TrainingSettings&) const = default;
};

// Throw InputError that names the setting, its value, and what is accepted.
void validate(const TrainingSettings& settings);

// How ranks compute a step. A checkpoint does not depend on it.
struct Deal {
  PartitionKind partition = PartitionKind::zigzag;  // balances work under a causal mask
  int world_size = 1;                               // ranks that share a sequence
  Index chunks = 1;                                 // pieces that a rank cuts its rows into (Model)
  int tensor = 1;                                   // ranks that share heads and MLPs (model.h)
  int data = 1;              // groups of ranks that share a batch's sequences
  DType dtype = DType::f32;  // what operands of products and of attention are rounded to
  Hops hops = Hops::all;     // what the ring sends

  Index ranks() const { return Index{world_size} * tensor * data; }
};

// Return a rank's share of the attention of every layer. Throw InputError for a mask that nobody could
// mean.
Problem attention_problem(const TrainingSettings& settings, const Deal& deal);

// Return the bill of the memory that `rank` of a training run holds (-1: the one with the most rows),
// which is that of `plan` for its rows in f32 where there are no tensor ranks. Settings are valid.
std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal,
                                        int rank = -1);

struct Checkpoint {
  TrainingSettings settings;
  Index step = 0;              // training steps done so far
  std::vector<float> values;   // as in ParameterStore
  std::vector<float> moments;  // as in AdamW
};

// Convert to and from the bytes of the file, for example to hand them to another process.
// to_bytes() throws std::invalid_argument unless there are as many values and moments as the shape
// has weights. checkpoint_from() throws InputError as load_checkpoint() does, without the path. A size
// that the bytes don't have is never believed.
std::string to_bytes(const Checkpoint& checkpoint);
Checkpoint checkpoint_from(std::string_view bytes);

// Throw as to_bytes() and AtomicFile do: InputError when the place cannot be written to, RunError
// when the disk is full.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throw InputError that names the path and what is wrong with the file.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace ringscope
