// Published measurements: a CSV of them, and what each ran. Nothing here predicts anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

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
//   mask "varlen..."                      the packs of MagiAttention's benchmark, or packs drawn so
//   mask with "documents"                 8 equal ones
//   any other                             one document
std::vector<Layout> layouts_of(const PublishedRow& row);

inline bool is_causal(const PublishedRow& row) {
  return row.mask.find("causal") != row.mask.npos || row.mask == "not stated";
}

}  // namespace ringscope
