// Exercise 7: pairs under a causal mask.
//
// pairs(q, k, rows): of the queries q, q+1, ..., q+rows-1 and the keys k, k+1, ..., k+rows-1, how
// many pairs (query i, key j) have j <= i? In closed form: it is asked for blocks of a million
// rows, hence the doubles. The two may overlap in part, or not at all.
#pragma once

inline double pairs(double q, double k, double rows) {
  if (q == k) return rows * (rows + 1) / 2;
  return rows * rows;  // not yet right: keys may lie ahead, or in part
}
