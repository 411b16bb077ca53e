#include "core/tools/foreign/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace_reader.h"

namespace ringscope {
namespace {

// ---
// The readers of pickles, protocols 2 to 5, plain values only, and of JSON.

constexpr std::size_t kMaxValues = 4'000'000;
// A value may stand in a pickle in many places at little cost, so what is made of it is bounded, too.
constexpr std::size_t kMaxOps = 1'000'000, kMaxMembers = 1'000'000, kMaxKeys = 200,
                      kMaxSpelled = 200;

struct PlainValue {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dict, mark };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also a boolean
  std::string_view text;
  std::vector<std::uint32_t> items;  // of a list or tuple; of a dict: key, value, key, value
};
using PlainKind = PlainValue::Kind;

// The values of a dump.
class PlainValues {
 public:
  const PlainValue& at(std::uint32_t index) const { return values_[index]; }
  // Return the value of a key, or null if there is none or `dict` is no dict.
  const PlainValue* find(const PlainValue* dict, std::string_view key) const {
    if (dict == nullptr || dict->kind != PlainKind::dict) return nullptr;
    for (std::size_t i = 0; i + 1 < std::min(dict->items.size(), 2 * kMaxKeys); i += 2)
      if (at(dict->items[i]).kind == PlainKind::text && at(dict->items[i]).text == key)
        return &at(dict->items[i + 1]);
    return nullptr;
  }
  std::string text(const PlainValue* dict, std::string_view key) const {
    const PlainValue* const value = find(dict, key);
    return value != nullptr ? spelled(*value) : std::string();
  }
  std::int64_t integer(const PlainValue* dict, std::string_view key, std::int64_t otherwise) const {
    const PlainValue* const value = find(dict, key);
    const PlainKind kind = value != nullptr ? value->kind : PlainKind::none;
    return kind == PlainKind::integer || kind == PlainKind::boolean ? value->integer : otherwise;
  }
  static std::string spelled(const PlainValue& value) {
    if (value.kind == PlainKind::integer) return std::to_string(value.integer);
    return printable(value.text.substr(0, kMaxSpelled));
  }

 protected:
  std::vector<PlainValue> values_;
};

class PickleReader : public PlainValues {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  // Read the whole pickle and return its value.
  const PlainValue& read() {
    while (true) {
      op_at_ = at_;
      const char op = take(1)[0];
      if (op == '.') return at(top());
      execute(op);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { fail_at(op_at_, what); }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail_at(bytes_.size(), "the pickle ends here; more accepted");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t number(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  void push(PlainValue value) {
    if (values_.size() >= kMaxValues)
      refuse(fmt::format("more values than the {} accepted", kMaxValues));
    stack_.push_back(static_cast<std::uint32_t>(values_.size()));
    values_.push_back(std::move(value));
  }
  void push(PlainKind kind, std::int64_t integer = 0, std::string_view text = {}) {
    push(PlainValue{.kind = kind, .integer = integer, .text = text, .items = {}});
  }
  void push_integer(std::uint64_t bits) {
    push(PlainKind::integer, static_cast<std::int64_t>(bits));
  }
  std::uint32_t top() const {
    if (stack_.empty()) refuse("no value on the pickle's stack; one accepted");
    return stack_.back();
  }
  // Pop so many values, and return them in the order in which they were pushed.
  std::vector<std::uint32_t> pop(std::size_t count) {
    std::vector<std::uint32_t> items(count);
    for (std::size_t i = count; i-- > 0; stack_.pop_back()) items[i] = top();
    return items;
  }
  // Pop the values down to the last mark, and the mark.
  std::vector<std::uint32_t> pop_to_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && at(stack_[mark - 1]).kind != PlainKind::mark) --mark;
    if (mark == 0) refuse("no mark on the pickle's stack; one accepted");
    std::vector<std::uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                     stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  void make(PlainKind kind, const std::vector<std::uint32_t>& items) {
    push(kind);
    extend(kind, items);
  }
  void extend(PlainKind kind, const std::vector<std::uint32_t>& items) {
    if (stack_.empty() || at(stack_.back()).kind != kind)
      refuse("nothing on the stack that takes members; a list or dict accepted");
    if (kind == PlainKind::dict && items.size() % 2 != 0)
      refuse("a key without its value; both accepted");
    auto& into = values_[stack_.back()].items;
    into.insert(into.end(), items.begin(), items.end());
  }
  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("a value that was not kept; one that was accepted");
    stack_.push_back(found->second);
    if (stack_.size() > kMaxFlightBytes) refuse("too deep a stack");
  }
  void check_protocol(std::uint64_t protocol) const {
    if (protocol < 2 || protocol > 5) refuse("an unknown pickle protocol; 2 to 5 accepted");
  }
  // Push a text or bytes, before which its length stands in so many bytes.
  void push_text(std::size_t bytes_of_length) {
    push(PlainKind::text, 0, take(number(bytes_of_length)));
  }
  // Of whole numbers only those of 64 bits are kept; longer ones count as the largest.
  void long_number(std::uint64_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = size > 0 && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = std::min<std::size_t>(size, 8); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    push_integer(size > 8 ? INT64_MAX : value);
  }

  // Instructions that do the same, by their codes. Python's pickletools describes them.
  struct Instruction {
    std::string_view codes;
    void (*run)(PickleReader& pickle);
  };
  static const Instruction kInstructions[];

  void execute(char code);

  std::string_view bytes_;
  std::size_t at_ = 0, op_at_ = 0;
  std::vector<std::uint32_t> stack_;
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

// Those that build plain values. All others may import and run code.
const PickleReader::Instruction PickleReader::kInstructions[] = {
    {"\x80", [](PickleReader& p) { p.check_protocol(p.number(1)); }},
    {"\x95", [](PickleReader& p) { p.number(8); }},  // the length of a frame
    // Numbers.
    {"N", [](PickleReader& p) { p.push(PlainKind::none); }},
    {"\x88", [](PickleReader& p) { p.push(PlainKind::boolean, 1); }},
    {"\x89", [](PickleReader& p) { p.push(PlainKind::boolean, 0); }},
    {"J", [](PickleReader& p) { p.push_integer(static_cast<std::int32_t>(p.number(4))); }},
    {"K", [](PickleReader& p) { p.push_integer(p.number(1)); }},
    {"M", [](PickleReader& p) { p.push_integer(p.number(2)); }},
    {"\x8a", [](PickleReader& p) { p.long_number(p.number(1)); }},
    {"\x8b", [](PickleReader& p) { p.long_number(p.number(4)); }},
    {"G", [](PickleReader& p) { p.take(8), p.push(PlainKind::real); }},
    // Bytes and texts, behind a length of 1, 4 or 8 bytes.
    {"UC\x8c", [](PickleReader& p) { p.push_text(1); }},
    {"TBX", [](PickleReader& p) { p.push_text(4); }},
    {"\x8e\x8d", [](PickleReader& p) { p.push_text(8); }},
    // Lists, tuples and sets, which are all lists here, and dicts: empty ones, those of all down to
    // the mark or of the last one to three, and what joins one.
    {"(", [](PickleReader& p) { p.push(PlainKind::mark); }},
    {"])\x8f", [](PickleReader& p) { p.push(PlainKind::list); }},
    {"}", [](PickleReader& p) { p.push(PlainKind::dict); }},
    {"lt\x91", [](PickleReader& p) { p.make(PlainKind::list, p.pop_to_mark()); }},
    {"d", [](PickleReader& p) { p.make(PlainKind::dict, p.pop_to_mark()); }},
    {"\x85", [](PickleReader& p) { p.make(PlainKind::list, p.pop(1)); }},
    {"\x86", [](PickleReader& p) { p.make(PlainKind::list, p.pop(2)); }},
    {"\x87", [](PickleReader& p) { p.make(PlainKind::list, p.pop(3)); }},
    {"a", [](PickleReader& p) { p.extend(PlainKind::list, p.pop(1)); }},
    {"e\x90", [](PickleReader& p) { p.extend(PlainKind::list, p.pop_to_mark()); }},
    {"s", [](PickleReader& p) { p.extend(PlainKind::dict, p.pop(2)); }},
    {"u", [](PickleReader& p) { p.extend(PlainKind::dict, p.pop_to_mark()); }},
    // The stack, and values that are kept to be used again.
    {"0", [](PickleReader& p) { p.pop(1); }},
    {"1", [](PickleReader& p) { p.pop_to_mark(); }},
    {"q", [](PickleReader& p) { p.memo_[p.number(1)] = p.top(); }},
    {"r", [](PickleReader& p) { p.memo_[p.number(4)] = p.top(); }},
    {"\x94", [](PickleReader& p) { p.memo_.emplace(p.memo_.size(), p.top()); }},
    {"h", [](PickleReader& p) { p.recall(p.number(1)); }},
    {"j", [](PickleReader& p) { p.recall(p.number(4)); }},
};

void PickleReader::execute(char code) {
  for (const Instruction& instruction : kInstructions)
    if (instruction.codes.find(code) != std::string_view::npos) return instruction.run(*this);
  refuse(
      fmt::format("pickle instruction 0x{:02x}, which may run code; plain values (lists, dicts, "
                  "numbers, texts) accepted",
                  static_cast<unsigned char>(code)));
}

// Reads the same values from a JSON text.
class JsonValues : public PlainValues {
 public:
  explicit JsonValues(std::string_view bytes) : source_(bytes), json_(source_, kTraceChunk) {}

  const PlainValue& read() {
    const std::uint32_t top = value(json_.next());
    json_.next();  // the end, or an error
    return at(top);
  }

 private:
  std::uint32_t add(PlainKind kind, std::int64_t integer = 0, std::string_view text = {}) {
    if (values_.size() >= kMaxValues)
      fail_at(json_.at(), fmt::format("more values than the {} accepted", kMaxValues));
    if (kind == PlainKind::text) text = texts_.emplace_back(text);
    values_.push_back({.kind = kind, .integer = integer, .text = text, .items = {}});
    return static_cast<std::uint32_t>(values_.size() - 1);
  }
  std::uint32_t value(JsonToken token) {
    const std::string_view text = json_.text();
    if (token == JsonToken::string || token == JsonToken::key) return add(PlainKind::text, 0, text);
    if (token == JsonToken::literal) return add(PlainKind::boolean, text == "true");
    if (token == JsonToken::number) {
      const auto integer = parse_number<std::int64_t>(text);
      return add(integer ? PlainKind::integer : PlainKind::real, integer.value_or(0));
    }
    const bool is_list = token == JsonToken::begin_array;
    const std::uint32_t made = add(is_list ? PlainKind::list : PlainKind::dict);
    std::vector<std::uint32_t> items;
    while ((token = json_.next()) != JsonToken::end_array && token != JsonToken::end_object)
      items.push_back(value(token));
    values_[made].items = std::move(items);
    return made;
  }

  MemorySource source_;
  JsonReader json_;
  std::deque<std::string> texts_;
};

// Return the numbers of a list, or of a text that spells one: "[0, 4, 8]".
std::vector<int> members_of(const PlainValues& values, const PlainValue& list) {
  std::vector<int> members;
  if (list.items.size() > kMaxMembers || list.text.size() > 10 * kMaxMembers) return members;
  for (const std::uint32_t item : list.items)
    members.push_back(
        static_cast<int>(std::clamp<std::int64_t>(values.at(item).integer, 0, 1 << 30)));
  for_each_part(list.text, ',', [&](std::string_view part) {
    part.remove_prefix(std::min(part.find_first_not_of("[ "), part.size()));
    const auto member = parse_number<int>(part.substr(0, part.find(']')));
    if (member && *member >= 0 && *member < 1 << 30) members.push_back(*member);
  });
  return members;
}

FlightOp op_of(const PlainValues& values, const PlainValue* entry) {
  FlightOp op;
  const PlainValue* const group = values.find(entry, "process_group");
  op.group = group != nullptr && group->kind == PlainKind::list && !group->items.empty()
                 ? PlainValues::spelled(values.at(group->items[0]))
                 : values.text(entry, "pg_name");
  op.group_id = values.integer(entry, "pg_id", -1);
  op.name = values.text(entry, "profiling_name");
  if (const std::size_t colon = op.name.find(':'); colon != std::string::npos)
    op.name.erase(0, colon + 1);
  op.name.erase(0, op.name.find_first_not_of('_'));
  op.is_p2p = values.integer(entry, "is_p2p", 0) != 0;
  op.sequence = values.integer(entry, op.is_p2p ? "p2p_seq_id" : "collective_seq_id",
                               values.integer(entry, "seq_id", -1));
  op.completed = values.text(entry, "state") == "completed";
  return op;
}

// The sends and receives that one call started together are of that call's state, and "coalesced"
// stands for them after them.
void resolve_coalesced(std::vector<FlightOp>& ops) {
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (ops[i].name != "coalesced") continue;
    for (std::size_t k = i; k-- > 0 && ops[k].group == ops[i].group &&
                            ops[k].sequence == ops[i].sequence && ops[k].is_p2p == ops[i].is_p2p &&
                            ops[k].name != "coalesced";)
      ops[k].completed = ops[i].completed;
  }
  std::erase_if(ops, [](const FlightOp& op) { return op.name == "coalesced"; });
}

// ---
// Who waits for whom.

// A rank's place in the wait: the operations that it is at, which were asked for together.
struct Standing {
  const FlightDump* dump = nullptr;      // null: it left none, and others wait for it
  std::vector<const FlightOp*> pending;  // in order; the first `front` are those that it is at
  std::size_t front = 0;
  std::vector<int> awaited;          // ranks that have not come to them
  std::vector<int> beyond;           // ranks that have them behind themselves
  bool at_odds = false;              // asked for something else than the others
  std::set<int> waiting = {};        // ranks that wait for this one, however indirectly
  const FlightOp* missed = nullptr;  // what somebody waits for it in
  std::vector<int> waiting_there;    // and who does
};

std::string title_of(const FlightOp& op) {
  return op.is_p2p ? op.name + " of group " + op.group
                   : fmt::format("{} {} of group {}", op.name, op.sequence, op.group);
}

class Hang {
 public:
  explicit Hang(const std::vector<FlightDump>& dumps) {
    for (const FlightDump& dump : dumps) {
      Standing standing;
      standing.dump = &dump;
      for (const FlightOp& op : dump.ops)
        if (!op.completed) standing.pending.push_back(&op);
      const auto& pending = standing.pending;
      while (standing.front < pending.size() &&
             (standing.front == 0 ||
              (pending[0]->is_p2p && same_call(*pending[0], *pending[standing.front]))))
        ++standing.front;
      if (!ranks_.emplace(dump.rank, std::move(standing)).second)
        throw InputError(
            fmt::format("{}: a second dump of rank {}; one a rank accepted", dump.file, dump.rank));
    }
    for (auto& [rank, standing] : ranks_)
      for (std::size_t i = 0; i < standing.front; ++i) see(rank, standing, *standing.pending[i]);
    for (const auto& [rank, standing] : ranks_) follow(rank);
  }

  Explanation explain() const {
    Explanation why;
    std::vector<int> stuck, absent, culprits;
    std::size_t pending = 0;
    for (const auto& [rank, standing] : ranks_) {
      pending += standing.pending.size();
      if (standing.front > 0) stuck.push_back(rank);
      const bool fails = !standing.waiting.empty() || !standing.beyond.empty();
      if (standing.dump == nullptr)
        absent.push_back(rank);
      else if (standing.awaited.empty() && fails &&
               (standing.front == 0 || !standing.beyond.empty()))
        culprits.push_back(rank);
    }
    for (const auto& [rank, standing] : ranks_)
      if (culprits.empty() && standing.at_odds) culprits.push_back(rank);
    if (culprits.empty() && !absent.empty()) culprits = {absent[0]};
    why.notes.push_back(
        fmt::format("{}: {} operations pending on {}.",
                    count_text(std::ssize(ranks_) - std::ssize(absent), "flight-recorder dump"),
                    pending, stuck.empty() ? "no rank" : numbers_text("rank", stuck)));
    if (!absent.empty())
      why.notes.push_back(
          fmt::format("No dump of {}, in which others wait.", numbers_text("rank", absent)));
    ranges::stable_sort(culprits, [&](int a, int b) {
      return ranks_.at(a).waiting.size() > ranks_.at(b).waiting.size();
    });
    for (const int rank : culprits) why.findings.push_back(fault_of(rank));
    if (culprits.empty() && !stuck.empty()) {
      Diagnosis unsure{.cause = Cause::fault, .confidence = 0.2};
      unsure.evidence = "Not sure which rank failed. " + unsure_because();
      why.findings.push_back(std::move(unsure));
    }
    return why;
  }

 private:
  static bool same_call(const FlightOp& a, const FlightOp& b) {
    return a.group == b.group && a.sequence == b.sequence && a.is_p2p == b.is_p2p;
  }

  // Find out which of an operation's other ranks have come to it.
  void see(int rank, Standing& standing, const FlightOp& op) {
    const auto group = standing.dump->groups.find(op.group);
    if (group == standing.dump->groups.end()) return;
    const std::vector<int>& members = group->second;
    std::vector<int> peers = members;
    std::string counterpart;
    if (op.is_p2p) {
      const auto arrow = op.name.find_first_of("-<");
      const auto space = op.name.find(' ');
      peers.clear();
      if (space == std::string::npos || arrow == std::string::npos || arrow < space) return;
      const bool sends = op.name.starts_with("send");
      const auto self = op.name.substr(space + 1, arrow - space - 1);
      const auto other = op.name.substr(std::min(arrow + 2, op.name.size()));
      const auto index = parse_number<std::size_t>(other);
      if (!index || *index >= members.size()) return;
      peers = {members[*index]};
      counterpart =
          fmt::format("{} {}{}{}", sends ? "recv" : "send", other, sends ? "<-" : "->", self);
    }
    for (const int peer : peers) {
      if (peer == rank) continue;
      Standing& other = ranks_[peer];
      const auto at = ranges::find_if(other.pending, [&](const FlightOp* theirs) {
        return theirs->group == op.group && theirs->is_p2p == op.is_p2p &&
               (op.is_p2p ? theirs->name == counterpart : theirs->sequence == op.sequence);
      });
      if (static_cast<std::size_t>(at - other.pending.begin()) < other.front) {
        if (!op.is_p2p && (*at)->name != op.name) note_odd(op, members);
        continue;
      }
      if (at == other.pending.end() && !op.is_p2p && has_passed(other.dump, op)) {
        standing.beyond.push_back(peer);
        continue;
      }
      standing.awaited.push_back(peer);
      // What a whole group waits in says more than one message.
      if (other.missed == nullptr || (other.missed->is_p2p && !op.is_p2p)) {
        other.missed = &op;
        other.waiting_there.clear();
      }
      if (other.missed->group == op.group && other.missed->sequence == op.sequence)
        other.waiting_there.push_back(rank);
    }
  }

  static bool has_passed(const FlightDump* dump, const FlightOp& op) {
    return dump != nullptr && ranges::any_of(dump->ops, [&](const FlightOp& own) {
             if (own.group != op.group || own.is_p2p) return false;
             const auto status = dump->last_completed.find(own.group_id);
             return (own.completed && own.sequence >= op.sequence) ||
                    (status != dump->last_completed.end() && status->second >= op.sequence);
           });
  }

  // Mark the ranks that call an operation otherwise than most of the group.
  void note_odd(const FlightOp& op, const std::vector<int>& members) {
    std::map<std::string, std::vector<int>> callers;
    for (const int member : members) {
      const auto found = ranks_.find(member);
      if (found == ranks_.end() || found->second.front == 0) continue;
      const FlightOp& theirs = *found->second.pending[0];
      if (same_call(theirs, op)) callers[theirs.name].push_back(member);
    }
    for (const auto& [name, ranks] : callers)
      if (2 * ranks.size() < members.size())
        for (const int rank : ranks) ranks_.at(rank).at_odds = true;
    odd_ = &op;
  }

  // Count the rank among those that wait for whomever it waits for.
  void follow(int rank) {
    std::vector<int> todo = {rank};
    std::set<int> seen = {rank};
    while (!todo.empty()) {
      const int at = todo.back();
      todo.pop_back();
      for (const int next : ranks_.at(at).awaited) {
        if (!seen.insert(next).second) continue;
        todo.push_back(next);
        ranks_.at(next).waiting.insert(rank);
      }
    }
  }

  Diagnosis fault_of(int rank) const {
    Diagnosis fault{.cause = Cause::fault, .rank = rank, .confidence = 0.6};
    const Standing& standing = ranks_.at(rank);
    const std::size_t count = standing.waiting.size();
    if (standing.dump == nullptr) {
      fault.evidence = "It left no dump, and others wait for it";
    } else if (!standing.beyond.empty()) {
      fault.confidence = 0.9;
      fault.evidence = fmt::format(
          "It hangs in {}, which {} {} completed", title_of(*standing.pending[0]),
          numbers_text("rank", standing.beyond), standing.beyond.size() == 1 ? "has" : "have");
    } else if (standing.at_odds) {
      fault.confidence = 0.7;
      fault.evidence = fmt::format("It calls {}, and most others {}",
                                   title_of(*standing.pending[0]), title_of(*odd_));
    } else {
      fault.confidence = 0.9;
      fault.evidence =
          fmt::format("It has nothing pending and never came to {}, in which {} {}",
                      title_of(*standing.missed), numbers_text("rank", standing.waiting_there),
                      standing.waiting_there.size() == 1 ? "waits" : "wait");
    }
    fault.evidence += count > 0
                          ? fmt::format(". In all, {} rank{} for it, directly or through others.",
                                        count, count == 1 ? " waits" : "s wait")
                          : ".";
    return fault;
  }

  std::string unsure_because() const {
    for (const auto& [rank, standing] : ranks_)
      if (standing.front > 0 && standing.awaited.empty())
        return fmt::format("All ranks of {} have come to it, and none has completed it.",
                           title_of(*standing.pending[0]));
    return "Ranks wait for each other in a circle.";
  }

  std::map<int, Standing> ranks_;
  const FlightOp* odd_ = nullptr;
};

}  // namespace

FlightDump parse_flight_dump(std::string_view bytes, int rank) {
  const bool is_json = bytes.starts_with('{');
  PickleReader pickle(bytes);
  JsonValues json(bytes);
  const PlainValue* const top = is_json ? &json.read() : &pickle.read();
  const PlainValues& values = is_json ? static_cast<const PlainValues&>(json) : pickle;
  const PlainValue* const entries = values.find(top, "entries");
  if (entries == nullptr || entries->kind != PlainKind::list)
    fail_at(0, "no list of entries; a flight recorder's dump accepted");
  if (entries->items.size() > kMaxOps)
    fail_at(0, fmt::format("{} entries; at most {} accepted", entries->items.size(), kMaxOps));
  FlightDump dump;
  dump.rank = rank;
  std::size_t members = 0;
  if (const PlainValue* const groups = values.find(top, "pg_config"))
    for (std::size_t i = 0; i + 1 < groups->items.size(); i += 2) {
      const PlainValue* const ranks = values.find(&values.at(groups->items[i + 1]), "ranks");
      if (ranks == nullptr) continue;
      auto& group = dump.groups[PlainValues::spelled(values.at(groups->items[i]))];
      group = members_of(values, *ranks);
      members += group.size() + ranks->text.size() + 1;
      if (members > 10 * kMaxMembers)
        fail_at(0, fmt::format("more group members than the {} accepted", 10 * kMaxMembers));
    }
  if (const PlainValue* const status = values.find(top, "pg_status"))
    for (std::size_t i = 0; i + 1 < status->items.size(); i += 2)
      if (const auto id =
              parse_number<std::int64_t>(PlainValues::spelled(values.at(status->items[i]))))
        dump.last_completed[*id] =
            values.integer(&values.at(status->items[i + 1]), "last_completed_collective", -1);
  for (const std::uint32_t entry : entries->items)
    dump.ops.push_back(op_of(values, &values.at(entry)));
  resolve_coalesced(dump.ops);
  return dump;
}

FlightDump read_flight_dump(const std::string& path) {
  const std::string bytes = read_file(path, "flight recorder's dump", kMaxFlightBytes);
  return with_path_in_errors(path, [&] {
    std::string name = path.substr(path.find_last_of('/') + 1);
    name.erase(std::min(name.find('.'), name.size()));
    const std::size_t last = name.find_last_not_of("0123456789");
    const auto rank =
        parse_number<int>(std::string_view(name).substr(last == std::string::npos ? 0 : last + 1));
    if (!rank)
      throw InputError("a dump's name that doesn't end with its rank; nccl_trace_rank_3 accepted");
    FlightDump dump = parse_flight_dump(bytes, *rank);
    dump.file = path;
    return dump;
  });
}

Explanation explain_hang(const std::vector<FlightDump>& dumps) { return Hang(dumps).explain(); }

}  // namespace ringscope
