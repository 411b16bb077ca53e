// The options of `ringscope groups`: how a world of ranks is split, and what it computes.
#pragma once

#include <optional>

#include "core/base/dtype.h"
#include "core/model/rank_groups.h"

namespace ringscope {

class CommandFlags;

struct GroupsOptions {
  int world_size = 1;
  int ranks_a_node = 8;
  std::optional<int> rank;  // whose groups are listed member by member
  GroupJob job;             // its sizes are the world's
  DType dtype = DType::bf16;
  bool json = false;
};

// The flags as given, before it is known that they fit together; 0: not given.
struct GroupsRequest {
  Index tensor = 1, context = 1, pipeline = 1, data = 1;
  Index world_size = 0, ranks_a_node = 8;
  std::optional<Index> rank;
  Index seqlen = 32768, batch = 1, heads = 32, heads_kv = 0, head_dim = 128;
  Index layers = 32, width = 0;
  DType dtype = DType::bf16;
  bool json = false;
};

// Add the flags, which write to `request` when the command line is read.
void add_groups(CommandFlags& flags, GroupsRequest& request);

// Throw InputError naming the flag or size, the value and what would be accepted: for sizes whose
// product is not the world, and for heads or layers that can't be split evenly.
GroupsOptions checked_groups(const GroupsRequest& request);

}  // namespace ringscope
