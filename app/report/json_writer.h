// A writer for the JSON that the commands print, one key and value at a time.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/math.h"
#include "core/problem/shape.h"

namespace ringscope {

class JsonWriter {
 public:
  void key(std::string_view name) {
    writer_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
  }
  void put(std::string_view name, double value) {
    key(name);
    // JSON has no infinite numbers.
    std::isfinite(value) ? writer_.Double(value) : writer_.Null();
  }
  void put(std::string_view name, Index value) {
    key(name);
    writer_.Int64(value);
  }
  void put(std::string_view name, bool value) {
    key(name);
    writer_.Bool(value);
  }
  void put(std::string_view name, std::string_view value) {
    key(name);
    writer_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void null(std::string_view name) {
    key(name);
    writer_.Null();
  }
  template <class Fill>
  void object(Fill&& fill) {
    writer_.StartObject();
    fill();
    writer_.EndObject();
  }
  template <class Fill>
  void array(std::string_view name, Fill&& fill) {
    key(name);
    writer_.StartArray();
    fill();
    writer_.EndArray();
  }
  void value(Index value) { writer_.Int64(value); }
  void value(double value) { std::isfinite(value) ? writer_.Double(value) : writer_.Null(); }
  std::string text() const { return {buffer_.GetString(), buffer_.GetSize()}; }

 private:
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

// Put the seed as a string of digits, because readers take a number for a double of 53 bits.
inline void put_seed(JsonWriter& json, std::uint64_t seed) {
  json.put("seed", std::string_view(std::to_string(seed)));
}

inline void put_shape(JsonWriter& json, const AttentionShape& shape) {
  json.key("shape");
  json.object([&] {
    json.put("batch", shape.batch);
    json.put("num_heads", shape.num_heads);
    json.put("num_heads_kv", shape.num_heads_kv);
    json.put("seqlen", shape.seqlen);
    json.put("head_dim", shape.head_dim);
  });
}

}  // namespace ringscope
