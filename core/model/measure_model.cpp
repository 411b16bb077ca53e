#include "core/model/measure_model.h"

#include <algorithm>
#include <memory>

#include "core/base/random.h"
#include "core/cost/time.h"
#include "core/model/layers.h"
#include "core/model/model_shape.h"
#include "core/model/parameters.h"

namespace ringscope {
namespace {

constexpr Index kMostWidth = 512;
constexpr Index kMostRows = 2048, kLeastRows = 128;
constexpr double kMostFlops = 2e9;  // of the products in one repetition

ModelShape shape_of(const ModelMeasurement& what) {
  ModelShape shape;
  shape.layers = 1;
  shape.width = min_of(what.model.width, kMostWidth);
  shape.hidden = min_of(what.model.hidden, 3 * kMostWidth);
  shape.vocab = min_of(what.model.vocab, shape.vocab);
  shape.head_dim = min_of(round_up(what.heads.head_dim, 2), kMostWidth);
  const Index groups = max_of(kMostWidth / shape.head_dim / what.heads.group_size(), 1);
  shape.num_heads_kv = min_of(what.heads.num_heads_kv, groups);
  shape.num_heads =
      shape.num_heads_kv * min_of(what.heads.group_size(), kMostWidth / shape.head_dim);
  return shape;
}

// Return the FLOPs per row of LayerBench::products().
double product_flops(const ModelShape& shape) {
  return 3 * 2 * static_cast<double>(shape.width) *
         static_cast<double>(shape.num_heads * shape.head_dim + 2 * shape.hidden + shape.vocab);
}

Index rows_of(const ModelMeasurement& what, const ModelShape& shape) {
  const auto fitting = static_cast<Index>(kMostFlops / product_flops(shape));
  return min_of(min_of(what.tokens, kMostRows), max_of(fitting, kLeastRows));
}

Buffer<float> values(Index count, std::uint64_t stream) {
  Buffer<float> result(nullptr, count);
  for (Index i = 0; i < count; ++i)
    result[i] = static_cast<float>(
        unit_interval(random_bits(stream, 1, static_cast<std::uint64_t>(i))) - 0.5);
  return result;
}

// Does one layer's work on random rows, part by part, as AttentionLayer, MlpLayer and Model do it.
class LayerBench {
 public:
  LayerBench(const ModelShape& shape, Index rows)
      : shape_(shape), rows_(rows), store_(weights_.layout, 1, nullptr) {
    store_.clear_gradients();
  }

  double flops() const { return product_flops(shape_) * static_cast<double>(rows_); }
  double row_values() const { return static_cast<double>(rows_ * shape_.width); }
  double hidden_values() const { return static_cast<double>(rows_ * shape_.hidden); }
  double head_values() const { return 2 * static_cast<double>(queries_.size() + keys_.size()); }
  double logits() const { return static_cast<double>(logits_.size()); }
  double parameters() const { return static_cast<double>(store_.size()); }

  // Compute one product of each shape, forward and backward.
  void products() {
    const LayerWeights& layer = weights_.layers[0];
    const auto both_ways = [&](const Parameter& weight, const Buffer<float>& x, Buffer<float>& y,
                               Buffer<float>& dx) {
      linear_forward(product_, store_, weight, rows_, x.data(), Store::overwrite, y.data());
      linear_backward(product_, store_, weight, rows_, x.data(), y.data(), Store::overwrite,
                      dx.data());
    };
    both_ways(layer.query, x_, queries_, dx_);
    both_ways(layer.gate, x_, up_, dx_);
    both_ways(layer.down, gate_, y_, hidden_);
    const MatrixView head = store_.matrix(weights_.head);
    const MatrixView dlogits = row_major(logits_.data(), rows_, shape_.vocab);
    product_(Store::overwrite, row_major(x_.data(), rows_, shape_.width), head.transposed(),
             logits_.data());
    product_(Store::accumulate, dlogits.transposed(), row_major(x_.data(), rows_, shape_.width),
             store_.gradient(weights_.head));
    product_(Store::overwrite, dlogits, head, dx_.data());
  }

  void norm() {
    std::copy(x_.begin(), x_.end(), y_.begin());
    rms_norm_forward(rows_, shape_.width, shape_.norm_epsilon, y_.data(), gain(), dx_.data(),
                     rms_.data());
  }
  void norm_backward() {
    rms_norm_backward(rows_, shape_.width, x_.data(), gain(), rms_.data(), y_.data(), dx_.data(),
                      store_.gradient(weights_.layers[0].mlp_gain));
  }
  void swiglu() { swiglu_forward(gate_.size(), gate_.data(), up_.data(), hidden_.data()); }
  void swiglu_backward() {
    ringscope::swiglu_backward(gate_.size(), gate_.data(), up_.data(), gate_.data(), hidden_.data(),
                               up_gradient_.data());
  }

  void heads() {
    rotary_.turn(1, shape_.num_heads, queries_.data());
    rotary_.turn(1, shape_.num_heads_kv, keys_.data());
    for (const auto& [from, to] : {std::pair{&queries_, &q_}, {&queries_, &q_}})
      move(*from, *to);  // Q; the output moves the other way, which takes as long
    for (const auto& [from, to] : {std::pair{&keys_, &k_}, {&keys_, &k_}}) move(*from, *to);
  }
  void heads_backward() {
    heads();
    for (int i = 0; i < 2; ++i)  // the output and its gradient come on top of dQ
      exchange_rows_and_heads(heads_, rows_, shape_.num_heads, queries_.data(), q_.data());
  }

  void loss(double scale) {
    cross_entropy(rows_, shape_.vocab, targets_.data(), scale, logits_.data());
  }
  void update() {
    adam_.update(store_, store_.gradient_length());
    std::fill_n(store_.gradients(), store_.size(), 1e-3f);
  }

 private:
  const float* gain() const { return store_.value(weights_.layers[0].mlp_gain); }
  // Move to attention's order, and from there into the ring's memory.
  void move(const Buffer<float>& from, Buffer<float>& to) {
    const Index heads = from.size() / (rows_ * shape_.head_dim);
    exchange_rows_and_heads(heads_, rows_, heads, from.data(), to.data());
    std::copy(to.begin(), to.end(), ring_.begin());
  }

  ModelShape shape_;
  Index rows_;
  AttentionShape heads_{1, shape_.num_heads, shape_.num_heads_kv, rows_, shape_.head_dim};
  ModelWeights weights_{shape_};
  ParameterStore store_;
  AdamW adam_{weights_.layout, {}, nullptr};
  MatrixProduct product_;
  Rotary rotary_{Partition{PartitionKind::contiguous, rows_, 1}.rows_of(0), shape_.head_dim,
                 shape_.rotary_base};
  Buffer<float> x_ = values(rows_ * shape_.width, 1), y_ = values(x_.size(), 2),
                dx_ = values(x_.size(), 3), rms_ = values(rows_, 4);
  Buffer<float> gate_ = values(rows_ * shape_.hidden, 5), up_ = values(gate_.size(), 6),
                hidden_ = values(gate_.size(), 7), up_gradient_ = values(gate_.size(), 8);
  Buffer<float> queries_ = values(query_values(heads_, rows_), 9), q_ = values(queries_.size(), 10),
                ring_ = values(queries_.size(), 11), keys_ = values(kv_values(heads_, rows_), 12),
                k_ = values(keys_.size(), 13);
  Buffer<float> logits_ = values(rows_ * shape_.vocab, 14);
  std::vector<std::uint8_t> targets_ = std::vector<std::uint8_t>(rows_);
};

}  // namespace

ModelFigures measure_model(const ModelMeasurement& what) {
  const ModelShape shape = shape_of(what);
  std::vector<std::unique_ptr<LayerBench>> benches;
  for (int i = 0; i < what.threads; ++i)
    benches.push_back(std::make_unique<LayerBench>(shape, rows_of(what, shape)));
  const std::vector<double> seconds = slowest_thread(benches, [&](LayerBench& bench) {
    return fastest_of(what.seconds, {[&] { bench.products(); }, [&] { bench.norm(); },
                                     [&] { bench.norm_backward(); }, [&] { bench.swiglu(); },
                                     [&] { bench.swiglu_backward(); }, [&] { bench.heads(); },
                                     [&] { bench.heads_backward(); }, [&] { bench.loss(0); },
                                     [&] { bench.loss(1e-3); }, [&] { bench.update(); }});
  });
  const LayerBench& bench = *benches[0];
  ModelFigures figures;
  figures.product_flops = bench.flops() / seconds[0];
  figures.norm = {seconds[1] / bench.row_values(), seconds[2] / bench.row_values()};
  figures.gate = {seconds[3] / bench.hidden_values(), seconds[4] / bench.hidden_values()};
  figures.heads = {seconds[5] / bench.head_values(), seconds[6] / bench.head_values()};
  // The call with gradients computes the loss as well, so backward is only the difference.
  figures.loss = {seconds[7] / bench.logits(),
                  std::max(0.0, seconds[8] - seconds[7]) / bench.logits()};
  figures.update_s = seconds[9] / bench.parameters();
  return figures;
}

}  // namespace ringscope
