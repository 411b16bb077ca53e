// How far off rounding may leave a row of attention, so that each row is judged by what it is made of,
// and neither by the largest row of its tensor nor by its own value, which may have cancelled to 0.
//
// The bounds carry the rounding errors of the formulas in naive.h through to first order (Higham,
// Accuracy and Stability of Numerical Algorithms, chapters 3 and 4). Let u = 2^-24, n be the number
// of rows that a sum has, g = 8 + sqrt(n) / 2 its growth (errors of a long sum add up as independent
// ones), and c = 2 + sqrt(head_dim) / 4 that of a dot product. |x| is the Euclidean norm of a row, and
// max|x| its largest element. A score is off by 2 u s_ij, where s_ij = |scale| |q_i| |k_j|, and with
// s_i = sum_j p_ij s_ij its weight by p_ij 2 u (s_ij + s_i - 2 p_ij s_ij), which is 0 where p is 1:
//
//   out_i   u g sum_j p_ij max|v_j| + 2 u sum_j p_ij (s_ij + s_i - 2 p_ij s_ij) max|v_j|
//   lse_i   u (g + 4 s_i + 2 |lse_i|)
//
// Let e_i be the bound of out_i with |v_j| for max|v_j|, and V_i = sum_j p_ij |v_j|. A backward pass
// takes its weights from the lse, so all weights of a row may be off by the same share: by
// w_ij = u g + 2 u (s_ij + s_i + |lse_i|) of themselves. dP and delta are each a dot product that is
// rounded as what it is a sum of, however small their difference:
//
//   E_ij    p_ij |dO_i| (u c (|v_j| + V_i) + e_i) + w_ij p_ij |dP_ij - delta_i|       error of dS_ij
//   dq_i    |scale| sum_j E_ij max|k_j|
//   dk_j    |scale| sum_i E_ij max|q_i|
//   dv_j    sum_i w_ij p_ij max|dO_i|
//   dsink   sum_i p_is |dO_i| (u c V_i + e_i) + w_is p_is |delta_i|, of the sink's weight p_is
//
// A softcap, whose tanh and slope are rounded, too, doubles s_ij and adds 8 to c.
//
// What scores do to a weight counts as a quarter of it at most, and in out_i and e_i as a quarter of
// the root of the sum of squares of the terms p_ij v_j: a row whose scores are so large that
// rounding decides its softmax cannot be called right. Weights below e^-87 may be lost, and of every
// other product what is below 2^-149.
#pragma once

#include <vector>

#include "core/problem/region.h"
#include "core/problem/shape.h"

namespace ringscope {

// By row of a tensor.
struct RowBound {
  std::vector<double> f32;  // the largest error of an element that rounding in f32 explains
  // Root of the sum of squares of the terms that the row is a sum of: where operands or terms are
  // rounded to 16 bits independently of each other, the row's error is some half units of it.
  std::vector<double> terms;
};

// Of all tensors, [batch, heads, seqlen]; of dk and dv with heads-kv. With NaiveOptions::queries those
// of out, lse and dq hold these rows alone, and those of the others are empty. dsink is [heads].
struct RowBounds {
  RowBound out, lse, dq, dk, dv, dsink;
};

// The sizes of the rows of a matrix, without its elements that are NaN or infinite.
struct RowSizes {
  std::vector<double> norm, most;  // Euclidean norm, and the largest |element|

  RowSizes(const double* data, Index rows, Index width);
};

// A row of weights, and of P * (dP - delta) in the backward pass, over the keys [first, first +
// count). Both are 0 where the mask forbids a key.
struct WeightRow {
  Index first, count;
  const double *p, *ds;
};

// Bounds the rows of one query head and of its kv head.
class RowBounder {
 public:
  // `growing` is the number of rows that the longest sum has.
  RowBounder(double softmax_scale, bool is_capped, Index growing, Index head_dim, const RowSizes& q,
             const RowSizes& k, const RowSizes& v);

  // Bound row i of out and lse, into place `at` of their bounds.
  void forward(Index i, const WeightRow& row, double lse, Index at, RowBounds& bounds) const;

  // Bound row i of dq, likewise, and add the row's share to the bounds of the kv head's dk and dv,
  // which begin at `keys`. Their `terms` are sums of squares until finish_terms(). `delta` is dO . O,
  // and `delta_norm` the norm of its terms.
  void backward(Index i, const WeightRow& row, double lse, const RowSizes& dout, double delta,
                double delta_norm, Index at, Index keys, RowBounds& bounds) const;

  // Add the row's share to the bound of the gradient of the head's sink, which has `weight` in it.
  // The rest is as in backward().
  void sink(Index i, const WeightRow& row, double weight, double lse, const RowSizes& dout,
            double delta, double delta_norm, Index at, RowBound& bound) const;

 private:
  // Return what |k_j| is multiplied by to bound the size of a score. A softcap doubles it (see above).
  double size_of_scores(Index i) const { return (is_capped_ ? 2 : 1) * scale_ * q_.norm[i]; }

  double scale_;
  bool is_capped_;
  double growth_, dot_growth_;
  const RowSizes &q_, &k_, &v_;
};

// Replace the sums of squares by their roots.
void finish_terms(RowBound& of_keys);

}  // namespace ringscope
