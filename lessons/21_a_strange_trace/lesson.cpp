// # Someone else's trace: who is slow?
// > A profile shows kernels, not reasons. Count them to see what scheme it is, intersect them to
// > see whether it overlaps, and compare those of all ranks to find the slow one.
//
// **You know** our recordings, whose wait slices name a rank (lessons 6 and 13), other schemes (5 and
// 19), and overlap (12). **You will see** how three questions can be answered from a profile that
// names no ranks.
//
// ## What a profile has
//
// PyTorch's profiler writes a file for each rank. It lists kernels: a name, a beginning, an end, and the
// **stream**, a queue whose kernels run in order: one for attention, one for communication. No kernel
// names its step, or whom it waits for. A send and a receive that are started together are one kernel,
// `ncclDevKernel_SendRecv`. It begins when its rank reaches it, and ends after both neighbours reach theirs.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_21 {
struct Kernel {
  std::string name;
  double begin, end;  // microseconds
};
using Profile = std::vector<Kernel>;  // of one rank

// The next function makes the profiles of eight layers, given each rank's time for a block. A careless
// ring ends its hop before it computes (`overlaps` is false):
static std::vector<Profile> profiles_of(const std::vector<double>& attention, double hop,
                                        bool overlaps) {
  const std::size_t n = attention.size();
  std::vector<Profile> profiles(n);
  std::vector<double> ready(n);
  for (std::size_t step = 0; step < 8 * n; ++step) {
    const std::vector<double> began = ready;
    for (std::size_t r = 0; r < n; ++r) {
      const bool moves = step % n + 1 < n;  // after a layer's last step nothing is sent
      const double all_there = std::max({began[(r + n - 1) % n], began[r], began[(r + 1) % n]});
      const double moved = moves ? all_there + hop : began[r];
      const double from = overlaps ? began[r] : moved, to = from + attention[r];
      if (moves) profiles[r].push_back({"ncclDevKernel_SendRecv", began[r], moved});
      profiles[r].push_back({"flash_fwd_kernel", from, to});
      ready[r] = std::max(moved, to);
    }
  }
  return profiles;
}

void lesson_21(Page& page) {
  const std::vector<double> cards = {100, 100, 125, 100};
  const auto fine = profiles_of(cards, 20, true), careless = profiles_of(cards, 20, false);
  Table first({"rank 0, first layer", "begins, µs", "ends, µs"});
  for (const Kernel& k : std::span(fine[0]).first(7)) first.row(k.name, k.begin, k.end);
  page.table(first);
  Drawing layer;
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<Drawing::Part> attention, hops;
    for (const Kernel& k : std::span(fine[rank]).first(7)) {
      const int block = (rank + 4 - static_cast<int>(attention.size())) % 4;  // at this step
      if (k.name.starts_with("flash"))
        attention.push_back({k.begin, k.end, block, std::to_string(block)});
      else
        hops.insert(hops.end(),
                    {{k.begin, k.end - 20, Drawing::kQuiet, "waits"}, {k.end - 20, k.end, 4}});
    }
    layer.strip("rank " + std::to_string(rank), attention);
    layer.strip("SendRecv", hops);
  }
  layer.key(0, "attention, by its block");
  layer.key(4, "bytes move");
  layer.key(Drawing::kQuiet, "waits inside the kernel");
  page.picture("layer.svg", "The first layer. A profile doesn't show which part waits", layer);

  // ## Is it a ring?
  //
  // Count, for one layer of a forward pass over N ranks, and of a backward pass:
  Table schemes({"scheme", "attention", "communication kernels", "the same, backward"});
  schemes.row("ring", "N", "N - 1 SendRecv", "N, and N to 2 N - 1 SendRecv");
  schemes.row("all-gather", "1, or N", "AllGather, no SendRecv", "the same, and ReduceScatter");
  schemes.row("Ulysses", "1", "a few SendRecv: an all-to-all", "1, and the same number again");
  page.table(schemes);

  // Gradients make N hops, with the blocks or by themselves. Contiguous ranks under a causal mask skip
  // empty meetings: rank r has r + 1 attention kernels. Look for parts of names: `ncclKernel_` became
  // `ncclDevKernel_`, attention may be `flash_fwd_kernel` or `_attn_fwd`.
  page.predict("8 ranks, 32 layers, forward only: how many SendRecv each?", "", 32 * 7);

  // ## Does it overlap?
  //
  // Two streams are no proof. Compute the share of SendRecv's time during which an attention kernel
  // runs:
  //-
  const auto overlapped = [](const Profile& profile) {
    double both = 0, all = 0;
    for (const Kernel& hop : profile) {
      if (hop.name.find("SendRecv") == std::string::npos) continue;
      all += hop.end - hop.begin;
      for (const Kernel& k : profile)
        if (k.name.find("flash") != std::string::npos)
          both += std::max(0.0, std::min(hop.end, k.end) - std::max(hop.begin, k.begin));
    }
    return both / all;
  };
  //+
  std::vector<double> good;
  for (const Profile& profile : fine) good.push_back(overlapped(profile));
  page.value("on ranks 0 to 3", numbers(good));
  page.value("in the careless program", numbers({overlapped(careless[2])}));

  // The good program's hops all hide, but only rank 2 shows it: on the others, attention ends while a
  // SendRecv still waits. Judge by the rank whose SendRecv kernels are the shortest.
  //
  // ## Who is slow?
  const auto total = [](const Profile& profile, const char* part) {
    double count = 0, time = 0;
    for (const Kernel& k : profile)
      if (k.name.find(part) != std::string::npos) ++count, time += k.end - k.begin;
    return std::pair(count, time);
  };
  Table ranks({"rank", "attention, µs", "SendRecv, µs", "last kernel ends, µs"});
  std::vector<double> sending;
  for (int rank = 0; rank < 4; ++rank) {
    sending.push_back(total(fine[rank], "SendRecv").second);
    ranks.row(rank, total(fine[rank], "flash").second, sending[rank], fine[rank].back().end);
  }
  page.choose("Rank 2 is slow. Whose SendRecv kernels are the shortest?",
              {"rank 0", "rank 1", "rank 2", "rank 3"}, letters_by(sending).substr(0, 1));
  page.table(ranks);

  // A SendRecv that begins early waits inside itself for the one that comes late. It spins while it
  // waits, so a monitor shows that GPU as 100 % busy. Long transfers are the **victims'**. The slow
  // rank waits for nobody, and its own are as short as the bytes allow: 20 µs each. A faster network
  // would change nothing. Is its card slow, or does it have more work? A slow card's kernels are all
  // longer, for the same rows. More work makes more kernels (r + 1), or longer ones.
  //
  // ## What breaks if the clocks differ?
  //
  // Each rank has its own clock, off by microseconds or more. Within one file all of the above holds.
  // Between two files only one thing does: no transfer ends before the neighbour's has begun, in either
  // direction. Over all transfers that bounds how far rank 2's clock is ahead of rank 1's:
  double least = -1e9, most = 1e9;
  for (std::size_t i = 0; i < fine[1].size(); ++i) {
    if (fine[1][i].name.find("SendRecv") == std::string::npos) continue;
    least = std::max(least, fine[2][i].begin - fine[1][i].end);
    most = std::min(most, fine[2][i].end - fine[1][i].begin);
  }
  page.print(numbers({least, most}, 0) + " µs");

  // ## On paper
  page.predict("Per layer, each rank has 6 attention kernels and 5 SendRecv. How many ranks?", "",
               6);
  page.predict("SendRecv from 100 to 200 µs, attention from 150 to 400: which share is hidden?",
               "%", 50);

  // ## Checks
  page.check("The good one's victims don't show its overlap, which is complete",
             good[2] == 1 && good[0] < 0.8 && good[1] < 0.8 && good[3] < 0.8);
  page.check("The slow rank has the shortest transfers, 20 µs each, and it alone",
             std::ranges::min(sending) == 480 && sending[2] == 480 &&
                 std::ranges::count(sending, 480) == 1);

  // ## Exercise
  //
  // Compute the share of hops that is hidden, and name the slow rank, for any profile:
  // `lessons/21_a_strange_trace/exercise.py`. `./ringscope lesson 21 --check` tries it.
}

}  // namespace ringscope::lessons::chapter_21
