// The format is a version number, then counts, then field after field. Padding never travels, nor
// does a value that its field may not hold.
#include "core/trace/rank_events.h"

#include <cstring>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/ranges.h"
#include "core/trace/trace_fields.h"

namespace ringscope {
namespace {

constexpr std::uint64_t kFormat = 0x52494e4745560006;  // "RINGEV", 6
constexpr std::size_t kLeastBytes = 16;                // of an item of a list

// Call f(field) for every field of what a rank records, to pack or to unpack it. A slice has only those
// of its lane.
template <class T, class F>
void for_fields(T& x, F&& f) {
  using Type = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Type, RankEvents>) {
    f(x.dropped), f(x.dropped_stamps), f(x.peak_bytes), f(x.clock_error_ns);
    f(x.events), f(x.samples), f(x.model), f(x.kernel);
  } else {
    if constexpr (std::is_same_v<Type, TraceEvent>) f(x.lane);
    if constexpr (std::is_same_v<Type, SoftmaxSample>)
      f(x.rank), f(x.at_ns);
    else
      f(x.begin_ns), f(x.end_ns);
    static const RunInfo kAnyRun;
    for_args(x, kAnyRun, [&](EventField, auto& value, FieldRange = {}) { f(value); });
  }
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
      if (number >= std::size(all_like(T{}))) refuse();
      value = static_cast<T>(number);
    } else {
      std::memcpy(&value, left_.data(), sizeof(T));
      left_.remove_prefix(sizeof(T));
    }
  }
  // Unpack a list, unless it claims more than is there.
  template <class T>
  void operator()(std::vector<T>& list) {
    std::uint64_t count = 0;
    (*this)(count);
    if (count > left_.size() / kLeastBytes) refuse();
    list.resize(count);
    for (T& item : list) for_fields(item, *this);
  }
  void expect_end() const {
    if (!left_.empty()) refuse();
  }
  [[noreturn]] static void refuse() {
    throw RunError("what a rank recorded came in damaged, or from another version of the program");
  }

 private:
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

void add_rank(Recording& recording, int r, RankEvents of_rank) {
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
  if (of_rank.tile) recording.tile = std::move(of_rank.tile);
  recording.samples.insert(recording.samples.end(), of_rank.samples.begin(), of_rank.samples.end());
}

int only_rank_of(const Recording& recording) {
  int only = -1;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank) {
    if (recording.events[rank].empty()) continue;
    if (only >= 0) return -1;
    only = static_cast<int>(rank);
  }
  return recording.events.size() > 1 ? only : -1;
}

bool is_rank_of_run(const Recording& other, const Recording& recording) {
  const RunInfo &a = recording.info, &b = other.info;
  return only_rank_of(other) >= 0 && recording.events.size() == other.events.size() &&
         a.world_size == b.world_size && a.base_time_ns == b.base_time_ns && a.command == b.command;
}

void join_rank(Recording& recording, Recording other) {
  const auto rank = static_cast<std::size_t>(only_rank_of(other));
  if (!recording.events[rank].empty()) return;
  recording.events[rank] = std::move(other.events[rank]);
  if (rank < recording.model.size() && rank < other.model.size())
    recording.model[rank] = std::move(other.model[rank]);
  if (rank < recording.kernel.size() && rank < other.kernel.size())
    recording.kernel[rank] = std::move(other.kernel[rank]);
  recording.samples.insert(recording.samples.end(), other.samples.begin(), other.samples.end());
  ranges::stable_sort(recording.samples, {}, &SoftmaxSample::rank);
  if (other.tile) recording.tile = std::move(other.tile);
}

}  // namespace ringscope
