#include "core/model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"
#include "core/problem/mask.h"

namespace ringscope {

void validate(const TrainingSettings& settings) {
  validate(settings.shape);
  validate(settings.adam);
  validate(AttentionShape{settings.batch, settings.shape.num_heads, settings.shape.num_heads_kv,
                          settings.seqlen, settings.shape.head_dim});
  // A checkpoint keeps the mask as text, and must not name files to be read.
  if (settings.mask.find("ranges:") != std::string::npos)
    throw InputError("mask: '" + settings.mask +
                     "' given; masks without ranges accepted, because a checkpoint keeps its mask");
  MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen);
}

Problem attention_problem(const TrainingSettings& settings, const Deal& deal) {
  return attention_problem(settings.shape, settings.batch, settings.seqlen,
                           MaskSpec::parse(settings.mask), deal.partition, deal.world_size);
}

std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal,
                                        int rank) {
  Problem problem = attention_problem(settings, deal);
  problem.layers = settings.shape.layers;
  return model_memory_parts(
      problem, sizes_of(settings.shape), deal.memory,
      rank < 0 ? problem.max_rows() : static_cast<double>(problem.rows(rank)));
}

namespace {

static_assert(std::endian::native == std::endian::little);

using Word = std::uint64_t;

constexpr Index kWordBytes = sizeof(Word);
constexpr char kCheckpointMagic[] = "rscp 002";  // one word
constexpr Index kMaxMaskBytes = 1 << 20;         // documents may be many

// Call f on every number of the header behind the magic number, in the order of the file.
template <class Settings, class F>
void for_header(Settings& settings, F&& f) {
  auto& shape = settings.shape;
  auto& adam = settings.adam;
  f(shape.layers), f(shape.width), f(shape.num_heads), f(shape.num_heads_kv), f(shape.head_dim);
  f(shape.hidden), f(shape.vocab), f(shape.tied_head), f(shape.rotary_base), f(shape.norm_epsilon);
  f(adam.rate), f(adam.beta1), f(adam.beta2), f(adam.epsilon), f(adam.decay);
  f(adam.longest_gradient), f(adam.warmup_steps);
  f(settings.batch), f(settings.seqlen), f(settings.seed);
}

Word word_of(double value) { return std::bit_cast<Word>(value); }
Word word_of(Index value) { return static_cast<Word>(value); }
Word word_of(Word value) { return value; }
Word word_of(bool value) { return value ? 1 : 0; }
void from_word(Word word, double& value) { value = std::bit_cast<double>(word); }
void from_word(Word word, Index& value) { value = static_cast<Index>(word); }
void from_word(Word word, Word& value) { value = word; }
void from_word(Word word, bool& value) { value = word != 0; }

Index header_words() {
  Index words = 5;  // magic, step, planned steps, mark of the text, length of the mask's text
  TrainingSettings settings;
  for_header(settings, [&](auto&) { ++words; });
  return words;
}

// Bytes of the file's parts, each a whole number of words.
struct Sizes {
  Index header = header_words() * kWordBytes;
  Index mask = 0;
  Index values = 0;  // weights and moments
  Index total() const { return header + mask + values + kWordBytes; }
};

Sizes sizes_of(Index mask_bytes, Index parameters) {
  Sizes sizes;
  sizes.mask = round_up(mask_bytes, kWordBytes);
  sizes.values = round_up(3 * parameters * static_cast<Index>(sizeof(float)), kWordBytes);
  return sizes;
}

// Return a checksum in which each word is mixed with all words before it. Two files that differ in
// one word have different checksums, because mix64 never maps two words to one.
Word checksum_of(const std::vector<Word>& words, std::size_t count) {
  Word sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum = mix64(sum ^ words[i]) + i;
  return sum;
}

Word magic() {
  Word word = 0;
  std::memcpy(&word, kCheckpointMagic, sizeof word);
  return word;
}

// Return the sizes that the header gives; throw InputError.
Sizes read_header(const std::vector<Word>& words, Checkpoint& to, Index& mask_bytes) {
  if (words[0] != magic())
    throw InputError("not a checkpoint; one that this version's training wrote accepted");
  std::size_t at = 1;
  from_word(words[at++], to.step);
  from_word(words[at++], to.planned_steps);
  from_word(words[at++], to.text_mark);
  from_word(words[at++], mask_bytes);
  for_header(to.settings, [&](auto& value) { from_word(words[at++], value); });
  if (to.step < 0 || to.planned_steps < 0) throw InputError("damaged: a negative number of steps");
  if (mask_bytes < 0 || mask_bytes > kMaxMaskBytes) throw InputError("damaged: the mask's length");
  return sizes_of(mask_bytes, ModelWeights(to.settings.shape).layout.size());
}

// Read a checkpoint of `size` bytes. read_bytes(to, count) reads its first `count` bytes.
template <class ReadBytes>
Checkpoint read(Index size, const ReadBytes& read_bytes) {
  Checkpoint result;
  std::vector<Word> words(static_cast<std::size_t>(header_words()));
  const Index header_bytes = header_words() * kWordBytes;
  if (size < header_bytes)
    throw InputError(fmt::format("{} bytes, too few for a checkpoint", size));
  read_bytes(reinterpret_cast<char*>(words.data()), header_bytes);
  Index mask_bytes = 0;
  const Sizes sizes = read_header(words, result, mask_bytes);
  if (size != sizes.total())
    throw InputError(fmt::format("cut short or damaged: {} bytes, where its header says {}", size,
                                 sizes.total()));

  words.resize(static_cast<std::size_t>(sizes.total() / kWordBytes));
  read_bytes(reinterpret_cast<char*>(words.data()), sizes.total());
  if (checksum_of(words, words.size() - 1) != words.back())
    throw InputError("damaged: its checksum is not that of what it holds");

  const char* const bytes = reinterpret_cast<const char*>(words.data());
  result.settings.mask.assign(bytes + sizes.header, static_cast<std::size_t>(mask_bytes));
  validate(result.settings);
  const auto parameters =
      static_cast<std::size_t>(ModelWeights(result.settings.shape).layout.size());
  result.values.resize(parameters);
  result.moments.resize(2 * parameters);
  const char* const floats = bytes + sizes.header + sizes.mask;
  std::memcpy(result.values.data(), floats, parameters * sizeof(float));
  std::memcpy(result.moments.data(), floats + parameters * sizeof(float),
              2 * parameters * sizeof(float));
  return result;
}

}  // namespace

std::uint64_t text_mark(std::string_view text) {
  Word mark = text.size();
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    mark = mix64(mark ^ word);
  }
  return mark == 0 ? 1 : mark;
}

std::string to_bytes(const Checkpoint& checkpoint) {
  const auto weights =
      static_cast<std::size_t>(ModelWeights(checkpoint.settings.shape).layout.size());
  if (checkpoint.values.size() != weights || checkpoint.moments.size() != 2 * weights)
    throw std::invalid_argument(
        fmt::format("a checkpoint with {} values and {} moments, of a model of {} weights",
                    checkpoint.values.size(), checkpoint.moments.size(), weights));
  const std::string& mask = checkpoint.settings.mask;
  const Sizes sizes =
      sizes_of(static_cast<Index>(mask.size()), static_cast<Index>(checkpoint.values.size()));
  std::vector<Word> words(static_cast<std::size_t>(sizes.total() / kWordBytes));
  std::size_t at = 0;
  words[at++] = magic();
  words[at++] = word_of(checkpoint.step);
  words[at++] = word_of(checkpoint.planned_steps);
  words[at++] = checkpoint.text_mark;
  words[at++] = mask.size();
  for_header(checkpoint.settings, [&](const auto& value) { words[at++] = word_of(value); });
  char* const bytes = reinterpret_cast<char*>(words.data());
  std::memcpy(bytes + sizes.header, mask.data(), mask.size());
  char* const floats = bytes + sizes.header + sizes.mask;
  const std::size_t value_bytes = checkpoint.values.size() * sizeof(float);
  std::memcpy(floats, checkpoint.values.data(), value_bytes);
  std::memcpy(floats + value_bytes, checkpoint.moments.data(), 2 * value_bytes);
  words.back() = checksum_of(words, words.size() - 1);

  return {bytes, static_cast<std::size_t>(sizes.total())};
}

Checkpoint checkpoint_from(std::string_view bytes) {
  return read(static_cast<Index>(bytes.size()), [&](char* to, Index count) {
    std::memcpy(to, bytes.data(), static_cast<std::size_t>(count));
  });
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  write_file(path, to_bytes(checkpoint));
}

Checkpoint load_checkpoint(const std::string& path) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "checkpoint");
    return read(file.size(), [&](char* to, Index count) { file.read(to, count, 0); });
  });
}

}  // namespace ringscope
