// The table of devices and links: plain text, one figure a line with its source beside it
// (hardware.txt, which is compiled in; its head explains the format). Users extend it by naming a
// file of the same format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"

namespace ringscope {

// What one rank computes with. Rates are peaks; the shares say what an attention kernel reaches of
// them (S0 and S3 put in the peak itself: a share of 1).
struct Gpu {
  std::string name;
  std::optional<double> flops_16bit;  // FLOP/s
  std::optional<double> flops_f32;    // FLOP/s
  double forward_share = 1;           // in (0, 1]
  double backward_share = 1;
  double memory_bytes = 0;
  std::optional<double> memory_bytes_per_s;  // that its own memory moves

  // The peak for tensors of `dtype`. Throws InputError when the table does not have it.
  double peak_flops(DType dtype) const;
};

// What joins a rank to the next one, one way.
struct Link {
  std::string name;
  double bytes_per_s = 0;
  double latency_s = 0;  // of a message, besides its bytes
};

struct HardwareTable {
  std::string source;  // the file's name, or what stands for it in messages
  std::vector<Gpu> gpus;
  std::vector<Link> links;
};

// Reads a table. Throws InputError naming source, line and field, the value, and what is accepted:
// an unknown word, a figure that is not a positive finite number (a latency may be 0), a share
// above 1, a name or a figure given twice, an entry that lacks a figure.
HardwareTable parse_hardware(std::string_view text, const std::string& source);

// core/cost/hardware.txt.
const HardwareTable& builtin_hardware();

// `text` is the name of a built-in entry in any case of letters, or a file's path, or path:NAME for
// one entry of a file that has several. Throws InputError that lists the names, or tells what is
// wrong with the file.
Gpu find_gpu(const std::string& text);
Link find_link(const std::string& text);

}  // namespace ringscope
