#include "core/training/matrix_product.h"

#include <algorithm>

#include "core/attention/tile_product.h"

namespace ringscope {

MatrixProduct::MatrixProduct(WorkPulse* pulse, MemoryMeter* meter, Index columns, DType dtype)
    : pulse_(pulse),
      meter_(meter),
      dtype_(dtype),
      packed_(meter, packed_values(kPackedRows, columns)),
      rounded_(meter, dtype == DType::f32 ? 0 : kRows * kPackedRows) {}

template <Store kStore>
void MatrixProduct::add_chunk(const MatrixView& a, Index columns, float* c) {
  for (Index row = 0; row < a.rows; row += kRows) {
    if (pulse_ != nullptr) pulse_->tick();
    MatrixView rows{a.data + row * a.row_stride, min_of(kRows, a.rows - row), a.columns,
                    a.row_stride, a.column_stride};
    if (dtype_ != DType::f32) rows = rounded(rows);
    for (Index column = 0; column < columns; column += kPanel)
      tile_product<kStore>({rows.data, rows.row_stride, rows.column_stride},
                           packed_.data() + column * a.columns, kPanel, c + row * columns + column,
                           columns, rows.rows, min_of(kPanel, columns - column), a.columns);
  }
}

// Copy some rows of A.
MatrixView MatrixProduct::rounded(const MatrixView& a) {
  float* to = rounded_.data();
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.columns; ++k)
      *to++ = round_to(dtype_, a.data[i * a.row_stride + k * a.column_stride]);
  return row_major(rounded_.data(), a.rows, a.columns);
}

// Copy B panel after panel, each [b.rows, kPanel], with zeros beyond the columns of B.
void MatrixProduct::pack(const MatrixView& b) {
  const Index size = packed_values(b.rows, b.columns);
  if (packed_.size() < size) packed_ = {meter_, size};
  for (Index column = 0; column < b.columns; column += kPanel) {
    float* const panel = packed_.data() + column * b.rows;
    const Index width = min_of(kPanel, b.columns - column);
    const float* const from = b.data + column * b.column_stride;
    if (b.column_stride == 1) {
      for (Index k = 0; k < b.rows; ++k) {
        std::copy_n(from + k * b.row_stride, width, panel + k * kPanel);
        std::fill_n(panel + k * kPanel + width, kPanel - width, 0.0f);
      }
      continue;
    }
    for (Index j = 0; j < kPanel; ++j)
      for (Index k = 0; k < b.rows; ++k)
        panel[k * kPanel + j] = j < width ? from[k * b.row_stride + j * b.column_stride] : 0.0f;
  }
  if (dtype_ != DType::f32)
    for (Index i = 0; i < size; ++i) packed_[i] = round_to(dtype_, packed_[i]);
}

void MatrixProduct::operator()(Store store, const MatrixView& a, const MatrixView& b, float* c) {
  flops_ += 2 * static_cast<double>(a.rows) * static_cast<double>(a.columns) *
            static_cast<double>(b.columns);
  if (a.columns == 0 && store == Store::overwrite) std::fill_n(c, a.rows * b.columns, 0.0f);
  for (Index k = 0; k < a.columns; k += kPackedRows) {
    const Index inner = min_of(kPackedRows, a.columns - k);
    pack({b.data + k * b.row_stride, inner, b.columns, b.row_stride, b.column_stride});
    const MatrixView part{a.data + k * a.column_stride, a.rows, inner, a.row_stride,
                          a.column_stride};
    if (k == 0 && store == Store::overwrite)
      add_chunk<Store::overwrite>(part, b.columns, c);
    else
      add_chunk<Store::accumulate>(part, b.columns, c);
  }
}

}  // namespace ringscope
