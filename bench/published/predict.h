// Predicts published measurements from what their source gives of one device and its links. The
// model knows devices, implementations and tiles; it knows no row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"
#include "core/trace/event.h"

namespace ringscope {

// ---
// Published measurements: a CSV of them, and what each ran. Nothing here predicts anything.

// One measurement. Sizes that the file leaves out are 1 (batch), those of the queries (kv_heads) or
// 128 (head_dim).
struct PublishedRow {
  int line = 0;  // of the file
  std::string source, hardware, link, dtype, mask, pass, scheme, metric, note;
  int world_size = 1;
  Index seqlen = 0, batch = 1, heads = 0, kv_heads = 0, head_dim = 128;
  std::optional<double> value;  // none: not given

  bool has(const std::string& scheme_word) const { return scheme.find(scheme_word) != scheme.npos; }
};

// Read a file with the header
//
//   source,hardware,link,world_size,seqlen,batch,heads,kv_heads,head_dim,dtype,mask,pass,scheme,
//   metric,value,note
//
// of at most 16 MiB. Fields may be quoted. Throw InputError that names the file, the line, the
// column, its text and what is accepted.
std::vector<PublishedRow> read_published(const std::string& path);

// The documents of a sequence, in order. One document: no document mask.
using Layout = std::vector<double>;

// Return the layouts that a row's figure is a mean over, each for `positions` positions:
//
//   note "documents x8: [A,B] [C]"        those lists, scaled to the sequence
//   mask "(8 segments, 90 % filled)"      that many equal ones, and the rest empty
//   mask "varlen..."                      the packs of MagiAttention's benchmark
//   mask with "documents"                 8 equal ones
//   any other                             one document
std::vector<Layout> layouts_of(const PublishedRow& row);

inline bool is_causal(const PublishedRow& row) {
  return row.mask.find("causal") != row.mask.npos || row.mask == "not stated";
}

// ---
// Predictions.

// An attention kernel by itself. A row of queries that attends K keys takes as long as K + start
// keys at the full rate: the loop over keys begins and ends once whatever its length. This one
// number gives the rates of short, causal and document masks from that of long full ones.
struct KernelRate {
  double flops = 0;  // FLOP/s of a long row without mask
  double start_keys = 0;
};

// What was measured of a device and its links, and the two costs that are fitted.
struct MachineFigures {
  std::string name;
  // What a row's source, hardware and scheme contain; "": any.
  std::string source, device, implementation;
  KernelRate forward, backward;
  double link_bytes_per_s = 0;     // inside a node, as a collective reaches it
  double network_bytes_per_s = 0;  // of a device to other nodes
  double memory_bytes_per_s = 0;
  // Fitted, each on one row: bytes of memory traffic a merge of two blocks' results takes, for each
  // value of a rank's output (rescaling, copies of halves), and seconds that a ring step, or
  // the pass of another scheme, takes besides all else (launches, padding, waking up).
  double step_bytes = 0;
  double call_s = 0;
  std::string fitted_on;  // row_key() of the rows of these two, with '|' between them
  std::string given_by;   // where the figures are from
  // Of the source's own kernel, which some of its schemes use; NeMo: forward, products with weights.
  KernelRate own_forward = {}, own_backward = {};
};

// Return all machines, the rows of machines.csv; the last ones are defaults for sources that are not
// known, by device. Kernels of MagiAttention's figures: FLOP/s at 32k positions, and start_keys from
// those at 1k to 32k. Links: data sheets' rates, of which collectives reach about three quarters.
const std::vector<MachineFigures>& published_machines();
const MachineFigures& machine_of(const PublishedRow& row);

// Return what tells a row from others of its source.
std::string row_key(const PublishedRow& row);

// How a row was used: not at all, as the kernel's figure, or for a fit.
enum class RowUse { predicted, kernel, fitted };
RowUse use_of(const PublishedRow& row);

// Return what the row's value has to be divided by where the axis of the figure that it was read
// off was misread, or 1. MagiAttention's figures label every second or half gridline: the values of
// one panel are twice, those of seven half, what its labels say.
double misread_by(const PublishedRow& row);

// Return the predicted value in the row's metric, or none with `why_not` set; `machine` is
// machine_of(row), or one with other costs.
std::optional<double> predict(const PublishedRow& row, const MachineFigures& machine,
                              std::string& why_not);

}  // namespace ringscope
