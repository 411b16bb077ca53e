#include "core/trace/json_reader.h"

#include <fmt/format.h>
#include <rapidjson/encodings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "core/base/error.h"

#ifdef RINGSCOPE_HAS_ZLIB
#include <zlib.h>
#endif

namespace ringscope {

#ifdef RINGSCOPE_HAS_ZLIB
// Unpacks a gzip file from its beginning, also one of several members.
class FileSource::Unpacker {
 public:
  Unpacker() {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  std::size_t read(FileSource& source, char* to, std::size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1U << 30));
    const uInt wanted = stream_.avail_out;
    const char* wrong = nullptr;
    while (stream_.avail_out > 0 && wrong == nullptr) {
      if (stream_.avail_in == 0) {
        stream_.next_in = reinterpret_cast<Bytef*>(packed_);
        stream_.avail_in = static_cast<uInt>(source.read_file(packed_, sizeof packed_));
        if (stream_.avail_in == 0 && is_over_) break;
        if (stream_.avail_in == 0) wrong = "cut off";
      }
      if (is_over_ && *stream_.next_in == 0) {  // padding, as on tapes
        ++stream_.next_in, --stream_.avail_in;
        continue;
      }
      if (is_over_ && inflateReset(&stream_) != Z_OK) throw std::bad_alloc();
      const int status = wrong == nullptr ? inflate(&stream_, Z_NO_FLUSH) : Z_OK;
      if (status != Z_OK && status != Z_STREAM_END) wrong = "damaged";
      is_over_ = status == Z_STREAM_END;
    }
    const std::size_t count = wanted - stream_.avail_out;
    if (count == 0 && wrong != nullptr) {
      source.is_cut_off_ = wrong == std::string_view("cut off");
      throw InputError(fmt::format("gzip's data is {} near byte {}; a whole file accepted", wrong,
                                   source.done() - stream_.avail_in));
    }
    unpacked_ += count;
    if (unpacked_ > most_unpacked())
      throw InputError(fmt::format(
          "unpacks to more than {:g} GiB; accepted: less, or --unpack with a larger limit",
          static_cast<double>(most_unpacked()) / (1 << 30)));
    return count;
  }

 private:
  z_stream stream_{};
  char packed_[1 << 16];
  std::uint64_t unpacked_ = 0;
  bool is_over_ = false;  // a member has ended
};
#else
class FileSource::Unpacker {
 public:
  Unpacker() {
    throw InputError("packed by gzip, which this build can't unpack (zlib1g-dev); a text accepted");
  }
  std::size_t read(FileSource&, char*, std::size_t) { return 0; }
};
#endif

FileSource::FileSource(const InputFile& file) : file_(file) {
  constexpr std::string_view kGzipMagic = "\x1f\x8b";
  char begin[2];
  if (file.size() < 2) return;
  file.read(begin, 2, 0);
  if (std::string_view(begin, 2) == kGzipMagic) unpacker_ = std::make_unique<Unpacker>();
}

FileSource::~FileSource() = default;

std::size_t FileSource::read(char* to, std::size_t size) {
  return unpacker_ == nullptr ? read_file(to, size) : unpacker_->read(*this, to, size);
}

std::size_t FileSource::read_file(char* to, std::size_t size) {
  const Index count = std::min<Index>(static_cast<Index>(size), file_.size() - done_);
  file_.read(to, count, done_);
  done_ += count;
  return static_cast<std::size_t>(count);
}
namespace {

enum Class : std::uint8_t { kPlain = 1, kWide = 2, kNumber = 4, kLetter = 8, kSpace = 16 };

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (int c = 0x20; c < 0x80; ++c)
    if (c != '"' && c != '\\') classes[c] |= kPlain;
  for (int c = 0x80; c < 0x100; ++c) classes[c] |= kWide;
  for (const char c : {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '-', '.', 'e', 'E'})
    classes[c] |= kNumber;
  for (int c = 'a'; c <= 'z'; ++c) {
    classes[c] |= kLetter;
    classes[c - 'a' + 'A'] |= kLetter;
  }
  for (const char c : {' ', '\n', '\r', '\t'}) classes[c] |= kSpace;
  return classes;
}
constexpr std::array<std::uint8_t, 256> kCharacterClasses = make_classes();

bool is(char c, std::uint8_t classes) {
  return (kCharacterClasses[static_cast<unsigned char>(c)] & classes) != 0;
}

// Return whether `text` is a number in JSON's grammar.
bool is_number(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const auto digits = [&] {
    const char* const begin = p;
    while (p < end && is_digit(*p)) ++p;
    return p > begin;
  };
  if (p < end && *p == '-') ++p;
  if (p < end && *p == '0')
    ++p;
  else if (!digits())
    return false;
  if (p < end && *p == '.') {
    ++p;
    if (!digits()) return false;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    ++p;
    if (p < end && (*p == '+' || *p == '-')) ++p;
    if (!digits()) return false;
  }
  return p == end;
}

// The two ends that RapidJSON wants of what it decodes and encodes.
struct Utf8Bytes {
  const char* at;
  const char* end;
  // RapidJSON takes all bytes that a character's first one promises. Those that are missing are NUL,
  // which goes on no character.
  char Take() { return at < end ? *at++ : '\0'; }
};
struct Appender {
  std::string* text = nullptr;  // null: nothing is kept
  void Put(char c) {
    if (text != nullptr) *text += c;
  }
};

}  // namespace

void fail_at(std::uint64_t at, std::string_view complaint) {
  throw InputError(fmt::format("byte {}: {}", at, complaint));
}

JsonReader::JsonReader(TextSource& source, std::size_t chunk)
    : source_(source), chunk_(std::max<std::size_t>(chunk, 1)), buffer_(chunk_ + 1) {
  cursor_ = limit_ = token_ = buffer_.data();
}

bool JsonReader::more() {
  if (ended_) return false;
  const std::size_t kept = static_cast<std::size_t>(limit_ - token_);
  const std::size_t done = static_cast<std::size_t>(cursor_ - token_);
  if (kept > kMaxToken)
    fail_at(offset(token_), fmt::format("a value longer than {} bytes", kMaxToken));
  base_ = offset(token_);
  std::memmove(buffer_.data(), token_, kept);
  // A long token doubles the buffer, so it is moved only a few times.
  if (buffer_.size() - 1 < kept + chunk_) buffer_.resize(2 * kept + chunk_ + 1);
  const std::size_t got = source_.read(buffer_.data() + kept, buffer_.size() - 1 - kept);
  ended_ = got == 0;
  token_ = buffer_.data();
  cursor_ = token_ + done;
  limit_ = token_ + kept + got;
  buffer_[kept + got] = '\0';
  return !ended_;
}

void JsonReader::skip_space() {
  do {
    while (is(*cursor_, kSpace)) ++cursor_;
    token_ = cursor_;
  } while (at_end(cursor_) && more());
}

void JsonReader::unexpected(char c, std::string_view accepted) const {
  if (at_end(cursor_))
    fail_at(offset(cursor_), fmt::format("the text ends; {} accepted", accepted));
  const std::string given = c > ' ' && c <= '~'
                                ? fmt::format("'{}'", c)
                                : fmt::format("byte value {}", static_cast<unsigned char>(c));
  fail_at(offset(cursor_), fmt::format("{} given; {} accepted", given, accepted));
}

JsonToken JsonReader::next() {
  const char c = peek();
  switch (expect_) {
    case Expect::value:
      return value(c);
    case Expect::colon:
      if (c != ':') unexpected(c, "a colon");
      ++cursor_;
      return value(peek());
    case Expect::nothing:
      if (!at_end(cursor_)) unexpected(c, "nothing behind the end");
      return JsonToken::end;
    case Expect::first:
    case Expect::after_value:
      break;
  }
  const bool object = (objects_ >> (depth_ - 1) & 1) != 0;
  if (c == (object ? '}' : ']')) {
    ++cursor_;
    return close();
  }
  char begin = c;
  if (expect_ == Expect::after_value && !at_end(cursor_)) {
    if (c != ',') unexpected(c, object ? "a comma or '}'" : "a comma or ']'");
    ++cursor_;
    begin = peek();
  }
  if (depth_ == 1 && !object && at_end(cursor_)) {
    cut_short_ = true;
    return close();
  }
  return object ? key(begin) : value(begin);
}

void JsonReader::skip(JsonToken token) {
  if (token != JsonToken::begin_object && token != JsonToken::begin_array) return;
  for (const int outside = depth_ - 1; depth_ > outside;) next();
}

JsonToken JsonReader::open(bool object) {
  if (depth_ == kMaxDepth)
    fail_at(offset(cursor_), fmt::format("nested deeper than {} levels", kMaxDepth));
  ++cursor_;
  objects_ &= ~(std::uint64_t{1} << depth_);
  objects_ |= static_cast<std::uint64_t>(object) << depth_;
  ++depth_;
  expect_ = Expect::first;
  return object ? JsonToken::begin_object : JsonToken::begin_array;
}

JsonToken JsonReader::close() {
  --depth_;
  expect_ = depth_ == 0 ? Expect::nothing : Expect::after_value;
  return (objects_ >> depth_ & 1) != 0 ? JsonToken::end_object : JsonToken::end_array;
}

JsonToken JsonReader::key(char c) {
  if (c != '"') unexpected(c, "a key in quotes");
  scan_string();
  expect_ = Expect::colon;
  if (*cursor_ == ':') {  // the usual case
    ++cursor_;
    expect_ = Expect::value;
  }
  return JsonToken::key;
}

JsonToken JsonReader::value(char c) {
  if (c == '{' || c == '[') return open(c == '{');
  const Expect then = depth_ == 0 ? Expect::nothing : Expect::after_value;
  if (c == '"') {
    scan_string();
    expect_ = then;
    return JsonToken::string;
  }
  if (is_digit(c) || c == '-') {
    scan_number();
    expect_ = then;
    return is_digit(text_[0]) || (text_.size() > 1 && is_digit(text_[1])) ? JsonToken::number
                                                                          : JsonToken::literal;
  }
  if (!is(c, kLetter)) unexpected(c, "a value");
  scan_word();
  expect_ = then;
  return JsonToken::literal;
}

void JsonReader::scan_string() {
  ++cursor_;
  bool wide = false, escaped = false;
  for (;;) {
    const char* p = cursor_;
    while (is(*p, kPlain)) ++p;
    cursor_ = p;
    if (*p == '"') break;
    if (is(*cursor_, kWide)) {
      wide = true;
      ++cursor_;
    } else if (*cursor_ == '\\') {
      escaped = true;
      ++cursor_;
      // An escaped byte never ends the string.
      if (at_end(cursor_) && !more()) unexpected('\0', "the rest of a string");
      ++cursor_;
    } else if (!at_end(cursor_)) {
      unexpected(*cursor_, "control characters as escapes");
    } else if (!more()) {
      unexpected('\0', "the rest of a string");
    }
  }
  const char* const begin = token_ + 1;
  if (wide) {
    Appender nowhere;
    for (Utf8Bytes bytes{begin, cursor_}; bytes.at < cursor_;) {
      const char* const character = bytes.at;
      if (!rapidjson::UTF8<>::Validate(bytes, nowhere))
        fail_at(offset(character), "bytes that are not UTF-8 given; UTF-8 accepted");
    }
  }
  text_ = {begin, static_cast<std::size_t>(cursor_ - begin)};
  if (escaped) unescape(begin, cursor_);
  ++cursor_;
}

unsigned JsonReader::hex(const char* p, const char* end) const {
  unsigned code = 0;
  const char* const last = end - p < 4 ? end : p + 4;
  const char* const read = std::from_chars(p, last, code, 16).ptr;
  if (read - p < 4) fail_at(offset(read), "an escape \\u without four hexadecimal digits");
  return code;
}

void JsonReader::unescape(const char* p, const char* end) {
  static constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  unescaped_.clear();
  while (p < end) {
    if (*p != '\\') {
      unescaped_ += *p++;
      continue;
    }
    const char* const escape = p++;
    if (*p != 'u') {
      const std::size_t i = kNames.find(*p++);
      if (i == std::string_view::npos) fail_at(offset(escape), "an escape that JSON does not know");
      unescaped_ += kMeanings[i];
      continue;
    }
    unsigned code = hex(++p, end);
    p += 4;
    if (code >= 0xD800 && code <= 0xDFFF) {
      const bool pair = code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u';
      const unsigned low = pair ? hex(p + 2, end) : 0;
      if (low < 0xDC00 || low > 0xDFFF) fail_at(offset(escape), "half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      p += 6;
    }
    Appender unescaped{&unescaped_};
    rapidjson::UTF8<>::Encode(unescaped, code);
  }
  text_ = unescaped_;
}

void JsonReader::scan_number() {
  // Try the usual case first: a plain decimal that the chunk holds whole.
  const char* digits = cursor_ + (*cursor_ == '-');
  if (*digits != '0' || !is_digit(digits[1])) {
    while (is_digit(*digits)) ++digits;
    if (*digits == '.' && is_digit(digits[1]) && is_digit(digits[-1]))
      for (++digits; is_digit(*digits);) ++digits;
    if (*digits != '\0' && !is(*digits, kNumber | kLetter) && is_digit(digits[-1])) {
      text_ = {token_, static_cast<std::size_t>(digits - token_)};
      cursor_ = digits;
      return;
    }
  }
  do {
    const char* p = cursor_;
    while (is(*p, kNumber | kLetter)) ++p;
    cursor_ = p;
  } while (at_end(cursor_) && more());
  text_ = {token_, static_cast<std::size_t>(cursor_ - token_)};
  if (is_number(text_)) return;
  if (text_ == "-inf" || text_ == "-Inf" || text_ == "-Infinity" || text_ == "-nan" ||
      text_ == "-NaN")
    return;
  fail_at(at(), "a number that JSON does not know");
}

void JsonReader::scan_word() {
  do {
    while (is(*cursor_, kLetter)) ++cursor_;
  } while (at_end(cursor_) && more());
  text_ = {token_, static_cast<std::size_t>(cursor_ - token_)};
  for (const std::string_view known :
       {"true", "false", "null", "NaN", "nan", "Infinity", "Inf", "inf"})
    if (text_ == known) return;
  fail_at(at(), "a word that JSON does not know; true, false and null accepted");
}

}  // namespace ringscope
