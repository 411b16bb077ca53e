// The format is a version number, then counts, then field after field. Padding never travels, nor
// does a value that its field may not hold.
#include "core/trace/rank_events.h"

#include <cstring>
#include <type_traits>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr std::uint64_t kFormat = 0x52494e4745560002;  // "RINGEV", 2

// Call f(field) for every field of an event, both to pack and to unpack it.
template <class Event, class F>
void for_fields_of_event(Event& e, F&& f) {
  f(e.lane), f(e.pass), f(e.payload), f(e.step), f(e.kv_owner), f(e.begin_ns), f(e.end_ns);
  f(e.pairs), f(e.flops), f(e.tiles_full), f(e.tiles_partial), f(e.tiles_skipped), f(e.cpu_ns);
  f(e.bytes), f(e.src), f(e.dst), f(e.flow), f(e.waiting_for);
}
template <class Sample, class F>
void for_fields_of_sample(Sample& s, F&& f) {
  f(s.rank), f(s.step), f(s.query), f(s.at_ns), f(s.row_max), f(s.row_sum), f(s.lse),
      f(s.lse_error);
}

template <class Span, class F>
void for_fields_of_span(Span& s, F&& f) {
  f(s.part), f(s.pass), f(s.layer), f(s.begin_ns), f(s.end_ns), f(s.bytes);
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
  std::string bytes;
};

// Return the bytes that a packed event, sample or span takes.
std::size_t packed_bytes(const TraceEvent& event) {
  Packer add;
  for_fields_of_event(event, add);
  return add.bytes.size();
}
std::size_t packed_bytes(const SoftmaxSample& sample) {
  Packer add;
  for_fields_of_sample(sample, add);
  return add.bytes.size();
}
std::size_t packed_bytes(const ModelSpan& span) {
  Packer add;
  for_fields_of_span(span, add);
  return add.bytes.size();
}

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
  // Read a count of things of `size` bytes each. Refuse it unless all of them are there.
  std::size_t count(std::size_t size) {
    std::uint64_t value = 0;
    (*this)(value);
    if (value > left_.size() / size) refuse();
    return static_cast<std::size_t>(value);
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

  std::string_view left_;
};

}  // namespace

std::string pack(const RankEvents& of_rank) {
  Packer add;
  add(kFormat);
  add(of_rank.dropped), add(of_rank.peak_bytes), add(of_rank.clock_error_ns);
  add(static_cast<std::uint64_t>(of_rank.events.size()));
  for (const TraceEvent& event : of_rank.events) for_fields_of_event(event, add);
  add(static_cast<std::uint64_t>(of_rank.samples.size()));
  for (const SoftmaxSample& sample : of_rank.samples) for_fields_of_sample(sample, add);
  add(static_cast<std::uint64_t>(of_rank.model.size()));
  for (const ModelSpan& span : of_rank.model) for_fields_of_span(span, add);
  return std::move(add.bytes);
}

RankEvents unpack_rank_events(std::string_view bytes) {
  Unpacker take(bytes);
  RankEvents of_rank;
  std::uint64_t format = 0;
  take(format);
  if (format != kFormat) Unpacker::refuse();
  take(of_rank.dropped), take(of_rank.peak_bytes), take(of_rank.clock_error_ns);
  of_rank.events.resize(take.count(packed_bytes(TraceEvent{})));
  for (TraceEvent& event : of_rank.events) for_fields_of_event(event, take);
  of_rank.samples.resize(take.count(packed_bytes(SoftmaxSample{})));
  for (SoftmaxSample& sample : of_rank.samples) for_fields_of_sample(sample, take);
  of_rank.model.resize(take.count(packed_bytes(ModelSpan{})));
  for (ModelSpan& span : of_rank.model) for_fields_of_span(span, take);
  take.expect_end();
  return of_rank;
}

void add_rank(Recording& recording, int rank, RankEvents of_rank) {
  const auto r = static_cast<std::size_t>(rank);
  recording.events.at(r) = std::move(of_rank.events);
  recording.dropped.at(r) = of_rank.dropped;
  recording.info.clock_error_ns.at(r) = of_rank.clock_error_ns;
  if (!of_rank.model.empty()) recording.model.at(r) = std::move(of_rank.model);
  recording.samples.insert(recording.samples.end(), of_rank.samples.begin(), of_rank.samples.end());
}

}  // namespace ringscope
