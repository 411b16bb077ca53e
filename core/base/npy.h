// NumPy's .npy files, versions 1 to 3: the C-ordered 4-D float32 and float64 arrays that attention
// takes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

class AtomicFile;

// A 4-D array as f32 values, and whether the file held f64.
struct NpyArray {
  std::array<Index, 4> shape{};
  bool was_f64 = false;
  std::vector<float> values;
  Index too_large = 0;  // finite f64 values that no f32 can hold: infinite in `values`
};

// Header facts alone, so that sizes can be checked before anything is allocated.
struct NpyHeader {
  std::array<Index, 4> shape{};
  bool is_f64 = false;
  Index data_offset = 0;  // bytes

  Index values() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  Index file_bytes() const { return data_offset + values() * (is_f64 ? 8 : 4); }  // fits in 64 bits
};

// Reads a header from the file's first bytes (`text` may be longer). Treats them as hostile. Throws
// InputError: not .npy, another version, dtype, order or number of dimensions, a size below 1,
// overflow.
NpyHeader parse_npy_header(std::string_view text);

// Reads a whole file image. Throws InputError: as above, or truncated, or longer than its shape
// says.
NpyArray parse_npy(std::string_view text);

// Reads the header of `path` and holds it against the file's size. Throws InputError that names it.
NpyHeader read_npy_header(const std::string& path);

// Reads `path`. Throws InputError that names it; RunError when memory does not suffice.
NpyArray read_npy(const std::string& path);

// The file image's header for a C-ordered array of any rank; 64-byte aligned, version 1.0.
std::string npy_header(const std::vector<Index>& shape, bool f64);

// Writes `values` (product of `shape` of them) as float32, or float64 when `f64`; whole or not at
// all. Throws InputError when the place cannot be written to, RunError when writing fails (disk
// full).
void write_npy(const std::string& path, const std::vector<Index>& shape, const float* values,
               bool f64);

// The same into an open file, which the caller commits (so that several outputs can appear
// together).
void write_npy(AtomicFile& file, const std::vector<Index>& shape, const float* values, bool f64);

}  // namespace ringscope
