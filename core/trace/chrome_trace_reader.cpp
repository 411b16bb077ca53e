#include "core/trace/chrome_trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"

namespace ringscope {
namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::uint64_t kMinBytesPerRank = 64;  // least size of the events that name it
constexpr std::size_t kMaxListText = 1000;
constexpr std::size_t kBytesOfSlice = 200;  // at least, as we write it

struct Lists {
  std::map<EventField, std::vector<std::int64_t>> integers;
  std::map<EventField, std::vector<float>> reals;
};

// Takes the members that for_fields() describes from what was read.
struct FieldReader {
  const TraceFields& fields;
  const Lists& lists;

  template <class T>
  void operator()(EventField field, T& value, FieldRange range = {}) const {
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      take(lists.integers, field, value);
    } else if constexpr (std::is_same_v<T, std::vector<float>>) {
      take(lists.reals, field, value);
    } else if (range.may_lack && !fields.has(field)) {
      return;
    } else if constexpr (requires { value.emplace(); }) {
      (*this)(field, value.emplace(), range);
    } else if constexpr (std::is_enum_v<T>) {
      value = fields.choice(field, all_like(T{}));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = fields.real(field);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(is_time(field) ? fields.time(field, 0)
                                            : fields.integer(field, range.least, range.most));
    } else {
      value = fields.string(field);
    }
  }
  template <class All, class List>
  static void take(const All& all, EventField field, List& value) {
    if (const auto list = all.find(field); list != all.end()) value = list->second;
  }
  template <class F>
  void object(EventField field, F&& members) const {
    fields.require_object(field);
    members();
  }
  template <class T, class F>
  void part(EventField field, std::optional<T>& part, F&& members) const {
    if (fields.has(field)) members(part.emplace());
  }
};

// The texts with which our writer begins members that stand behind others.
constexpr std::string_view kMemberTexts[] = {
#define RINGSCOPE_MEMBER_TEXT(place, field, name) ", \"" name "\": ",
    RINGSCOPE_TRACE_FIELDS(RINGSCOPE_MEMBER_TEXT)
#undef RINGSCOPE_MEMBER_TEXT
};

// Takes an event from a text that is just as our writer writes it, in a quarter of the time of reading JSON:
// each member in its place, numbers without signs and exponents. Any other text, whatever it is, does not fit
// and is left to JsonReader.
class WrittenEvent {
 public:
  explicit WrittenEvent(std::string_view text)
      : at_(text.data()), end_(at_ + text.size()), flow_at_(at_) {}

  bool fits() const { return fits_; }
  const char* at() const { return at_; }
  const char* flow_at() const { return flow_at_; }

  bool next_is(std::string_view text) const {
    return static_cast<std::size_t>(end_ - at_) >= text.size() &&
           std::memcmp(at_, text.data(), text.size()) == 0;
  }
  bool take_if_next(std::string_view text) {
    const bool is_next = next_is(text);
    if (is_next) at_ += text.size();
    return is_next;
  }
  void take(std::string_view text) {
    if (!take_if_next(text)) refuse();
  }
  void key(EventField field) { take(text_of(field)); }
  void begin_object(EventField field) {
    key(field);
    take("{");
    is_first_ = true;
  }
  // Take a string whose letters mean themselves.
  void string(EventField field) {
    key(field);
    take("\"");
    while (at_ < end_ && *at_ >= ' ' && *at_ <= '~' && *at_ != '"' && *at_ != '\\') ++at_;
    take("\"");
  }
  std::int64_t integer(EventField field, std::int64_t least, std::int64_t most) {
    key(field);
    if (field == EventField::flow) flow_at_ = at_;
    const std::int64_t value = digits();
    if (value < least || value > most) refuse();
    return value;
  }
  std::int64_t time(EventField field) {
    const std::int64_t microseconds = integer(field, 0, kMaxTraceNs / 1000 - 1);
    take(".");
    if (end_ - at_ < 3 || !is_digit(at_[0]) || !is_digit(at_[1]) || !is_digit(at_[2])) refuse();
    if (!fits_) return 0;
    const int rest = 100 * (at_[0] - '0') + 10 * (at_[1] - '0') + (at_[2] - '0');
    at_ += 3;
    return 1000 * microseconds + rest;
  }

  // Take a member that for_args() describes.
  template <class T>
  void operator()(EventField field, T& value, FieldRange range = {}) {
    if (range.may_lack && !next_is(text_of(field))) return;
    if constexpr (std::is_enum_v<T>) {
      key(field);
      take("\"");
      for (const T each : all_like(T{}))
        if (take_if_next(name_of(each))) {
          value = each;
          return take("\"");
        }
      refuse();
    } else {
      value =
          static_cast<T>(is_time(field) ? time(field) : integer(field, range.least, range.most));
    }
  }

 private:
  // Return the text that begins the next member if it is this one.
  std::string_view text_of(EventField field) {
    return kMemberTexts[static_cast<std::size_t>(field)].substr(
        std::exchange(is_first_, false) ? 2 : 0);
  }
  std::int64_t digits() {
    constexpr std::ptrdiff_t kMost = 18;  // cannot overflow
    const char* const begin = at_;
    std::int64_t value = 0;
    for (; at_ < end_ && is_digit(*at_) && at_ - begin < kMost; ++at_)
      value = 10 * value + (*at_ - '0');
    if (at_ == begin || (*begin == '0' && at_ - begin > 1)) refuse();
    return value;
  }
  // Refuse the text: nothing fits from now on.
  void refuse() { fits_ = false, at_ = end_; }

  const char *at_, *end_, *flow_at_;
  bool fits_ = true, is_first_ = false;
};

// What a send or receive slice says of its message, and where in the text it names the flow.
struct FlowEnd {
  std::int64_t id = 0;
  bool is_recv = false;
  std::uint64_t at = 0;
  std::int32_t rank = 0, peer = 0;
  std::size_t index = 0;  // of the event
  auto operator<=>(const FlowEnd&) const = default;
};

class TraceReader {
 public:
  TraceReader(TextSource& text, TraceFile& file,
              const std::function<void(const TraceFields&)>& other, std::int64_t earliest_ns,
              std::size_t chunk)
      : json_(text, chunk),
        text_bytes_(text.most_bytes()),
        stored_bytes_(text.size()),
        file_(file),
        other_(other),
        earliest_ns_(earliest_ns) {}

  // Read all of the text, or of one that is cut off, what is whole.
  void read() try {
    const JsonToken first = json_.next();
    if (first == JsonToken::begin_array)
      read_events();
    else if (first == JsonToken::begin_object)
      read_top();
    else
      fail_at(json_.at(), "no object or array found; a trace's accepted");
    json_.next();  // the end, or an error
    head_.end_at(json_.at());
    if (!has_events_) fail_at(head_.end(), "no traceEvents array found; one accepted");
    is_cut_off_ = json_.cut_short();
  } catch (const InputError&) {
    if (!json_.has_ended() || !is_readable_) throw;
    is_cut_off_ = true;
    head_.end_at(json_.at());
  }

  void finish() {
    file_.rank = head_.any_integer(EventField::own_rank);
    file_.world_size = head_.any_integer(EventField::world_size);
    file_.base_time_ns = head_.any_integer(EventField::base_time);
    file_.end = head_.end();
    // Flow events stand behind all slices.
    if (is_cut_off_) file_.how = has_flows_ ? HowWhole::all_slices : HowWhole::part;
    if (!file_.recording) return;
    file_.recording->story = std::move(story_);
    if (!file_.recording->info.travel) settle_waits(*file_.recording);
    check_messages();
  }

 private:
  void read_top() {
    while (json_.next() == JsonToken::key) {
      const EventField field = field_of(TracePlace::top, json_.text());
      const JsonToken token = json_.next();
      if (field == EventField::trace_events && token == JsonToken::begin_array) {
        head_.end_at(json_.at());
        if (has_ring_) begin_recording();
        read_events();
      } else if (field == EventField::story && has_ring_) {
        read_story(token);
      } else {
        read_value(field, token, head_);
      }
    }
  }

  // Read the members of an object into `fields`, also those of the objects in it that are known.
  void read_object(TracePlace place, TraceFields& fields) {
    while (json_.next() == JsonToken::key) {
      const EventField field = field_of(place, json_.text());
      const JsonToken token = json_.next();
      // Most members are numbers and strings of an event; for them, skip the rest.
      if (token >= JsonToken::string && place >= TracePlace::event) {
        if (field != EventField::none) fields.set(field, token, json_.text(), json_.at());
      } else {
        read_value(field, token, fields);
      }
    }
    fields.end_at(json_.at());
  }

  void read_value(EventField field, JsonToken token, TraceFields& fields) {
    using E = EventField;
    if (field != E::none) fields.set(field, token, json_.text(), json_.at());
    static constexpr std::pair<E, TracePlace> kObjects[] = {
        {E::args, TracePlace::args},       {E::distributed_info, TracePlace::distributed},
        {E::ring, TracePlace::ring},       {E::shape, TracePlace::shape},
        {E::failure, TracePlace::failure}, {E::provenance, TracePlace::provenance},
        {E::tile, TracePlace::tile}};
    static constexpr E kLists[] = {E::mask_slices,     E::partition_runs, E::q_runs,
                                   E::clock_offset_ns, E::clock_error_ns, E::dropped_events,
                                   E::dropped_stamps,  E::tile_queries,   E::tile_keys_at};
    static constexpr E kReals[] = {E::tile_q,     E::tile_k,     E::tile_v,     E::tile_scores,
                                   E::max_before, E::sum_before, E::out_before, E::max_after,
                                   E::sum_after,  E::out_after,  E::tile_out};
    static constexpr E kTexts[] = {E::input_dims, E::input_types, E::inputs, E::splits_in,
                                   E::splits_out};
    const auto is_in = [field](const auto& all) {
      return ranges::find(all, field) != std::end(all);
    };
    for (const auto& [object, place] : kObjects) {
      if (object != field || token != JsonToken::begin_object) continue;
      if (field == E::ring && (has_events_ || std::exchange(has_ring_, true)))
        fail_at(json_.at(),
                "a \"ring\" object behind another one or the events; one before them accepted");
      return read_object(place, fields);
    }
    if (is_in(kLists)) return read_list(field, token);
    if (is_in(kReals)) return read_reals(field, token);
    if (is_in(kTexts)) return read_as_text(field, token, fields);
    json_.skip(token);
  }

  // ---
  // The head of a recording.

  void begin_recording() {
    head_.integer(EventField::schema_version, 1, 1);
    Recording& recording = file_.recording.emplace();
    RunInfo& info = recording.info;
    info.backend = head_.string(EventField::backend);
    info.world_size = world_size();
    info.base_time_ns = head_.integer(EventField::base_time, INT64_MIN, INT64_MAX);
    for_fields(info, recording.dropped, FieldReader{head_, lists_});
    try {
      validate(info.shape);
    } catch (const InputError& error) {
      fail_at(head_.at(EventField::head_dim), error.what());
    }
    for_tile_fields(recording.tile, info.world_size, FieldReader{head_, lists_});
    if (recording.tile) check_tile(*recording.tile, info.shape);
    for (const EventField field : kOriginFields)
      if (head_.has(field)) info.origin.emplace_back(name_of(field), head_.string(field));
    for (const auto* list :
         {&info.clock_offset_ns, &info.clock_error_ns, &recording.dropped, &info.dropped_stamps})
      if (!list->empty() && list->size() != static_cast<std::size_t>(info.world_size))
        fail_at(head_.end(), fmt::format("a list for {} ranks in \"ring\"; one for {} accepted",
                                         list->size(), info.world_size));
    recording.events.resize(info.world_size);
    // Growing would move all events of a rank again and again.
    for (auto& events : recording.events)
      events.reserve(stored_bytes_ / kBytesOfSlice / recording.events.size());
  }

  // Refuse lists that do not have the sizes of one tile.
  void check_tile(const RecordedTile& tile, const AttentionShape& shape) const {
    const std::size_t rows = tile.queries.size(), keys = tile.keys.size();
    const auto columns = static_cast<std::size_t>(std::min(shape.value_dim(), RecordedTile::kMost)),
               head_dim = static_cast<std::size_t>(shape.head_dim);
    const auto is_of = [&](std::size_t count, const std::vector<float>& values) {
      return values.size() == count;
    };
    const auto lies_in = [&](const std::vector<std::int64_t>& positions) {
      return !positions.empty() && positions.size() <= RecordedTile::kMost &&
             ranges::all_of(positions, [&](std::int64_t at) { return at < shape.seqlen; });
    };
    if (!lies_in(tile.queries) || !lies_in(tile.keys) || !is_of(rows * head_dim, tile.q) ||
        !is_of(keys * head_dim, tile.k) || !is_of(keys * columns, tile.v) ||
        !is_of(rows * keys, tile.scores) || !is_of(rows, tile.row_max_before) ||
        !is_of(rows, tile.row_sum_before) || !is_of(rows * columns, tile.out_before) ||
        !is_of(rows, tile.row_max) || !is_of(rows, tile.row_sum) ||
        !is_of(rows * columns, tile.out_accum) ||
        !(tile.out.empty() || is_of(rows * columns, tile.out)))
      fail_at(
          head_.at(EventField::tile),
          fmt::format("lists of other sizes than those of one tile in \"recorded_tile\"; 1 to {} "
                      "queries and keys, and matrices of them accepted",
                      RecordedTile::kMost));
  }

  // Return the number of ranks. It is limited by the file's size, so that a short file can't claim
  // memory for many.
  int world_size() const {
    const auto believed =
        std::min(kMaxRanks, static_cast<std::int64_t>(text_bytes_ / kMinBytesPerRank + 1));
    return static_cast<int>(head_.integer(EventField::world_size, 1, believed));
  }

  // Read a list of integers, of which only a clock's offsets may be negative.
  void read_list(EventField field, JsonToken token) {
    const std::int64_t low = field == EventField::clock_offset_ns ? INT64_MIN : 0;
    for_items(lists_.integers[field], field, token,
              [&] { return head_.integer(field, low, INT64_MAX); });
  }
  void read_reals(EventField field, JsonToken token) {
    for_items(lists_.reals[field], field, token, [&] { return head_.real(field); });
  }
  template <class List, class Item>
  void for_items(List& list, EventField field, JsonToken token, Item&& item) {
    if (token != JsonToken::begin_array)
      fail_at(json_.at(),
              fmt::format("no list given for {}; a list of numbers accepted", name_of(field)));
    list.clear();
    while ((token = json_.next()) != JsonToken::end_array) {
      head_.set(field, token, json_.text(), json_.at());
      list.push_back(item());
    }
  }

  // Read lists in lists as one text without quotes, such as "[[1,2,],[3,],]".
  void read_as_text(EventField field, JsonToken token, TraceFields& fields) {
    const std::uint64_t at = json_.at();
    std::string text;
    int depth = 0;
    const auto add = [&](std::string_view part) {
      if (text.size() < kMaxListText) text += part;
    };
    do {
      const bool begins = token == JsonToken::begin_array || token == JsonToken::begin_object;
      const bool ends = token == JsonToken::end_array || token == JsonToken::end_object;
      depth += begins ? 1 : ends ? -1 : 0;
      add(begins ? "[" : ends ? "]" : json_.text().substr(0, kMaxListText));
      if (!begins && depth > 0) add(",");
    } while (depth > 0 && (token = json_.next(), true));
    fields.set(field, JsonToken::string, text, at);
  }

  // ---
  // The story, which stands behind the head.

  void read_story(JsonToken token) {
    const auto refuse = [&] {
      fail_at(json_.at(), "no list of objects given for \"story\"; one accepted");
    };
    if (token != JsonToken::begin_array) refuse();
    while ((token = json_.next()) != JsonToken::end_array) {
      if (token != JsonToken::begin_object) refuse();
      fields_.clear();
      read_object(TracePlace::story_step, fields_);
      if (story_.size() == kMaxStorySteps)
        fail_at(json_.at(), fmt::format("a story of more than {} paragraphs", kMaxStorySteps));
      StoryStep& step = story_.emplace_back();
      for_fields(step, world_size(), FieldReader{fields_, lists_});
      if (step.text.empty() || step.text.size() > kMaxStoryText)
        fail_at(fields_.at(EventField::story_text),
                fmt::format("a text of {} bytes given; 1 to {} accepted",
                            step.text.empty() ? "0" : fmt::format("more than {}", kMaxStoryText),
                            kMaxStoryText));
    }
  }

  // ---
  // The events.

  void read_events() {
    if (std::exchange(has_events_, true))
      fail_at(json_.at(), "a second \"traceEvents\" array; one accepted");
    for (;;) {
      if (file_.recording && add_written()) continue;
      const JsonToken token = json_.next();
      if (token == JsonToken::end_array) return;
      if (token != JsonToken::begin_object) {
        json_.skip(token);
        continue;
      }
      fields_.clear();
      read_object(TracePlace::event, fields_);
      if (file_.recording) {
        add_event();
      } else {
        is_readable_ = true;
        other_(fields_);
      }
    }
  }

  // Add the next event if it is a slice of a ring or a flow and just as our writer writes it.
  bool add_written() {
    WrittenEvent text(json_.ahead());
    const char* const begin = text.at();
    const std::int64_t last_rank = file_.recording->info.world_size - 1;
    if (text.take_if_next(",\n{\"ph\": \"X\"")) {
      TraceEvent event;
      text(EventField::cat, event.lane);
      if (event.lane == Lane::wait) event.step = event.kv_owner = -1;
      text.string(EventField::name);
      const auto rank = static_cast<std::int32_t>(text.integer(EventField::pid, 0, last_rank));
      const auto tid = static_cast<std::int64_t>(event.lane);
      text.integer(EventField::tid, tid, tid);
      event.begin_ns = text.time(EventField::ts);
      event.end_ns = event.begin_ns + text.time(EventField::dur);
      text.begin_object(EventField::args);
      for_args(event, file_.recording->info, text);
      text.take_if_next(", \"stream\": 0");
      text.take("}}");
      if (!text.fits() || event.end_ns > kMaxTraceNs || is_of_other_rank(event, rank)) return false;
      keep(event, rank, json_.ahead_at() + static_cast<std::uint64_t>(text.flow_at() - begin));
    } else {
      const bool begins = text.take_if_next(",\n{\"ph\": \"s\"");
      if (!begins) text.take(",\n{\"ph\": \"f\", \"bp\": \"e\"");
      const auto tid = static_cast<std::int64_t>(begins ? Lane::send : Lane::recv);
      text.integer(EventField::id, 1, INT64_MAX);
      text.take(", \"cat\": \"flow\"");
      text.string(EventField::name);
      text.integer(EventField::pid, 0, last_rank);
      text.integer(EventField::tid, tid, tid);
      text.time(EventField::ts);
      text.take("}");
      if (!text.fits()) return false;
      has_flows_ = true;
    }
    json_.pass(static_cast<std::size_t>(text.at() - begin));
    return true;
  }

  // Pass on an event of ours. Others may stand in the file as well.
  void add_event() {
    const std::string_view phase = fields_.text_or_empty(EventField::ph);
    const std::string_view category = fields_.text_or_empty(EventField::cat);
    if (phase == "X") {
      for (const Lane lane : kAllLanes)
        if (category == name_of(lane)) return add_slice(lane);
      if (category == kModelLane) add_span();
      if (category == kKernelLane) add_kernel_span();
    } else if (category == "flow" && (phase == "s" || phase == "f")) {
      add_flow(phase[0] == 'f');
    } else if (category == "softmax" && phase == "i") {
      SoftmaxSample sample{.rank = below_world_size(EventField::pid)};
      sample.at_ns = fields_.time(EventField::ts, earliest_ns_);
      take_args(sample);
      file_.recording->samples.push_back(sample);
    }
  }

  void add_slice(Lane lane) {
    TraceEvent event{.lane = lane};
    if (lane == Lane::wait) event.step = event.kv_owner = -1;  // unless it says otherwise
    const int rank = take_place(static_cast<int>(lane), event.begin_ns, event.end_ns);
    take_args(event);
    if (is_of_other_rank(event, rank))
      fields_.refuse(lane == Lane::send ? EventField::src : EventField::dst,
                     fmt::format("its pid, {},", rank));
    keep(event, rank, fields_.at(EventField::flow));
  }
  static bool is_of_other_rank(const TraceEvent& event, int rank) {
    return (event.lane == Lane::send && event.src != rank) ||
           (event.lane == Lane::recv && event.dst != rank);
  }
  // Keep a slice that names its flow, if it has one, at the byte `flow_at`.
  void keep(const TraceEvent& event, int rank, std::uint64_t flow_at) {
    if (event.flow != 0 && (event.lane == Lane::send || event.lane == Lane::recv))
      ends_.push_back({event.flow, event.lane == Lane::recv, flow_at, rank, event.peer(),
                       file_.recording->events[rank].size()});
    add(file_.recording->events, rank, event);
    is_readable_ = true;
  }
  template <class Event>
  void add(std::vector<std::vector<Event>>& events, int rank, const Event& event) {
    events.resize(file_.recording->info.world_size);
    events[rank].push_back(event);
    ++file_.slices;
  }

  // Hold both ends of each flow against each other. One may lack where events were dropped.
  void check_messages() {
    const Recording& recording = *file_.recording;
    const bool may_lack =
        file_.how != HowWhole::whole || !recording.info.is_whole() ||
        ranges::any_of(recording.dropped, [](std::int64_t count) { return count > 0; });
    ranges::sort(ends_);
    for (std::size_t i = 0; i < ends_.size();) {
      const FlowEnd& first = ends_[i];
      const auto is_of_it = [&](std::size_t k) {
        return k < ends_.size() && ends_[k].id == first.id;
      };
      if (!is_of_it(i + 1)) {
        if (!may_lack)
          fail_at(first.at,
                  fmt::format("{} given for flow; one that a {} slice has as well accepted",
                              first.id, first.is_recv ? "send" : "recv"));
        ++i;
        continue;
      }
      const FlowEnd& second = ends_[i + 1];
      const bool are_alike = first.is_recv || !second.is_recv;
      if (are_alike || is_of_it(i + 2))
        fail_at((are_alike ? second : ends_[i + 2]).at,
                fmt::format("{} given for flow a second time; one send and one recv slice with it "
                            "accepted",
                            first.id));
      if (first.peer != second.rank || second.peer != first.rank)
        fail_at(second.at,
                fmt::format("{} given for flow from rank {} to {} and by rank {} from {}; "
                            "two ends of one message accepted",
                            first.id, first.rank, first.peer, second.rank, second.peer));
      file_.messages.push_back({{static_cast<std::size_t>(first.rank), first.index},
                                {static_cast<std::size_t>(second.rank), second.index}});
      i += 2;
    }
  }

  void add_span() {
    ModelSpan span;
    const int rank = take_place(kModelTid, span.begin_ns, span.end_ns);
    take_args(span);
    add(file_.recording->model, rank, span);
  }

  void add_kernel_span() {
    KernelSpan span;
    take_args(span);
    const int rank = take_place(span.tid(), span.begin_ns, span.end_ns);
    add(file_.recording->kernel, rank, span);
  }

  // Check an event that says for other viewers what the slices of a message say as well.
  void add_flow(bool finish) {
    fields_.integer(EventField::id, 1, INT64_MAX);
    fields_.time(EventField::ts, earliest_ns_);
    below_world_size(EventField::pid);
    const int tid = static_cast<int>(finish ? Lane::recv : Lane::send);
    fields_.integer(EventField::tid, tid, tid);
    has_flows_ = true;
  }

  // Take name, rank, lane and times of a slice, and return the rank.
  int take_place(int tid, std::int64_t& begin_ns, std::int64_t& end_ns) {
    fields_.string(EventField::name);
    const int rank = below_world_size(EventField::pid);
    fields_.integer(EventField::tid, tid, tid);
    begin_ns = fields_.time(EventField::ts, earliest_ns_);
    end_ns = begin_ns + fields_.time(EventField::dur, 0);
    fields_.require_end(end_ns);
    return rank;
  }

  std::int32_t below_world_size(EventField field) const {
    return static_cast<std::int32_t>(
        fields_.integer(field, 0, file_.recording->info.world_size - 1));
  }

  template <class Event>
  void take_args(Event& event) const {
    for_args(event, file_.recording->info, FieldReader{fields_, lists_});
  }

  JsonReader json_;
  const std::uint64_t text_bytes_, stored_bytes_;  // the former: at most
  TraceFile& file_;  // its recording is set once the events are known to be those of one
  const std::function<void(const TraceFields&)>& other_;
  const std::int64_t earliest_ns_;
  TraceFields head_;
  TraceFields fields_;  // of the event or the story's step at hand
  Lists lists_;
  std::vector<FlowEnd> ends_;
  bool has_ring_ = false, has_events_ = false, has_flows_ = false;
  bool is_cut_off_ = false, is_readable_ = false;  // even if it is: something was whole
  std::vector<StoryStep> story_;
};

Recording read_recording(TextSource& text, HowWhole* how) {
  TraceFile file;
  read_trace(
      text, file, [](const TraceFields&) {}, -kMaxTraceNs);
  if (!file.recording) fail_at(file.end, "no \"ring\" object found; one accepted");
  if (file.how != HowWhole::whole && how == nullptr)
    fail_at(file.end, "the text ends; a whole recording accepted");
  if (how != nullptr) *how = file.how;
  return std::move(*file.recording);
}

}  // namespace

void settle_waits(Recording& recording) {
  if (!recording.info.is_whole()) return;
  for (auto& events : recording.events) {
    std::vector<const TraceEvent*> computed[2];  // by pass
    for (const TraceEvent& e : events)
      if (e.lane == Lane::compute) computed[static_cast<std::size_t>(e.pass)].push_back(&e);
    for (auto& of_pass : computed) ranges::stable_sort(of_pass, {}, &TraceEvent::begin_ns);
    for (TraceEvent& wait : events) {
      if (wait.lane != Lane::wait) continue;
      const auto& of_pass = computed[static_cast<std::size_t>(wait.pass)];
      const auto next = ranges::partition_point(
          of_pass, [&](const TraceEvent* e) { return e->begin_ns < wait.end_ns; });
      wait.step = next == of_pass.end() ? -1 : (*next)->step;
      wait.kv_owner = next == of_pass.end() ? -1 : (*next)->kv_owner;
    }
  }
}

void read_trace(TextSource& text, TraceFile& file,
                const std::function<void(const TraceFields&)>& other, std::int64_t earliest_ns,
                std::size_t chunk) {
  if (text.size() == 0) fail_at(0, "an empty file; a JSON trace accepted");
  TraceReader reader(text, file, other, earliest_ns, chunk);
  reader.read();
  reader.finish();
}

Recording parse_chrome_trace(std::string_view text, HowWhole* how) {
  MemorySource source(text);
  return read_recording(source, how);
}

Recording read_chrome_trace(const std::string& path, HowWhole* how) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "recorded trace");
    FileSource source(file);
    return read_recording(source, how);
  });
}

}  // namespace ringscope
