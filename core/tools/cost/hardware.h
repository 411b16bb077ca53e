// The table of devices and links. It is plain text with one figure per line and its source beside
// it; hardware.txt explains the format and is compiled in. Users extend it by naming a file of the
// same format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"

namespace ringscope {

// The device of one rank. Rates are peaks, and the shares say how much of them an attention kernel
// reaches. (S0 and S3 use the peak itself, which is a share of 1.)
struct Gpu {
  std::string name;
  std::optional<double> flops_16bit;  // FLOP/s
  std::optional<double> flops_8bit;   // of products with weights alone
  std::optional<double> flops_f32;    // FLOP/s
  double forward_share = 1;           // in (0, 1]
  double backward_share = 1;
  std::optional<double> product_share;  // of products with weights; without it forward_share
  std::optional<double> product_share_8bit;
  // What some libraries' attention kernels reach instead.
  struct Shares {
    std::optional<double> forward, backward;
  };
  Shares fa2, fa3, cudnn;
  double memory_bytes = 0;
  std::optional<double> memory_bytes_per_s;  // bandwidth of its own memory
  std::optional<double> host_bytes_per_s;    // to its host's memory, one way
  // Calibrated on published runs: what a call of the kernel takes besides its work, and what merging
  // two blocks' results takes for each value of the output.
  std::optional<double> call_s, merge_s;

  // Return the peak for tensors of `dtype`. Throw InputError when the table does not have it.
  double peak_flops(DType dtype) const;
};

// Let `gpu` reach what the kernels of `library`, fa2, fa3 or cudnn, do. Throw InputError for a table that
// does not say it.
void take_kernels(Gpu& gpu, std::string_view library);

// The link from a rank to the next one, in one direction.
struct Link {
  std::string name;
  double bytes_per_s = 0;
  double latency_s = 0;  // per message, in addition to its bytes
};

struct HardwareTable {
  std::vector<Gpu> gpus;
  std::vector<Link> links;
};

// Read a table. Throw InputError with source, line, field, value and what is accepted, for an
// unknown word, a figure that is not a positive finite number (a latency may be 0), a share above
// 1, a name or figure that is given twice, or an entry that lacks a figure.
HardwareTable parse_hardware(std::string_view text, const std::string& source);

// Return the table in core/tools/cost/hardware.txt.
const HardwareTable& builtin_hardware();

// Return the entry that `text` names: a built-in one in upper or lower case, a file's path, or
// path:NAME for one entry of a file with several. Throw InputError that lists the names or says
// what is wrong with the file.
Gpu find_gpu(const std::string& text);
Link find_link(const std::string& text);

}  // namespace ringscope
