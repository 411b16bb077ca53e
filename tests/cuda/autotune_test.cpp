// The autotuner with a timer of the test's: what it times, keeps and believes.
#include "cuda/kernels/autotune.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/base/error.h"

namespace ringscope::cuda {
namespace {

namespace fs = std::filesystem;

constexpr TileShape kTiles[] = {{64, 64}, {128, 64}, {128, 128}};
constexpr ShapeClass kClass{DType::bf16, 128, 13, 13, 4, 4};

class AutotuneTest : public testing::Test {
 protected:
  AutotuneTest() {
    std::string pattern = (fs::temp_directory_path() / "ringscope-tiles-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~AutotuneTest() override {
    ::chmod(folder_.c_str(), 0755);
    fs::remove_all(folder_);
  }

  fs::path file() const { return folder_ / "new" / "tiles.json"; }
  TunerOptions options(const std::string& build = "commit") const {
    return {true, file().string(), "GPU", "1.0", build};
  }
  // Times tiles as `seconds` has it, and counts.
  TileTimer timer(std::vector<double> seconds) {
    return [this, seconds](int tile) {
      ++timed_;
      return seconds.at(static_cast<std::size_t>(tile));
    };
  }
  int choose(const TunerOptions& how, std::vector<double> seconds,
             const ShapeClass& shape_class = kClass, int kernel = 5) {
    Autotuner tuner(how);
    const int tile = tuner.choose(kernel, kTiles, shape_class, timer(std::move(seconds)));
    remark_ = tuner.remark();
    text_ = tuner.text();
    return tile;
  }
  void write(const std::string& text) {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << text;
  }

  fs::path folder_;
  int timed_ = 0;
  std::string remark_, text_;
};

TEST_F(AutotuneTest, TakesTheFastestAndSaysSo) {
  EXPECT_EQ(choose(options(), {3e-3, 1e-3, 2e-3}), 1);
  EXPECT_EQ(timed_, 3);
  EXPECT_EQ(remark_, "");
  EXPECT_EQ(text_,
            "kernel 05, bf16 d128 q8192 k8192 h16 4/4: tile 128x64, timed now: 64x64 3.000 ms "
            "128x64 1.000 ms 128x128 2.000 ms\n");
}

TEST_F(AutotuneTest, AsksATunerOnceAClass) {
  Autotuner tuner(options());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tuner.choose(5, kTiles, kClass, timer({3, 1, 2})), 1);
  EXPECT_EQ(timed_, 3);
}

// Noise that turns out differently the next time changes nothing.
TEST_F(AutotuneTest, KeepsItsChoice) {
  EXPECT_EQ(choose(options(), {3, 1, 2}), 1);
  EXPECT_EQ(choose(options(), {1, 3, 2}), 1);
  EXPECT_EQ(timed_, 3);
  EXPECT_NE(text_.find("tile 128x64, timed earlier"), std::string::npos) << text_;
}

TEST_F(AutotuneTest, TimesAnewForAnotherBuildDeviceDriverKernelOrClass) {
  EXPECT_EQ(choose(options(), {3, 1, 2}), 1);
  EXPECT_EQ(choose(options("other"), {1, 3, 2}), 0);
  TunerOptions other = options();
  other.device = "GPU 2";
  EXPECT_EQ(choose(other, {3, 2, 1}), 2);
  other = options();
  other.driver = "2.0";
  EXPECT_EQ(choose(other, {1, 3, 2}), 0);
  EXPECT_EQ(choose(options(), {3, 2, 1}, kClass, 6), 2);
  ShapeClass window = kClass;
  window.quarters = 1;
  EXPECT_EQ(choose(options(), {1, 3, 2}, window), 0);
  EXPECT_EQ(timed_, 18);
  // Nothing of it took the first choice's place.
  EXPECT_EQ(choose(options(), {3, 2, 1}), 1);
  EXPECT_EQ(timed_, 18);
}

TEST_F(AutotuneTest, DefaultWithoutMeasuring) {
  TunerOptions off = options();
  off.measure = false;
  EXPECT_EQ(choose(off, {3, 1, 2}), 0);
  // Not even a kept choice counts.
  EXPECT_EQ(choose(options(), {3, 1, 2}), 1);
  EXPECT_EQ(choose(off, {3, 1, 2}), 0);
  EXPECT_EQ(timed_, 3);
}

TEST_F(AutotuneTest, OneTileNeedsNoTimer) {
  Autotuner tuner(options());
  EXPECT_EQ(tuner.choose(1, std::span(kTiles).first(1), kClass, timer({1})), 0);
  EXPECT_EQ(timed_, 0);
  EXPECT_FALSE(fs::exists(file()));
}

// A choice that can't be kept may come out differently next time, so none is made.
TEST_F(AutotuneTest, DefaultWithoutAPlaceToKeepIt) {
  TunerOptions nowhere = options();
  nowhere.cache_path = "";
  EXPECT_EQ(choose(nowhere, {3, 1, 2}), 0);
  EXPECT_NE(remark_, "");
  nowhere.cache_path = "/proc/ringscope/tiles.json";
  EXPECT_EQ(choose(nowhere, {3, 1, 2}), 0);
  EXPECT_NE(remark_.find("/proc/ringscope"), std::string::npos) << remark_;
  EXPECT_EQ(timed_, 0);
}

TEST_F(AutotuneTest, DefaultWhenTheFileIsAFolder) {
  fs::create_directories(file());
  EXPECT_EQ(choose(options(), {3, 1, 2}), 0);
  EXPECT_NE(remark_, "");
}

TEST_F(AutotuneTest, ATileThatCanNotBeTimedIsLeftOut) {
  const auto failing = [this](int tile) -> double {
    ++timed_;
    if (tile == 1) throw RunError("out of device memory");
    return tile == 0 ? NAN : 2.0;
  };
  Autotuner tuner(options());
  EXPECT_EQ(tuner.choose(5, kTiles, kClass, failing), 2);
  EXPECT_NE(tuner.text().find("64x64 failed 128x64 failed 128x128 2000.000 ms"), std::string::npos)
      << tuner.text();
  Autotuner unlucky(options("other"));
  EXPECT_EQ(unlucky.choose(5, kTiles, kClass, [](int) -> double { throw RunError("no"); }), 0);
}

TEST_F(AutotuneTest, BrokenFilesAreWrittenAnew) {
  const std::string entry =
      R"({"device":"GPU","driver":"1.0","build":"commit","kernel":5,)"
      R"("class":"bf16 d128 q8192 k8192 h16 4/4","tile_rows":128,"tile_keys":)";
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[]"), std::string("{\"format\":2}"),
        std::string("{\"format\":1,\"tiles\":{}}"), std::string(1 << 20, '['),
        "{\"format\":1,\"tiles\":[" + entry + "-1}]}",
        "{\"format\":1,\"tiles\":[" + entry + "\"64\"}]}",
        "{\"format\":1,\"tiles\":[" + entry + "1e99}]}", std::string("\0\xff{}", 4)}) {
    write(text);
    timed_ = 0;
    EXPECT_EQ(choose(options(), {3, 1, 2}), 1) << text.substr(0, 80);
    EXPECT_EQ(timed_, 3) << text.substr(0, 80);
    EXPECT_NE(remark_, "") << text.substr(0, 80);
    EXPECT_EQ(choose(options(), {1, 3, 2}), 1) << text.substr(0, 80);
    EXPECT_EQ(remark_, "") << text.substr(0, 80);
  }
  // The same entry, whole, is believed.
  write("{\"format\":1,\"tiles\":[" + entry + "128}]}");
  EXPECT_EQ(choose(options(), {3, 1, 2}), 2);
}

TEST_F(AutotuneTest, ATileThatIsNoLongerCompiledIsTimedAnew) {
  const CachedTile gone{"GPU", "1.0", "commit", 5, name_of(kClass), {256, 256}};
  fs::create_directories(file().parent_path());
  add_to_tile_cache(file().string(), gone);
  EXPECT_EQ(choose(options(), {3, 1, 2}), 1);
  EXPECT_EQ(read_tile_cache(file().string()).entries.size(), 1u);
}

TEST_F(AutotuneTest, TheFileDoesNotGrowWithoutEnd) {
  fs::create_directories(file().parent_path());
  std::ostringstream text;
  text << "{\"format\":1,\"tiles\":[";
  for (std::size_t i = 0; i < kMostCachedTiles; ++i)
    text << (i == 0 ? "" : ",") << R"({"device":"GPU","driver":"1","build":")" << i
         << R"(","kernel":5,"class":"c","tile_rows":1,"tile_keys":1})";
  text << "]}";
  write(text.str());
  EXPECT_EQ(choose(options(), {3, 1, 2}), 1);
  const TileCache cache = read_tile_cache(file().string());
  EXPECT_EQ(cache.entries.size(), kMostCachedTiles);
  EXPECT_EQ(cache.entries.front().build, "1");
  EXPECT_EQ(cache.entries.back().tile, kTiles[1]);
}

// Tuners that start together, each with timings of its own, end up with one choice.
TEST_F(AutotuneTest, TunersTakeTurns) {
  std::vector<int> chosen(4, -1);
  std::atomic<int> timed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Autotuner tuner(options());
      chosen[static_cast<std::size_t>(t)] = tuner.choose(5, kTiles, kClass, [&](int tile) {
        ++timed;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return tile == t % 3 ? 1.0 : 2.0;
      });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timed, 3);
  for (const int tile : chosen) EXPECT_EQ(tile, chosen[0]);
}

TEST_F(AutotuneTest, OptionsComeFromTheEnvironment) {
  DeviceInfo device;
  device.name = "GPU";
  device.driver = "1.0";
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  const char* const home = std::getenv("HOME");
  const std::string home_before = home == nullptr ? "" : home;
  set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(tuner_options(device).cache_path, "/cache/ringscope/tiles.json");
  set("XDG_CACHE_HOME", "relative");
  set("HOME", "/home/someone");
  EXPECT_EQ(tuner_options(device).cache_path, "/home/someone/.cache/ringscope/tiles.json");
  set("XDG_CACHE_HOME", nullptr);
  set("HOME", nullptr);
  EXPECT_EQ(tuner_options(device).cache_path, "");
  set("RINGSCOPE_TUNE", "0");
  EXPECT_FALSE(tuner_options(device).measure);
  set("RINGSCOPE_TUNE", nullptr);
#ifdef RINGSCOPE_MODEL
  EXPECT_FALSE(tuner_options(device).measure);
#else
  EXPECT_TRUE(tuner_options(device).measure);
#endif
  EXPECT_EQ(tuner_options(device).device, "GPU");
  if (home != nullptr) set("HOME", home_before.c_str());
}

TEST(ShapeClass, RoundsUpAndStopsGrowing) {
  StepShape shape;
  shape.batch = 2;
  shape.heads = 3;
  shape.rows_q = 1000;
  shape.rows_k = 1025;
  shape.head_dim = 64;
  const ShapeClass c = shape_class_of(shape, DType::f16, 0.26);
  EXPECT_EQ(name_of(c), "f16 d64 q1024 k2048 h8 2/4");
  shape.rows_q = shape.rows_k = 1 << 20;
  shape.heads = 1000;
  const ShapeClass large = shape_class_of(shape, DType::f16, 1.0);
  EXPECT_EQ(name_of(large), "f16 d64 q8192 k8192 h16 4/4");
  EXPECT_EQ(shape_class_of(representative(large), DType::f16, 1.0), large);
  shape.rows_q = shape.rows_k = shape.batch = shape.heads = 1;
  EXPECT_EQ(name_of(shape_class_of(shape, DType::f32, 0.0)), "f32 d64 q1 k1 h1 1/4");
}

TEST(ShapeClass, TheRepresentativeHoldsItsShareOfPairs) {
  for (int quarters = 1; quarters <= 4; ++quarters) {
    const ShapeClass c{DType::bf16, 64, 10, 9, 0, quarters};
    const std::vector<RowInterval> keys = representative_keys(c);
    ASSERT_EQ(keys.size(), 1024u);
    double pairs = 0;
    std::int32_t before = 0;
    for (const RowInterval& k : keys) {
      EXPECT_EQ(k.first, 0);
      EXPECT_GE(k.last, before);
      EXPECT_LE(k.last, 512);
      before = k.last;
      pairs += k.last;
    }
    EXPECT_NEAR(pairs / (1024.0 * 512), quarters / 4.0, 2e-3);
    EXPECT_EQ(shape_class_of(representative(c), c.dtype, quarters / 4.0), c);
  }
}

}  // namespace
}  // namespace ringscope::cuda
