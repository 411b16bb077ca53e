#include "core/model/model.h"

#include <algorithm>

#include "core/model/layers.h"

namespace ringscope {

RankBytes take_rows(const std::uint8_t* windows, Index batch, Index seqlen, const LocalRows& rows) {
  RankBytes taken;
  for (Index b = 0; b < batch; ++b)
    for (Index row = 0; row < rows.size(); ++row) {
      const std::uint8_t* const at = windows + b * (seqlen + 1) + rows.global_position(row);
      taken.inputs.push_back(at[0]);
      taken.targets.push_back(at[1]);
    }
  return taken;
}

std::vector<MemoryPart> model_memory(const ModelShape& shape, Index tokens) {
  const auto number = [](Index value) { return static_cast<double>(value); };
  const double f32_rows = 4 * number(tokens), width = number(shape.width);
  const double hidden = number(shape.hidden), heads = number(shape.num_heads);
  const double heads_values = 2 * number((shape.num_heads + shape.num_heads_kv) * shape.head_dim);
  constexpr auto kOther = MemoryPart::Kind::other;
  return {
      {kOther, "layers' norms, Q, K, V, O, row_max, row_sum, gate, up",
       f32_rows * number(shape.layers) * (4 * width + 2 + heads_values + 3 * heads + 2 * hidden),
       "4 T L (4 W + 2 + 2 d (H+G) + 3 H + 2 F)"},
      {kOther, "shared by the layers", f32_rows * (width + heads_values + 3 * hidden),
       "4 T (W + 2 d (H+G) + 3 F)"},
      {kOther, "stream, its gradient, head's input, logits",
       f32_rows * (3 * width + 1 + number(shape.vocab)), "4 T (3 W + 1 + V)"}};
}

Model::Layer::Layer(const LayerWeights& its_weights, Index width, ContextRing& ring)
    : weights(its_weights),
      input(&ring.meter(), ring.tokens() * width),
      attention_input(&ring.meter(), input.size()),
      attention_rms(&ring.meter(), ring.tokens()),
      attention(its_weights, ring),
      middle(&ring.meter(), input.size()),
      mlp_input(&ring.meter(), input.size()),
      mlp_rms(&ring.meter(), ring.tokens()),
      mlp(its_weights, ring) {}

Model::Model(const ModelWeights& weights, ContextRing& ring)
    : weights_(weights),
      tokens_(ring.tokens()),
      shared_(weights.shape, ring),
      stream_(&ring.meter(), tokens_ * weights.shape.width),
      stream_gradient_(&ring.meter(), stream_.size()),
      head_input_(&ring.meter(), stream_.size()),
      final_rms_(&ring.meter(), tokens_),
      logits_(&ring.meter(), tokens_ * weights.shape.vocab) {
  layers_.reserve(weights.layers.size());
  for (const LayerWeights& layer : weights.layers)
    layers_.emplace_back(layer, weights.shape.width, ring);
}

void Model::norm(const ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
                 Buffer<float>& y, Buffer<float>& rms) const {
  rms_norm_forward(tokens_, weights_.shape.width, weights_.shape.norm_epsilon, x.data(),
                   store.value(gain), y.data(), rms.data());
}

void Model::norm_backward(ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
                          const Buffer<float>& rms, const float* dnormed, float* dx) const {
  rms_norm_backward(tokens_, weights_.shape.width, x.data(), store.value(gain), rms.data(), dnormed,
                    dx, store.gradient(gain));
}

void Model::run_layers(const ParameterStore& store, const RankBytes& bytes) {
  float* const x = stream_.data();
  shared_.ring.begins(ModelPart::embedding);
  embedding_forward(tokens_, weights_.shape.width, bytes.inputs.data(),
                    store.value(weights_.embedding), x);
  // [layers
  for (Layer& layer : layers_) {
    begins(ModelPart::attention, Pass::forward, layer);
    std::copy(stream_.begin(), stream_.end(), layer.input.begin());
    norm(store, layer.weights.attention_gain, layer.input, layer.attention_input,
         layer.attention_rms);
    layer.attention.forward(store, layer.attention_input.data(), x, shared_);  // x += ...

    begins(ModelPart::mlp, Pass::forward, layer);
    std::copy(stream_.begin(), stream_.end(), layer.middle.begin());
    norm(store, layer.weights.mlp_gain, layer.middle, layer.mlp_input, layer.mlp_rms);
    layer.mlp.forward(store, layer.mlp_input.data(), x, shared_);  // x += ...
  }
  // layers]
  shared_.ring.begins(ModelPart::head);
  norm(store, weights_.final_gain, stream_, head_input_, final_rms_);
  shared_.product(Store::overwrite, row_major(head_input_.data(), tokens_, weights_.shape.width),
                  store.matrix(weights_.head).transposed(), logits_.data());
}

double Model::loss(const ParameterStore& store, const RankBytes& bytes) {
  run_layers(store, bytes);
  return cross_entropy(tokens_, weights_.shape.vocab, bytes.targets.data(), 0, logits_.data());
}

double Model::loss_and_gradients(ParameterStore& store, const RankBytes& bytes, double scale) {
  const Index width = weights_.shape.width, vocab = weights_.shape.vocab;
  run_layers(store, bytes);
  const double loss = cross_entropy(tokens_, vocab, bytes.targets.data(), scale, logits_.data());

  const MatrixView dlogits = row_major(logits_.data(), tokens_, vocab);
  float *const dnormed = shared_.normed_gradient.data(), *const dx = stream_gradient_.data();
  shared_.product(Store::accumulate, dlogits.transposed(),
                  row_major(head_input_.data(), tokens_, width), store.gradient(weights_.head));
  shared_.product(Store::overwrite, dlogits, store.matrix(weights_.head), dnormed);
  stream_gradient_.fill(0);
  norm_backward(store, weights_.final_gain, stream_, final_rms_, dnormed, dx);

  // dx is the gradient of x after the part that is walked back over. The residual passes it on as
  // it is, and each part adds its own.
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    begins(ModelPart::mlp, Pass::backward, *layer);
    layer->mlp.backward(store, layer->mlp_input.data(), dx, dnormed, shared_);
    norm_backward(store, layer->weights.mlp_gain, layer->middle, layer->mlp_rms, dnormed, dx);
    begins(ModelPart::attention, Pass::backward, *layer);
    layer->attention.backward(store, layer->attention_input.data(), dx, dnormed, shared_);
    norm_backward(store, layer->weights.attention_gain, layer->input, layer->attention_rms, dnormed,
                  dx);
  }
  shared_.ring.begins(ModelPart::embedding, Pass::backward);
  embedding_backward(tokens_, width, bytes.inputs.data(), dx, store.gradient(weights_.embedding));
  return loss;
}

}  // namespace ringscope
