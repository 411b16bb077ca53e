// Exercise 4: all tiles of a matrix of scores.
//
// tiles(queries, keys, tile_rows, tile_keys) lists the tiles that cover `queries` rows and `keys`
// columns, row of tiles by row of tiles, from left to right. A tile holds queries [first_query,
// last_query) and keys [first_key, last_key), at most tile_rows by tile_keys of them; only those at
// the lower and the right edge are smaller. No tile is empty.
#pragma once

#include <algorithm>
#include <vector>

struct Tile {
  int first_query, last_query;
  int first_key, last_key;
};

inline std::vector<Tile> tiles(int queries, int keys, int tile_rows, int tile_keys) {
  std::vector<Tile> all;
  for (int q = 0; q < queries; q += tile_rows)   // not yet right: keys are still in one piece,
    all.push_back({q, q + tile_rows, 0, keys});  // and the last tile may reach too far
  (void)tile_keys;
  return all;
}
