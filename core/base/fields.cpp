#include "core/base/fields.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>

namespace ringscope {
namespace {

// Return what `write` writes with RapidJSON.
template <class Write>
std::string written(Write&& write) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  write(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string aligned(std::string_view text, int width) {
  return width < 0 ? fmt::format("{:<{}}", text, -width) : fmt::format("{:>{}}", text, width);
}

}  // namespace

Json::Json(double value)
    : text_(std::isfinite(value) ? written([&](auto& writer) { writer.Double(value); }) : "null") {}

Json::Json(std::string_view value)
    : text_(written([&](auto& writer) {
        writer.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
      })) {}

Json::Json(const Fields& fields) : text_("{") {
  for (const Field& field : fields) {
    if (field.key.empty()) continue;
    if (text_.size() > 1) text_ += ',';
    text_ += Json(field.key).text_ + ":" + field.value.text_;
  }
  text_ += '}';
}

Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string table_head(const Fields& row) {
  std::string line;
  for (const Field& field : row) line += aligned(field.head, field.width);
  return line;
}

std::string table_row(const Fields& row) {
  std::string line;
  for (const Field& field : row) line += aligned(field.text, field.width);
  return line;
}

std::string table_text(const std::vector<Fields>& rows) {
  std::string text = rows.empty() ? "" : table_head(rows.front()) + "\n";
  for (const Fields& row : rows) {
    const std::string line = table_row(row);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace ringscope
