#include "core/ring/problem.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {

Scheme parse_scheme(std::string_view text) { return parse_name(text, kRunSchemes); }

int Problem::used_kv_buffers() const {
  return scheme == Scheme::ring ? std::min(kv_buffers, world_size) : 0;
}

double Problem::scale() const {
  return softmax_scale.value_or(default_softmax_scale(shape.head_dim));
}

RingProblem Problem::ring_problem() const {
  return {{shape, dtype, scale()}, mask.for_seqlen(shape.seqlen), partition_of_sequence(), nodes};
}

int Problem::ranks_a_node() const {
  if (nodes >= 1 && world_size % nodes == 0) return world_size / nodes;
  throw InputError("nodes: " + std::to_string(nodes) + " given for " + std::to_string(world_size) +
                   " ranks; accepted: a number that divides them");
}

}  // namespace ringscope
