// What a program writes, described once: fields with a key for programs, which read JSON, and with a
// head for people, who read a table.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  requires std::is_constructible_v<Json, const T&> Json(const std::optional<T>& value)
      : Json(value ? Json(*value) : Json(nullptr)) {}
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
  std::string key;  // "": not in JSON
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

// Return one line with the heads, and one with the texts; without line ends.
std::string table_head(const Fields& row);
std::string table_row(const Fields& row);
// Return the heads and all rows, each a line without blanks at its end.
std::string table_text(const std::vector<Fields>& rows);

}  // namespace ringscope
