#include "app/generate/generate_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "app/report/json_writer.h"
#include "app/report/terminal.h"
#include "core/decode/generate.h"

namespace ringscope {

namespace {

std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Of a character whose first byte this is; 0: none begins like that.
std::size_t length_of(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// Whether `byte` may be the second one: no character is spelled longer than it has to be, half of a
// surrogate pair, or above U+10FFFF.
bool may_follow(std::uint8_t first, std::uint8_t byte) {
  const std::uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return byte >= least && byte <= most;
}

// U+0000 to U+001F but for tab and line end, U+007F to U+009F, and the marks that turn the
// direction of what is around them.
bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  const auto second = static_cast<std::uint8_t>(character[1]);
  if (first == 0xc2) return second < 0xa0;
  if (first != 0xe2) return false;
  const auto third = static_cast<std::uint8_t>(character[2]);
  return (second == 0x80 &&
          ((third >= 0x8e && third <= 0x8f) || (third >= 0xa8 && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

}  // namespace

std::string ShownText::add(std::uint8_t byte) {
  std::string text;
  if (!held_.empty()) {
    const auto first = static_cast<std::uint8_t>(held_[0]);
    const bool fits = held_.size() == 1 ? may_follow(first, byte) : byte >= 0x80 && byte <= 0xbf;
    if (!fits) text = finish();
  }
  held_ += static_cast<char>(byte);
  const std::size_t length = length_of(static_cast<std::uint8_t>(held_[0]));
  if (held_.size() < length) return text;
  if (length == 0 || is_control(held_)) return text + finish();
  return text + std::exchange(held_, "");
}

std::string ShownText::finish() { return escaped(std::exchange(held_, "")); }

std::string shown(std::string_view text) {
  ShownText shown_text;
  std::string result;
  for (const char c : text) result += shown_text.add(static_cast<std::uint8_t>(c));
  return result + shown_text.finish();
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

GenerateOutput::GenerateOutput(const GenerateRequest& request, const GenerateInputs& inputs)
    : request_(request),
      inputs_(inputs),
      is_read_as_it_comes_(!request.json && ::isatty(STDOUT_FILENO) == 1) {}

OnPrefill GenerateOutput::on_prefill() {
  bar_.emplace("prompt");
  return bar_->callback();
}

OnByte GenerateOutput::on_byte() {
  return [this](std::uint8_t byte) { say(byte); };
}

void GenerateOutput::say(std::uint8_t byte) {
  if (said_++ == 0) {
    bar_.reset();  // what it is drawn on belongs to the text now
    if (!is_read_as_it_comes_) draw_ = bar_.emplace("text").callback();
    // Bytes of the prompt and those that follow may be one character.
    std::string prompt;
    if (request_.prompt || request_.prompt_file)
      for (const char c : inputs_.options.prompt)
        prompt += shown_.add(static_cast<unsigned char>(c));
    print(prompt);
  }
  print(shown_.add(byte));
  if (draw_) draw_(static_cast<double>(said_) / static_cast<double>(inputs_.options.bytes));
}

void GenerateOutput::print(const std::string& text) {
  if (request_.json || text.empty()) return;
  print_out(text);
  is_at_line_begin_ = text.back() == '\n';
}

void GenerateOutput::end(const Generated& generated) {
  bar_.reset();
  if (request_.json) return print_out(generate_json(request_, inputs_, generated));
  print(shown_.finish());
  if (!is_at_line_begin_) print("\n");
}

namespace {

void put_wire(JsonWriter& json, std::string_view name, const WireCount& counted,
              const WireCount& predicted) {
  json.key(name);
  json.object([&] {
    json.put("messages", counted.messages);
    json.put("bytes", counted.bytes);
    json.put("predicted_messages", predicted.messages);
    json.put("predicted_bytes", predicted.bytes);
  });
}

void put_speed(JsonWriter& json, Index bytes, double seconds) {
  json.put("bytes", bytes);
  json.put("seconds", seconds);
  if (bytes > 0) {
    json.put("bytes_per_s", static_cast<double>(bytes) / seconds);
  } else {
    json.null("bytes_per_s");
  }
}

// Of one byte, in all layers, by formula.
void put_merge(JsonWriter& json, MergeKind kind, const ModelShape& shape, int world_size) {
  const MergeCost cost = merge_cost(kind, shape.num_heads, shape.head_dim, world_size);
  json.key(name_of(kind));
  json.object([&] {
    json.put("rounds", shape.layers * cost.rounds);
    json.put("messages", shape.layers * cost.messages);
    json.put("bytes", shape.layers * cost.bytes);
    json.put("longest_way_bytes", shape.layers * cost.way_bytes);
    json.put("hops", shape.layers * cost.hops);
    json.put("hop_messages", shape.layers * cost.hop_messages);
    json.put("hop_bytes", shape.layers * cost.hop_bytes);
  });
}

void put_rank(JsonWriter& json, Index rank, const GeneratedShare& share) {
  json.object([&] {
    json.put("rank", rank);
    json.put("prompt_rows", share.prompt_rows);
    json.put("generated_rows", share.generated_rows);
    json.put("shard_bytes", share.shard_bytes);
    json.put("peak_bytes", share.peak_bytes);
    json.put("prefill_bytes_sent", share.prefill.bytes);
    json.put("decode_bytes_sent", share.decode.bytes);
  });
}

}  // namespace

std::string generate_json(const GenerateRequest& request, const GenerateInputs& inputs,
                          const Generated& generated) {
  const ModelShape& shape = inputs.checkpoint.settings.shape;
  const GenerateOptions& options = inputs.options;
  const int world_size = static_cast<int>(generated.shares.size());
  const Partition prompt{request.partition, static_cast<Index>(options.prompt.size()), world_size};
  WireCount prefill, handover, decode;
  double prefill_s = 0, decode_s = 0;  // the slowest rank's
  for (const GeneratedShare& share : generated.shares) {
    prefill += share.prefill;
    handover += share.handover;
    decode += share.decode;
    prefill_s = std::max(prefill_s, share.prefill_s);
    decode_s = std::max(decode_s, share.decode_s);
  }

  JsonWriter json;
  json.object([&] {
    json.put("checkpoint", std::string_view(shown(request.checkpoint)));
    json.put("step", inputs.checkpoint.step);
    json.put("backend", name_of(request.backend));
    json.put("world_size", Index{world_size});
    json.put("partition", name_of(request.partition));
    json.put("merge", name_of(options.merge));
    json.put("temperature", options.sampling.temperature);
    put_seed(json, options.sampling.seed);
    json.put("prompt", std::string_view(shown(options.prompt)));
    json.put("text", std::string_view(shown(generated.text)));
    json.put("prompt_hex", std::string_view(hex(options.prompt)));
    json.put("text_hex", std::string_view(hex(generated.text)));
    json.key("prefill");
    json.object([&] {
      put_speed(json, prompt.seqlen, prefill_s);
      put_wire(json, "ring", prefill, prefill_wire(shape, prompt));
      put_wire(json, "handover", handover, handover_wire(shape, world_size));
    });
    json.key("decode");
    json.object([&] {
      put_speed(json, options.bytes - 1, decode_s);
      put_wire(json, "merges", decode,
               decode_wire(shape, options.merge, options.bytes, world_size));
    });
    json.key("merge_of_a_byte");
    json.object([&] {
      for (const MergeKind kind : kAllMerges) put_merge(json, kind, shape, world_size);
    });
    json.array("ranks", [&] {
      for (int rank = 0; rank < world_size; ++rank) put_rank(json, rank, generated.shares[rank]);
    });
  });
  return json.text() + "\n";
}

}  // namespace ringscope
