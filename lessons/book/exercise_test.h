// The test of an exercise: a small program that prints one line per claim, and exits with status 0
// if all claims hold, else 1. It is compiled with the learner's exercise.h, and with the solution
// as RINGSCOPE_EXERCISE.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace ringscope::lessons {

class Exercise {
 public:
  void equal(const std::string& what, double yours, double expected) {
    near(what, yours, expected, 0);
  }
  // Check that |yours - expected| <= tolerance. Equal infinities count as near.
  void near(const std::string& what, double yours, double expected, double tolerance) {
    const bool good = yours == expected || std::abs(yours - expected) <= tolerance;
    char numbers[96] = "";
    if (!good)
      std::snprintf(numbers, sizeof numbers, ": yours %.9g, expected %.9g", yours, expected);
    say(good, what + numbers);
  }
  void holds(const std::string& what, bool good) { say(good, what); }

  // Print the summary. Return main's exit status.
  int finish() const {
    if (wrong_ == 0)
      std::printf("solved: all %d hold\n", right_);
    else
      std::printf("not yet: %d of %d hold\n", right_, right_ + wrong_);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  void say(bool good, const std::string& what) {
    good ? ++right_ : ++wrong_;
    if (!good && wrong_ == kMostWrong + 1) std::printf("  ...\n");
    if (good || wrong_ <= kMostWrong)
      std::printf("%s %s\n", good ? "  ok   " : "  WRONG", what.c_str());
    std::fflush(stdout);  // the next check may crash
  }

  static constexpr int kMostWrong = 5;  // this many are shown
  int right_ = 0, wrong_ = 0;
};

}  // namespace ringscope::lessons
