// Stores a row's slices side by side, and the time of each class up to every block of them. A long
// stretch then costs one subtraction and the slices at its two ends.
#include <algorithm>

#include "viz/model/timeline/timeline_painter.h"

namespace ringscope::viz {
namespace {

// Return a small number that decides a slice's colour when colours go by owner. Its class in the
// row is the order in which such numbers first turn up.
std::uint32_t owner_key(const Slice& slice) {
  const auto kind = static_cast<std::uint32_t>(slice.kind) * 16;
  if (slice.part >= 0) return kind + static_cast<std::uint32_t>(slice.part);
  if (slice.kind == Kind::other) return kind + slice.name % 8;
  if (slice.kind == Kind::wait || slice.kv_owner < 0) return kind;
  return kind + static_cast<std::uint32_t>(slice.kv_owner) % 16;
}

class OwnerClasses {
 public:
  std::uint8_t class_of(const Slice& slice, std::vector<Slice>& samples) {
    const std::uint32_t key = owner_key(slice);
    std::uint8_t& known = classes_[key];
    if (known != kNew) return known;
    if (samples.size() == TimelineIndex::kClasses) return kLast;  // the last class takes the rest
    samples.push_back(slice);
    return known = static_cast<std::uint8_t>(samples.size() - 1);
  }

 private:
  static constexpr std::uint8_t kNew = 255, kLast = TimelineIndex::kClasses - 1;
  std::vector<std::uint8_t> classes_ = std::vector<std::uint8_t>(kKindCount * 16, kNew);
};

// Fill sums[block][class]. The block after the last holds the sums of all whole blocks.
void add_sums(const TimelineIndex::RowIndex& row, const std::vector<std::uint8_t>& classes,
              std::vector<std::int64_t>& sums, std::vector<std::uint16_t>& present) {
  constexpr auto kClasses = static_cast<std::size_t>(TimelineIndex::kClasses);
  constexpr auto kBlock = static_cast<std::size_t>(TimelineIndex::kBlock);
  const std::size_t blocks = classes.size() / kBlock;
  sums.assign((blocks + 1) * kClasses, 0);
  present.assign(blocks, 0);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::int64_t* before = sums.data() + block * kClasses;
    std::int64_t* after = sums.data() + (block + 1) * kClasses;
    std::copy_n(before, kClasses, after);
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      after[classes[i]] += row.ends[i] - row.begins[i];
      present[block] |= static_cast<std::uint16_t>(1u << classes[i]);
    }
  }
}

}  // namespace

TimelineIndex::TimelineIndex(const Trace& trace) {
  rows_.resize(trace.rows.size());
  for (std::size_t r = 0; r < trace.rows.size(); ++r) {
    const std::vector<Slice>& slices = trace.rows[r].slices;
    RowIndex& row = rows_[r];
    row.begins.reserve(slices.size());
    row.ends.reserve(slices.size());
    row.owner_class.reserve(slices.size());
    row.kind_class.reserve(slices.size());
    OwnerClasses owners;
    for (const Slice& slice : slices) {
      row.begins.push_back(slice.begin_ns);
      row.ends.push_back(slice.end_ns);
      row.owner_class.push_back(owners.class_of(slice, row.owner_samples));
      row.kind_class.push_back(static_cast<std::uint8_t>(slice.kind));
      row.kinds |= 1u << static_cast<int>(slice.kind);
    }
    add_sums(row, row.owner_class, row.owner_sums, row.owner_present);
    add_sums(row, row.kind_class, row.kind_sums, row.kind_present);
  }
}

std::uint32_t TimelineIndex::RowIndex::add_blocks(ColorBy by, std::size_t first, std::size_t last,
                                                  std::int64_t* sums) const {
  const bool owner = by == ColorBy::owner;
  const std::vector<std::int64_t>& all = owner ? owner_sums : kind_sums;
  for (std::size_t c = 0; c < kClasses; ++c)
    sums[c] += all[last * kClasses + c] - all[first * kClasses + c];
  std::uint32_t present = 0;
  for (std::size_t b = first; b < last; ++b) present |= (owner ? owner_present : kind_present)[b];
  return present;
}

void TimelineIndex::time_by_class(std::uint32_t r, ColorBy by, std::int64_t begin, std::int64_t end,
                                  std::int64_t (&sums)[kClasses]) const {
  std::fill(std::begin(sums), std::end(sums), 0);
  if (begin >= end) return;
  const RowIndex& row = rows_[r];
  const std::vector<std::uint8_t>& classes = row.classes(by);
  const auto first = static_cast<std::size_t>(
      std::upper_bound(row.ends.begin(), row.ends.end(), begin) - row.ends.begin());
  const auto last = static_cast<std::size_t>(
      std::lower_bound(row.begins.begin(), row.begins.end(), end) - row.begins.begin());
  const auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      sums[classes[i]] +=
          std::max<std::int64_t>(0, std::min(row.ends[i], end) - std::max(row.begins[i], begin));
  };
  // Take only blocks strictly inside, so that the bounds cut no slice of them.
  const std::size_t first_block = (first + 1 + kBlock - 1) / kBlock;
  const std::size_t last_block = last > 0 ? (last - 1) / kBlock : 0;
  if (first_block >= last_block) return add(first, last);
  add(first, first_block * kBlock);
  row.add_blocks(by, first_block, last_block, sums);
  add(last_block * kBlock, last);
}

}  // namespace ringscope::viz
