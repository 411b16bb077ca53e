#include "core/layer/parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/random.h"

namespace ringscope {

Parameter ParameterLayout::add_matrix(std::string name, Index rows, Index columns,
                                      double deviation) {
  return add({std::move(name), {size_, rows, columns}, deviation});
}

Parameter ParameterLayout::add_gain(std::string name, Index columns) {
  return add({std::move(name), {size_, 1, columns}, 0});
}

Parameter ParameterLayout::add(NamedParameter parameter) {
  size_ += parameter.place.size();
  all_.push_back(std::move(parameter));
  return all_.back().place;
}

ParameterStore::ParameterStore(const ParameterLayout& layout, std::uint64_t seed,
                               MemoryMeter* meter)
    : values_(meter, layout.size()), gradients_(meter, layout.size() + 1) {
  constexpr std::uint64_t kFirstStream = 16;  // those below are attention's inputs (random.h)
  std::uint64_t stream = kFirstStream;
  for (const NamedParameter& parameter : layout.all()) {
    float* const to = values_.data() + parameter.place.offset;
    if (parameter.is_gain()) std::fill_n(to, parameter.place.size(), 1.0f);
    // Uniform in +-sqrt(3) has deviation 1.
    const double scale = parameter.deviation * std::sqrt(3.0);
    for (Index i = 0; !parameter.is_gain() && i < parameter.place.size(); ++i) {
      const std::uint64_t bits = random_bits(seed, stream, static_cast<std::uint64_t>(i));
      to[i] = static_cast<float>(scale * (2 * unit_interval(bits) - 1));
    }
    ++stream;
  }
}

}  // namespace ringscope
