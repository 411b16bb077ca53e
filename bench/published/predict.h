// Predicts published measurements from what their source gives of one device and its links. The
// model knows devices, implementations and tiles; it knows no row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/published/rows.h"
#include "core/trace/event.h"

namespace ringscope {

// An attention kernel by itself. A row of queries that attends K keys takes as long as K + start
// keys at the full rate: the loop over keys begins and ends once whatever its length. This one
// number gives the rates of short, causal and document masks from that of long full ones.
struct KernelRate {
  double flops = 0;  // FLOP/s of a long row without mask
  double start_keys = 0;
};

// What was measured of a device and its links, and the two costs that are fitted.
struct MachineFigures {
  std::string_view name;
  // What a row's source, hardware and scheme contain; "": any.
  std::string_view source, device, implementation;
  KernelRate forward, backward;
  double link_bytes_per_s = 0;     // inside a node, as a collective reaches it
  double network_bytes_per_s = 0;  // of a device to other nodes
  double memory_bytes_per_s = 0;
  // Fitted, each on one row: bytes of memory traffic a ring step has besides the kernel, for each
  // value of a rank's output (merging, rescaling, copies of halves), and seconds that a ring step, or
  // the pass of another scheme, takes besides all else (launches, padding, waking up).
  double step_bytes = 0;
  double call_s = 0;
  std::string_view fitted_on;  // row_key() of the rows of these two, with '|' between them
  std::string_view given_by;   // where the figures are from
  // Of the source's own kernel, which some of its schemes use; NeMo: forward, products with weights.
  KernelRate own_forward = {}, own_backward = {};
};

// All machines; the last ones are defaults for sources that are not known, by device.
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

// Return the predicted value in the row's metric, or none with `why_not` set.
std::optional<double> predict(const PublishedRow& row, std::string& why_not);

}  // namespace ringscope
