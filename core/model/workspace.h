// What the layers of a rank share, because they work one after the other: the ring, the rotations
// of its rows, and buffers. Nothing in the buffers lasts from one call to the next.
#pragma once

#include "core/model/context_ring.h"
#include "core/model/layers.h"
#include "core/model/matrix_product.h"
#include "core/model/model_shape.h"

namespace ringscope {

struct Workspace {
  // `its_ring` must outlive it and have the model's heads.
  Workspace(const ModelShape& shape, ContextRing& its_ring)
      : ring(its_ring),
        rotary(ring.local_rows(), shape.head_dim, shape.rotary_base),
        product(ring.pulse()),
        normed_gradient(&ring.meter(), ring.tokens() * shape.width),
        queries(&ring.meter(), ring.tokens() * shape.num_heads * shape.head_dim),
        query_gradients(&ring.meter(), queries.size()),
        keys(&ring.meter(), ring.tokens() * shape.num_heads_kv * shape.head_dim),
        values(&ring.meter(), keys.size()),
        hidden(&ring.meter(), ring.tokens() * shape.hidden),
        hidden_gradient(&ring.meter(), hidden.size()),
        up_gradient(&ring.meter(), hidden.size()) {}

  ContextRing& ring;
  Rotary rotary;
  MatrixProduct product;
  Buffer<float> normed_gradient;                         // [tokens, width]
  Buffer<float> queries, query_gradients, keys, values;  // [tokens, heads, head_dim]
  Buffer<float> hidden, hidden_gradient, up_gradient;    // [tokens, hidden]
};

}  // namespace ringscope
