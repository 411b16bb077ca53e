#include "core/base/dtype.h"

#include "core/base/text.h"

namespace ringscope {

DType parse_dtype(std::string_view text) { return parse_name(text, kAllDTypes); }

}  // namespace ringscope
