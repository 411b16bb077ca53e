#include "core/training/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/attention/vectors.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/training/rank_threads.h"

namespace ringscope {

std::uint8_t sample(const Sampling& sampling, Index vocab, const float* logits,
                    std::uint64_t place) {
  for (Index i = 0; i < vocab; ++i)
    if (!std::isfinite(logits[i]))
      throw RunError(fmt::format("the logit of byte {} is {}", i, logits[i]));
  const float* const largest = std::max_element(logits, logits + vocab);
  const auto likeliest = static_cast<std::uint8_t>(largest - logits);
  if (sampling.temperature == 0) return likeliest;
  const auto weight = [&](Index i) {
    return std::exp((static_cast<double>(logits[i]) - *largest) / sampling.temperature);
  };
  double sum = 0;
  for (Index i = 0; i < vocab; ++i) sum += weight(i);
  constexpr std::uint64_t kStream = 0x73616d70;  // used by no other draws
  double rest = unit_interval(random_bits(sampling.seed, kStream, place)) * sum;
  for (Index i = 0; i < vocab; ++i)
    if ((rest -= weight(i)) < 0) return static_cast<std::uint8_t>(i);
  return likeliest;  // rounding left a last bit of `rest`
}

namespace {

// Return whether a prompt's rows are the same in the longer text: no position beyond it attends later
// ones, and the mask is of both lengths.
bool goes_on(const MaskSpec& spec, Index prompt, Index length) {
  try {
    spec.for_seqlen(prompt);
    const Mask mask = spec.for_seqlen(length);
    return !mask.is_in_pieces() && (mask.causal || (mask.prefix >= 0 && mask.prefix <= prompt));
  } catch (const InputError&) {
    return false;
  }
}

// Return the attention that reads the prompt.
Problem prefill_of(TrainingSettings settings, const Deal& deal, const std::string& prompt) {
  settings.batch = 1;
  settings.seqlen = std::ssize(prompt);
  return attention_problem(settings, deal);
}

}  // namespace

void validate(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options) {
  const auto prompt = static_cast<Index>(options.prompt.size());
  require_between("prompt bytes", prompt, 1, kMostPromptBytes);
  require_between("bytes", options.bytes, 1, kMostGeneratedBytes);
  require_between("world-size", deal.world_size, 1);
  if (const double temperature = options.sampling.temperature;
      !(temperature >= 0) || !std::isfinite(temperature))
    throw InputError(fmt::format("temperature: {} given, 0 or above accepted", temperature));
  const Index vocab = checkpoint.settings.shape.vocab;
  for (const char c : options.prompt)
    if (const auto byte = static_cast<unsigned char>(c); byte >= vocab)
      throw InputError(
          fmt::format("prompt: a byte of {} given, below {} accepted by this model", byte, vocab));
  const std::string& mask = checkpoint.settings.mask;
  if (!goes_on(MaskSpec::parse(mask), prompt, prompt + options.bytes))
    throw InputError(
        fmt::format("mask: '{}' given, with which a text of {} bytes can't be gone on with; "
                    "causal accepted, with a window, or a prefix within the prompt",
                    mask, prompt));
}

GeneratingRank::GeneratingRank(const Checkpoint& checkpoint, const Deal& deal,
                               const GenerateOptions& options, Communicator& comm, RankPulse* pulse)
    : options_(options),
      prompt_{deal.partition, static_cast<Index>(options.prompt.size()), deal.world_size},
      pulse_(pulse),
      comm_(comm),
      weights_(checkpoint.settings.shape),
      mask_(MaskSpec::parse(checkpoint.settings.mask)),
      store_(weights_.layout, 0, &meter_),
      ring_(std::make_unique<ContextRing>(prefill_of(checkpoint.settings, deal, options.prompt),
                                          comm_, pulse)),
      model_(std::make_unique<Model>(weights_, *ring_)) {
  std::copy(checkpoint.values.begin(), checkpoint.values.end(), store_.values());
}

std::string GeneratingRank::generate(const OnByte& on_byte) {
  const std::int64_t begin_ns = monotonic_ns();
  read_prompt();
  share_.prefill_s = seconds_since(begin_ns);

  const std::int64_t decode_ns = monotonic_ns();
  std::string text = go_on(rank() == 0 ? on_byte : OnByte());
  share_.decode_s = seconds_since(decode_ns);
  share_.decode = comm_.take();
  share_.prompt_rows = prompt_.rows_of(rank()).size();
  for (Index layer = 0; layer < weights_.shape.layers; ++layer) {
    share_.generated_rows = decoder_->shard(layer).rows() - share_.prompt_rows;
    share_.shard_bytes += decoder_->shard(layer).bytes();
  }
  share_.peak_bytes = max_of(share_.peak_bytes, meter_.peak_bytes());
  return text;
}

void GeneratingRank::read_prompt() {
  const char* const bytes = options_.prompt.c_str();  // with a 0 for the byte after the last
  model_->loss(store_, take_rows(reinterpret_cast<const std::uint8_t*>(bytes), 1, prompt_.seqlen,
                                 ring_->local_rows()));

  decoder_ =
      std::make_unique<Decoder>(weights_, store_, *model_, ring_->ring_problem(),
                                mask_.for_seqlen(prompt_.seqlen + options_.bytes), comm_, &meter_);
  decoder_->share_logits(*model_);
  share_.prefill = comm_.take();
  share_.peak_bytes = meter_.current_bytes() + ring_->meter().peak_bytes();
  model_.reset();
  ring_.reset();
}

std::string GeneratingRank::go_on(const OnByte& on_byte) {
  std::string text;
  for (Index i = 0; i < options_.bytes; ++i) {
    if (pulse_ != nullptr) {
      pulse_->at(Pass::forward, static_cast<int>(i));
      pulse_->tick();
    }
    // The place is that in the whole text, so a text given again as a prompt goes on likewise.
    const std::uint8_t byte = sample(options_.sampling, weights_.shape.vocab, decoder_->logits(),
                                     static_cast<std::uint64_t>(decoder_->position()));
    text += static_cast<char>(byte);
    if (on_byte) on_byte(byte);
    if (i + 1 < options_.bytes) decoder_->step(&byte);
  }
  return text;
}

Generated generate_on_threads(const Checkpoint& checkpoint, const Deal& deal,
                              const GenerateOptions& options, const OnByte& on_byte) {
  validate(checkpoint, deal, options);
  Generated result;
  const auto ranks = run_rank_threads(
      deal.world_size,
      [&](Communicator& comm) {
        return std::make_unique<GeneratingRank>(checkpoint, deal, options, comm);
      },
      [&](GeneratingRank& rank) {
        std::string text = rank.generate(on_byte);
        if (rank.rank() == 0) result.text = std::move(text);
      });
  for (const auto& rank : ranks) result.shares.push_back(rank->share());
  return result;
}

// The weights have gradients beside them, which generating doesn't use. The most of the rest is held
// when the prompt's keys and values have been taken over, or at the end.
double generating_bytes(const TrainingSettings& settings, const Deal& deal,
                        const GenerateOptions& options, int rank) {
  const ModelShape& shape = settings.shape;
  Problem problem = prefill_of(settings, deal, options.prompt);
  problem.layers = shape.layers;
  const Index rows = problem.rows(rank);
  const auto shards = [&](Index its_rows) {
    const Index row =
        shape.num_heads_kv * (shape.head_dim + round_up(shape.head_dim, vector_width()));
    return static_cast<double>(4 * shape.layers * round_up(its_rows, KvShard::kPageRows) * row);
  };
  const double prefill =
      total_bytes(activation_parts(problem, sizes_of(shape), {}, static_cast<double>(rows)));
  const Index generated = ceil_div(max_of(options.bytes - 1 - rank, 0), deal.world_size);
  return 8 * static_cast<double>(ModelWeights(shape).layout.size()) +
         std::max(prefill + shards(rows), shards(rows + generated));
}

}  // namespace ringscope
