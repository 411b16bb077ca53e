// A scheme: how blocks, or queries, get around between ranks. Each is one object at the end of the file
// that has its loop, and says there all that anybody else asks: which numbers it takes and which of
// them it refuses, what memory its ranks hold, how its tensors lie, over which links it sends. Nothing
// outside core/ring knows one by its name.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/problem/needed.h"
#include "core/trace/event.h"

namespace ringscope {

struct Problem;
struct RingProblem;
struct Loop;
class Bill;

// The numbers behind a scheme's name, as in mesh:2x4.
using SchemeNumbers = std::array<int, 2>;

// How a pass goes. The first four have closed forms (core/tools/cost/time.h), and the ranks of the first
// two may keep step.
enum class Course {
  steps,    // at each step, a block is attended while the next one comes from the rank before
  turns,    // the same in each node, while another block comes from the node before
  gathers,  // all blocks come, and then they are attended
  heads,    // each rank gets its share of the heads of all rows, attends them and gives them back
  own_messages  // none of these: what the loop asks for has to be followed
};

// Over which links a rank sends: all of it to the next rank, all of it to all others at once, or each
// message to the same node or to another one.
enum class Links { to_next, to_all, by_node };

// How a rank's tensors lie: in shares of the heads, which so many ranks exchange, each cut into slices
// that travel one after the other; and K and V in parts of the rows.
struct RankLayout {
  int heads_group = 1, slices = 1, row_parts = 1;

  int head_shares() const { return heads_group * slices; }
};

// Which blocks are cut into the parts that other ranks need (PartedBlocks): none, those for which the
// job asks that and where it saves hops, or all.
enum class Parting { never, where_asked, always };

// What a rank holds besides its own tensors: slots for queries and their dO and delta; slots for
// states and dQ; buffers for blocks of K and V and for their gradients. A slot has room for
// max_rows rows of `heads` heads, a buffer for the largest part of a block and `kv_heads` kv heads.
struct Extras {
  int q = 0, states = 0, kv = 0, gradients = 0;
  Index heads = 0, kv_heads = 0;
};

struct Scheme {
  std::string_view name;
  std::string_view numbers =
      "";                     // behind the name, as in ":U", ":RxC" or, if it may lack, "[:SLICES]"
  bool counts_nodes = false;  // its number is how many nodes the machine has

  Course course = Course::own_messages;
  Links links = Links::by_node;
  Parting parting = Parting::never;
  PartOrder part_order = PartOrder::farthest_first;
  Travels travels = Travels::blocks;

  // Return the loop of a problem on several ranks, or (gathers) on one.
  Loop (*loop)(const RingProblem& problem) = nullptr;
  // Return what would be accepted where the job's numbers, ranks and heads do not fit together, and ""
  // where they do.
  std::string (*accepted)(const Problem& job) = nullptr;                         // null: all fit
  RankLayout (*layout)(int world_size, const SchemeNumbers& numbers) = nullptr;  // null: whole
  // Return what each rank holds beside its own tensors; none if that is only what `blocks` adds. The
  // job has more than one rank.
  std::optional<Extras> (*extras)(const Problem& job) = nullptr;  // null: none
  // Add the buffers of KV blocks and gradients to a bill, where there are no extras.
  void (*blocks)(const Problem& job, Bill& bill) = nullptr;  // null: those of a ring
  // Return the number that world_size must be a multiple of.
  int (*multiple)(const Problem& job) = nullptr;  // null: 1
  // Return how many rings, which share a rank's port, it sends around at once.
  int (*rings)(const Problem& job) = nullptr;  // null: the scheme has no such number
};

constexpr std::string_view name_of(const Scheme* scheme) { return scheme->name; }

// All of them, and the one that a job has if it asks for none: the ring.
std::span<const Scheme* const> all_schemes();
const Scheme* default_scheme();

// Return the scheme of a name without its numbers, as in "mesh"; null if there is none.
const Scheme* find_scheme(std::string_view name);
// Return the same of a name that is known to be one. Throw std::invalid_argument for others.
const Scheme* scheme_named(std::string_view name);
// Return what `text` names, as in "mesh:2x4"; none if it is none of scheme_names().
struct NumberedScheme {
  const Scheme* scheme;
  SchemeNumbers numbers;
};
std::optional<NumberedScheme> read_scheme(std::string_view text);

// Return what a recording's ranks send each other: what it says itself, or else what its scheme sends, if that is
// one of ours.
Travel travel_of(const RunInfo& info);

// Return how the tensors of a rank of several lie; whole for one rank alone.
RankLayout layout_of(const Scheme& scheme, int world_size, const SchemeNumbers& numbers);

// Return the names that the program accepts, as in "ring|hybrid:U".
const std::string& scheme_names();

}  // namespace ringscope
