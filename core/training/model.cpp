#include "core/training/model.h"

#include <algorithm>

#include "core/training/layers.h"

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

Model::Model(const ModelWeights& weights, ContextRing& ring, Index chunks, Communicator* tensor)
    : weights_(weights),
      chunks_(chunks),
      tokens_(ring.tokens()),
      shared_(weights.shape, ring, ModelMemory{.chunks = chunks}.piece(tokens_)),
      stream_(&ring.meter(), tokens_ * weights.shape.width),
      stream_gradient_(&ring.meter(), stream_.size()),
      head_input_(&ring.meter(), stream_.size()),
      final_rms_(&ring.meter(), tokens_),
      logits_(&ring.meter(), shared_.piece * weights.shape.vocab),
      tensor_(tensor, stream_.size(), &ring.meter()) {
  const ModelShape& shape = weights.shape;
  const auto buffer = [&](Index rows, Index columns) {
    return Buffer<float>(&ring.meter(), rows * columns);
  };
  const auto of_rows = [&](Index columns) { return buffer(tokens_, columns); };
  const auto of_piece = [&] { return buffer(shared_.piece, shape.hidden); };
  const Index insides = ModelMemory{.chunks = chunks}.kept_mlps(shape.layers);
  insides_.reserve(insides);  // because the layers point to them
  layers_.reserve(weights.layers.size());
  for (const LayerWeights& layer : weights.layers) {
    if (std::ssize(insides_) < insides) insides_.push_back({of_piece(), of_piece(), of_piece()});
    const bool is_last = std::ssize(layers_) + 1 == shape.layers;
    layers_.push_back({layer,
                       of_rows(shape.width),
                       of_rows(shape.width),
                       of_rows(1),
                       of_rows(shape.width),
                       of_rows(shape.width),
                       of_rows(1),
                       {layer, ring, !is_last},
                       {layer, insides_.back()}});
  }
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
  for (Layer& layer : layers_) {
    std::copy(stream_.begin(), stream_.end(), layer.input.begin());
    begins(ModelPart::attention, Pass::forward, layer);
    norm(store, layer.weights.attention_gain, layer.input, layer.attention_input,
         layer.attention_rms);
    tensor_.begin_sum(layer.input, layer.middle.data());
    layer.attention.forward(store, layer.attention_input.data(), layer.middle.data(), shared_);
    tensor_.add_up(layer.middle.data());

    begins(ModelPart::mlp, Pass::forward, layer);
    norm(store, layer.weights.mlp_gain, layer.middle, layer.mlp_input, layer.mlp_rms);
    tensor_.begin_sum(layer.middle, x);
    layer.mlp.forward(store, layer.mlp_input.data(), x, shared_);
    tensor_.add_up(x);
  }
}

double Model::run_head(const ParameterStore& store, const RankBytes& bytes, double scale,
                       ParameterStore* gradients) {
  const Index width = weights_.shape.width, vocab = weights_.shape.vocab;
  shared_.ring.begins(ModelPart::head);
  norm(store, weights_.final_gain, stream_, head_input_, final_rms_);
  double loss = 0;
  shared_.for_pieces([&](Index first, Index rows) {
    const MatrixView input = row_major(head_input_.data() + first * width, rows, width);
    const MatrixView logits = row_major(logits_.data(), rows, vocab);
    shared_.product(Store::overwrite, input, store.matrix(weights_.head).transposed(),
                    logits_.data());
    loss = cross_entropy(rows, vocab, bytes.targets.data() + first, scale, logits_.data(), loss);
    if (gradients == nullptr) return;
    shared_.product(Store::accumulate, logits.transposed(), input,
                    gradients->gradient(weights_.head));
    shared_.product(Store::overwrite, logits, store.matrix(weights_.head),
                    shared_.normed_gradient.data() + first * width);
  });
  return loss;
}

double Model::loss(const ParameterStore& store, const RankBytes& bytes) {
  run_layers(store, bytes);
  return run_head(store, bytes, 0, nullptr);
}

double Model::loss_and_gradients(ParameterStore& store, const RankBytes& bytes, double scale) {
  run_layers(store, bytes);
  const double loss = run_head(store, bytes, scale, &store);
  float *const dnormed = shared_.normed_gradient.data(), *const dx = stream_gradient_.data();
  stream_gradient_.fill(0);
  norm_backward(store, weights_.final_gain, stream_, final_rms_, dnormed, dx);

  // dx is the gradient of x after the part that is walked back over. The residual passes it on as
  // it is, and each part adds its own.
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    begins(ModelPart::mlp, Pass::backward, *layer);
    layer->mlp.backward(store, layer->mlp_input.data(), dx, dnormed, shared_, chunks_ > 1);
    tensor_.add_up(dnormed);
    norm_backward(store, layer->weights.mlp_gain, layer->middle, layer->mlp_rms, dnormed, dx);
    begins(ModelPart::attention, Pass::backward, *layer);
    layer->attention.backward(store, layer->attention_input.data(), dx, dnormed, shared_);
    tensor_.add_up(dnormed);
    norm_backward(store, layer->weights.attention_gain, layer->input, layer->attention_rms, dnormed,
                  dx);
  }
  shared_.ring.begins(ModelPart::embedding, Pass::backward);
  embedding_backward(tokens_, weights_.shape.width, bytes.inputs.data(), dx,
                     store.gradient(weights_.embedding));
  return loss;
}

}  // namespace ringscope
