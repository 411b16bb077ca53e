// Loading on another thread: what comes back, and that it can be given up.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "tests/app/program.h"
#include "viz/window/open_session.h"

namespace ringscope::viz {
namespace {

using namespace std::chrono_literals;

class BackgroundLoadTest : public ProgramTest {
 protected:
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

TEST_F(BackgroundLoadTest, GivesTheSession) {
  write_trace("a.json", 1000);
  BackgroundLoad load({path("a.json")}, {});
  wait_for(load);
  EXPECT_EQ(load.take().document().trace.slice_count, 1000u);
  EXPECT_EQ(load.progress().bytes_done, load.progress().bytes_total);
  EXPECT_GT(load.progress().bytes_total, 0);
}

TEST_F(BackgroundLoadTest, ThrowsWhatLoadingThrew) {
  write_text("bad.json", "oops");
  BackgroundLoad load({path("bad.json")}, {});
  wait_for(load);
  EXPECT_THROW(load.take(), InputError);
}

TEST_F(BackgroundLoadTest, CanBeGivenUp) {
  write_trace("long.json", 200'000);
  LoadProgress progress;
  progress.cancel = true;
  EXPECT_THROW(open_session({path("long.json")}, {}, &progress), InputError);
}

}  // namespace
}  // namespace ringscope::viz
