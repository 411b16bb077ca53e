// The fields of a trace file: where each stands and what it is called. The writer takes the names
// from here, and the reader looks them up. TraceFields holds the values of one object of the file
// and converts them with checks.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/trace/event.h"
#include "core/trace/json_reader.h"

namespace ringscope {

// The object of the file in which a field stands.
enum class TracePlace : std::uint8_t {
  top,
  distributed,
  ring,
  shape,
  failure,
  tile,
  provenance,
  story_step,
  event,
  args
};

// FIELD(place, field, name). The last ones of `event` and `args` are not of our own recordings:
// metadata's, and those of PyTorch's profiler.
#define RINGSCOPE_TRACE_FIELDS(FIELD)             \
  FIELD(top, distributed_info, "distributedInfo") \
  FIELD(top, ring, "ring")                        \
  FIELD(top, provenance, "provenance")            \
  FIELD(top, tile, "recorded_tile")               \
  FIELD(top, story, "story")                      \
  FIELD(top, base_time, "baseTimeNanoseconds")    \
  FIELD(top, trace_events, "traceEvents")         \
  FIELD(distributed, backend, "backend")          \
  FIELD(distributed, own_rank, "rank")            \
  FIELD(distributed, world_size, "world_size")    \
  FIELD(ring, schema_version, "schema_version")   \
  FIELD(ring, partition, "partition")             \
  FIELD(ring, mask, "mask")                       \
  FIELD(ring, mask_slices, "mask_slices")         \
  FIELD(ring, partition_runs, "partition_runs")   \
  FIELD(ring, scheme, "scheme")                   \
  FIELD(ring, travels, "travels")                 \
  FIELD(ring, gathered, "gathered")               \
  FIELD(ring, visits_all, "visits_all")           \
  FIELD(ring, travel_group, "travel_group")       \
  FIELD(ring, hops, "hops")                       \
  FIELD(ring, shape, "shape")                     \
  FIELD(ring, dtype, "dtype")                     \
  FIELD(ring, kv_buffers, "kv_buffers")           \
  FIELD(ring, failure, "failure")                 \
  FIELD(ring, train_step, "train_step")           \
  FIELD(ring, train_layer, "layer")               \
  FIELD(ring, train_layers, "layers")             \
  FIELD(ring, device, "device")                   \
  FIELD(ring, link, "link")                       \
  FIELD(ring, between, "between")                 \
  FIELD(ring, nodes, "nodes")                     \
  FIELD(ring, cores, "cores")                     \
  FIELD(ring, forward_flops, "forward_flops")     \
  FIELD(ring, backward_flops, "backward_flops")   \
  FIELD(ring, tile_rows, "tile_rows")             \
  FIELD(ring, tile_keys, "tile_keys")             \
  FIELD(ring, command, "command")                 \
  FIELD(ring, clock_offset_ns, "clock_offset_ns") \
  FIELD(ring, clock_error_ns, "clock_error_ns")   \
  FIELD(ring, dropped_events, "dropped_events")   \
  FIELD(ring, dropped_stamps, "dropped_stamps")   \
  FIELD(ring, sink_logits, "sink_logits")         \
  FIELD(ring, softcap, "softcap")                 \
  FIELD(ring, partition_q, "partition_q")         \
  FIELD(ring, q_runs, "partition_q_runs")         \
  FIELD(shape, seqlen_q, "seqlen_q")              \
  FIELD(shape, q_offset, "q_offset")              \
  FIELD(shape, batch, "batch")                    \
  FIELD(shape, num_heads, "num_heads")            \
  FIELD(shape, num_heads_kv, "num_heads_kv")      \
  FIELD(shape, seqlen, "seqlen")                  \
  FIELD(shape, head_dim, "head_dim")              \
  FIELD(shape, head_dim_v, "head_dim_v")          \
  FIELD(failure, failure_message, "message")      \
  FIELD(failure, failure_rank, "rank")            \
  FIELD(failure, failure_step, "step")            \
  FIELD(tile, tile_rank, "rank")                  \
  FIELD(tile, tile_step, "step")                  \
  FIELD(tile, tile_owner, "kv_owner")             \
  FIELD(tile, tile_scale, "softmax_scale")        \
  FIELD(tile, tile_queries, "queries")            \
  FIELD(tile, tile_keys_at, "keys")               \
  FIELD(tile, tile_q, "q")                        \
  FIELD(tile, tile_k, "k")                        \
  FIELD(tile, tile_v, "v")                        \
  FIELD(tile, tile_scores, "scores")              \
  FIELD(tile, max_before, "row_max_before")       \
  FIELD(tile, sum_before, "row_sum_before")       \
  FIELD(tile, out_before, "out_accum_before")     \
  FIELD(tile, max_after, "row_max")               \
  FIELD(tile, sum_after, "row_sum")               \
  FIELD(tile, out_after, "out_accum")             \
  FIELD(tile, tile_out, "out")                    \
  FIELD(provenance, origin_version, "version")    \
  FIELD(provenance, origin_commit, "commit")      \
  FIELD(provenance, origin_command, "command")    \
  FIELD(provenance, origin_seed, "seed")          \
  FIELD(provenance, origin_machine, "machine")    \
  FIELD(provenance, origin_time, "time")          \
  FIELD(story_step, story_text, "text")           \
  FIELD(story_step, story_pass, "pass")           \
  FIELD(story_step, story_step, "step")           \
  FIELD(story_step, story_rank, "rank")           \
  FIELD(story_step, story_lane, "lane")           \
  FIELD(story_step, story_figure, "figure")       \
  FIELD(event, ph, "ph")                          \
  FIELD(event, cat, "cat")                        \
  FIELD(event, name, "name")                      \
  FIELD(event, pid, "pid")                        \
  FIELD(event, tid, "tid")                        \
  FIELD(event, ts, "ts")                          \
  FIELD(event, dur, "dur")                        \
  FIELD(event, args, "args")                      \
  FIELD(event, id, "id")                          \
  FIELD(event, bp, "bp")                          \
  FIELD(args, pass, "pass")                       \
  FIELD(args, step, "step")                       \
  FIELD(args, kv_owner, "kv_owner")               \
  FIELD(args, pairs, "pairs")                     \
  FIELD(args, flops, "flops")                     \
  FIELD(args, tiles_full, "tiles_full")           \
  FIELD(args, tiles_partial, "tiles_partial")     \
  FIELD(args, tiles_skipped, "tiles_skipped")     \
  FIELD(args, cpu_us, "cpu_us")                   \
  FIELD(args, payload, "payload")                 \
  FIELD(args, bytes, "bytes")                     \
  FIELD(args, src, "src")                         \
  FIELD(args, dst, "dst")                         \
  FIELD(args, flow, "flow")                       \
  FIELD(args, moved_us, "moved_us")               \
  FIELD(args, waiting_for, "waiting_for")         \
  FIELD(args, part, "part")                       \
  FIELD(args, layer, "layer")                     \
  FIELD(args, multiprocessor, "sm")               \
  FIELD(args, role, "role")                       \
  FIELD(args, matrix, "matrix")                   \
  FIELD(args, row_tile, "row_tile")               \
  FIELD(args, key_tile, "key_tile")               \
  FIELD(args, ticks, "ticks")                     \
  FIELD(args, query, "query")                     \
  FIELD(args, row_max, "row_max")                 \
  FIELD(args, row_sum, "row_sum")                 \
  FIELD(args, lse, "lse")                         \
  FIELD(args, lse_error, "lse_error")             \
  FIELD(args, given_name, "name")                 \
  FIELD(args, sort_index, "sort_index")           \
  FIELD(args, collective, "Collective name")      \
  FIELD(args, nelems_in, "In msg nelems")         \
  FIELD(args, nelems_out, "Out msg nelems")       \
  FIELD(args, splits_in, "In split size")         \
  FIELD(args, splits_out, "Out split size")       \
  FIELD(args, value_type, "dtype")                \
  FIELD(args, src_rank, "Src Rank")               \
  FIELD(args, dst_rank, "Dst Rank")               \
  FIELD(args, input_dims, "Input Dims")           \
  FIELD(args, input_types, "Input type")          \
  FIELD(args, inputs, "Concrete Inputs")          \
  FIELD(args, correlation, "correlation")

enum class EventField : std::uint8_t {
#define RINGSCOPE_ENUMERATOR(place, field, name) field,
  RINGSCOPE_TRACE_FIELDS(RINGSCOPE_ENUMERATOR) none
#undef RINGSCOPE_ENUMERATOR
};
inline constexpr std::size_t kFieldCount = static_cast<std::size_t>(EventField::none);

std::string_view name_of(EventField field);

// The fields of the provenance, in the order of the file.
inline constexpr EventField kOriginFields[] = {
    EventField::origin_version, EventField::origin_commit,  EventField::origin_command,
    EventField::origin_seed,    EventField::origin_machine, EventField::origin_time};

// Return the field of this name in `place`, or EventField::none if the reader ignores it.
EventField field_of(TracePlace place, std::string_view name);

// The integers that a member may be. If it `may_lack`, it is left out where it is empty, absent or below
// `least`.
struct FieldRange {
  std::int64_t least = 0, most = INT64_MAX;
  bool may_lack = false;
};
inline constexpr FieldRange kMayLack = {.may_lack = true};

// The largest distance of a time from 0, and the largest duration. With this bound, a begin plus a
// duration fits in 64 bits, and so does the difference of any two times.
inline constexpr std::int64_t kMaxTraceNs = 4'500'000'000'000'000'000;

// Describe the "ring" object to `f`, in the order of the file, to write or to read it: f(field, value,
// range) is a member, f.object(field, members) an object in it, and f.part(field, part, members) what is
// there if `part` has a value, which shows by its member `field`. The world_size must be known.
template <class Info, class Dropped, class F>
void for_fields(Info& info, Dropped& dropped, F&& f) {
  using E = EventField;
  f(E::partition, info.partition);
  f(E::mask, info.mask);
  f(E::mask_slices, info.mask_slices, kMayLack);
  f(E::partition_runs, info.partition_runs, kMayLack);
  f(E::partition_q, info.partition_q, kMayLack);
  f(E::q_runs, info.partition_q_runs, kMayLack);
  f(E::scheme, info.scheme);
  f.part(E::travels, info.travel, [&](auto& travel) {
    f(E::travels, travel.what);
    f(E::gathered, travel.is_gathered, {0, 1});
    f(E::visits_all, travel.visits_all, {0, 1});
    f(E::travel_group, travel.group, {0, info.world_size});
  });
  f(E::hops, info.hops, kMayLack);
  f.object(E::shape, [&] {
    f(E::batch, info.shape.batch, {1});
    f(E::num_heads, info.shape.num_heads, {1});
    f(E::num_heads_kv, info.shape.num_heads_kv, {1});
    f(E::seqlen, info.shape.seqlen, {1});
    f(E::head_dim, info.shape.head_dim, {1});
    f(E::head_dim_v, info.shape.head_dim_v, {1, INT64_MAX, true});
    f(E::seqlen_q, info.shape.seqlen_q, {1, INT64_MAX, true});
    f(E::q_offset, info.shape.q_offset, {0, INT64_MAX, true});
  });
  f(E::sink_logits, info.sink_logits, {1, 1, true});
  f(E::softcap, info.softcap, kMayLack);
  f(E::dtype, info.dtype);
  f(E::kv_buffers, info.kv_buffers, {1, INT32_MAX, true});
  f.part(E::failure, info.failure, [&](auto& failure) {
    f.object(E::failure, [&] {
      f(E::failure_message, failure.message);
      f(E::failure_rank, failure.rank, {0, info.world_size - 1, true});
      f(E::failure_step, failure.step, {0, info.world_size - 1, true});
    });
  });
  f.part(E::train_step, info.training, [&](auto& training) {
    f(E::train_step, training.train_step, {1});
    f(E::train_layer, training.layer, {0, INT32_MAX - 1});
    f(E::train_layers, training.layers, {training.layer + 1, INT32_MAX});
  });
  f.part(E::device, info.machine, [&](auto& machine) {
    f(E::device, machine.device);
    f(E::link, machine.link, kMayLack);
    f(E::between, machine.between, kMayLack);
    f(E::nodes, machine.nodes, {1, info.world_size});
    f(E::cores, machine.cores, {1, INT32_MAX, true});
    f(E::forward_flops, machine.forward_flops, {1, INT64_MAX, true});
    if (machine.forward_flops == 0) return;
    f(E::backward_flops, machine.backward_flops);
    f(E::tile_rows, machine.tile_rows, {1, 1 << 20});
    f(E::tile_keys, machine.tile_keys, {1, 1 << 20});
  });
  f(E::command, info.command, kMayLack);
  f(E::clock_offset_ns, info.clock_offset_ns);
  f(E::clock_error_ns, info.clock_error_ns);
  f(E::dropped_events, dropped);
  f(E::dropped_stamps, info.dropped_stamps, kMayLack);
}

// Describe the numbers of a tile to `f`, likewise.
template <class Tile, class F>
void for_tile_fields(Tile& recorded, int world_size, F&& f) {
  using E = EventField;
  f.part(E::tile, recorded, [&](auto& tile) {
    f.object(E::tile, [&] {
      f(E::tile_rank, tile.rank, {0, world_size - 1});
      f(E::tile_step, tile.step, {0, world_size - 1});
      f(E::tile_owner, tile.kv_owner, {0, world_size - 1});
      f(E::tile_scale, tile.softmax_scale);
      f(E::tile_queries, tile.queries);
      f(E::tile_keys_at, tile.keys);
      f(E::tile_q, tile.q);
      f(E::tile_k, tile.k);
      f(E::tile_v, tile.v);
      f(E::tile_scores, tile.scores);
      f(E::max_before, tile.row_max_before);
      f(E::sum_before, tile.row_sum_before);
      f(E::out_before, tile.out_before);
      f(E::max_after, tile.row_max);
      f(E::sum_after, tile.row_sum);
      f(E::out_after, tile.out_accum);
      f(E::tile_out, tile.out, kMayLack);
    });
  });
}

// Describe a paragraph of a story to `f`, likewise.
template <class Step, class F>
void for_fields(Step& step, int world_size, F&& f) {
  f(EventField::story_text, step.text);
  f(EventField::story_pass, step.pass, kMayLack);
  f(EventField::story_step, step.step, {0, world_size - 1, true});
  f(EventField::story_rank, step.rank, {0, world_size - 1, true});
  f(EventField::story_lane, step.lane, kMayLack);
  f(EventField::story_figure, step.figure, kMayLack);
}

// Describe the arguments of an event to `f`, likewise. Ranks and steps are below world_size.
template <class Event, class F>
requires std::is_same_v<std::remove_const_t<Event>, TraceEvent>
void for_args(Event& e, const RunInfo& info, F&& f) {
  using E = EventField;
  const FieldRange ranks = {0, info.world_size - 1};
  // A wait after which its rank attends nothing belongs to no step.
  const FieldRange place = {0, info.world_size - 1, e.lane == Lane::wait};
  f(E::pass, e.pass);
  f(E::step, e.step, place);
  f(E::kv_owner, e.kv_owner, place);
  if (e.lane == Lane::compute) {
    f(E::pairs, e.pairs);
    f(E::flops, e.flops);
    f(E::tiles_full, e.tiles_full);
    f(E::tiles_partial, e.tiles_partial);
    f(E::tiles_skipped, e.tiles_skipped);
    f(E::cpu_us, e.cpu_ns);
  } else {
    f(E::payload, e.payload);
  }
  if (e.lane == Lane::wait) f(E::waiting_for, e.waiting_for, ranks);
  if (e.lane == Lane::send || e.lane == Lane::recv) {
    f(E::bytes, e.bytes);
    f(E::src, e.src, ranks);
    f(E::dst, e.dst, ranks);
    f(E::flow, e.flow);
  }
  f(E::moved_us, e.moved_ns, {1, INT64_MAX, true});
}
template <class Event, class F>
requires std::is_same_v<std::remove_const_t<Event>, ModelSpan>
void for_args(Event& span, const RunInfo&, F&& f) {
  f(EventField::part, span.part);
  f(EventField::pass, span.pass);
  f(EventField::layer, span.layer, {0, INT32_MAX, true});
  f(EventField::bytes, span.bytes, {1, INT64_MAX, true});
}
template <class Event, class F>
requires std::is_same_v<std::remove_const_t<Event>, KernelSpan>
void for_args(Event& span, const RunInfo& info, F&& f) {
  using E = EventField;
  f(E::part, span.part);
  f(E::pass, span.pass, kMayLack);
  f(E::multiprocessor, span.multiprocessor, {0, kMostMultiprocessors - 1});
  f(E::role, span.role, {0, kKernelRoles - 1});
  f(E::step, span.step, {0, info.world_size - 1});
  f(E::matrix, span.matrix, {0, INT32_MAX});
  f(E::row_tile, span.row_tile, {span.pass == Pass::forward ? 0 : -1, INT32_MAX});
  f(E::key_tile, span.key_tile, {span.pass == Pass::forward ? -1 : 0, INT32_MAX});
  f(E::ticks, span.ticks);
}
template <class Event, class F>
requires std::is_same_v<std::remove_const_t<Event>, SoftmaxSample>
void for_args(Event& s, const RunInfo& info, F&& f) {
  using E = EventField;
  f(E::step, s.step, {0, info.world_size - 1});
  f(E::query, s.query, {0, info.shape.seqlen - 1});
  f(E::row_max, s.row_max);
  f(E::row_sum, s.row_sum);
  f(E::lse, s.lse);
  f(E::lse_error, s.lse_error);
}

// Return whether the file gives the field in microseconds; we hold it in nanoseconds.
constexpr bool is_time(EventField field) {
  return field == EventField::ts || field == EventField::dur || field == EventField::cpu_us ||
         field == EventField::moved_us;
}

// The values of one object (for the head: of several). Whole numbers and plain times are converted
// as they come in, and any other value is kept as text.
class TraceFields {
 public:
  void clear() { present_.reset(); }
  void set(EventField field, JsonToken token, std::string_view text, std::uint64_t at);
  // Say where the object ends: that is the byte which a complaint about a missing field names.
  void end_at(std::uint64_t end) { end_ = end; }
  std::uint64_t end() const { return end_; }

  bool has(EventField field) const { return present_[static_cast<std::size_t>(field)]; }
  bool is_string(EventField field) const {
    return has(field) && value(field).token == JsonToken::string;
  }
  // Throw InputError unless the field is an object.
  void require_object(EventField field) const {
    if (present(field).token != JsonToken::begin_object) refuse(field, "an object");
  }
  // Return the field's byte offset, which is meaningful only if the field is there.
  std::uint64_t at(EventField field) const { return value(field).at; }
  // Return the string, or "" if the value is no string.
  std::string_view text_or_empty(EventField field) const {
    return is_string(field) ? std::string_view(value(field).text) : std::string_view();
  }

  // The strict getters throw InputError that names the byte of a missing or wrong value.
  std::string_view string(EventField field) const;
  std::int64_t integer(EventField field, std::int64_t low, std::int64_t high) const;
  // Return nanoseconds in [low, kMaxTraceNs], from microseconds with at most three decimals.
  std::int64_t time(EventField field, std::int64_t low) const;
  // Return a number, or the value of one of the strings "inf", "-inf", "nan".
  float real(EventField field) const;
  // Return the value among `all` whose name_of() is given.
  template <class Values>
  auto choice(EventField field, const Values& all) const {
    constexpr std::size_t kCount = std::size(Values{});
    std::string_view names[kCount];
    for (std::size_t i = 0; i < kCount; ++i) names[i] = name_of(all[i]);
    return all[choice_of(field, names, kCount)];
  }

  // The lenient getters take any spelling, also a string, and return none for an absent field.
  std::optional<std::int64_t> any_integer(EventField field) const;
  // Return nanoseconds. Throw InputError if the value is no time or negative.
  std::optional<std::int64_t> any_time(EventField field) const;
  // Return the text as the file spells it, also of a number.
  std::string any_text(EventField field) const;

  // Throw InputError if an event that ends at `end_ns` lasts too long.
  void require_end(std::int64_t end_ns) const;

  // Throw InputError for the field's value. `accepted` says what would have been accepted.
  [[noreturn]] void refuse(EventField field, std::string_view accepted) const;

 private:
  struct Value {
    JsonToken token = JsonToken::literal;
    bool exact = false;  // `number` is the whole value
    std::int64_t number = 0;
    std::uint64_t at = 0;
    std::string text;  // empty for exact numbers
  };
  const Value& value(EventField field) const { return values_[static_cast<std::size_t>(field)]; }
  const Value& present(EventField field) const {
    if (!has(field)) refuse_missing(field);
    return value(field);
  }
  [[noreturn]] void refuse_missing(EventField field) const;
  std::size_t choice_of(EventField field, const std::string_view* names, std::size_t count) const;

  std::bitset<kFieldCount> present_;
  std::uint64_t end_ = 0;
  std::array<Value, kFieldCount> values_;
};

}  // namespace ringscope
