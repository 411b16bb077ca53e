// A JSON text as a stream of tokens, read chunk by chunk: what lies between two tokens is forgotten,
// and a token is a view of the chunk that holds it, so memory does not grow with the text. Grammar,
// escapes, UTF-8 and nesting are checked on the way. This is a scanner of our own because a load's
// time is mostly spent here: it takes half the time that RapidJSON's does on the same text (which
// copies every string and number byte by byte), and tests hold the two to the same verdicts.
//
// Beyond JSON it takes what profilers write all the same: NaN and infinities without quotes, and an
// array that lacks its closing bracket at the end of the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope::viz {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Where the text comes from.
class JsonSource {
 public:
  virtual ~JsonSource() = default;
  // Puts up to `size` further bytes into `to` and returns how many; 0 at the end.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

enum class JsonToken : std::uint8_t {
  begin_object,
  end_object,
  begin_array,
  end_array,
  key,
  string,
  number,
  literal,  // true, false, null, or a NaN or infinity without quotes
  end
};

class JsonReader {
 public:
  static constexpr int kMaxDepth = 64;
  static constexpr std::size_t kMaxToken = std::size_t{1} << 26;  // bytes

  JsonReader(JsonSource& source, std::size_t chunk);

  // The next token. Throws InputError that names the byte.
  JsonToken next();

  // Of the present token, until the next one: a key or string without quotes and escapes, a number
  // or literal as spelled.
  std::string_view text() const { return text_; }
  // Byte at which the present token begins.
  std::uint64_t at() const { return at_; }
  // Passes over the rest of the value whose first token was `token`.
  void skip(JsonToken token);
  // Whether the text ended inside its outermost array, between two values.
  bool cut_short() const { return cut_short_; }

 private:
  enum class Expect : std::uint8_t { value, first, after_value, colon, nothing };

  // Skips space and returns the byte there; 0 at the end of the text.
  char peek();
  bool more();  // moves what is kept to the front and reads on; false at the end of the text
  bool at_end(const char* p) const { return p == limit_; }
  std::uint64_t offset(const char* p) const {
    return base_ + static_cast<std::uint64_t>(p - buffer_.data());
  }
  JsonToken value(char c);
  JsonToken key(char c);
  JsonToken open(bool object);
  JsonToken close();
  void scan_string();
  void scan_number();
  void scan_word();
  void unescape(const char* p, const char* end);
  unsigned hex(const char* p, const char* end) const;
  [[noreturn]] void unexpected(char c, std::string_view accepted) const;

  JsonSource& source_;
  const std::size_t chunk_;
  std::vector<char> buffer_;  // the chunk, and a zero byte behind it
  const char* cursor_;        // the next byte
  const char* limit_;         // behind the last byte
  const char* token_;         // from here on bytes are kept
  std::uint64_t base_ = 0;    // of the buffer's first byte
  std::uint64_t at_ = 0;
  std::string_view text_;
  std::string unescaped_;
  std::uint64_t objects_ = 0;  // a bit a level: it is an object
  int depth_ = 0;
  Expect expect_ = Expect::value;
  bool ended_ = false;  // the source has
  bool cut_short_ = false;
};

}  // namespace ringscope::viz
