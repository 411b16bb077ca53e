#include "core/ring/problem.h"

#include "core/base/text.h"

namespace ringscope {

Scheme parse_scheme(std::string_view text) { return parse_name(text, kAllSchemes); }

}  // namespace ringscope
