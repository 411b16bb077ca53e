// Loading on another thread: what comes back, and that it can be given up.
#include "viz/window/open_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "tests/app/program.h"

namespace ringscope::viz {
namespace {

using namespace std::chrono_literals;

std::atomic<int> woken{0};
void wake() { ++woken; }

class BackgroundLoadTest : public ProgramTest {
 protected:
  BackgroundLoadTest() { woken = 0; }
  // A trace of `count` slices of one thread.
  void write_trace(const std::string& name, int count) const {
    std::string text = "[";
    for (int i = 0; i < count; ++i)
      text += (i == 0 ? "" : ",\n") +
              std::string("{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": ") +
              std::to_string(2 * i) + ", \"dur\": 1, \"name\": \"work\"}";
    write_text(name, text + "]");
  }
  static void wait_for(const BackgroundLoad& load) {
    for (int i = 0; i < 2000 && !load.finished(); ++i) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(load.finished());
  }
};

TEST_F(BackgroundLoadTest, GivesTheSessionAndWakes) {
  write_trace("a.json", 1000);
  BackgroundLoad load({path("a.json")}, {}, wake);
  wait_for(load);
  EXPECT_EQ(load.take().document().trace.slice_count, 1000u);
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(load.progress().bytes_done, load.progress().bytes_total);
  EXPECT_GT(load.progress().bytes_total, 0);
}

TEST_F(BackgroundLoadTest, ThrowsWhatLoadingThrew) {
  write_text("bad.json", "oops");
  BackgroundLoad load({path("bad.json")}, {}, wake);
  wait_for(load);
  EXPECT_THROW(load.take(), InputError);
}

TEST_F(BackgroundLoadTest, ADifferenceIsOfSeveralRecordingsOfOurs) {
  ViewOptions options;
  options.difference = true;
  write_trace("a.json", 10);
  write_trace("b.json", 10);
  EXPECT_THROW(open_session({path("a.json")}, options, nullptr), InputError);
  EXPECT_THROW(open_session({path("a.json"), path("b.json")}, options, nullptr), InputError);
}

TEST_F(BackgroundLoadTest, CanBeGivenUp) {
  write_trace("long.json", 200'000);
  { const BackgroundLoad load({path("long.json")}, {}, wake); }
  EXPECT_EQ(woken, 1);  // the thread has ended
}

}  // namespace
}  // namespace ringscope::viz
