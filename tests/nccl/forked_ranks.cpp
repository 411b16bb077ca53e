#include "tests/nccl/forked_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <thread>

#include "core/processes/supervision/lifeline.h"
#include "core/threads/rank.h"
#include "cuda/base/device_info.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"

namespace ringscope::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// The outputs of all cases, in memory that forked processes share.
class SharedOutputs {
 public:
  explicit SharedOutputs(const std::vector<NcclCase>& cases) {
    for (const NcclCase& one : cases) {
      all_.emplace_back().resize(one.config.shape, output_tensors(one.config.backward));
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

// Words that forked processes exchange, in memory that they share.
class SharedWords {
 public:
  explicit SharedWords(int world_size) : world_size_(world_size) {
    memory_ =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    new (memory_) Shared;
  }
  ~SharedWords() { ::munmap(memory_, sizeof(Shared)); }
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  // Return what all ranks say, when all have said it.
  std::vector<std::string> all_gather(int rank, const std::string& mine) {
    Shared& shared = *static_cast<Shared*>(memory_);
    const int round = rounds_++;
    Words& words = shared.words[round % 2][rank];
    words.size = mine.copy(words.bytes, sizeof words.bytes);
    ++shared.said;
    while (shared.said < (round + 1) * world_size_)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    std::vector<std::string> all;
    for (int r = 0; r < world_size_; ++r)
      all.emplace_back(shared.words[round % 2][r].bytes, shared.words[round % 2][r].size);
    return all;
  }

 private:
  struct Words {
    std::size_t size = 0;
    char bytes[4096] = {};
  };
  struct Shared {
    std::atomic<int> said = 0;
    Words words[2][16];  // of this round, and of the one before, which others may still read
  };

  int world_size_;
  int rounds_ = 0;
  void* memory_;
};

// A forked process, and what it says: "well", or rank, step and text of its failure.
struct Child {
  pid_t pid = -1;
  int said = -1;  // to be read from
};

std::string words_of(const RunError& error) {
  return "failed\n" + std::to_string(error.rank()) + "\n" + std::to_string(error.step()) + "\n" +
         error.what();
}

void say(int to, const std::string& text) {
  static_cast<void>(!::write(to, text.data(), text.size()));
}

// `body` may say something to its argument itself, and end the process.
Child start(const std::function<std::string(int to)>& body) {
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
    text = body(ends[1]);
  } catch (const RunError& error) {
    text = words_of(error);
  } catch (const std::exception& error) {
    text = words_of(RunError(error.what()));
  }
  say(ends[1], text);
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
             SharedOutputs& outputs, SharedWords& words)
      : line_(std::move(line)),
        cases_(cases),
        outputs_(outputs),
        all_gather_([this, &words](const std::string& mine) {
          return words.all_gather(line_->rank(), mine);
        }) {}

  std::string run() {
    const ShownOutsideWork connects(line_->pulse());
    try {
      run_all();
    } catch (const std::exception& error) {
      line_->fail(error);
    }
    line_->leave();
    return "well";
  }

 private:
  void run_all() {
    const std::vector<RankSeat> seats = {take_process_seat(line_->rank(), all_gather_).seat};
    const Problem& first = cases_.front().config;
    NcclWorld world(share_nccl_id(line_->rank(), all_gather_), first.world_size, seats,
                    {4, first.timeout_s});
    for (std::size_t i = 0; i < cases_.size(); ++i) run_one(i, seats, world);
  }

  void run_one(std::size_t index, const std::vector<RankSeat>& seats, NcclWorld& world) {
    const Problem& config = cases_[index].config;
    NcclOptions options;
    options.kernels = cases_[index].kernels();
    DeviceSetup setup("nccl", config, seats, options.kernels);
    NcclEngine engine(world, setup, options, RankLives::in_a_process);
    const RingProblem problem = config.ring_problem();
    const int number = line_->rank();
    Rank rank(config, problem, number, world.memory_of(number), monotonic_ns());
    WholeInputs inputs(config.shape, cases_[index].problem->inputs);
    rank.take_inputs(inputs);
    const std::unique_ptr<RankEngine> made = engine.make(rank, {});
    all_gather_("");  // all have their memory
    line_->watch(rank.pulse());
    try {
      rank.run(made->communicator(), made->backend());
      made->finish();
      made->record();
    } catch (const std::exception& error) {
      line_->fail(error);
    }
    line_->unwatch();
    AttentionOutputs outputs = outputs_.empty(index);
    WholeOutputs sink(config.shape, outputs);
    rank.give_outputs(sink);
    outputs_.put(index, outputs);
    all_gather_("");  // nobody lets go of memory before
  }

  std::unique_ptr<Lifeline> line_;
  const std::vector<NcclCase>& cases_;
  SharedOutputs& outputs_;
  const AllGather all_gather_;
};

}  // namespace

const NcclMachine& nccl_machine() {
  static const NcclMachine machine = [] {
    const Child child = start([](int) {
      std::string why_not = nccl_library().why_not;
      const RankGpus seen = why_not.empty() ? visible_gpus(why_not) : RankGpus{};
      const std::optional<DeviceInfo> gpu = query_device().device;
      return std::to_string(seen.gpus.size()) + " " + std::to_string(gpu ? gpu->architecture : 0) +
             " " + std::to_string(nccl_version()) + " " + why_not;
    });
    const Ended ended = wait_for_end(child, Clock::now() + std::chrono::seconds(60));
    NcclMachine found;
    std::istringstream text(ended.said);
    if (!(text >> found.gpus >> found.architecture >> found.version))
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
  SharedWords words(config.world_size);
  ForkedRuns runs;
  const auto begin = Clock::now();
  const auto deadline =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  std::vector<Child> children;
  {
    std::optional<LifelineDoor> door(std::in_place);
    for (int rank = 0; rank < config.world_size; ++rank)
      children.push_back(start([&, rank](int to) {
        const auto tell = [to](const RunError& error, int, bool) { say(to, words_of(error)); };
        const std::string invitation = door->invitation();
        std::unique_ptr<Lifeline> line;
        if (rank == 0) {
          line = Lifeline::host(std::move(*door), config.world_size, config.timeout_s, tell);
        } else {
          door.reset();
          line = Lifeline::join(invitation, rank, config.world_size, config.timeout_s, tell);
        }
        return ForkedRank(std::move(line), cases, outputs, words).run();
      }));
  }
  for (const Child& child : children) runs.ends.push_back(end_of(wait_for_end(child, deadline)));
  runs.outputs = outputs.take();
  return runs;
}

ForkedRuns run_in_one_process(const std::vector<NcclCase>& cases,
                              const std::function<RingRun(const NcclCase&)>& run, double limit_s) {
  SharedOutputs outputs(cases);
  ForkedRuns runs;
  const auto begin = Clock::now();
  const Child child = start([&](int) -> std::string {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      RingRun done = run(cases[i]);
      outputs.put(i, done.outputs);
    }
    return "well";
  });
  runs.ends.push_back(
      end_of(wait_for_end(child, begin + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limit_s)))));
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
