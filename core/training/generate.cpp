#include "core/training/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/attention/vectors.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/training/layers.h"
#include "core/training/rank_threads.h"

namespace ringscope {

namespace {

// Return the rank of a sequence's last row, which is the last of that rank's rows.
int rank_of_last(const Partition& partition) {
  for (int rank = 0; rank < partition.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    if (rows.rows_below(partition.seqlen - 1) < rows.size()) return rank;
  }
  return 0;
}

}  // namespace

Decoder::Decoder(const ModelWeights& weights, const ParameterStore& store, Model& model,
                 const RingProblem& prompt, const Mask& mask, Communicator& comm,
                 MemoryMeter* meter)
    : weights_(weights),
      store_(store),
      params_(prompt.params),
      prompt_(prompt.partition),
      mask_(mask),
      comm_(comm),
      batch_(params_.batch),
      position_(prompt_.seqlen),
      attention_(params_, comm.world_size(), meter),
      stream_(meter, batch_ * weights.shape.width),
      normed_(meter, stream_.size()),
      rms_(meter, batch_),
      query_(meter, query_values(params_, 1)),
      key_(meter, kv_values(params_, 1)),
      value_(meter, key_.size()),
      out_(meter, query_.size()),
      hidden_(meter, batch_ * weights.shape.hidden),
      up_(meter, hidden_.size()),
      logits_(meter, batch_ * weights.shape.vocab) {
  shards_.reserve(weights.layers.size());
  for (Index layer = 0; layer < weights.shape.layers; ++layer) {
    shards_.emplace_back(params_, prompt_, comm.rank(), meter);
    const auto [k, v] = model.recall_kv(layer);
    shards_.back().fill(k, v);
  }
}

void Decoder::share_logits(const Model& model) {
  const Index vocab = weights_.shape.vocab, rows = prompt_.rows_of(comm_.rank()).size();
  const int n = comm_.world_size(), owner = rank_of_last(prompt_);
  const int place = (comm_.rank() - owner + n) % n;  // in the ring, from the owner on
  if (place == 0)
    for (Index b = 0; b < batch_; ++b)
      std::copy_n(model.logits() + ((b + 1) * rows - 1) * vocab, vocab, logits_.data() + b * vocab);
  for (int step = 0; step + 1 < n; ++step) {
    Exchange hop{.payload = Payload::dkv, .step = step, .send_owner = owner, .recv_owner = owner};
    if (place == step) hop.send = logits_.data(), hop.send_bytes = logits_.bytes();
    if (place == step + 1) hop.recv = logits_.data(), hop.recv_bytes = logits_.bytes();
    with_step_in_errors(comm_.rank(), step, [&] { wait_for(comm_.exchange(hop, {})); });
  }
}

void Decoder::norm(const Parameter& gain) {
  rms_norm_forward(batch_, weights_.shape.width, weights_.shape.norm_epsilon, stream_.data(),
                   store_.value(gain), normed_.data(), rms_.data());
}

void Decoder::project(const Parameter& weight, Buffer<float>& to) {
  linear_forward(product_, store_, weight, batch_, normed_.data(), Store::overwrite, to.data());
}

// [decode_step
void Decoder::step(const std::uint8_t* bytes) {
  const Index width = weights_.shape.width;
  embedding_forward(batch_, width, bytes, store_.value(weights_.embedding), stream_.data());
  for (Index i = 0; i < weights_.shape.layers; ++i) {
    attend(weights_.layers[i], shards_[i]);
    feed_forward(weights_.layers[i]);
  }
  norm(weights_.final_gain);
  product_(Store::overwrite, row_major(normed_.data(), batch_, width),
           store_.matrix(weights_.head).transposed(), logits_.data());
  ++position_;
}

void Decoder::attend(const LayerWeights& layer, KvShard& shard) {
  norm(layer.attention_gain);
  project(layer.query, query_);
  project(layer.key, key_);
  project(layer.value, value_);
  const Rotary rotary({{{position_, 1, 1}, {position_ + 1, 1, 0}}, false}, params_.head_dim,
                      weights_.shape.rotary_base);
  rotary.turn(batch_, params_.num_heads, query_.data());
  rotary.turn(batch_, params_.num_heads_kv, key_.data());

  shard.append(key_.data(), value_.data());
  attention_(comm_, shard, mask_.allowed_keys(position_), query_.data(), out_.data(), nullptr);
  linear_forward(product_, store_, layer.output, batch_, out_.data(), Store::accumulate,
                 stream_.data());
}
// decode_step]

void Decoder::feed_forward(const LayerWeights& layer) {
  norm(layer.mlp_gain);
  project(layer.gate, hidden_);
  project(layer.up, up_);
  swiglu_forward(hidden_.size(), hidden_.data(), up_.data(), hidden_.data());
  linear_forward(product_, store_, layer.down, batch_, hidden_.data(), Store::accumulate,
                 stream_.data());
}

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
