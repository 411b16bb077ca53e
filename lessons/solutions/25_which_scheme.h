// Exercise 25, solved.
#pragma once

struct Layer {
  int heads, heads_kv, head_dim, bytes;
};

inline long query_bytes(const Layer& l) { return l.heads * (l.head_dim * (l.bytes + 4L) + 12); }
inline long kv_bytes(const Layer& l) { return 2L * l.heads_kv * l.head_dim * l.bytes; }

inline bool queries_travel(const Layer& layer, long rows, long keys) {
  return rows * query_bytes(layer) < keys * kv_bytes(layer);
}

inline int best_rows(const Layer& layer, int ranks) {
  const auto sent = [&](int r) {
    return (ranks / r - 1) * query_bytes(layer) + (r - 1) * kv_bytes(layer);
  };
  int best = 1;
  for (int r = 2; r <= ranks; ++r)
    if (ranks % r == 0 && sent(r) < sent(best)) best = r;
  return best;
}
