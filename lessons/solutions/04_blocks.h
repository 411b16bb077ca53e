// Exercise 4, solved.
#pragma once

#include <algorithm>
#include <vector>

struct Tile {
  int first_query, last_query;
  int first_key, last_key;
};

inline std::vector<Tile> tiles(int queries, int keys, int tile_rows, int tile_keys) {
  std::vector<Tile> all;
  for (int q = 0; q < queries; q += tile_rows)
    for (int k = 0; k < keys; k += tile_keys)
      all.push_back({q, std::min(q + tile_rows, queries), k, std::min(k + tile_keys, keys)});
  return all;
}
