#include "core/base/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/document.h>

#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::string_view kEnding = ".safetensors";
constexpr Index kMaxJsonHeader = 1 << 24;
constexpr std::size_t kMaxNames = 8;  // that a message lists

using HeaderJson = rapidjson::Value;

std::string_view text_of(const HeaderJson& value) {
  return value.IsString() ? std::string_view(value.GetString(), value.GetStringLength()) : "";
}

// Return the whole numbers of a tensor's member; at most 16 make sense.
std::vector<Index> numbers_of(const HeaderJson& tensor, const char* member) {
  const auto found = tensor.FindMember(member);
  std::vector<Index> numbers;
  bool is_list = found != tensor.MemberEnd() && found->value.IsArray() && found->value.Size() <= 16;
  if (is_list)
    for (const HeaderJson& value : found->value.GetArray()) {
      is_list = is_list && value.IsInt64() && value.GetInt64() >= 0;
      numbers.push_back(is_list ? value.GetInt64() : 0);
    }
  if (!is_list)
    throw InputError(fmt::format(
        "a tensor's '{}' that is no list of whole numbers; one from 0 on accepted", member));
  return numbers;
}

NpyType type_of(const HeaderJson& tensor) {
  constexpr std::pair<std::string_view, NpyType> kTypes[] = {
      {"F32", NpyType::f32}, {"F64", NpyType::f64}, {"F16", NpyType::f16}, {"BF16", NpyType::bf16}};
  const auto found = tensor.FindMember("dtype");
  const std::string_view name = found != tensor.MemberEnd() ? text_of(found->value) : "";
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  throw InputError(fmt::format("dtype '{}' given; F32, F64, F16 or BF16 accepted",
                               can_be_quoted(name) ? name.substr(0, 20) : "?"));
}

// Return the only tensor of a header, or the one with the name.
const HeaderJson& tensor_of(const HeaderJson& header, const std::string& name) {
  const HeaderJson* found = nullptr;
  std::vector<std::string> names;
  std::size_t count = 0;
  for (const auto& [key, value] : header.GetObject()) {
    const std::string_view tensor = text_of(key);
    if (tensor == "__metadata__") continue;
    ++count;
    if (names.size() < kMaxNames && can_be_quoted(tensor)) names.emplace_back(tensor.substr(0, 60));
    if (name.empty() || tensor == name) found = &value;
  }
  if (found == nullptr || (name.empty() && count > 1))
    throw InputError(fmt::format(
        "{} in it; FILE.safetensors:TENSOR with one of {}{} accepted",
        name.empty() ? count_text(static_cast<Index>(count), "tensor") : "no tensor '" + name + "'",
        fmt::join(names, ", "), count > names.size() ? " ..." : ""));
  if (!found->IsObject()) throw InputError("a tensor that is no JSON object; one accepted");
  return *found;
}

}  // namespace

std::pair<std::string, std::string> safetensor_of(const std::string& path) {
  const std::size_t at = path.rfind(std::string(kEnding) + ":");
  if (at == std::string::npos) return {path, ""};
  return {path.substr(0, at + kEnding.size()), path.substr(at + kEnding.size() + 1)};
}

bool is_safetensors(const std::string& path) {
  return safetensor_of(path).first.ends_with(kEnding);
}

NpyHeader read_safetensors_header(const InputFile& file, const std::string& tensor,
                                  const NpyDimensions& dimensions) {
  constexpr Index kLength = 8;
  std::uint64_t length = 0;
  if (file.size() < kLength)
    throw InputError(
        fmt::format("truncated: {} bytes found; at least {} accepted", file.size(), kLength));
  file.read(reinterpret_cast<char*>(&length), kLength, 0);
  const Index most = min_of(kMaxJsonHeader, file.size() - kLength);
  if (length > static_cast<std::uint64_t>(most))
    throw InputError(
        fmt::format("not a .safetensors file, or truncated: a header of {} bytes given; at "
                    "most {} accepted",
                    length, most));
  std::string text(length, '\0');
  file.read(text.data(), static_cast<Index>(length), kLength);
  rapidjson::Document json;
  json.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (json.HasParseError() || !json.IsObject())
    throw InputError("a header that is no JSON object; a .safetensors file accepted");
  const HeaderJson& found = tensor_of(json, tensor);
  NpyHeader header;
  header.type = type_of(found);
  const std::vector<Index> offsets = numbers_of(found, "data_offsets");
  const Index bytes = header.set_shape(numbers_of(found, "shape"), dimensions),
              begin = kLength + static_cast<Index>(length);
  if (offsets.size() != 2 || offsets[1] > file.size() - begin || offsets[0] > offsets[1] ||
      offsets[1] - offsets[0] != bytes)
    throw InputError(
        fmt::format("data_offsets ({}) given; the place of {} bytes among the {} "
                    "behind the header accepted",
                    fmt::join(offsets, ", "), bytes, file.size() - begin));
  header.data_offset = begin + offsets[0];
  return header;
}

}  // namespace ringscope
