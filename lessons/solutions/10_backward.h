// Exercise 10, solved.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

using Vector = std::vector<double>;

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t x = 0; x < a.size(); ++x) sum += a[x] * b[x];
  return sum;
}

// a += factor * b
inline void add(Vector& a, double factor, const Vector& b) {
  for (std::size_t x = 0; x < a.size(); ++x) a[x] += factor * b[x];
}

inline void backward(double scale, const Vector& q, const std::vector<Vector>& k,
                     const std::vector<Vector>& v, const Vector& dout, double lse, double delta,
                     Vector& dq, std::vector<Vector>& dk, std::vector<Vector>& dv) {
  for (std::size_t j = 0; j < k.size(); ++j) {
    const double weight = std::exp(scale * dot(q, k[j]) - lse);
    const double dscore = weight * (dot(dout, v[j]) - delta);
    add(dv[j], weight, dout);
    add(dq, scale * dscore, k[j]);
    add(dk[j], scale * dscore, q);
  }
}
