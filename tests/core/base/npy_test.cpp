#include "core/base/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/core/base/thrown.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

// A file image by hand: version `major`.0, `dict` as it is, then `data` bytes of 0.
std::string image(const std::string& dict, std::size_t data = 0, int major = 1) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(major);
  text += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    text += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return text + dict + std::string(data, '\0');
}

std::string dict_of(const std::string& descr, const std::string& shape,
                    const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string complaint(const std::string& text) {
  return input_error_of([&] { parse_npy(text); });
}

void expect_complaint(const std::string& text, const std::string& part) {
  const std::string found = complaint(text);
  expect_contains(found, part);
  for (const char c : found) EXPECT_TRUE(c >= ' ' && c <= '~') << found;
  EXPECT_LT(found.size(), 250u) << found;
}

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// As NumPy 2.4 writes numpy.arange(2, dtype='<f4').reshape(1, 1, 2, 1).
TEST(Npy, ReadsWhatNumpyWrites) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 1), }" +
                             std::string(52, ' ') + "\n";
  const std::string text =
      std::string("\x93NUMPY\x01\0\x76\0", 10) + header + std::string("\0\0\0\0\0\0\x80\x3f", 8);
  ASSERT_EQ(text.size(), 128u + 8);
  const NpyArray array = parse_npy(text);
  EXPECT_EQ(array.shape, (std::array<Index, 4>{1, 1, 2, 1}));
  EXPECT_FALSE(array.was_f64);
  EXPECT_EQ(array.values, (std::vector<float>{0, 1}));
  EXPECT_EQ(npy_header({1, 1, 2, 1}, false), text.substr(0, 128));
}

TEST(Npy, AllVersions) {
  for (const int major : {1, 2, 3}) {
    const std::string text = image(dict_of("'<f4'", "(1, 2, 3, 4)"), 96, major);
    const NpyHeader header = parse_npy_header(text);
    EXPECT_EQ(header.shape, (std::array<Index, 4>{1, 2, 3, 4}));
    EXPECT_EQ(header.values(), 24);
    EXPECT_EQ(header.file_bytes(), static_cast<Index>(text.size()));
    EXPECT_EQ(complaint(text), "");
  }
  for (const int major : {0, 4, 255})
    expect_complaint(
        image(dict_of("'<f4'", "(1, 1, 1, 1)"), 4, major),
        ".npy version " + std::to_string(major) + ".0 given; 1.0, 2.0 or 3.0 accepted");
  std::string minor = image(dict_of("'<f4'", "(1, 1, 1, 1)"), 4);
  minor[7] = 1;
  expect_complaint(minor, ".npy version 1.1 given");
}

TEST(Npy, DictsInEverySpelling) {
  for (const char* dict : {
           "{'shape':(1,1,2,1),'descr':'<f4','fortran_order':False}",
           "{\"fortran_order\": False, \"shape\": (1, 1, 2, 1,), \"descr\": \"<f4\",}",
           " {\t'descr'\n:\r'=f4' , 'shape' : ( 1 , 1 , 2 , 1 ) , 'fortran_order' : False , } \n "
           "\n",
       })
    EXPECT_EQ(complaint(image(dict, 8)), "") << dict;
}

TEST(Npy, MalformedDicts) {
  const std::string good = "'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 1)";
  for (const std::string& dict : {
           "{" + good,
           good + "}",
           "{" + good + "} x",
           "{" + good + ",, }",
           "{," + good + "}",
           "{" + good + ", 'extra': 1}",
           "{" + good + ", 'shape': (1, 1, 2, 1)}",
           std::string("{'descr' '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 1)}"),
           std::string("{'descr': <f4, 'fortran_order': False, 'shape': (1, 1, 2, 1)}"),
           std::string("{descr: '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 1)}"),
           std::string("{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 1, 2, 1)}"),
           std::string("{'fortran_order': False, 'shape': (1, 1, 2, 1)}"),
           std::string("{'descr': '<f4', 'shape': (1, 1, 2, 1)}"),
           std::string("{'descr': '<f4', 'fortran_order': False}"),
       })
    expect_complaint(image(dict, 8), "header");
  for (const std::string dict : {"", " ", "{", "}", "[]"})
    expect_complaint(image(dict, 8), "header");
  for (const std::string shape :
       {"1, 1, 2, 1", "(1, 1, 2, 1", "(1 1 2 1)", "(1,, 1, 2, 1)", "(1.0, 1, 2, 1)", "(-, 1, 2, 1)",
        "(0x1, 1, 2, 1)", "((1), 1, 2, 1)"})
    expect_complaint(image(dict_of("'<f4'", shape), 8), "header");
  EXPECT_EQ(complaint(image("{" + good + "}", 8)), "");
  expect_complaint(image("{'descr': '<f4', 'fortran_order': False}", 8), "no 'shape'");
  expect_complaint(image("{" + good + "}" + std::string(1, '\0') + "x", 8), "malformed");
  expect_complaint(image(std::string(60000, '('), 8), "malformed");
  expect_complaint(image("{'\n\x1b[2J': 1}", 8), "??[2J");
}

// 1, -2 and 0.5 in 16 bits, as NumPy, ml_dtypes and torch's views write them.
TEST(Npy, ReadsValuesOf16Bits) {
  const std::vector<float> expected{1, -2, 0.5f};
  for (const auto& [descr, bits] :
       {std::pair{"'<f2'", std::vector<std::uint16_t>{0x3c00, 0xc000, 0x3800}},
        {"'<V2'", {0x3f80, 0xc000, 0x3f00}},
        {"'|V2'", {0x3f80, 0xc000, 0x3f00}},
        {"'<u2'", {0x3f80, 0xc000, 0x3f00}},
        {"'<i2'", {0x3f80, 0xc000, 0x3f00}}}) {
    std::string text = image(dict_of(descr, "(1, 1, 3, 1)"), 0);
    text.append(reinterpret_cast<const char*>(bits.data()), 2 * bits.size());
    EXPECT_EQ(parse_npy(text).values, expected) << descr;
    EXPECT_THROW(parse_npy(text + "x"), InputError);
  }
}

TEST(Npy, FewerDimensionsStandBehindSizesOfOne) {
  const std::string three = image(dict_of("'<f4'", "(5, 2, 3)"), 30 * 4);
  EXPECT_THROW(parse_npy_header(three), InputError);
  const NpyHeader header = parse_npy_header(three, {2, 4, "2 to 4 accepted"});
  EXPECT_EQ(header.shape, (std::array<Index, 4>{1, 5, 2, 3}));
  EXPECT_EQ(header.dimensions, 3);
  EXPECT_EQ(header.values(), 30);
}

TEST(Npy, DtypesAreNamed) {
  const auto with = [](const std::string& descr) {
    return image(dict_of(descr, "(1, 1, 2, 1)"), 8);
  };
  expect_complaint(with("'<i8'"), "dtype '<i8' given; '<f4', '<f8', '<f2' or bf16");
  expect_complaint(with("'>f4'"), "dtype '>f4' (big-endian) given; '<f4', '<f8', '<f2' or bf16");
  expect_complaint(with("[('a', '<f4'), ('b', '<f4')]"), "dtype '' given");
  for (const char* other : {"''", "'f4'", "'|f4'", "'<f16'", "'<c8'", "'|O'", "'<f44'"})
    expect_complaint(with(other), "'<f4', '<f8', '<f2' or bf16");
}

TEST(Npy, ShapesAreNamed) {
  const auto with = [](const std::string& shape) { return image(dict_of("'<f4'", shape), 8); };
  expect_complaint(with("(2, 3, 4)"),
                   "3 dimensions (2, 3, 4) given; 4 accepted: [batch, heads, seqlen, head_dim]");
  expect_complaint(with("(2,)"), "1 dimension (2,) given; 4 accepted");
  expect_complaint(with("()"), "0 dimensions () given; 4 accepted");
  expect_complaint(with("(1, 1, 1, 1, 2)"), "5 dimensions (1, 1, 1, 1, 2) given; 4 accepted");
  expect_complaint(with("(1, 0, 2, 1)"), "shape (1, 0, 2, 1) given; sizes of at least 1 accepted");
  expect_complaint(with("(1, -1, -2, 1)"), "shape (1, -1, -2, 1) given; sizes of at least 1");
  expect_complaint(with("(1, 1, 9223372036854775808, 1)"), "whole number of 64 bits");
  expect_complaint(with("(1, 1, 1" + std::string(500, '0') + ", 1)"), "header");
  // The file's size decides before memory is asked for.
  expect_complaint(with("(1, 1, 1000000000000, 100000)"), "truncated");
  // The product of the sizes, its bytes, and those and the header.
  expect_complaint(with("(4294967296, 4294967296, 2, 1)"), "does not fit in 64 bits");
  expect_complaint(with("(4294967296, 4294967296, 4294967296, 4294967296)"),
                   "does not fit in 64 bits");
  expect_complaint(with("(1, 1, 4611686018427387904, 1)"), "does not fit in 64 bits");
  expect_complaint(with("(1, 1, 2305843009213693951, 1)"), "does not fit in 64 bits");
  expect_complaint(image(dict_of("'<f4'", "(1, 1, 2, 1)", "True"), 8),
                   "Fortran order given; C order");
}

TEST(Npy, NotNpy) {
  expect_complaint("", "not a .npy file");
  expect_complaint("PK\x03\x04 and so on", "not a .npy file: begins with 'PK");
  expect_complaint("\x93NUMPX", "not a .npy file");
  expect_complaint(image(std::string(65536, ' '), 0, 2), "malformed");
  expect_complaint(image(std::string(65537, ' '), 0, 2),
                   "header of 65537 bytes given; at most 65536");
  std::string huge = image(dict_of("'<f4'", "(1, 1, 2, 1)"), 8, 2);
  for (int i = 8; i < 12; ++i) huge[i] = '\xff';
  expect_complaint(huge, "header of 4294967295 bytes given");
}

TEST(Npy, TruncatedAtEveryByte) {
  for (const int major : {1, 2}) {
    const std::string whole = image(dict_of("'<f8'", "(1, 1, 2, 1)"), 16, major);
    ASSERT_EQ(complaint(whole), "");
    for (std::size_t length = 1; length < whole.size(); ++length)
      expect_complaint(whole.substr(0, length),
                       "truncated: " + std::to_string(length) + " bytes found");
    expect_complaint(whole + "x", "too long: " + std::to_string(whole.size() + 1) +
                                      " bytes found; " + std::to_string(whole.size()) +
                                      " accepted");
  }
}

TEST(Npy, ValuesPassThroughUnchanged) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0f,   -0.0f,         inf,           -inf,
                                     1e-45f, 3.4028235e38f, std::nanf(""), std::nanf("0x1234")};
  const NpyArray array = parse_npy(npy_header({1, 2, 2, 2}, false) + bytes_of_values(values));
  EXPECT_EQ(bytes_of_values(array.values), bytes_of_values(values));
  EXPECT_EQ(array.too_large, 0);
}

// Infinite values were so in the file; finite ones that no f32 holds are counted, in every piece of
// a long file.
TEST(Npy, DoublesTooLargeForFloatsAreCounted) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values(200000, 1.0);
  values[0] = inf;
  values[1] = std::nan("");
  values[2] = 3.4028235e38;
  values[3] = 3.5e38;
  values[131071] = -1e300;
  values[131072] = 1e39;
  values[199999] = std::numeric_limits<double>::max();
  const std::string text = npy_header({1, 1, 200000, 1}, true) + bytes_of_values(values);
  EXPECT_EQ(parse_npy(text).too_large, 4);
  const TemporaryFolder folder;
  folder.write("a.npy", text);
  EXPECT_EQ(read_npy(folder.path("a.npy")).too_large, 4);
}

TEST(Npy, DoublesAreRounded) {
  const double tie = 1 + std::ldexp(1.0, -24);
  const std::vector<double> values = {tie,    std::nextafter(tie, 2), 1e300,
                                      -1e300, std::nan(""),           0.1};
  const NpyArray array = parse_npy(npy_header({1, 1, 6, 1}, true) + bytes_of_values(values));
  EXPECT_TRUE(array.was_f64);
  EXPECT_EQ(array.values[0], 1.0f);
  EXPECT_EQ(array.values[1], std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(array.values[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(array.values[3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(array.values[4]));
  EXPECT_EQ(array.values[5], 0.1f);
  EXPECT_EQ(array.too_large, 2);
}

TEST(Npy, HeadersAreAligned) {
  for (const std::vector<Index>& shape :
       {std::vector<Index>{}, {5}, {2, 3}, {1, 2, 3}, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}})
    for (const bool f64 : {false, true}) {
      const std::string header = npy_header(shape, f64);
      EXPECT_EQ(header.size() % 64, 0u);
      EXPECT_EQ(header.back(), '\n');
      EXPECT_EQ(header.size(), 10u + static_cast<unsigned char>(header[8]) +
                                   256u * static_cast<unsigned char>(header[9]));
    }
  expect_contains(npy_header({5}, true), "'shape': (5,), ");
  expect_contains(npy_header({}, true), "'shape': (), ");
}

// Sizes around the pieces in which files are read and written.
TEST(Npy, FilesRoundTrip) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.npy");
  for (const Index rows : {1, 65535, 65536, 65537, 131071, 131072, 131073, 300000})
    for (const bool f64 : {false, true}) {
      std::vector<float> values(static_cast<std::size_t>(rows));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 3;
      write_npy(path, {1, 1, rows, 1}, values.data(), f64);
      EXPECT_EQ(read_npy_header(path).shape[2], rows);
      const NpyArray array = read_npy(path);
      EXPECT_EQ(array.was_f64, f64);
      EXPECT_EQ(array.shape, (std::array<Index, 4>{1, 1, rows, 1}));
      ASSERT_EQ(array.values, values);
      ASSERT_EQ(parse_npy(contents_of(path)).values, values);
    }
}

TEST(Npy, FileErrorsNameThePath) {
  const TemporaryFolder folder;
  const auto expect_error = [](const std::string& path, const std::string& part) {
    for (const bool whole : {false, true}) {
      const std::string found =
          input_error_of([&] { whole ? void(read_npy(path)) : void(read_npy_header(path)); });
      EXPECT_EQ(found.find((path.empty() ? "''" : path) + ": "), 0u) << found;
      expect_contains(found, part);
    }
  };
  expect_error("", "No such file");
  expect_error(folder.path("absent"), "No such file");
  expect_error(folder.path(), "is a directory");
  expect_error("/dev/null", "not a regular file");
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error(fifo, "not a regular file");
  folder.write("short", image(dict_of("'<f4'", "(1, 1, 2, 1)"), 7));
  expect_error(folder.path("short"), "truncated");
}

TEST(NpyIntegers, OfAllWidths) {
  const std::vector<Index> expected = {0, 1, 7};
  const auto read = [](const std::string& descr, const std::string& values) {
    return parse_npy_integers(image(dict_of(descr, "(3,)")) + values);
  };
  EXPECT_EQ(read("'|i1'", bytes_of_values<std::int8_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'|u1'", bytes_of_values<std::uint8_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'<i2'", bytes_of_values<std::int16_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'<u2'", bytes_of_values<std::uint16_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'<i4'", bytes_of_values<std::int32_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'=u4'", bytes_of_values<std::uint32_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'<i8'", bytes_of_values<std::int64_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'<u8'", bytes_of_values<std::uint64_t>({0, 1, 7})), expected);
  EXPECT_EQ(read("'|i1'", bytes_of_values<std::int8_t>({-1, -128, 127})),
            (std::vector<Index>{-1, -128, 127}));
}

TEST(NpyIntegers, RefusesEverythingElse) {
  const std::string data = bytes_of_values<std::int64_t>({0, 1, 7});
  const std::pair<std::string, const char*> cases[] = {
      {"", "not a .npy file"},
      {image(dict_of("'<f8'", "(3,)")) + data, "dtype '<f8' given; integers such as"},
      {image(dict_of("'>i8'", "(3,)")) + data, "dtype '>i8' (big-endian) given"},
      {image(dict_of("'|b1'", "(24,)")) + data, "dtype '|b1' given"},
      {image(dict_of("'|i8'", "(3,)")) + data, "dtype '|i8' given"},
      {image(dict_of("'<i3'", "(8,)")) + data, "dtype '<i3' given"},
      {image(dict_of("'<i88'", "(3,)")) + data, "dtype '<i88' given"},
      {image(dict_of("''", "(3,)")) + data, "dtype '' given"},
      {image(dict_of("'<i8'", "(1, 3)")) + data, "2 dimensions (1, 3) given; 1 accepted: [seqlen]"},
      {image(dict_of("'<i8'", "()")) + data, "0 dimensions () given"},
      {image(dict_of("'<i8'", "(0,)")), "shape (0,) given"},
      {image(dict_of("'<i8'", "(-3,)")) + data, "shape (-3,) given"},
      {image(dict_of("'<i8'", "(4,)")) + data, "24 bytes of values found; 4 integers of 8 bytes"},
      {image(dict_of("'<i8'", "(2,)")) + data, "24 bytes of values found; 2 integers of 8 bytes"},
      {image(dict_of("'<i8'", "(3,)")) + data.substr(1), "23 bytes of values found; 3 integers"},
      {image(dict_of("'<i8'", "(2305843009213693955,)")) + data, "24 bytes of values found"},
      {image(dict_of("'<i8'", "(3,)", "True")) + data, "Fortran order given"},
      {image(dict_of("'<u8'", "(1,)")) + std::string(8, '\xff'),
       "value 18446744073709551615 given at 0; integers below 2^63"},
  };
  for (const auto& [text, wrong] : cases)
    expect_contains(
        input_error_of([&, bytes = std::string_view(text)] { parse_npy_integers(bytes); }), wrong);
}

}  // namespace
}  // namespace ringscope
