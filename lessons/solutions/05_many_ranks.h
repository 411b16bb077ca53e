// Exercise 5, solved.
#pragma once

enum class Way { all_gather, ring };

inline long rows_of(long seqlen, int world_size, int rank) {
  return seqlen / world_size + (rank < seqlen % world_size ? 1 : 0);
}

inline long bytes_to_receive(long seqlen, int world_size, int rank, long kv_row_bytes) {
  return (seqlen - rows_of(seqlen, world_size, rank)) * kv_row_bytes;
}

inline long bytes_held(Way way, long seqlen, int world_size, int /*rank*/, long kv_row_bytes) {
  if (way == Way::all_gather || world_size == 1) return seqlen * kv_row_bytes;
  return 2 * rows_of(seqlen, world_size, 0) * kv_row_bytes;  // rank 0's block is the largest
}
