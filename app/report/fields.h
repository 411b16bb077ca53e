// What a command reports, described once: fields with a key for programs, which read JSON, and with
// a head for people, who read a table. Lines that several commands print are here as well.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/math.h"
#include "core/cost/time.h"
#include "core/ring/problem.h"

namespace ringscope {

struct Field;
using Fields = std::vector<Field>;

// A JSON value, written.
class Json {
 public:
  Json(std::nullptr_t) : text_("null") {}
  Json(bool value) : text_(value ? "true" : "false") {}
  Json(double value);  // null where it is infinite or NaN, which JSON lacks
  template <std::integral T>
  Json(T value) : text_(fmt::format("{}", value)) {}
  Json(std::string_view value);
  Json(const char* value) : Json(std::string_view(value)) {}
  Json(const std::string& value) : Json(std::string_view(value)) {}
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json(nullptr)) {}
  template <class T>
  Json(const std::vector<T>& values) {
    for (const T& value : values) text_ += (text_.empty() ? "[" : ",") + Json(value).text_;
    text_ += text_.empty() ? "[]" : "]";
  }
  Json(const Fields& fields);  // an object of the fields that have keys

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A value of a report: in JSON under its key, and in a table in the column with its head.
struct Field {
  std::string_view key;  // "": not in JSON
  Json value;
  std::string head = {};  // "": the column has none
  int width = 0;          // of the column; below 0: aligned to the left
  std::string text = {};  // in the table

  // Make a field that only programs read.
  template <class T>
  Field(std::string_view json_key, const T& x) : key(json_key), value(x) {}
  // Make a field that people read too, in the form that `format` gives it.
  template <class T, class Format>
  Field(std::string_view json_key, const T& x, std::string_view column, int column_width,
        Format format)
      : key(json_key), value(x), head(column), width(column_width), text(format(x)) {}
  template <class T>
  Field(std::string_view json_key, const T& x, std::string_view column, int column_width)
      : Field(json_key, x, column, column_width,
              [](const T& plain) { return fmt::format("{}", plain); }) {}
};

Fields operator+(Fields a, const Fields& b);

// ---
// Where an output comes from. Every file and every JSON object that a command writes says it.

// Note the command line and the seed, once, before anything is written.
void note_call(const std::string& command, const std::string& seed);
// Return version, commit, command, seed, machine and time (UTC; the environment's SOURCE_DATE_EPOCH
// instead of the clock's if it is set, so that files can be made again to the byte).
std::vector<std::pair<std::string, std::string>> provenance();
// Return the same as one line, "version: 0.1.0; commit: ...".
std::string provenance_line();

// Return the fields and the provenance as one JSON object and a line end.
std::string json_line(const Fields& fields);

// Return one line with the heads, and one with the texts; without line ends.
std::string table_head(const Fields& row);
std::string table_row(const Fields& row);
// Return the heads and all rows, each a line without blanks at its end.
std::string table_text(const std::vector<Fields>& rows);
// Return "label       value" and a line end.
std::string labelled_line(int width, std::string_view label, std::string_view value);

// ---
// Formats of numbers, beside those of core/base/text.h.

std::string ratio_text(double ratio);     // "0.533"
std::string percent_text(double share);   // "53.3 %"
std::string integer_text(double number);  // "1024"
std::string digits_text(double number);   // "0.0123", three digits

// Return a seed as its digits, because readers of JSON take a number for a double of 53 bits.
inline std::string seed_text(std::uint64_t seed) { return std::to_string(seed); }

// ---
// What several commands report.

Fields shape_fields(const AttentionShape& shape);

// Return "1024 tokens x 1 batch, 4 heads (4 kv), ..., forward", in a line without its end.
std::string problem_text(const Problem& job);
// Return how far a searched partition is from a proven bound, as fields and as a line; none and ""
// for other partitions.
Fields bound_fields(const std::optional<SearchBound>& bound);
std::string bound_text(const std::optional<SearchBound>& bound);
// Return "5 TFLOP/s", or the rates of both passes if the job has them.
std::string flops_text(const Rates& rates, bool backward);
// Return a line that says that `ranks` threads share this machine's cores and what follows, or ""
// where there are enough.
std::string shared_cores_text(int ranks, std::string_view consequence);

}  // namespace ringscope
