#include "core/tools/foreign/kineto.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/problem/shape.h"

namespace ringscope {
namespace {

constexpr std::size_t kMaxOthers = 1000;  // names of kernels that are kept
constexpr std::size_t kMaxName = 200;     // bytes of a name that is

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}
template <class Parts>
bool has_part(std::string_view name, const Parts& parts) {
  return ranges::any_of(parts, [&](std::string_view part) { return has(name, part); });
}

// FlashAttention 2 and 3, cuDNN and TransformerEngine, Triton, xFormers, and PyTorch's own on a CPU.
constexpr std::string_view kForward[] = {"flash_fwd", "FlashAttnFwd",      "flash_fprop",
                                         "_attn_fwd", "fmha_cutlassF",     "sdpa_fprop",
                                         "fmha_fwd",  "scaled_dot_product"};
constexpr std::string_view kBackward[] = {"flash_bwd", "FlashAttnBwd",       "flash_bprop",
                                          "_attn_bwd", "fmha_cutlassB",      "sdpa_bprop",
                                          "fmha_bwd",  "attention_backward", "for_cpu_backward"};
// What tells the backward pass of a kernel that is named by its user.
constexpr std::string_view kBackwards[] = {"bwd", "backward", "Backward", "bprop"};
// Kernels around the attention, of which there is one to each.
constexpr std::string_view kAround[] = {"dot_do_o",    "convert_d",  "preprocess",
                                        "postprocess", "Preprocess", "combine"};
constexpr std::string_view kTransfers[] = {"SendRecv", "nccl:send", "nccl:recv", "gloo:send",
                                           "gloo:recv"};
// Collectives that bring K and V, or heads, to a rank at once. On a device an all-to-all is a kernel of
// sends and receives, which says so beside its name.
constexpr std::string_view kGathers[] = {"AllGather", "nccl:all_gather", "nccl:_all_gather",
                                         "gloo:all_gather"};
constexpr std::string_view kAllToAlls[] = {"nccl:all_to_all", "gloo:all_to_all"};
// What names a send's or receive's peer, itself or by its inputs.
constexpr std::string_view kPeers[] = {":send", ":recv"};

// c10's type names and the bytes per value.
constexpr std::pair<std::string_view, std::int64_t> kTypeSizes[] = {
    {"float", 4},         {"double", 8},     {"Float", 4},  {"BFloat16", 2}, {"Half", 2},
    {"Double", 8},        {"Long", 8},       {"Int", 4},    {"Short", 2},    {"Char", 1},
    {"Byte", 1},          {"Bool", 1},       {"UInt16", 2}, {"UInt32", 4},   {"UInt64", 8},
    {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};

std::int64_t size_of_type(std::string_view name) {
  if (name.starts_with("c10::")) name.remove_prefix(5);
  for (const auto& [type, bytes] : kTypeSizes)
    if (type == name) return bytes;
  return 0;
}

// Return the sizes in one of the lists of "[[1,2,],[3,],]"; none if it is not there or too large.
std::vector<Index> sizes_in_list(std::string_view text, int which) {
  std::size_t begin = 0;
  for (; begin + 1 < text.size(); ++begin)
    if (text[begin] == '[' && text[begin + 1] != '[' && which-- == 0) break;
  std::vector<Index> sizes;
  if (begin + 1 >= text.size()) return sizes;
  text = text.substr(begin + 1, text.find(']', begin) - begin - 1);
  for (const std::string_view word : split(text, ',')) {
    if (word.empty()) continue;
    const auto size = parse_number<Index>(word);
    if (!size || *size < 1 || *size > kMaxSeqlen) return {};
    sizes.push_back(*size);
  }
  return sizes;
}

// Return the bytes of an operation's first input, or 0 if its sizes were not recorded.
std::int64_t input_bytes(const TraceFields& fields) {
  std::string_view type = fields.text_or_empty(EventField::input_types);
  type = type.substr(std::min(type.find_first_not_of('['), type.size()));
  std::int64_t bytes = size_of_type(type.substr(0, type.find(',')));
  const auto sizes = sizes_in_list(fields.text_or_empty(EventField::input_dims), 0);
  for (const Index size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return 0;
  return sizes.empty() ? 0 : bytes;
}

// Keep the outermost of spans that lie in each other.
void keep_outermost(std::vector<ProfiledSpan>& spans) {
  ranges::stable_sort(spans, [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<ProfiledSpan> kept;
  for (const ProfiledSpan& span : spans)
    if (kept.empty() || span.end_ns > kept.back().end_ns) kept.push_back(span);
  spans = std::move(kept);
}

// Take what the split sizes of an all-to-all say of it, those of the values that it sends and those of
// the values that it receives, as in "[0, 4096]". Long lists are cut off.
void take_splits(std::string_view sends, std::string_view receives, ProfiledSpan& span) {
  const auto only = [&](std::string_view text, int& nonzero) {
    int at = -1, index = 0;
    nonzero = 0;
    for (std::string_view word : split(text.substr(0, text.find(']')), ',')) {
      while (!word.empty() && (word[0] == '[' || word[0] == ' ')) word.remove_prefix(1);
      const auto values = parse_number<std::int64_t>(word);
      if (values && *values > 0) ++nonzero, at = index;
      ++index;
    }
    return nonzero == 1 ? at : -1;
  };
  int sent = 0, received = 0;
  span.to = only(sends, sent);
  span.from = only(receives, received);
  span.splits = std::max(sent, received);
}

// Return the two lists in an operation's inputs, such as "[,[0, 8],[8, 0],,]".
std::pair<std::string_view, std::string_view> lists_in(std::string_view inputs) {
  std::string_view lists[2];
  for (std::string_view& list : lists) {
    const std::size_t begin = inputs.find('[', 1);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(inputs.find(']', begin), inputs.size() - 1);
    list = inputs.substr(begin, end + 1 - begin);
    inputs.remove_prefix(end);
  }
  return {lists[0], lists[1]};
}

// Return what is wrong with a text that is no profile, if it is made of pieces of several files: kernels
// or operations of more than one device or process stand in it.
std::string pieces_in(std::string_view text) {
  for (const std::string_view category : {"kernel", "cpu_op"}) {
    std::set<std::string> pids;
    const std::string key = "\"cat\"";
    for (std::size_t at = text.find(key); at != text.npos && pids.size() < 4;
         at = text.find(key, at + 1)) {
      const std::string_view event = text.substr(at, text.find("\"ph\"", at) - at);
      const std::size_t pid = event.find("\"pid\"");
      if (pid == event.npos || !has(event.substr(0, 32), category)) continue;
      const std::size_t begin = event.find_first_of("0123456789", pid);
      const std::size_t end = event.find_first_not_of("0123456789", begin);
      if (begin != event.npos && begin < pid + 9) pids.emplace(event.substr(begin, end - begin));
    }
    if (pids.size() > 1)
      return fmt::format(
          "; pieces of several ranks' files lie in it (pids {}), as where all write to one path; a "
          "file for each rank accepted",
          fmt::join(pids, ", "));
  }
  return "";
}

std::optional<RankProfile> read_profile_of(TextSource& text, const std::string& path,
                                           const std::vector<std::string>& attention) {
  ProfileEvents events(attention);
  TraceFile file;
  read_trace(
      text, file, [&](const TraceFields& fields) { events.add(fields); }, 0);
  if (file.recording) return std::nullopt;
  return events.finish(file, path);
}

}  // namespace

std::string attention_names() { return fmt::format("{}", fmt::join(kForward, ", ")); }

std::int64_t message_bytes(const TraceFields& fields) {
  const std::int64_t values = std::max(fields.any_integer(EventField::nelems_in).value_or(0),
                                       fields.any_integer(EventField::nelems_out).value_or(0));
  std::int64_t bytes = 0;
  const std::int64_t size = size_of_type(fields.text_or_empty(EventField::value_type));
  return values < 0 || __builtin_mul_overflow(values, size, &bytes) ? 0 : bytes;
}

void ProfileEvents::add(const TraceFields& fields) {
  if (fields.text_or_empty(EventField::ph) != "X") return;
  if (!fields.text_or_empty(EventField::input_dims).empty()) profile_.has_shapes = true;
  const std::string_view name = fields.text_or_empty(EventField::name);
  const std::string_view category = fields.text_or_empty(EventField::cat);
  const bool on_device = category == "kernel";
  if (!on_device && category != "cpu_op" && category != "user_annotation")
    return add_runtime_call(fields, category);
  const std::string_view collective = fields.text_or_empty(EventField::collective);
  auto& dull = dull_[on_device];
  if (const auto known = dull.find(name); known != dull.end() && collective.empty()) {
    if (known->second != nullptr) ++*known->second;
    return;
  }
  const auto begin = fields.any_time(EventField::ts);
  if (!begin) return;
  ProfiledSpan span;
  span.begin_ns = *begin;
  span.end_ns = *begin + fields.any_time(EventField::dur).value_or(0);
  fields.require_end(span.end_ns);
  span.order = fields.any_integer(EventField::correlation).value_or(0);
  if (!on_device || span.order <= 0) span.order = span.begin_ns;
  span.name = std::hash<std::string_view>()(name);
  if (on_device) span.stream = fields.any_integer(EventField::tid).value_or(-1);
  add_peer(fields, name, collective);
  if (!on_device && add_call(fields, name, span)) return;
  const bool is_named = has_part(name, attention_);
  const bool is_around = !is_named && has_part(name, kAround);
  const bool is_back = has_part(name, kBackward) || (is_named && has_part(name, kBackwards));
  const bool is_swap =
      has_part(name, kAllToAlls) || (on_device && collective.starts_with("all_to_all"));
  if (has_part(name, kGathers)) {
    span.bytes = std::max(message_bytes(fields), input_bytes(fields));
    profile_.gathers[on_device].push_back(span);
  } else if (is_swap || has_part(name, kTransfers) ||
             (on_device && (collective == "send" || collective == "recv"))) {
    const bool grouped = is_swap || (has(name, "SendRecv") && collective.empty());
    span.sends = grouped || (collective.empty() ? !has(name, "recv") : collective != "recv");
    span.receives = grouped || !span.sends;
    if (span.sends) span.bytes = message_bytes(fields);
    if (span.sends && span.bytes == 0) span.bytes = input_bytes(fields);
    if (is_swap)
      take_splits(fields.text_or_empty(EventField::splits_in),
                  fields.text_or_empty(EventField::splits_out), span);
    profile_.transfers[on_device].push_back(span);
  } else if (!is_around && (is_back || is_named || has_part(name, kForward))) {
    if (is_back) span.pass = Pass::backward;
    add_shape(fields, name, span);
    profile_.attention[on_device].push_back(span);
    auto& processes = profile_.processes[on_device];
    if (processes.size() < kMaxOthers)
      processes.insert(fields.any_integer(EventField::pid).value_or(0));
  } else {
    const bool is_message = on_device && has(name, "nccl");
    if (is_message) profile_.other_messages.push_back(span);
    int* count = nullptr;
    std::string shortened(name.substr(0, kMaxName));
    if (on_device && !is_around &&
        (profile_.others.size() < kMaxOthers || profile_.others.contains(shortened)))
      ++*(count = &profile_.others[std::move(shortened)]);
    if (name.size() <= kMaxName && !is_message && !has_part(name, kPeers) &&
        dull.size() < kMaxOthers)
      dull.emplace(name, count);
  }
}

// Take a call that starts messages, or a step of the profiler. Return whether it is one.
bool ProfileEvents::add_call(const TraceFields& fields, std::string_view name,
                             const ProfiledSpan& span) {
  const std::string_view inputs = fields.text_or_empty(EventField::inputs);
  if (name == "c10d::send") {
    send_calls_.push_back(span);
  } else if (name == "_c10d_functional::all_gather_into_tensor") {
    gather_calls_.push_back(span);
  } else if (name == "_c10d_functional::all_to_all_single" || name == "c10d::alltoall_base_") {
    ProfiledSpan& call = swap_calls_[name == "c10d::alltoall_base_"].emplace_back(span);
    const auto [receives, sends] = lists_in(inputs);
    take_splits(sends, receives, call);
  } else if (name == "record_param_comms" &&
             fields.text_or_empty(EventField::collective).starts_with("all_to_all")) {
    take_splits(fields.text_or_empty(EventField::splits_in),
                fields.text_or_empty(EventField::splits_out), swap_calls_[2].emplace_back(span));
  } else if (name.starts_with("ProfilerStep#")) {
    profile_.iterations.push_back(span.begin_ns);
  } else {
    return false;
  }
  return true;
}

// Take what the host asks of the device: to begin a kernel, or to be told when it is done.
void ProfileEvents::add_runtime_call(const TraceFields& fields, std::string_view category) {
  if (category != "cuda_runtime" && category != "cuda_driver" && category != "cuda_sync") return;
  const std::string_view name = fields.text_or_empty(EventField::name);
  const bool waits = has(name, "Synchronize") || has(name, "Stream Sync") ||
                     has(name, "Context Sync") || has(name, "Event Sync");
  if (!waits && !has(name, "Launch")) return;
  const auto begin = fields.any_time(EventField::ts);
  if (!begin) return;
  const std::int64_t end = *begin + fields.any_time(EventField::dur).value_or(0);
  fields.require_end(end);
  if (waits)
    profile_.host_waits.push_back({.begin_ns = *begin, .end_ns = end});
  else if (const auto correlation = fields.any_integer(EventField::correlation))
    launches_[*correlation] = end;
}

// Note whom a send or receive names: by its name as "nccl:send 0->1" or "nccl:recv 1<-0", by its
// arguments (record_param_comms and the kernel itself), or by its inputs (c10d::send).
void ProfileEvents::add_peer(const TraceFields& fields, std::string_view name,
                             std::string_view collective) {
  std::optional<std::int64_t> peer;
  bool receives = collective == "recv" || has(name, "recv");
  if (collective == "send" || collective == "recv") {
    peer = fields.any_integer(receives ? EventField::src_rank : EventField::dst_rank);
    if (!receives && fields.text_or_empty(EventField::cat) == "cpu_op")
      profile_.sent_bytes += std::min(message_bytes(fields), INT64_MAX / 2 - profile_.sent_bytes);
  } else if (name == "c10d::send" || name == "c10d::recv_") {
    const auto inputs = split(fields.text_or_empty(EventField::inputs), ',');
    if (inputs.size() > 2) peer = parse_number<int>(inputs[2]);
  } else {
    receives = has(name, ":recv ");
    const std::size_t arrow = name.find(receives ? "<-" : "->");
    if ((receives || has(name, ":send ")) && arrow != std::string_view::npos)
      peer = parse_number<int>(name.substr(arrow + 2));
  }
  auto& peers = peers_[receives];
  if (peer && *peer >= 0 && *peer < INT_MAX && peers.size() < kMaxOthers)
    ++peers[static_cast<int>(*peer)];
}

// Take the lengths of an attention from the sizes of its inputs, of which PyTorch's are [batch,
// heads, rows, head_dim].
void ProfileEvents::add_shape(const TraceFields& fields, std::string_view name,
                              ProfiledSpan& span) {
  if (!has(name, "aten::") || span.pass == Pass::backward) return;
  const std::string_view dims = fields.text_or_empty(EventField::input_dims);
  const std::vector<Index> q = sizes_in_list(dims, 0), k = sizes_in_list(dims, 1);
  if (q.size() != 4 || k.size() != 4 || q[1] % k[1] != 0) return;
  const AttentionShape shape{q[0], q[1], k[1], q[2], q[3]};
  try {
    validate(shape);
  } catch (const InputError&) {
    return;
  }
  span.q_rows = static_cast<int>(q[2]);
  span.k_rows = static_cast<int>(k[2]);
  const std::string_view inputs = fields.text_or_empty(EventField::inputs);
  const std::size_t yes = inputs.find("True"), no = inputs.find("False");
  span.causal = yes < no ? 1 : no < yes ? 0 : -1;  // further flags follow
  if (shape.seqlen > profile_.shape.seqlen) profile_.shape = shape;
  profile_.most_keys = std::max(profile_.most_keys, k[2]);
}

// Let calls describe the notes of what they started, if there are as many of both, in order. A note may
// begin late, when the block is already under way; its call does not.
void ProfileEvents::describe(std::vector<ProfiledSpan*> notes, std::vector<ProfiledSpan> calls) {
  if (notes.size() != calls.size()) return;
  ranges::stable_sort(notes, {}, &ProfiledSpan::begin_ns);
  ranges::stable_sort(calls, {}, &ProfiledSpan::begin_ns);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ProfiledSpan& note = *notes[i];
    if (note.stream < 0 && calls[i].begin_ns < note.begin_ns)
      note.order = note.begin_ns = calls[i].begin_ns;
    if (calls[i].splits >= 0 && note.splits <= 0)
      note.splits = calls[i].splits, note.to = calls[i].to, note.from = calls[i].from;
  }
}

// Find out which transfers are hops: sends and receives, and all-to-alls to one rank; those that do not
// say to how many, if there are no other hops.
void ProfileEvents::sort_transfers() {
  const auto select = [](std::vector<ProfiledSpan>& spans, auto&& is_one) {
    std::vector<ProfiledSpan*> selected;
    for (ProfiledSpan& span : spans)
      if (is_one(span)) selected.push_back(&span);
    return selected;
  };
  const auto is_swap = [](const ProfiledSpan& span) { return span.splits >= 0; };
  auto& [host, device] = profile_.transfers;
  describe(select(host, [](const ProfiledSpan& span) { return !span.receives; }), send_calls_);
  describe(select(profile_.gathers[0], [](const ProfiledSpan&) { return true; }), gather_calls_);
  for (const auto& calls : swap_calls_) describe(select(host, is_swap), calls);
  // Kernels that lost the link to their calls.
  std::vector<ProfiledSpan> swaps;
  for (const ProfiledSpan* span : select(host, is_swap)) swaps.push_back(*span);
  if (select(device, is_swap).empty() && swaps.size() == device.size())
    for (ProfiledSpan& span : device) span.splits = 0;
  describe(select(device, is_swap), swaps);
  for (const auto& calls : swap_calls_) describe(select(device, is_swap), calls);
  for (const bool on_device : {false, true}) {
    auto& spans = profile_.transfers[on_device];
    const bool has_hops = ranges::any_of(
        spans, [](const ProfiledSpan& span) { return span.splits < 0 || span.splits == 1; });
    for (const ProfiledSpan& span : spans)
      if (span.splits == 1 && span.to >= 0 && span.from >= 0)
        ++peers_[false][span.to], ++peers_[true][span.from];
    profile_.swaps[on_device] =
        static_cast<int>(std::erase_if(spans, [&](const ProfiledSpan& span) {
          return span.splits > 1 || (has_hops && span.splits == 0);
        }));
  }
}

RankProfile ProfileEvents::finish(const TraceFile& file, std::string path) {
  const auto small = [](const std::optional<std::int64_t>& number, int otherwise) {
    return number && *number >= 0 && *number < 1'000'000 ? static_cast<int>(*number) : otherwise;
  };
  profile_.rank = small(file.rank, rank_in_name(path));
  profile_.path = std::move(path);
  profile_.world_size = small(file.world_size, 0);
  profile_.base_time_ns = file.base_time_ns.value_or(0);
  profile_.cut_short = file.how != HowWhole::whole;
  keep_outermost(profile_.attention[0]);
  sort_transfers();
  std::size_t blocked = 0;
  for (const ProfiledSpan& kernel : profile_.attention[1])
    if (const auto launch = launches_.find(kernel.order); launch != launches_.end())
      blocked += launch->second >= kernel.end_ns;
  profile_.launches_block = 10 * blocked > 9 * profile_.attention[1].size();
  for (const bool receives : {false, true}) {
    int most = 0;
    for (const auto& [peer, count] : peers_[receives])
      if (count > most)
        most = count, (receives ? profile_.receives_from : profile_.sends_to) = peer;
  }
  return std::move(profile_);
}

int rank_in_name(const std::string& path) {
  for (std::size_t at = path.rfind("rank"); at != path.npos;
       at = at == 0 ? path.npos : path.rfind("rank", at - 1)) {
    std::size_t begin = at + 4;
    if (begin < path.size() && std::string_view("-_.=").find(path[begin]) != std::string::npos)
      ++begin;
    const std::size_t end = std::min(path.find_first_not_of("0123456789", begin), path.size());
    const auto rank = parse_number<int>(std::string_view(path).substr(begin, end - begin));
    if (rank && *rank < 1'000'000) return *rank;
  }
  return -1;
}

// ---

std::optional<RankProfile> parse_profile(std::string_view text, const std::string& path) {
  MemorySource source(text);
  return read_profile_of(source, path, {});
}

std::optional<RankProfile> read_profile(const std::string& path,
                                        const std::vector<std::string>& attention) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "profile");
    FileSource source(file);
    try {
      return read_profile_of(source, path, attention);
    } catch (const InputError& error) {
      constexpr std::int64_t kMaxToLookThrough = 64 << 20;
      if (file.size() > kMaxToLookThrough) throw;
      throw InputError(error.what() + pieces_in(read_file(path, "profile", kMaxToLookThrough)));
    }
  });
}

}  // namespace ringscope
