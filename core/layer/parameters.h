// A model's weights as one flat array with the gradients beside it: what an optimizer walks, a
// checkpoint writes, the ranks add up and a test varies one by one. Names and places come from a
// layout, the same on every rank and in every run of one shape of model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/buffer.h"
#include "core/layer/matrix_product.h"

namespace ringscope {

// Where a weight lies: [rows, columns] in C order, from value `offset` on.
struct Parameter {
  Index offset = 0;
  Index rows = 0;
  Index columns = 0;

  Index size() const { return rows * columns; }
};

struct NamedParameter {
  std::string name;
  Parameter place;
  // Of the values that it begins with, which are uniform around 0; 0: a gain, [1, columns], which
  // begins as ones (and which weight decay leaves alone).
  double deviation = 0;

  bool is_gain() const { return deviation == 0; }
};

class ParameterLayout {
 public:
  // Behind those that are there. deviation > 0.
  Parameter add_matrix(std::string name, Index rows, Index columns, double deviation);
  Parameter add_gain(std::string name, Index columns);

  Index size() const { return size_; }  // values in all
  const std::vector<NamedParameter>& all() const { return all_; }

 private:
  Parameter add(NamedParameter parameter);

  std::vector<NamedParameter> all_;
  Index size_ = 0;
};

// A rank's copy. Weights are replicated: every rank holds all of them.
class ParameterStore {
 public:
  // Values drawn from `seed`, the same on every rank; gradients are not set yet.
  ParameterStore(const ParameterLayout& layout, std::uint64_t seed, MemoryMeter* meter);

  Index size() const { return values_.size(); }
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  // Those of all values, and behind them one number more, in which the ranks' losses travel along
  // when the gradients are added up.
  float* gradients() { return gradients_.data(); }
  const float* gradients() const { return gradients_.data(); }
  Index gradients_and_loss() const { return gradients_.size(); }
  float& loss() { return gradients_[size()]; }
  void clear_gradients() { gradients_.fill(0); }

  const float* value(const Parameter& p) const { return values_.data() + p.offset; }
  float* gradient(const Parameter& p) { return gradients_.data() + p.offset; }
  MatrixView matrix(const Parameter& p) const { return row_major(value(p), p.rows, p.columns); }

 private:
  Buffer<float> values_, gradients_;
};

}  // namespace ringscope
