// A .npy file is the magic "\x93NUMPY", a version, the length of a header, the header (the text of
// a Python dict with the keys descr, fortran_order and shape), and the values. What a header claims
// is checked against the file's true size before anything is allocated.
#include "core/base/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"
#include "core/base/text.h"

namespace ringscope {

namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 1 << 16;                // a 4-D array's has about 128 bytes
constexpr std::size_t kMaxPrefix = kMagic.size() + 2 + 4;  // magic, version, length
constexpr std::string_view kAcceptedTypes =
    "'<f4', '<f8', '<f2' or bf16 ('<V2' of ml_dtypes, '<u2' of view(torch.uint16)) accepted";

std::string_view name_of(NpyType type) {
  constexpr std::string_view names[] = {"float32", "float64", "float16", "bf16"};
  return names[static_cast<int>(type)];
}

// Throw InputError unless a file of `found` bytes holds exactly what its header says.
void check_file_size(const NpyHeader& header, Index found) {
  const Index needed = header.file_bytes();
  const auto& s = header.shape;
  if (found != needed)
    throw InputError(fmt::format("{}: {} bytes found; {} accepted for shape ({}, {}, {}, {}) of {}",
                                 found < needed ? "truncated" : "too long", found, needed, s[0],
                                 s[1], s[2], s[3], name_of(header.type)));
}

// Convert `count` values as stored in a file to f32, rounding, into array.values from `begin` on.
void convert(const char* bytes, Index count, NpyType type, NpyArray& array, Index begin) {
  float* const values = array.values.data() + begin;
  const auto each = [&]<class Stored>(Stored stored, const auto& to_value) {
    for (Index i = 0; i < count; ++i) {
      std::memcpy(&stored, bytes + i * static_cast<Index>(sizeof(Stored)), sizeof(Stored));
      values[i] = to_value(stored);
    }
  };
  switch (type) {
    case NpyType::f32:
      std::memcpy(values, bytes, static_cast<std::size_t>(count) * sizeof(float));
      break;
    case NpyType::f64:
      each(double{}, [&](double value) {
        const auto rounded = static_cast<float>(value);
        array.too_large += std::isinf(rounded) && std::isfinite(value);
        return rounded;
      });
      break;
    case NpyType::f16:
      each(f16{}, [](f16 value) { return value.to_float(); });
      break;
    case NpyType::bf16:
      each(bf16{}, [](bf16 value) { return value.to_float(); });
      break;
  }
}

NpyArray allocate(const NpyHeader& header) {
  NpyArray array{header.shape, header.is_f64(), {}, 0};
  array.values.resize(header.values());
  return array;
}

// Open a file of values. A file of PyTorch's is answered with the lines that convert it.
InputFile opened(const std::string& path) {
  if (path.ends_with(".pt") || path.ends_with(".pth"))
    throw InputError(fmt::format(
        "a file of torch.save() given; .npy or .safetensors accepted, and these lines convert it:\n"
        "  import numpy, torch; x = torch.load('{}', map_location='cpu').detach().contiguous()\n"
        "  numpy.save('{}.npy', (x.view(torch.uint16) if x.dtype == torch.bfloat16 else "
        "x).numpy())",
        path, path.substr(0, path.rfind('.'))));
  const std::string file = safetensor_of(path).first;
  return {file, is_safetensors(path) ? ".safetensors file" : ".npy file"};
}

// Return the header of `file`, which lies at `path`. Throw InputError if the file's size does not
// match it.
NpyHeader header_of(const InputFile& file, const std::string& path,
                    const NpyDimensions& dimensions) {
  if (is_safetensors(path))
    return read_safetensors_header(file, safetensor_of(path).second, dimensions);
  std::string start(min_of(file.size(), kMaxPrefix + kMaxHeader), '\0');
  file.read(start.data(), static_cast<Index>(start.size()), 0);
  const NpyHeader header = parse_npy_header(start, dimensions);
  check_file_size(header, file.size());
  return header;
}

// What a file image says of itself.
struct Dict {
  std::string descr;
  std::vector<Index> shape;
  Index data_offset;  // bytes
};

// Take the members of a header's dict. Its few words of Python become JSON by other quotes, brackets
// and names of truth.
Dict parse_dict(std::string_view text) {
  std::string json(text);
  for (const auto& [python, other] : {std::pair{'\'', '"'}, {'(', '['}, {')', ']'}})
    std::replace(json.begin(), json.end(), python, other);
  for (const std::string_view name : {"False", "True"})
    if (const std::size_t at = json.find(name); at != json.npos) json[at] |= ' ';
  rapidjson::Document dict;
  dict.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseTrailingCommasFlag>(json.data(),
                                                                                   json.size());
  const auto require = [&](bool good, std::string_view what) {
    if (!good)
      throw InputError(fmt::format("malformed header: {} in '{}'", what, printable(text, 60)));
  };
  require(!dict.HasParseError() && dict.IsObject() && json.find('\0') == json.npos, "no dict");
  for (const char* key : {"descr", "fortran_order", "shape"})
    require(dict.HasMember(key), fmt::format("no '{}'", key));
  require(dict.MemberCount() == 3, "more than 'descr', 'fortran_order' and 'shape'");
  require(dict["fortran_order"].IsBool(), "no order");
  require(dict["shape"].IsArray(), "no shape");
  if (dict["fortran_order"].GetBool())
    throw InputError("Fortran order given; C order accepted (numpy.ascontiguousarray makes it)");
  Dict result;
  if (dict["descr"].IsString()) result.descr = dict["descr"].GetString();
  for (const auto& size : dict["shape"].GetArray()) {
    require(size.IsInt64(), "a size that is no whole number of 64 bits");
    result.shape.push_back(size.GetInt64());
  }
  return result;
}

Dict dict_of(std::string_view text) {
  const auto need = [&](std::size_t bytes) {
    if (text.size() < bytes)
      throw InputError(fmt::format("truncated: {} bytes found; at least {} accepted for the header",
                                   text.size(), bytes));
  };
  const std::string_view magic = text.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size()) || text.empty())
    throw InputError(
        fmt::format("not a .npy file: begins with '{}'; '?NUMPY' (? is the byte 0x93) "
                    "accepted",
                    printable(magic, 60)));
  need(kMagic.size() + 2);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const int major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    throw InputError(
        fmt::format(".npy version {}.{} given; 1.0, 2.0 or 3.0 accepted", major, minor));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = kMagic.size() + 2 + length_bytes;
  need(begin);
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::size_t{byte(8 + i)} << (8 * i);
  if (length > kMaxHeader)
    throw InputError(
        fmt::format("header of {} bytes given; at most {} accepted", length, kMaxHeader));
  need(begin + length);
  Dict dict = parse_dict(text.substr(begin, length));
  dict.data_offset = static_cast<Index>(begin + length);
  return dict;
}

// Throw InputError unless the number of dimensions is accepted, and there are values.
void check_shape(const std::vector<Index>& sizes, const NpyDimensions& accepted) {
  const auto count = std::ssize(sizes);
  const std::string given =
      printable(fmt::format("({}{})", fmt::join(sizes, ", "), count == 1 ? "," : ""), 60);
  if (count < accepted.least || count > accepted.most)
    throw InputError(
        fmt::format("{} {} given; {}", count_text(count, "dimension"), given, accepted.words));
  if (ranges::any_of(sizes, [](Index size) { return size < 1; }))
    throw InputError(fmt::format("shape {} given; sizes of at least 1 accepted", given));
}

[[noreturn]] void refuse_type(const Dict& dict, std::string_view accepted) {
  throw InputError(fmt::format("dtype '{}' {}given; {}", printable(dict.descr, 60),
                               dict.descr.starts_with('>') ? "(big-endian) " : "", accepted));
}

NpyType type_of(const Dict& dict) {
  constexpr std::pair<std::string_view, NpyType> kTypes[] = {
      {"<f4", NpyType::f32},  {"=f4", NpyType::f32}, {"<f8", NpyType::f64},  {"=f8", NpyType::f64},
      {"<f2", NpyType::f16},  {"=f2", NpyType::f16}, {"<V2", NpyType::bf16}, {"|V2", NpyType::bf16},
      {"<u2", NpyType::bf16}, {"<i2", NpyType::bf16}};
  for (const auto& [name, type] : kTypes)
    if (dict.descr == name) return type;
  refuse_type(dict, kAcceptedTypes);
}

// Return the bytes of an integer.
std::size_t integer_bytes(const Dict& dict) {
  const std::string& descr = dict.descr;
  const bool is_integer = descr.size() == 3 && std::strchr("<=|", descr[0]) != nullptr &&
                          std::strchr("iu", descr[1]) != nullptr &&
                          std::strchr("1248", descr[2]) != nullptr;
  if (!is_integer || (descr[0] == '|' && descr[2] != '1'))
    refuse_type(dict, "integers such as '<i4' or '<i8' accepted");
  return static_cast<std::size_t>(descr[2] - '0');
}

// Return the integer that the `bytes` bytes at `from` are. A large unsigned one becomes negative.
Index integer_at(const char* from, std::size_t bytes, bool is_signed) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  const std::size_t unused = 64 - 8 * bytes;
  if (!is_signed) return static_cast<Index>(value);
  return static_cast<Index>(value << unused) >> unused;
}

std::string header_with(std::string_view descr, const std::vector<Index>& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;
  const Index whole = round_up(static_cast<Index>(kPrefix + dict.size() + 1), 64);
  dict.resize(static_cast<std::size_t>(whole) - kPrefix - 1, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

Index NpyHeader::set_shape(const std::vector<Index>& sizes, const NpyDimensions& accepted) {
  check_shape(sizes, accepted);
  dimensions = static_cast<int>(sizes.size());
  shape.fill(1);
  std::copy(sizes.begin(), sizes.end(), shape.end() - dimensions);
  return checked_product(checked_values(shape[0], shape[1], shape[2], shape[3]), value_bytes(),
                         "tensor size in bytes");
}

NpyHeader parse_npy_header(std::string_view text, const NpyDimensions& dimensions) {
  const Dict dict = dict_of(text);
  NpyHeader header{.type = type_of(dict), .data_offset = dict.data_offset};
  const Index bytes = header.set_shape(dict.shape, dimensions);
  if (bytes > INT64_MAX - header.data_offset)
    throw InputError(
        fmt::format("tensor size in bytes: {} does not fit in 64 bits with the header; "
                    "give smaller sizes",
                    bytes));
  return header;
}

NpyArray parse_npy(std::string_view text) {
  const NpyHeader header = parse_npy_header(text);
  check_file_size(header, static_cast<Index>(text.size()));
  NpyArray array = allocate(header);
  convert(text.data() + header.data_offset, header.values(), header.type, array, 0);
  return array;
}

std::vector<Index> parse_npy_integers(std::string_view text) {
  const Dict dict = dict_of(text);
  const std::size_t bytes = integer_bytes(dict);
  check_shape(dict.shape, {1, 1, "1 accepted: [seqlen]"});
  const Index count = dict.shape[0];
  const bool is_signed = dict.descr[1] == 'i';
  const auto found = text.size() - static_cast<std::size_t>(dict.data_offset);
  if (static_cast<std::uint64_t>(count) != found / bytes || found % bytes != 0)
    throw InputError(fmt::format("{} bytes of values found; {} integers of {} byte{} accepted",
                                 found, count, bytes, bytes == 1 ? "" : "s"));
  std::vector<Index> values;
  values.reserve(count);
  const char* from = text.data() + dict.data_offset;
  for (Index i = 0; i < count; ++i, from += bytes) {
    values.push_back(integer_at(from, bytes, is_signed));
    if (!is_signed && values.back() < 0)
      throw InputError(fmt::format("value {} given at {}; integers below 2^63 accepted",
                                   static_cast<std::uint64_t>(values.back()), i));
  }
  return values;
}

NpyHeader read_npy_header(const std::string& path, const NpyDimensions& dimensions) {
  return with_path_in_errors(path, [&] { return header_of(opened(path), path, dimensions); });
}

NpyArray read_npy(const std::string& path, const NpyDimensions& dimensions) {
  return with_path_in_errors(path, [&] {
    const InputFile file = opened(path);
    const NpyHeader header = header_of(file, path, dimensions);
    NpyArray array = [&] {
      try {
        return allocate(header);
      } catch (const std::exception&) {  // bad_alloc or length_error
        throw RunError(
            fmt::format("{}: out of memory: {} bytes needed", path, header.values() * 4));
      }
    }();
    constexpr Index kPiece = 1 << 17;  // values per read
    std::vector<char> piece(static_cast<std::size_t>(min_of(kPiece, header.values()) * 8));
    for (Index done = 0; done < header.values(); done += kPiece) {
      const Index count = min_of(kPiece, header.values() - done);
      const Index item = header.value_bytes();
      file.read(piece.data(), count * item, header.data_offset + done * item);
      convert(piece.data(), count, header.type, array, done);
    }
    return array;
  });
}

std::string npy_header(const std::vector<Index>& shape, bool f64) {
  return header_with(f64 ? "<f8" : "<f4", shape);
}

void write_npy_integers(AtomicFile& file, const std::vector<Index>& shape,
                        const std::vector<Index>& values) {
  file.write(header_with("<i8", shape));
  file.write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Index)});
}

void write_npy(AtomicFile& file, const std::vector<Index>& shape, const float* values, bool f64) {
  file.write(npy_header(shape, f64));
  Index count = 1;
  for (const Index size : shape) count = checked_product(count, size, "tensor size");
  if (!f64) {
    file.write({reinterpret_cast<const char*>(values), static_cast<std::size_t>(count) * 4});
    return;
  }
  constexpr Index kPiece = 1 << 16;
  std::vector<double> piece;
  for (Index done = 0; done < count; done += kPiece) {
    piece.assign(values + done, values + min_of(done + kPiece, count));
    file.write({reinterpret_cast<const char*>(piece.data()), piece.size() * 8});
  }
}

void write_npy(const std::string& path, const std::vector<Index>& shape, const float* values,
               bool f64) {
  AtomicFile file(path);
  write_npy(file, shape, values, f64);
  file.commit();
}

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
