// Exercise 5: what a rank receives, and what it holds.
//
// A sequence of `seqlen` rows is split over `world_size` ranks: the first seqlen mod world_size of
// them hold one row more than the others. A row of K together with its row of V takes kv_row_bytes.
//
//   rows_of          how many rows rank `rank` holds
//   bytes_to_receive what rank `rank` must be sent until it has met all keys and values, whichever
//                    way it is done
//   bytes_held       K and V on rank `rank` at once: all blocks in an all-gather; in a ring two
//                    buffers, each large enough for the largest block (one rank alone: one buffer)
#pragma once

enum class Way { all_gather, ring };

inline long rows_of(long seqlen, int world_size, int rank) {
  return seqlen / world_size;  // not yet right when it does not divide
}

inline long bytes_to_receive(long seqlen, int world_size, int rank, long kv_row_bytes) {
  return seqlen * kv_row_bytes;  // not yet right
}

inline long bytes_held(Way way, long seqlen, int world_size, int rank, long kv_row_bytes) {
  (void)way;  // not yet right
  return rows_of(seqlen, world_size, rank) * kv_row_bytes;
}
