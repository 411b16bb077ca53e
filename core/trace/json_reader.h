// Reads a JSON text as a stream of tokens, chunk by chunk. Memory does not grow with the text,
// because a token is a view of its chunk and nothing else is kept. Grammar, escapes, UTF-8 and nesting are
// checked on the way. It is a scanner of our own because a load spends most of its time here: it takes half
// as long as RapidJSON, and tests hold the two to the same verdicts.
//
// Beyond JSON it takes what profilers write all the same: NaN and infinities without quotes, and an
// array without its closing bracket at the end of the text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"

namespace ringscope {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Throw an InputError that names byte `at`.
[[noreturn]] void fail_at(std::uint64_t at, std::string_view complaint);

// Where a text comes from.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // Read up to `size` further bytes into `to` and return how many; 0 at the end.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  virtual std::uint64_t size() const = 0;                      // bytes, as they are stored
  virtual std::uint64_t most_bytes() const { return size(); }  // that there may be to read
  // Return whether read() has found packed data cut off.
  virtual bool is_cut_off() const { return false; }
};

// A text in memory, which must outlive the source.
class MemorySource : public TextSource {
 public:
  explicit MemorySource(std::string_view text) : text_(text) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = text_.copy(to, size, done_);
    done_ += count;
    return count;
  }
  std::uint64_t size() const override { return text_.size(); }

 private:
  std::string_view text_;
  std::size_t done_ = 0;
};

// A file's text, unpacked on the way if gzip packed it. Memory does not grow with the file.
class FileSource : public TextSource {
 public:
  // Throw InputError for a packed file if this build has no zlib.
  explicit FileSource(const InputFile& file);
  ~FileSource() override;
  // Throw InputError when the packed data is damaged or cut off, behind what is whole of it, or
  // longer than most_unpacked().
  std::size_t read(char* to, std::size_t size) override;
  std::uint64_t size() const override { return static_cast<std::uint64_t>(file_.size()); }
  // Deflate packs 258 bytes into 2 bits at best.
  std::uint64_t most_bytes() const override {
    return unpacker_ ? std::min(1032 * size(), most_unpacked()) : size();
  }
  // Return how many bytes of the file were read.
  Index done() const { return done_; }
  bool is_cut_off() const override { return is_cut_off_; }

  // The most bytes that a packed file may become: a small one can promise more than any machine holds.
  // It is set once, before files are read (--unpack).
  static std::uint64_t& most_unpacked() {
    static std::uint64_t bytes = std::uint64_t{1} << 30;
    return bytes;
  }

 private:
  class Unpacker;
  std::size_t read_file(char* to, std::size_t size);

  const InputFile& file_;
  Index done_ = 0;
  bool is_cut_off_ = false;
  std::unique_ptr<Unpacker> unpacker_;  // null: the file is the text
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

  JsonReader(TextSource& source, std::size_t chunk);

  // Return the next token. Throws InputError that names the byte.
  JsonToken next();

  // Return the text of the present token, valid until the next one: a key or string without quotes
  // and escapes, a number or literal as spelled.
  std::string_view text() const { return text_; }
  // Return the byte offset at which the present token begins.
  std::uint64_t at() const { return offset(token_); }
  // Skip the rest of the value whose first token was `token`.
  void skip(JsonToken token);
  // Return what the chunk holds behind a value inside an array or object, nothing elsewhere. A caller
  // that knows that it begins with whole further values may pass() over them, but not over what follows.
  std::string_view ahead() const {
    if (expect_ != Expect::after_value) return {};
    return {cursor_, static_cast<std::size_t>(limit_ - cursor_)};
  }
  std::uint64_t ahead_at() const { return offset(cursor_); }
  void pass(std::size_t bytes) { token_ = cursor_ += bytes; }
  // Return whether the text ended inside its outermost array, between two values.
  bool cut_short() const { return cut_short_; }
  // Return whether the source has ended: what is wrong from then on is that the text does.
  bool has_ended() const { return ended_ || source_.is_cut_off(); }

 private:
  enum class Expect : std::uint8_t { value, first, after_value, colon, nothing };

  // Skip space and return the byte there, or 0 at the end of the text.
  char peek() {
    if (static_cast<unsigned char>(*cursor_) <= ' ') skip_space();
    token_ = cursor_;
    return *cursor_;
  }
  void skip_space();
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

  TextSource& source_;
  const std::size_t chunk_;
  std::vector<char> buffer_;  // the chunk, followed by a zero byte
  const char* cursor_;        // the next byte
  const char* limit_;         // end of the last byte
  const char* token_;         // begin of the present token: bytes are kept from there on
  std::uint64_t base_ = 0;    // offset of the buffer's first byte
  std::string_view text_;
  std::string unescaped_;
  std::uint64_t objects_ = 0;  // one bit per level, set for an object
  int depth_ = 0;
  Expect expect_ = Expect::value;
  bool ended_ = false;  // the source has ended
  bool cut_short_ = false;
};

}  // namespace ringscope
