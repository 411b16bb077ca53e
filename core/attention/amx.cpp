#include "core/attention/amx.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

// The rest is compiled for any processor with AVX-512.
#define RINGSCOPE_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace ringscope {
namespace {

void store_words(float* to, const BitsVector& words) { std::memcpy(to, &words, sizeof words); }

// Return up to 32 values as words of two; those from `count` on are 0.
BitsVector column_pairs(const bf16* values, Index count) {
  BitsVector words{};
  if (count >= kAmxInner)
    std::memcpy(&words, values, sizeof words);
  else if (count > 0)
    std::memcpy(&words, values, sizeof(bf16) * static_cast<std::size_t>(count));
  return words;
}

// Return 16 words of a value of row `lower` and the one below it in row `upper`, from column x on.
BitsVector row_pairs(const bf16* matrix, Index rows, Index width, Index lower, Index upper,
                     Index x) {
  typedef std::uint16_t Halves __attribute__((vector_size(32)));
  const auto halves_of = [&](Index row) {
    Halves halves{};
    if (row >= rows) return __builtin_convertvector(halves, BitsVector);
    if (width - x >= kAmxRows)
      std::memcpy(&halves, matrix + row * width + x, sizeof halves);
    else
      std::memcpy(&halves, matrix + row * width + x,
                  sizeof(bf16) * static_cast<std::size_t>(width - x));
    return __builtin_convertvector(halves, BitsVector);
  };
  return halves_of(lower) | (halves_of(upper) << 16);
}

// Transpose 16 x 16 words: exchange the quarters of ever smaller squares that are off the diagonal.
void transpose(BitsVector (&square)[16]) {
#pragma GCC unroll 4
  for (int half = 8; half > 0; half /= 2) {
    BitsVector first, second;  // of both rows' lanes, which of them make the new rows
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < 16; ++lane) {
      const bool is_right = (lane & static_cast<unsigned>(half)) != 0;
      first[lane] = is_right ? 16 + lane - half : lane;
      second[lane] = is_right ? 16 + lane : lane + half;
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if ((i & half) != 0) continue;
      const __m512i a = (__m512i)square[i], b = (__m512i)square[i + half];
      square[i] = (BitsVector)_mm512_permutex2var_epi32(a, (__m512i)first, b);
      square[i + half] = (BitsVector)_mm512_permutex2var_epi32(a, (__m512i)second, b);
    }
  }
}

// Multiply kRows x kColumns blocks: registers 0 to 3 sum, 4 and 5 are of A, 6 and 7 of B.
template <int kRows, int kColumns>
RINGSCOPE_AMX void multiply_blocks(const AmxOperand& a, const AmxOperand& b, Store store, float* c,
                                   Index c_stride, Index inner_blocks) {
  const Index a_bytes = 4 * a.row_step, b_bytes = 4 * b.row_step, c_bytes = 4 * c_stride;
  float* const lower_c = c + kAmxRows * c_stride;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler doesn't see what is loaded
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (store == Store::accumulate) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (kColumns == 2) _tile_loadd(1, c + kAmxRows, c_bytes);
    if constexpr (kRows == 2) _tile_loadd(2, lower_c, c_bytes);
    if constexpr (kRows * kColumns == 4) _tile_loadd(3, lower_c + kAmxRows, c_bytes);
  }
  const int parts = a.parts * b.parts;  // one of them is 1
  for (Index k = 0; k < inner_blocks; ++k)
    for (int part = 0; part < parts; ++part) {
      if (part == 0 || b.parts > 1) {
        const float* right = b.words + k * b.inner_step + part * b.part_step;
        _tile_loadd(6, right, b_bytes);
        if constexpr (kColumns == 2) _tile_loadd(7, right + b.block_step, b_bytes);
      }
      if (part == 0 || a.parts > 1) {
        const float* left = a.words + k * a.inner_step + part * a.part_step;
        _tile_loadd(4, left, a_bytes);
        if constexpr (kRows == 2) _tile_loadd(5, left + a.block_step, a_bytes);
      }
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7);
      if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);
      if constexpr (kRows * kColumns == 4) _tile_dpbf16ps(3, 5, 7);
    }
  _tile_stored(0, c, c_bytes);
  if constexpr (kColumns == 2) _tile_stored(1, c + kAmxRows, c_bytes);
  if constexpr (kRows == 2) _tile_stored(2, lower_c, c_bytes);
  if constexpr (kRows * kColumns == 4) _tile_stored(3, lower_c + kAmxRows, c_bytes);
}

RINGSCOPE_AMX void configure_tiles() {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr Configuration kConfiguration;
  _tile_loadconfig(&kConfiguration);
}
RINGSCOPE_AMX void release_tiles() { _tile_release(); }

bool processor_has_amx() {
  constexpr unsigned kTilesAndBf16 = 1u << 24 | 1u << 22;  // of leaf 7
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTilesAndBf16) == kTilesAndBf16;
}
bool kernel_lends_tiles() {
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

}  // namespace

float largest_ordinary(const bf16* values, Index count) {
  constexpr unsigned kLeast = (127 - 48) << 7, kMost = (127 + 20) << 7;
  unsigned others = 0, largest = 0;
  for (Index i = 0; i < count; ++i) {
    const unsigned size = values[i].bits & 0x7fffu;
    others |=
        static_cast<unsigned>(size != 0) & static_cast<unsigned>(size - kLeast >= kMost - kLeast);
    largest = size > largest ? size : largest;
  }
  return others != 0 ? INFINITY : bf16{static_cast<std::uint16_t>(largest)}.to_float();
}

AmxRegisters::AmxRegisters(bool used) : used_(used) {
  if (used_) configure_tiles();
}
AmxRegisters::~AmxRegisters() {
  if (used_) release_tiles();
}

AmxOperand rows_as_left(const bf16* matrix, Index rows, Index width, float* to) {
  const Index words = round_up(width, kAmxInner) / 2;
  for (Index row = 0; row < rows; ++row)
    for (Index word = 0; word < words; word += 16)
      store_words(to + row * words + word,
                  column_pairs(matrix + row * width + 2 * word, width - 2 * word));
  return {to, words, kAmxRows * words, 16};
}

AmxOperand columns_as_left(const bf16* matrix, Index rows, Index width, float* to) {
  const Index words = round_up(rows, kAmxInner) / 2;
  for (Index x = 0; x < width; x += kAmxRows)
    for (Index word = 0; word < words; word += 16) {
      BitsVector square[16];
      for (Index i = 0; i < 16; ++i)
        square[i] = row_pairs(matrix, rows, width, 2 * (word + i), 2 * (word + i) + 1, x);
      transpose(square);
      for (Index i = 0; i < 16; ++i) store_words(to + (x + i) * words + word, square[i]);
    }
  return {to, words, kAmxRows * words, 16};
}

AmxOperand columns_as_right(const bf16* matrix, Index rows, Index width, float* to) {
  const Index words = round_up(width, kAmxInner) / 2;
  // An even number of blocks, because the inner dimension of weights is so.
  for (Index row = 0; row < round_up(rows, 2 * kAmxRows); row += kAmxRows)
    for (Index word = 0; word < words; word += 16) {
      BitsVector square[16];
      for (Index i = 0; i < 16; ++i)
        square[i] = row + i < rows
                        ? column_pairs(matrix + (row + i) * width + 2 * word, width - 2 * word)
                        : BitsVector{};
      transpose(square);
      for (Index i = 0; i < 16; ++i) store_words(to + row * words + (word + i) * 16, square[i]);
    }
  return {to, 16, kAmxRows * words, 16 * 16};
}

AmxOperand rows_as_right(const bf16* matrix, Index rows, Index width, float* to) {
  const Index padded_width = round_up(width, kAmxRows);
  for (Index row = 0; row < rows; row += kAmxInner)
    for (Index i = 0; i < 16; ++i)
      for (Index x = 0; x < width; x += kAmxRows)
        store_words(to + (row / 2 + i) * padded_width + x,
                    row_pairs(matrix, rows, width, row + i, row + i + 16, x));
  return {to, padded_width, kAmxRows, 16 * padded_width};
}

void split_row(const float* row, Interval columns, float factor, float* to) {
  for (Index j = columns.last - kAmxInner; j >= columns.first; j -= kAmxInner)
    split_pair(load(row + j) * factor, load(row + j + 16) * factor, to + words_of_weights(j), 16);
}
AmxOperand weights_as_left(const float* words, Index columns) {
  const Index row_step = words_of_weights(columns);
  return {words, row_step, kAmxRows * row_step, words_of_weights(kAmxInner), 16, kAmxParts};
}

void split_rows(const float* rows, Index stride, Interval columns, float* to) {
  for (Index j = columns.first; j < columns.last; j += kVectorWidth)
    split_pair(load(rows + j), load(rows + stride + j), to + j, stride);
}
AmxOperand weights_as_right(const float* words, Index stride) {
  return {words,  kAmxParts * stride, kAmxRows, words_of_weights(kAmxInner) * stride,
          stride, kAmxParts};
}

void amx_product(const AmxOperand& a, const AmxOperand& b, Store store, float* c, Index c_stride,
                 Index rows, Index columns, Index inner) {
  const Index row_blocks = ceil_div(rows, kAmxRows), column_blocks = ceil_div(columns, kAmxRows);
  const Index inner_blocks = ceil_div(inner, kAmxInner);
  for (Index i = 0; i < row_blocks; i += 2)
    for (Index j = 0; j < column_blocks; j += 2) {
      const bool two_rows = i + 1 < row_blocks, two_columns = j + 1 < column_blocks;
      const auto multiply = two_rows ? two_columns ? multiply_blocks<2, 2> : multiply_blocks<2, 1>
                            : two_columns ? multiply_blocks<1, 2>
                                          : multiply_blocks<1, 1>;
      multiply(a.from_block(kAmxRows * i), b.from_block(kAmxRows * j), store,
               c + kAmxRows * (i * c_stride + j), c_stride, inner_blocks);
    }
}

}  // namespace ringscope

#else

namespace ringscope {
namespace {

bool processor_has_amx() { return false; }
bool kernel_lends_tiles() { return false; }

}  // namespace

// Nobody calls these where there is no AMX.
float largest_ordinary(const bf16*, Index) { return INFINITY; }
AmxRegisters::AmxRegisters(bool used) : used_(used) {}
AmxRegisters::~AmxRegisters() {}
AmxOperand rows_as_left(const bf16*, Index, Index, float*) { return {}; }
AmxOperand columns_as_left(const bf16*, Index, Index, float*) { return {}; }
AmxOperand columns_as_right(const bf16*, Index, Index, float*) { return {}; }
AmxOperand rows_as_right(const bf16*, Index, Index, float*) { return {}; }
void split_row(const float*, Interval, float, float*) {}
AmxOperand weights_as_left(const float*, Index) { return {}; }
void split_rows(const float*, Index, Interval, float*) {}
AmxOperand weights_as_right(const float*, Index) { return {}; }
void amx_product(const AmxOperand&, const AmxOperand&, Store, float*, Index, Index, Index, Index) {}

}  // namespace ringscope

#endif

namespace ringscope {

const char* why_no_amx() {
  static const char* const reason = [] {
    const char* const wanted = std::getenv("RINGSCOPE_AMX");
    if (wanted != nullptr && std::string_view(wanted) == "off") return "RINGSCOPE_AMX is off";
    if (kVectorWidth != kAmxRows) return "compiled for narrower vectors";
    if (!processor_has_amx()) return "the processor has none";
    return kernel_lends_tiles() ? "" : "the kernel refuses its registers";
  }();
  return reason;
}

}  // namespace ringscope
