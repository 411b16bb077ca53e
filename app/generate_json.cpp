#include <algorithm>

#include "app/generate_output.h"
#include "app/json_writer.h"
#include "core/decode/generate_cost.h"

namespace ringscope {
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
