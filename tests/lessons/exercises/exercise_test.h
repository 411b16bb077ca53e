// The test of an exercise: a small program that prints one line per claim, and exits with status 0
// if all claims hold, else 1. It is compiled with the learner's exercise.h, and with the solution
// as RINGSCOPE_EXERCISE. After a crash it says which case was running.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

namespace ringscope::lessons {

class Exercise {
 public:
  Exercise() {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, crashed);
  }
  // Say what runs now, in case it crashes.
  static void begin(const std::string& what) {
    std::snprintf(running_, sizeof running_, "  WRONG crashes in: %s\n", what.c_str());
  }
  void equal(const std::string& what, double yours, double expected) {
    near(what, yours, expected, 0);
  }
  // Check that |yours - expected| <= tolerance. Equal infinities count as near.
  void near(const std::string& what, double yours, double expected, double tolerance) {
    compare(yours == expected || std::abs(yours - expected) <= tolerance, what, yours, "expected",
            expected);
  }
  void at_most(const std::string& what, double yours, double most) {
    compare(yours <= most, what, yours, "at most", most);
  }
  void holds(const std::string& what, bool good) {
    good ? ++right_ : ++wrong_;
    if (!good && wrong_ == kMostWrong + 1) std::printf("  ...\n");
    if (good ? wrong_ == 0 && !is_folded_ : wrong_ <= kMostWrong)
      std::printf("%s %s\n", good ? "  ok   " : "  WRONG", what.c_str());
    std::fflush(stdout);  // the next check may crash
    std::snprintf(running_, sizeof running_, "  WRONG crashes after: %s\n", what.c_str());
  }
  // Check that `failure` is empty. It tells more than the numbers that follow, and is always shown.
  void runs(const std::string& what, const std::string& failure) {
    if (wrong_ >= kMostWrong && !failure.empty())
      std::printf("  WRONG %s: %s\n", what.c_str(), failure.c_str());
    holds(what + ": " + (failure.empty() ? "runs" : failure), failure.empty());
  }
  // Show no claim that holds until unfold(), which shows their number.
  void fold() { is_folded_ = true; }
  void unfold(const std::string& what) {
    if (is_folded_ && wrong_ == 0) std::printf("  ok    %s: %d hold\n", what.c_str(), right_);
    is_folded_ = false;
  }
  bool all_hold() const { return wrong_ == 0; }

  // Print the summary, which names what is right but `above` par. Return main's exit status.
  int finish(const std::string& above = "") const {
    if (wrong_ != 0)
      std::printf("not yet: %d of %d hold\n", right_, right_ + wrong_);
    else if (above.empty())
      std::printf("solved: all %d hold\n", right_);
    else
      std::printf("right, but above par in %s: all %d hold\n", above.c_str(), right_);
    return wrong_ == 0 ? 0 : 1;
  }

  // What a crash adds to the case, for the thread in which it happens.
  static inline thread_local const char* note = "";

 private:
  void compare(bool good, const std::string& what, double yours, const char* word, double bound) {
    char numbers[96] = "";
    if (!good)  // a NaN has no sign here
      std::snprintf(numbers, sizeof numbers, ": yours %.9g, %s %.9g",
                    std::isnan(yours) ? std::abs(yours) : yours, word, bound);
    holds(what + numbers, good);
  }
  static void crashed(int) {
    static std::atomic_flag is_said = ATOMIC_FLAG_INIT;  // several threads may crash at once
    while (is_said.test_and_set()) ::pause();
    for (const char* const text : {static_cast<const char*>(running_), note})
      if (::write(STDOUT_FILENO, text, std::strlen(text)) < 0) break;
    ::_exit(1);
  }

  static constexpr int kMostWrong = 8;  // this many are shown
  static inline char running_[256] = "  WRONG crashes in the first case\n";
  int right_ = 0, wrong_ = 0;
  bool is_folded_ = false;
};

}  // namespace ringscope::lessons

#ifdef RINGSCOPE_EXERCISE
#include RINGSCOPE_EXERCISE

using ringscope::lessons::Exercise;

void check(Exercise& exercise);  // by the test that includes this

int main() {
  Exercise exercise;
  check(exercise);
  return exercise.finish();
}
#endif
