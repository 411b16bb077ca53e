// How the speed of code is measured here: processor time of calls in turn, of which the fastest
// counts, on as many threads at once as will run it, of which the slowest counts.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace ringscope {

// Processor seconds of the calling thread so far.
double thread_cpu_seconds();
// Of all threads of this process.
double process_cpu_seconds();

// Processor seconds of each call, the mean of a few in turn, as a run has many of them, and of all
// such means that fit into `budget` seconds the fastest: what other programs take of the machine
// meanwhile is not its speed.
std::vector<double> fastest_of(double budget, const std::vector<std::function<void()>>& calls);

// `measure`, which returns numbers and does not throw, on all benches at once, a thread each. Of
// every number the largest: it is the slowest thread that the others would wait for.
template <class Bench, class Measure>
std::vector<double> slowest_thread(const std::vector<std::unique_ptr<Bench>>& benches,
                                   const Measure& measure) {
  std::vector<std::vector<double>> numbers(benches.size());
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < benches.size(); ++i)
    workers.emplace_back([&, i] { numbers[i] = measure(*benches[i]); });
  for (std::jthread& worker : workers) worker.join();
  std::vector<double> slowest = numbers[0];
  for (const auto& mine : numbers)
    for (std::size_t k = 0; k < mine.size(); ++k) slowest[k] = std::max(slowest[k], mine[k]);
  return slowest;
}

}  // namespace ringscope
