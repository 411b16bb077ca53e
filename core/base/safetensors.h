// Headers of .safetensors files: eight bytes with the length of a JSON object, the object, and the
// tensors' raw bytes. Only what attention takes is read: F32, F64, F16 and BF16.
#pragma once

#include <string>
#include <utility>

#include "core/base/npy.h"

namespace ringscope {

// Return the file and the tensor that `path` names, FILE.safetensors:TENSOR. The tensor is "" if none
// is named, and for other files.
std::pair<std::string, std::string> safetensor_of(const std::string& path);
bool is_safetensors(const std::string& path);

// Read the header of a tensor in `file`, of the only one if `tensor` is "". Throw InputError without
// the path, and unless the bytes that it claims lie in the file.
NpyHeader read_safetensors_header(const InputFile& file, const std::string& tensor,
                                  const NpyDimensions& dimensions);

}  // namespace ringscope
