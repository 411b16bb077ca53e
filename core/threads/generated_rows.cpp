#include "core/threads/generated_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"

namespace ringscope {

void RandomRows::get(const RowsOfHead& piece, float* to) {
  const Index width = width_of(shape_, piece.tensor);
  if (piece.tensor == Tensor::dout) {
    std::fill_n(to, piece.count() * width, 1.0f);
    return;
  }
  constexpr RandomTensor kStreams[] = {RandomTensor::q, RandomTensor::k, RandomTensor::v};
  const RandomTensor stream = kStreams[static_cast<int>(piece.tensor)];
  for (Index row = piece.first; row < piece.end; ++row) {
    const Index first =
        (piece.head * seqlen_of(shape_, piece.tensor) + piece.rows.global_position(row)) * width;
    for (Index d = 0; d < width; ++d) *to++ = static_cast<float>(normal(seed_, stream, first + d));
  }
}

namespace {

constexpr double kEqualScore = 8;    // the score of equal words at any distance
constexpr double kNearScore = 2;     // the additional score of close words
constexpr double kByteWeight = 0.5;  // the weight of the byte's vector in a feature
constexpr double kOwnWeight = 0.25;  // the weight of a query head's own feature
constexpr double kRotaryBase = 10000;

// The kinds of random streams. Each head of a tensor has its own stream.
enum class Stream : std::uint64_t { key = 1, query = 2, value = 3 };

bool is_word_byte(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c >= 0x80;
}

// Return, for every byte of `window`, a hash of the prefix of its word that ends with it.
std::vector<std::uint64_t> prefix_hashes(std::string_view window) {
  std::vector<std::uint64_t> hashes(window.size());
  std::uint64_t hash = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const auto c = static_cast<unsigned char>(window[i]);
    const bool continues = in_word && is_word_byte(c);
    hash = mix64((continues ? hash : 0) + 256 + c);
    in_word = is_word_byte(c);
    hashes[i] = hash;
  }
  return hashes;
}

// Return a uniform random number of variance 1.
double component(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return (2 * unit_interval(random_bits(seed, stream, index)) - 1) * std::sqrt(3.0);
}

// Write the feature of a byte, with variance 1 per dimension, to `feature`.
void write_feature(Stream kind, Index head, unsigned char byte, std::uint64_t prefix_hash,
                   std::vector<double>& feature) {
  const std::uint64_t seed =
      mix64((static_cast<std::uint64_t>(kind) << 32) + static_cast<std::uint64_t>(head));
  const double word_weight = std::sqrt(1 - kByteWeight * kByteWeight);
  for (std::size_t d = 0; d < feature.size(); ++d)
    feature[d] =
        kByteWeight * component(seed, byte, d) + word_weight * component(seed, prefix_hash, d);
}

// Return how many pairs of dimensions rotate: a quarter of the dimensions. Where there are few, it
// is at least one pair if one dimension stays.
Index rotary_pairs(Index head_dim) { return head_dim < 3 ? 0 : max_of(head_dim / 8, 1); }

// Scale feature[begin, end) to a length at which it scores `score` against itself.
void scale_to_score(std::vector<double>& feature, Index begin, Index end, double score) {
  double norm = 0;
  for (Index d = begin; d < end; ++d) norm += feature[d] * feature[d];
  if (norm == 0) return;
  const double factor = std::sqrt(score * std::sqrt(static_cast<double>(feature.size())) / norm);
  for (Index d = begin; d < end; ++d) feature[d] *= factor;
}

void scale_key_feature(std::vector<double>& feature) {
  const Index head_dim = static_cast<Index>(feature.size()), turned = 2 * rotary_pairs(head_dim);
  scale_to_score(feature, 0, turned, kNearScore);
  scale_to_score(feature, turned, head_dim, kEqualScore);
}

void rotate(std::vector<double>& feature, Index position) {
  const Index pairs = rotary_pairs(static_cast<Index>(feature.size()));
  for (Index i = 0; i < pairs; ++i) {
    const double frequency =
        std::pow(kRotaryBase, -static_cast<double>(i) / static_cast<double>(pairs));
    const double angle = static_cast<double>(position) * frequency;
    const double c = std::cos(angle), s = std::sin(angle);
    const double x = feature[2 * i], y = feature[2 * i + 1];
    feature[2 * i] = c * x - s * y;
    feature[2 * i + 1] = s * x + c * y;
  }
}

// Call f with the open file. Complaints name the path.
template <class F>
auto with_text(const std::string& path, F&& f) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "file of at least 1 byte");
    if (file.size() == 0) throw InputError("empty; a file of at least 1 byte accepted");
    return f(file);
  });
}

}  // namespace

Index text_length(const std::string& path) {
  return with_text(path, [](const InputFile& file) { return file.size(); });
}

std::string read_text(const std::string& path, Index length) {
  return with_text(path, [length](const InputFile& file) {
    std::string text(length, '\0');
    file.read(text.data(), length, 0);
    return text;
  });
}

TextRows::TextRows(const AttentionShape& shape, std::string text)
    : shape_(shape), text_(std::move(text)), own_(static_cast<std::size_t>(shape.head_dim)) {}

void TextRows::get(const RowsOfHead& piece, float* to) {
  if (piece.tensor == Tensor::dout) {
    std::fill_n(to, piece.count() * shape_.value_dim(), 1.0f);
    return;
  }
  feature_.resize(static_cast<std::size_t>(width_of(shape_, piece.tensor)));
  const Index heads = is_key_side(piece.tensor) ? shape_.num_heads_kv : shape_.num_heads;
  turn_to(piece.head / heads);
  const Index first = is_key_side(piece.tensor) ? 0 : shape_.first_query();
  for (Index row = piece.first; row < piece.end; ++row) {
    make_feature(piece.tensor, piece.head % heads, first + piece.rows.global_position(row));
    for (const double x : feature_) *to++ = static_cast<float>(x);
  }
}

void TextRows::turn_to(Index window) {
  if (window == window_) return;
  window_ = window;
  hashes_ = prefix_hashes(bytes_of_window());
}

std::string_view TextRows::bytes_of_window() const {
  return std::string_view(text_).substr(static_cast<std::size_t>(window_ * shape_.seqlen),
                                        static_cast<std::size_t>(shape_.seqlen));
}

void TextRows::make_feature(Tensor tensor, Index head, Index position) {
  const auto write = [&](Stream kind, Index stream_head, std::vector<double>& feature) {
    write_feature(kind, stream_head, static_cast<unsigned char>(bytes_of_window()[position]),
                  hashes_[position], feature);
  };
  if (tensor == Tensor::v) return write(Stream::value, head, feature_);
  if (tensor == Tensor::k) {
    write(Stream::key, head, feature_);
    scale_key_feature(feature_);
  } else {
    write(Stream::key, head / shape_.group_size(), feature_);
    scale_key_feature(feature_);
    write(Stream::query, head, own_);
    scale_key_feature(own_);
    for (std::size_t d = 0; d < own_.size(); ++d) feature_[d] += kOwnWeight * own_[d];
  }
  rotate(feature_, position);
}

}  // namespace ringscope
