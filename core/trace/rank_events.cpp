// The format is a version number, then counts, then field after field. Padding never travels, nor
// does a value that its field may not hold.
#include "core/trace/rank_events.h"

#include <cstring>
#include <tuple>
#include <type_traits>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr std::uint64_t kFormat = 0x52494e4745560003;  // "RINGEV", 3

// The fields of what a rank records, both to pack and to unpack them.
constexpr auto fields_of(const TraceEvent*) {
  using E = TraceEvent;
  return std::tuple(&E::lane, &E::pass, &E::payload, &E::step, &E::kv_owner, &E::begin_ns,
                    &E::end_ns, &E::pairs, &E::flops, &E::tiles_full, &E::tiles_partial,
                    &E::tiles_skipped, &E::cpu_ns, &E::bytes, &E::src, &E::dst, &E::flow,
                    &E::moved_ns, &E::waiting_for);
}
constexpr auto fields_of(const SoftmaxSample*) {
  using S = SoftmaxSample;
  return std::tuple(&S::rank, &S::step, &S::query, &S::at_ns, &S::row_max, &S::row_sum, &S::lse,
                    &S::lse_error);
}
constexpr auto fields_of(const ModelSpan*) {
  using M = ModelSpan;
  return std::tuple(&M::part, &M::pass, &M::layer, &M::begin_ns, &M::end_ns, &M::bytes);
}
constexpr auto fields_of(const KernelSpan*) {
  using K = KernelSpan;
  return std::tuple(&K::part, &K::multiprocessor, &K::role, &K::step, &K::matrix, &K::row_tile,
                    &K::key_tile, &K::begin_ns, &K::end_ns, &K::ticks);
}
constexpr auto fields_of(const RankEvents*) {
  using R = RankEvents;
  return std::tuple(&R::dropped, &R::dropped_stamps, &R::peak_bytes, &R::clock_error_ns, &R::events,
                    &R::samples, &R::model, &R::kernel);
}

// Call f(field) for every field of `x`.
template <class T, class F>
void for_fields(T& x, F&& f) {
  std::apply([&](auto... field) { (f(x.*field), ...); }, fields_of(&x));
}

class Packer {
 public:
  template <class T>
  void operator()(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<std::uint64_t>(list.size()));
    for (const T& item : list) for_fields(item, *this);
  }
  std::string bytes;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <class T>
  void operator()(T& value) {
    if (left_.size() < sizeof(T)) refuse();
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      (*this)(number);
      if (number > static_cast<int>(highest(T{}))) refuse();
      value = static_cast<T>(number);
    } else {
      std::memcpy(&value, left_.data(), sizeof(T));
      left_.remove_prefix(sizeof(T));
    }
  }
  // Unpack a list, unless it claims more than is there.
  template <class T>
  void operator()(std::vector<T>& list) {
    Packer one;
    const T empty{};
    for_fields(empty, one);
    std::uint64_t count = 0;
    (*this)(count);
    if (count > left_.size() / one.bytes.size()) refuse();
    list.resize(static_cast<std::size_t>(count));
    for (T& item : list) for_fields(item, *this);
  }
  void expect_end() const {
    if (!left_.empty()) refuse();
  }
  [[noreturn]] static void refuse() {
    throw RunError("what a rank recorded came in damaged, or from another version of the program");
  }

 private:
  static constexpr Lane highest(Lane) { return Lane::wait; }
  static constexpr Pass highest(Pass) { return Pass::backward; }
  static constexpr Payload highest(Payload) { return Payload::dkv; }
  static constexpr ModelPart highest(ModelPart) { return ModelPart::update; }
  static constexpr KernelPart highest(KernelPart) { return KernelPart::epilogue; }

  std::string_view left_;
};

}  // namespace

std::string pack(const RankEvents& of_rank) {
  Packer add;
  add(kFormat);
  for_fields(of_rank, add);
  return std::move(add.bytes);
}

RankEvents unpack_rank_events(std::string_view bytes) {
  Unpacker take(bytes);
  std::uint64_t format = 0;
  take(format);
  if (format != kFormat) Unpacker::refuse();
  RankEvents of_rank;
  for_fields(of_rank, take);
  take.expect_end();
  return of_rank;
}

void add_rank(Recording& recording, int rank, RankEvents of_rank) {
  const auto r = static_cast<std::size_t>(rank);
  recording.events.at(r) = std::move(of_rank.events);
  recording.dropped.at(r) = of_rank.dropped;
  recording.info.clock_error_ns.at(r) = of_rank.clock_error_ns;
  if (!of_rank.model.empty()) recording.model.at(r) = std::move(of_rank.model);
  if (!of_rank.kernel.empty()) {
    recording.kernel.resize(recording.events.size());
    recording.info.dropped_stamps.resize(recording.events.size());
    recording.kernel[r] = std::move(of_rank.kernel);
    recording.info.dropped_stamps[r] = of_rank.dropped_stamps;
  }
  recording.samples.insert(recording.samples.end(), of_rank.samples.begin(), of_rank.samples.end());
}

}  // namespace ringscope
