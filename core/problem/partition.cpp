#include "core/problem/partition.h"

#include "core/base/text.h"

namespace ringscope {

PartitionKind parse_partition(std::string_view text) { return parse_name(text, kAllPartitions); }

}  // namespace ringscope
