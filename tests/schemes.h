// The schemes that tests go through where every one would be too many.
#pragma once

#include "core/ring/scheme.h"

namespace ringscope {

// Those with a closed form, and those whose hops all go to the next rank.
inline const Scheme* const kAllSchemes[] = {scheme_named("ring"), scheme_named("allgather"),
                                            scheme_named("ulysses")};
inline const Scheme* const kRunSchemes[] = {scheme_named("ring"), scheme_named("allgather")};

}  // namespace ringscope
