// `ringscope generate` continues a text from a checkpoint, with a thread or a process per rank.
#include <fmt/format.h>
#include <rapidjson/encodings.h>
#include <rapidjson/stream.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/threads/generated_rows.h"
#include "core/training/generate.h"

namespace ringscope {

// A checkpoint, a prompt, and how the text continues.
struct GenerateRequest {
  std::string checkpoint;                          // a file
  std::optional<std::string> prompt, prompt_file;  // at most one; none: a line's beginning
  GenerateOptions options;                         // without the prompt
  RankOptions ranks;
  bool json = false;
};

namespace {

// Return every byte as two digits, each behind `prefix`.
std::string in_digits(std::string_view bytes, std::string_view prefix) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{}{:02x}", prefix, static_cast<unsigned char>(c));
  return text;
}

// Return whether a terminal can be given `character`: UTF-8, and no control character but tab and
// line end, nor a mark that changes the direction of the text around it.
bool is_safe(const std::string& character) {
  rapidjson::StringStream bytes(character.c_str());
  unsigned code = 0;
  if (!rapidjson::UTF8<>::Decode(bytes, &code)) return false;
  const auto within = [code](unsigned first, unsigned last) {
    return first <= code && code <= last;
  };
  return code == '\t' || code == '\n' ||
         !(within(0, 0x1f) || within(0x7f, 0x9f) || within(0x200e, 0x200f) ||
           within(0x2028, 0x202e) || within(0x2066, 0x2069));
}

// Makes a text safe for a terminal byte by byte, as shown() does. A character of several bytes appears
// when it is whole.
class ShownText {
 public:
  // Return what can be shown after `byte`: often nothing, because a character is not yet whole.
  std::string add(unsigned char byte) {
    const bool goes_on = byte >= 0x80 && byte < 0xc0;
    std::string text = goes_on ? "" : finish();
    held_ += static_cast<char>(byte);
    const auto first = static_cast<unsigned char>(held_[0]);
    if (held_.size() < (first < 0xc0 ? 1u : first < 0xe0 ? 2u : first < 0xf0 ? 3u : 4u))
      return text;
    return text + (is_safe(held_) ? std::exchange(held_, "") : finish());
  }
  // Return the rest at the end of the text.
  std::string finish() { return in_digits(std::exchange(held_, ""), "\\x"); }

 private:
  std::string held_;  // the beginning of a character
};

// Return a text of any bytes as it is safe for a terminal: printable UTF-8, tabs and line ends as they
// are, and everything else as \x and two digits. So a badly trained model can do no harm.
std::string shown(std::string_view text) {
  ShownText shown_text;
  std::string result;
  for (const char c : text) result += shown_text.add(static_cast<unsigned char>(c));
  return result + shown_text.finish();
}

constexpr int kMostThreadRanks = 256;  // each has two threads; with more, a byte takes seconds

std::string prompt_of(const GenerateRequest& request) {
  if (request.prompt) return *request.prompt;
  if (!request.prompt_file) return GenerateOptions().prompt;
  const std::string& path = *request.prompt_file;
  return for_flag("--prompt-file", [&] {
    const Index bytes = text_length(path);
    if (bytes < 1 || bytes > kMostPromptBytes)
      throw InputError(
          fmt::format("'{}': {} bytes given; accepted: 1 to {}", path, bytes, kMostPromptBytes));
    return read_text(path, bytes);
  });
}

void check(const GenerateRequest& request) {
  if (request.ranks.backend == Backend::cpu &&
      request.ranks.world_size.value_or(1) > kMostThreadRanks)
    contradiction("--world-size",
                  fmt::format("{} given with --backend cpu", *request.ranks.world_size),
                  fmt::format("1 to {}", kMostThreadRanks));
  if (request.prompt && request.prompt_file)
    contradiction("--prompt-file", "given beside --prompt", "one of them");
  if (request.prompt && request.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
}

// The inputs, read from files.
struct GenerateInputs {
  Checkpoint checkpoint;
  GenerateOptions options;
};

// Throw RunError when all ranks in this process, or `one_rank`, need more memory than there is.
void require_memory_for(const GenerateInputs& inputs, const Deal& deal,
                        std::optional<int> one_rank) {
  const Checkpoint& checkpoint = inputs.checkpoint;
  // Besides the ranks' memory, count the checkpoint and its bytes while they are broadcast.
  double needed =
      2 * sizeof(float) * static_cast<double>(checkpoint.values.size() + checkpoint.moments.size());
  const int first = one_rank.value_or(0), last = one_rank.value_or(deal.world_size - 1);
  for (int rank = first; rank <= last; ++rank)
    needed += generating_bytes(checkpoint.settings, deal, inputs.options, rank);
  require_bytes(needed);
}

// Read the files. Check that the ranks of `deal` can continue with what they hold, and that the
// memory suffices for all ranks, or for `one_rank`. Throw InputError that names the flag; throw
// RunError as that does.
GenerateInputs read_inputs(const GenerateRequest& request, const Deal& deal,
                           std::optional<int> one_rank) {
  GenerateInputs inputs;
  inputs.checkpoint = for_flag("--checkpoint", [&] { return load_checkpoint(request.checkpoint); });
  inputs.options = request.options;
  inputs.options.prompt = prompt_of(request);
  for_flag("--checkpoint '" + request.checkpoint + "':",
           [&] { validate(inputs.checkpoint, deal, inputs.options); });
  require_memory_for(inputs, deal, one_rank);
  return inputs;
}

Fields speed_fields(Index bytes, double seconds, const WireCount& sent) {
  return {{"bytes", bytes},
          {"seconds", seconds},
          {"bytes_per_s",
           bytes > 0 ? std::optional(static_cast<double>(bytes) / seconds) : std::nullopt},
          {"messages_sent", sent.messages},
          {"bytes_sent", sent.bytes}};
}

std::string generate_json(const GenerateRequest& request, const GenerateInputs& inputs,
                          const Generated& generated) {
  const GenerateOptions& options = inputs.options;
  WireCount prefill, decode;
  double prefill_s = 0, decode_s = 0;  // of the slowest rank
  std::vector<Fields> ranks;
  for (const GeneratedShare& share : generated.shares) {
    prefill += share.prefill;
    decode += share.decode;
    prefill_s = std::max(prefill_s, share.prefill_s);
    decode_s = std::max(decode_s, share.decode_s);
    ranks.push_back({{"rank", ranks.size()},
                     {"prompt_rows", share.prompt_rows},
                     {"generated_rows", share.generated_rows},
                     {"shard_bytes", share.shard_bytes},
                     {"peak_bytes", share.peak_bytes}});
  }
  return json_line(
      {{"checkpoint", shown(request.checkpoint)},
       {"step", inputs.checkpoint.step},
       {"backend", name_of(request.ranks.backend)},
       {"world_size", ranks.size()},
       {"partition", name_of(request.ranks.partition)},
       {"temperature", options.sampling.temperature},
       {"seed", std::to_string(options.sampling.seed)},
       {"prompt", shown(options.prompt)},
       {"text", shown(generated.text)},
       {"prompt_hex", in_digits(options.prompt, "")},  // from which the bytes can be recovered
       {"text_hex", in_digits(generated.text, "")},
       {"prefill", speed_fields(std::ssize(options.prompt), prefill_s, prefill)},
       {"decode", speed_fields(options.bytes - 1, decode_s, decode)},
       {"ranks", ranks}});
}

// ---
// The output of a run: the text as it is generated, or with --json everything at the end.

class GenerateOutput {
 public:
  // Both arguments must outlive this object.
  GenerateOutput(const GenerateRequest& request, const GenerateInputs& inputs)
      : request_(request),
        inputs_(inputs),
        is_read_as_it_comes_(!request.json && ::isatty(STDOUT_FILENO) == 1) {}

  // Return the run's callback. It must not be called after end().
  OnByte on_byte() {
    return [this](std::uint8_t byte) { say(byte); };
  }

  // `generated` holds the shares of all ranks. Throw RunError when stdout can't be written to.
  void end(const Generated& generated) {
    bar_.reset();
    if (request_.json) return print_out(generate_json(request_, inputs_, generated));
    print(shown_.finish());
    if (!is_at_line_begin_) print("\n");
  }

 private:
  void say(std::uint8_t byte) {
    if (said_++ == 0) {
      if (!is_read_as_it_comes_) draw_ = bar_.emplace("text").callback();
      // Bytes of the prompt and generated bytes may form one character.
      std::string prompt;
      if (request_.prompt || request_.prompt_file)
        for (const char c : inputs_.options.prompt)
          prompt += shown_.add(static_cast<unsigned char>(c));
      print(prompt);
    }
    print(shown_.add(byte));
    if (draw_) draw_(static_cast<double>(said_) / static_cast<double>(inputs_.options.bytes));
  }
  void print(const std::string& text) {
    if (request_.json || text.empty()) return;
    print_out(text);
    is_at_line_begin_ = text.back() == '\n';
  }

  const GenerateRequest& request_;
  const GenerateInputs& inputs_;
  bool is_read_as_it_comes_;  // on a terminal, where the text shows the progress
  std::optional<ProgressBar> bar_;
  std::function<void(double)> draw_;  // of the bar
  ShownText shown_;
  Index said_ = 0;
  bool is_at_line_begin_ = true;
};

class GenerateJob : public Job {
 public:
  GenerateJob(MpiSession* session, const GenerateRequest& request)
      : Job(session), request_(request) {
    inputs_.options = request.options;
  }

  // Read the files on rank 0, because no other rank opens any.
  void prepare() override {
    ranks_ = world_size(request_.ranks.world_size, kDefaultWorldSize);
    if (is_first()) inputs_ = read_inputs(request_, deal(), rank());
  }

  void run() override {
    if (rank()) learn_of_inputs();
    if (is_first()) output_.emplace(request_, inputs_);
    generated_ = generate();
  }

  int conclude() override {
    output_->end(generated_);
    return 0;
  }

 private:
  void learn_of_inputs() {
    const std::string checkpoint =
        broadcast(is_first() ? to_bytes(inputs_.checkpoint) : std::string());
    inputs_.options.prompt = broadcast(inputs_.options.prompt);
    if (is_first()) return;
    inputs_.checkpoint = checkpoint_from(checkpoint);
    require_memory_for(inputs_, deal(), rank());
  }

  Deal deal() const {
    return {.partition = request_.ranks.partition, .world_size = ranks_, .hops = Hops::needed};
  }
  Generated generate() {
    const OnByte on_byte = output_ ? output_->on_byte() : OnByte();
#ifdef RINGSCOPE_HAS_MPI
    if (rank())
      return generate_on_mpi(*session_, inputs_.checkpoint, deal(), inputs_.options, on_byte);
#endif
    return generate_on_threads(inputs_.checkpoint, deal(), inputs_.options, on_byte);
  }

  const GenerateRequest& request_;
  int ranks_ = 0;
  GenerateInputs inputs_;
  std::optional<GenerateOutput> output_;  // only on rank 0
  Generated generated_;
};

}  // namespace

std::unique_ptr<Job> job_of(MpiSession* session, const GenerateRequest& request) {
  return std::make_unique<GenerateJob>(session, request);
}

Finish declare_generate(CommandFlags& flags) {
  const auto request = std::make_shared<GenerateRequest>();
  GenerateOptions& options = request->options;
  double& temperature = options.sampling.temperature = 0.8;
  flags.path("--checkpoint", request->checkpoint, "what train --checkpoint has written");
  flags.require("--checkpoint");
  flags.text("--prompt", "TEXT", request->prompt,
             "what the text begins with (a new line, which is not printed)");
  flags.path("--prompt-file", request->prompt_file, "or: the bytes of a file");
  flags.integer("--bytes", options.bytes, fmt::format("how many follow ({})", options.bytes), 1,
                kMostGeneratedBytes);
  flags.number(
      "--temperature", temperature, kFrom0,
      fmt::format("of the draw: below 1 rather the likelier bytes; 0: always the likeliest "
                  "({:g})",
                  temperature));
  flags.integer("--seed", options.sampling.seed, "of the draw (0)", 0);
  add_ranks(flags, request->ranks, kDefaultWorldSize, "positions of the prompt");
  add_timeout(flags, request->ranks, "mpi");
  flags.flag("--json", request->json,
             "print text, speed, bytes on the wire and shards as one JSON object");
  return [request] {
    check(*request);
    return *request;
  };
}

}  // namespace ringscope
