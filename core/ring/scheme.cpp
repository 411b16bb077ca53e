#include "core/ring/scheme.h"

#include "core/base/names.h"

namespace ringscope {

Scheme parse_scheme(std::string_view text) { return parse_name(text, kAllSchemes); }

}  // namespace ringscope
