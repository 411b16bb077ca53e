// What generating a text takes, by formula: messages and bytes on the wire, and memory. N ranks, a
// text of one sequence.
//
//   prefill    a layer: N-1 hops of every rank's block of K and V
//   handover   the logits behind the prompt, from the rank that has its last row to all others: the
//              way down a tree
//   decode     a layer and byte: a merge (merge.h). After the last byte nothing is computed, so B
//              bytes take B-1 of them.
//
// Messages are counted as a ring sends them, from a rank to the next: one that is passed along
// counts at every hop.
#pragma once

#include "core/decode/merge.h"
#include "core/layer/model_shape.h"
#include "core/partition/partition.h"
#include "core/ring/wire_counter.h"

namespace ringscope {

// Of all ranks together.
WireCount prefill_wire(const ModelShape& shape, const Partition& prompt);
WireCount handover_wire(const ModelShape& shape, int world_size);
WireCount decode_wire(const ModelShape& shape, MergeKind merge, Index bytes, int world_size);

// What `rank` holds at its peak, in bytes, but for what does not grow with model or text (some
// rows). It is reached when the prompt has been read and its keys and values are taken over, or
// else at the end.
double generating_bytes(const ModelShape& shape, const Partition& prompt, Index bytes, int rank);

}  // namespace ringscope
