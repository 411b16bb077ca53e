#include "tests/nccl/forked_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "core/process/lifeline.h"
#include "core/run/rank.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"

namespace ringscope::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The outputs of all cases, in memory that forked processes share.
class SharedOutputs {
 public:
  explicit SharedOutputs(const std::vector<NcclCase>& cases) {
    for (const NcclCase& one : cases) {
      all_.emplace_back().resize(one.config.shape, one.config.backward);
      for_each_tensor(all_.back(), [&](std::vector<float>& tensor) { floats_ += tensor.size(); });
    }
    memory_ = static_cast<float*>(::mmap(nullptr, floats_ * sizeof(float), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    std::fill_n(memory_, floats_, kNan);
  }
  ~SharedOutputs() { ::munmap(memory_, floats_ * sizeof(float)); }
  SharedOutputs(const SharedOutputs&) = delete;
  SharedOutputs& operator=(const SharedOutputs&) = delete;

  // Of a case, as this process has them: NaN where it has none.
  void put(std::size_t index, AttentionOutputs& outputs) {
    float* to = memory_;
    for (std::size_t before = 0; before < index; ++before)
      for_each_tensor(all_[before], [&](std::vector<float>& tensor) { to += tensor.size(); });
    for_each_tensor(outputs, [&](std::vector<float>& tensor) {
      for (const float value : tensor) {
        if (!std::isnan(value)) *to = value;
        ++to;
      }
    });
  }
  std::vector<AttentionOutputs> take() {
    const float* from = memory_;
    for (AttentionOutputs& outputs : all_)
      for_each_tensor(outputs, [&](std::vector<float>& tensor) {
        std::copy_n(from, tensor.size(), tensor.begin());
        from += tensor.size();
      });
    return all_;
  }
  AttentionOutputs empty(std::size_t index) const {
    AttentionOutputs outputs = all_[index];
    for_each_tensor(
        outputs, [](std::vector<float>& tensor) { std::fill(tensor.begin(), tensor.end(), kNan); });
    return outputs;
  }

 private:
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  template <class F>
  static void for_each_tensor(AttentionOutputs& outputs, F&& f) {
    for (auto* tensor : {&outputs.out, &outputs.lse, &outputs.dq, &outputs.dk, &outputs.dv})
      f(*tensor);
  }

  std::vector<AttentionOutputs> all_;
  std::size_t floats_ = 0;
  float* memory_ = nullptr;
};

// A forked process, and what it says: "well", or rank, step and text of its failure.
struct Child {
  pid_t pid = -1;
  int said = -1;  // to be read from
};

Child start(const std::function<std::string()>& body) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw RunError("cannot make a pipe");
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw RunError("cannot fork");
  if (pid > 0) {
    ::close(ends[1]);
    return {pid, ends[0]};
  }
  std::string text;
  try {
    text = body();
  } catch (const RunError& error) {
    text = "failed\n" + std::to_string(error.rank()) + "\n" + std::to_string(error.step()) + "\n" +
           error.what();
  } catch (const std::exception& error) {
    text = std::string("failed\n-1\n-1\n") + error.what();
  }
  static_cast<void>(!::write(ends[1], text.data(), text.size()));
  std::fflush(nullptr);
  ::_exit(0);
}

struct Ended {
  std::string said;
  int signal = 0;
};

// Kills it when it has not ended by `deadline`.
Ended wait_for_end(const Child& child, Clock::time_point deadline) {
  int status = 0;
  while (::waitpid(child.pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) ::kill(child.pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Ended ended;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(child.said, buffer, sizeof buffer)) > 0;)
    ended.said.append(buffer, static_cast<std::size_t>(n));
  ::close(child.said);
  return ended;
}

RankEnd end_of(const Ended& ended) {
  RankEnd end;
  end.signal = ended.signal;
  std::istringstream text(ended.said);
  std::string how;
  std::getline(text, how);
  end.ended_well = ended.signal == 0 && how == "well";
  if (how != "failed") return end;
  text >> end.rank >> end.step >> std::ws;
  std::getline(text, end.what);
  return end;
}

// One rank's process, from the lifeline to its rows.
class ForkedRank {
 public:
  ForkedRank(std::unique_ptr<Lifeline> line, const std::vector<NcclCase>& cases,
             SharedOutputs& outputs)
      : line_(std::move(line)), cases_(cases), outputs_(outputs) {}

  std::string run() {
    try {
      run_all();
      line_->leave();
      return "well";
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const RunError*>(&error);
      line_->fail(known != nullptr ? *known : RunError(error.what(), line_->rank()));
      const std::optional<RunError> agreed = line_->wait_for_failure(1);
      line_->leave_after_failure(2);
      throw agreed ? *agreed : RunError(error.what(), line_->rank());
    }
  }

 private:
  void run_all() {
    const std::vector<RankSeat> seats = {take_process_seat(*line_).seat};
    const Problem& first = cases_.front().config;
    NcclWorld world(share_nccl_id(*line_), first.world_size, seats, {4, first.timeout_s},
                    failure_of(*line_));
    for (std::size_t i = 0; i < cases_.size(); ++i) run_one(i, seats, world);
  }

  void run_one(std::size_t index, const std::vector<RankSeat>& seats, NcclWorld& world) {
    const Problem& config = cases_[index].config;
    NcclOptions options;
    options.kernels = config.dtype == DType::f32 ? KernelWish{4, 8} : KernelWish{5, 9};
    DeviceSetup setup("nccl", config, seats, options.kernels);
    NcclEngine engine(world, setup, options, RankLives::in_a_process);
    const RingProblem problem = config.ring_problem();
    const int number = line_->rank();
    Rank rank(config, problem, number, world.memory_of(number), monotonic_ns());
    WholeInputs inputs(config.shape, cases_[index].problem->inputs);
    rank.take_inputs(inputs);
    const std::unique_ptr<RankEngine> made = engine.make(rank, {});
    line_->gather("");  // all have their memory
    line_->watch(rank.pulse(), [&engine](const RunError& error) { engine.fail(error); });
    try {
      rank.run(made->communicator(), made->backend());
      made->finish();
    } catch (const RunError& error) {
      const RunError named = error.rank() >= 0 ? error : RunError(error.what(), number);
      line_->fail(named);
      engine.fail(named);  // nothing waits any more for this rank's GPU
      line_->unwatch();
      throw named;
    }
    line_->unwatch();
    AttentionOutputs outputs = outputs_.empty(index);
    WholeOutputs sink(config.shape, outputs);
    rank.give_outputs(sink);
    outputs_.put(index, outputs);
    line_->gather("");  // nobody lets go of memory before
  }

  std::unique_ptr<Lifeline> line_;
  const std::vector<NcclCase>& cases_;
  SharedOutputs& outputs_;
};

}  // namespace

const NcclMachine& nccl_machine() {
  static const NcclMachine machine = [] {
    const Child child = start([] {
      std::string why_not = nccl_library().why_not;
      const RankGpus seen = why_not.empty() ? visible_gpus(why_not) : RankGpus{};
      return std::to_string(seen.gpus.size()) + " " + std::to_string(nccl_version()) + " " +
             why_not;
    });
    const Ended ended = wait_for_end(child, Clock::now() + std::chrono::seconds(60));
    NcclMachine found;
    std::istringstream text(ended.said);
    if (!(text >> found.gpus >> found.version))
      found.why_not = "asking for GPUs failed: " + ended.said;
    text >> std::ws;
    if (found.why_not.empty()) std::getline(text, found.why_not);
    return found;
  }();
  return machine;
}

ForkedRuns run_a_process_a_rank(const std::vector<NcclCase>& cases, double limit_s) {
  const Problem& config = cases.front().config;
  SharedOutputs outputs(cases);
  ForkedRuns runs;
  const auto begin = Clock::now();
  const auto deadline =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  std::vector<Child> children;
  {
    std::optional<LifelineDoor> door(std::in_place);
    for (int rank = 0; rank < config.world_size; ++rank)
      children.push_back(start([&, rank] {
        const std::string invitation = door->invitation();
        std::unique_ptr<Lifeline> line;
        if (rank == 0) {
          line = Lifeline::host(std::move(*door), config.world_size, config.timeout_s);
        } else {
          door.reset();
          line = Lifeline::join(invitation, rank, config.world_size, config.timeout_s);
        }
        return ForkedRank(std::move(line), cases, outputs).run();
      }));
  }
  for (const Child& child : children) runs.ends.push_back(end_of(wait_for_end(child, deadline)));
  runs.seconds = seconds_since(begin);
  runs.outputs = outputs.take();
  return runs;
}

ForkedRuns run_in_one_process(const std::vector<NcclCase>& cases,
                              const std::function<RingRun(const NcclCase&)>& run, double limit_s) {
  SharedOutputs outputs(cases);
  ForkedRuns runs;
  const auto begin = Clock::now();
  const Child child = start([&]() -> std::string {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      RingRun done = run(cases[i]);
      outputs.put(i, done.outputs);
    }
    return "well";
  });
  runs.ends.push_back(
      end_of(wait_for_end(child, begin + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limit_s)))));
  runs.seconds = seconds_since(begin);
  runs.outputs = outputs.take();
  return runs;
}

void check(const NcclCase& one, const AttentionOutputs& outputs) {
  RingRun run;
  run.outputs = outputs;
  run.recording.info.backend = "nccl";
  one.problem->check(one.config, run);
}

}  // namespace ringscope::cuda
