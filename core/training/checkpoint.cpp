#include "core/training/checkpoint.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>

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
  Problem problem = attention_problem(
      share_of(settings.shape, deal.tensor), settings.batch / deal.data, settings.seqlen,
      MaskSpec::parse(settings.mask), deal.partition, deal.world_size);
  problem.dtype = deal.dtype;
  problem.hops = deal.hops;
  return problem;
}

std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal,
                                        int rank) {
  Problem problem = attention_problem(settings, deal);
  problem.layers = settings.shape.layers;
  const double rows = rank < 0
                          ? problem.max_rows()
                          : static_cast<double>(problem.rows(rank / deal.tensor % deal.world_size));
  const ModelMemory memory{.chunks = deal.chunks, .replicas = deal.data};
  problem.dtype = DType::f32;
  std::vector<MemoryPart> parts =
      model_memory_parts(problem, sizes_of(share_of(settings.shape, deal.tensor)), memory, rows);
  const auto add = [&](const char* name, Index values, const char* formula) {
    parts.push_back({MemoryPart::Kind::other, name, 4 * static_cast<double>(values), formula});
  };
  if (deal.dtype != DType::f32) {
    // Only Q, K, V and dO are stored in 16 bits; memory_parts() has O, too.
    problem.dtype = deal.dtype;
    problem.layers = memory.kept_attentions(settings.shape.layers) + 1;
    const std::vector<MemoryPart> attention = memory_parts(problem, rows);
    std::copy(attention.begin(), attention.end(), parts.begin());
    add("other layers' O: the rest of f32",
        memory.kept_attentions(settings.shape.layers) *
            query_values(problem.shape, static_cast<Index>(rows)) / 2,
        "(L-1) 2 b c d H");
    add("rounded rows of an operand, f32", MatrixProduct::kRows * kPackedRows, "4 x 96 x 256");
  }
  if (deal.tensor > 1) {
    const Index values = problem.shape.batch * static_cast<Index>(rows) * settings.shape.width;
    add("sum over the tensor ranks: incoming", values_of_a_reduction_hop(values, deal.tensor),
        "4 min(W T / tensor, 2^18)");
  }
  return parts;
}

namespace {

static_assert(std::endian::native == std::endian::little);

using Word = std::uint64_t;

constexpr Index kWordBytes = sizeof(Word);
constexpr char kCheckpointMagic[] = "rscp 003";  // one word
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

template <class T>
Word word_of(T value) {
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<Word>(value);
  return static_cast<Word>(value);
}
template <class T>
void from_word(Word word, T& value) {
  if constexpr (std::is_same_v<T, double>)
    value = std::bit_cast<double>(word);
  else
    value = static_cast<T>(word);
}

Word word_at(std::string_view bytes, Index index) {
  Word word = 0;
  std::memcpy(&word, bytes.data() + index * kWordBytes, sizeof word);
  return word;
}
void append(std::string& bytes, Word word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
}
void append(std::string& bytes, const std::vector<float>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
void fill_up(std::string& bytes) { bytes.resize(round_up(std::ssize(bytes), kWordBytes)); }

Index header_bytes() {
  Index words = 3;  // magic, step, length of the mask's text
  TrainingSettings settings;
  for_header(settings, [&](auto&) { ++words; });
  return words * kWordBytes;
}

// Return a checksum in which each word is mixed with all words before it. Two files that differ in
// one word have different checksums, because mix64 never maps two words to one.
Word checksum_of(std::string_view bytes) {
  Word sum = 0;
  for (Index i = 0; i < std::ssize(bytes) / kWordBytes; ++i)
    sum = mix64(sum ^ word_at(bytes, i)) + static_cast<Word>(i);
  return sum;
}

struct Header {
  Checkpoint checkpoint;  // without its mask, values and moments
  Index mask_bytes = 0;
  Index parameters = 0;
};

// Read the header of a checkpoint of `size` bytes, which `bytes` begin with. Throw InputError, also
// unless the header's counts are those of the size.
Header read_header(std::string_view bytes, Index size) {
  if (size < header_bytes())
    throw InputError(fmt::format("{} bytes, too few for a checkpoint", size));
  if (!bytes.starts_with(kCheckpointMagic))
    throw InputError("not a checkpoint; one that this version's training wrote accepted");
  Header header;
  Checkpoint& to = header.checkpoint;
  Index at = 1;
  const auto next = [&](auto& value) { from_word(word_at(bytes, at++), value); };
  next(to.step), next(header.mask_bytes);
  for_header(to.settings, next);
  if (to.step < 0) throw InputError("damaged: a negative number of steps");
  if (header.mask_bytes < 0 || header.mask_bytes > kMaxMaskBytes)
    throw InputError("damaged: the mask's length");
  header.parameters = ModelWeights(to.settings.shape).layout.size();
  const Index total = header_bytes() + round_up(header.mask_bytes, kWordBytes) +
                      round_up(12 * header.parameters, kWordBytes) + kWordBytes;
  if (size != total)
    throw InputError(
        fmt::format("cut short or damaged: {} bytes, where its header says {}", size, total));
  return header;
}

}  // namespace

std::string to_bytes(const Checkpoint& checkpoint) {
  const auto weights =
      static_cast<std::size_t>(ModelWeights(checkpoint.settings.shape).layout.size());
  if (checkpoint.values.size() != weights || checkpoint.moments.size() != 2 * weights)
    throw std::invalid_argument(
        fmt::format("a checkpoint with {} values and {} moments, of a model of {} weights",
                    checkpoint.values.size(), checkpoint.moments.size(), weights));
  std::string bytes = kCheckpointMagic;
  const auto add = [&](const auto& value) { append(bytes, word_of(value)); };
  add(checkpoint.step), add(checkpoint.settings.mask.size());
  for_header(checkpoint.settings, add);
  bytes += checkpoint.settings.mask;
  fill_up(bytes);
  append(bytes, checkpoint.values);
  append(bytes, checkpoint.moments);
  fill_up(bytes);
  append(bytes, checksum_of(bytes));
  return bytes;
}

Checkpoint checkpoint_from(std::string_view bytes) {
  const Header header = read_header(bytes, std::ssize(bytes));
  const std::string_view summed = bytes.substr(0, bytes.size() - sizeof(Word));
  if (checksum_of(summed) != word_at(bytes, std::ssize(summed) / kWordBytes))
    throw InputError("damaged: its checksum is not that of what it holds");
  Checkpoint result = header.checkpoint;
  result.settings.mask = bytes.substr(static_cast<std::size_t>(header_bytes()),
                                      static_cast<std::size_t>(header.mask_bytes));
  validate(result.settings);
  const char* floats = bytes.data() + header_bytes() + round_up(header.mask_bytes, kWordBytes);
  const auto take = [&](std::vector<float>& values, Index count) {
    values.resize(count);
    std::memcpy(values.data(), floats, values.size() * sizeof(float));
    floats += values.size() * sizeof(float);
  };
  take(result.values, header.parameters);
  take(result.moments, 2 * header.parameters);
  return result;
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  write_file(path, to_bytes(checkpoint));
}

Checkpoint load_checkpoint(const std::string& path) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "checkpoint");
    std::string bytes;
    const auto read = [&](Index count) {
      bytes.resize(count);
      file.read(bytes.data(), count, 0);
    };
    read(min_of(file.size(), header_bytes()));
    read_header(bytes, file.size());  // before memory is taken for all of it
    read(file.size());
    return checkpoint_from(bytes);
  });
}

}  // namespace ringscope
