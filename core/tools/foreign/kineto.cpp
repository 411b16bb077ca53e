#include "core/tools/foreign/kineto.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
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
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return has(name, part); });
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
  std::stable_sort(spans.begin(), spans.end(), [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<ProfiledSpan> kept;
  for (const ProfiledSpan& span : spans)
    if (kept.empty() || span.end_ns > kept.back().end_ns) kept.push_back(span);
  spans = std::move(kept);
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
  if (!on_device && category != "cpu_op" && category != "user_annotation") return;
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
  if (name == "c10d::send") calls_.push_back(*begin);
  span.name = std::hash<std::string_view>()(name);
  add_peer(fields, name, collective);
  const bool is_named = has_part(name, attention_);
  const bool is_around = !is_named && has_part(name, kAround);
  const bool is_back = has_part(name, kBackward) || (is_named && has_part(name, kBackwards));
  if (has_part(name, kGathers)) {
    ++profile_.gathers[on_device];
  } else if (has_part(name, kAllToAlls) || (on_device && collective.starts_with("all_to_all"))) {
    ++profile_.all_to_alls[on_device];
  } else if (has_part(name, kTransfers) ||
             (on_device && (collective == "send" || collective == "recv"))) {
    const bool grouped = has(name, "SendRecv") && collective.empty();
    span.sends = collective.empty() ? grouped || !has(name, "recv") : collective != "recv";
    span.receives = grouped || !span.sends;
    if (span.sends) span.bytes = message_bytes(fields);
    if (span.sends && span.bytes == 0) span.bytes = input_bytes(fields);
    profile_.transfers[on_device].push_back(span);
  } else if (!is_around && (is_back || is_named || has_part(name, kForward))) {
    if (is_back) span.pass = Pass::backward;
    add_shape(fields, name, span);
    profile_.attention[on_device].push_back(span);
  } else {
    int* count = nullptr;
    std::string shortened(name.substr(0, kMaxName));
    if (on_device && !is_around &&
        (profile_.others.size() < kMaxOthers || profile_.others.contains(shortened)))
      ++*(count = &profile_.others[std::move(shortened)]);
    if (name.size() <= kMaxName && !has_part(name, kPeers) && dull.size() < kMaxOthers)
      dull.emplace(name, count);
  }
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
  const AttentionShape shape{q[0], q[1], k[1], std::max(q[2], k[2]), q[3]};
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
}

RankProfile ProfileEvents::finish(const TraceFile& file, std::string path) {
  const auto small = [](const std::optional<std::int64_t>& number, int otherwise) {
    return number && *number >= 0 && *number < 1'000'000 ? static_cast<int>(*number) : otherwise;
  };
  profile_.path = std::move(path);
  profile_.rank = small(file.rank, -1);
  profile_.world_size = small(file.world_size, 0);
  profile_.base_time_ns = file.base_time_ns.value_or(0);
  profile_.cut_short = file.how != HowWhole::whole;
  keep_outermost(profile_.attention[0]);
  // The note of a send may begin late, when the block is already under way; its call does not.
  std::vector<ProfiledSpan*> sends;
  for (ProfiledSpan& span : profile_.transfers[0])
    if (!span.receives) sends.push_back(&span);
  std::sort(sends.begin(), sends.end(),
            [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
  std::sort(calls_.begin(), calls_.end());
  for (std::size_t i = 0; i < sends.size() && sends.size() == calls_.size(); ++i)
    if (calls_[i] < sends[i]->begin_ns) sends[i]->order = sends[i]->begin_ns = calls_[i];
  for (const bool receives : {false, true}) {
    int most = 0;
    for (const auto& [peer, count] : peers_[receives])
      if (count > most)
        most = count, (receives ? profile_.receives_from : profile_.sends_to) = peer;
  }
  return std::move(profile_);
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
    return read_profile_of(source, path, attention);
  });
}

}  // namespace ringscope
