// NumPy's .npy files, versions 1 to 3. The C-ordered float arrays that attention takes can be read,
// of 4 dimensions or as many as the caller allows, and 1-D arrays of integers; arrays of any rank
// can be written. NumPy has no bf16 of its own: ml_dtypes writes it as '<V2', and torch's
// view(torch.uint16) as '<u2'.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

class AtomicFile;
class InputFile;

// A 4-D array as f32 values, and whether the file held f64.
struct NpyArray {
  std::array<Index, 4> shape{};
  bool was_f64 = false;
  std::vector<float> values;
  Index too_large = 0;  // finite f64 values beyond f32's range, infinite in `values`
};

// The types that a file may hold.
enum class NpyType { f32, f64, f16, bf16 };

// The numbers of dimensions that a caller takes, and what they are, for messages. Sizes of 1 stand
// in front of a shape of fewer than 4 dimensions.
struct NpyDimensions {
  int least = 4, most = 4;
  std::string_view words = "4 accepted: [batch, heads, seqlen, head_dim]";
};

// The facts of a header, so that sizes can be checked before anything is allocated.
struct NpyHeader {
  std::array<Index, 4> shape{};
  int dimensions = 4;  // in the file
  NpyType type = NpyType::f32;
  Index data_offset = 0;  // bytes

  bool is_f64() const { return type == NpyType::f64; }
  Index value_bytes() const { return is_f64() ? 8 : type == NpyType::f32 ? 4 : 2; }
  Index values() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  Index file_bytes() const { return data_offset + values() * value_bytes(); }  // fits in 64 bits

  // Take the file's shape, and return the bytes of its values. Throw InputError if it is not accepted.
  Index set_shape(const std::vector<Index>& sizes, const NpyDimensions& accepted);
};

// Read a header from the file's first bytes (`text` may be longer), which may be hostile. Throw
// InputError if it is not .npy, if the version, dtype, order or number of dimensions is not
// accepted, if a size is below 1, or on overflow.
NpyHeader parse_npy_header(std::string_view text, const NpyDimensions& dimensions = {});

// Read a whole file image. Throw InputError as above, and if it is shorter or longer than its shape
// says.
NpyArray parse_npy(std::string_view text);

// Read the header of `path` and check it against the file's size. Throw InputError naming `path`.
NpyHeader read_npy_header(const std::string& path, const NpyDimensions& dimensions = {});

// Read `path`; FILE.safetensors and FILE.safetensors:TENSOR stand for a tensor in such a file. Throw
// an InputError that names it, or RunError when memory does not suffice.
NpyArray read_npy(const std::string& path, const NpyDimensions& dimensions = {});

// Read a whole file image of a 1-D array of integers, signed or unsigned, of 8 to 64 bits. Throw
// InputError as parse_npy does, and for a value that does not fit in 64 bits with a sign.
std::vector<Index> parse_npy_integers(std::string_view text);

// Write integers of 64 bits into an open file, as write_npy does.
void write_npy_integers(AtomicFile& file, const std::vector<Index>& shape,
                        const std::vector<Index>& values);

// Return the version 1.0 header of a C-ordered array of any rank, padded to 64-byte alignment.
std::string npy_header(const std::vector<Index>& shape, bool f64);

// Write `values` (as many as the product of `shape`) as float32, or as float64 when `f64`, whole or
// not at all. Throw InputError when the place cannot be written to, RunError when writing fails
// (disk full).
void write_npy(const std::string& path, const std::vector<Index>& shape, const float* values,
               bool f64);

// Do the same into an open file. The caller commits it, so several outputs can appear together.
void write_npy(AtomicFile& file, const std::vector<Index>& shape, const float* values, bool f64);

// ---
// Headers of .safetensors files: eight bytes with the length of a JSON object, the object, and the
// tensors' raw bytes. Only what attention takes is read: F32, F64, F16 and BF16.

// Return the file and the tensor that `path` names, FILE.safetensors:TENSOR. The tensor is "" if none
// is named, and for other files.
std::pair<std::string, std::string> safetensor_of(const std::string& path);
bool is_safetensors(const std::string& path);

// Read the header of a tensor in `file`, of the only one if `tensor` is "". Throw InputError without
// the path, and unless the bytes that it claims lie in the file.
NpyHeader read_safetensors_header(const InputFile& file, const std::string& tensor,
                                  const NpyDimensions& dimensions);

}  // namespace ringscope
