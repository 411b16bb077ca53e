// A page of `view --html`, and what the program says of `site`, which its launcher makes.
#include <regex>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

class ViewPageTest : public ProgramTest {
 protected:
  static std::vector<std::string> found(const std::string& text, const char* pattern,
                                        int group = 1) {
    std::vector<std::string> all;
    const std::regex regex(pattern);
    for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
      all.push_back((*at)[static_cast<std::size_t>(group)]);
    return all;
  }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t times = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
    return times;
  }
};

// A page of `view --html` has its recordings byte for byte, and says that no script but its own may
// run. The program finds a viewer beside itself, here one of a line.
TEST_F(ViewPageTest, APageOfRecordingsHoldsThemAndItsOwnScripts) {
  fs::create_directories(path("bin"));
  fs::create_directories(path("share/ringscope"));
  fs::copy_file(RINGSCOPE_PROGRAM, path("bin/ringscope"));
  write_text("share/ringscope/ringscope_web.js", "const shown = '</script>';");
  run_well("run --random --seqlen 16 --trace <b>.json");
  ASSERT_EQ(run_words({"/bin/sh", "-c", "gzip -kn '<b>.json'"}).status, 0);
  ASSERT_EQ(
      run_words({path("bin/ringscope"), "view", "<b>.json", "<b>.json.gz", "--html", "p.html"}).err,
      "");
  const std::string text = contents_of(path("p.html"));
  const std::vector<std::string> nonce = found(text, "script-src 'nonce-([0-9a-f]{32})'");
  ASSERT_EQ(nonce.size(), 1u);
  EXPECT_EQ(
      found(text, "default-src 'none'; script-src 'nonce-[0-9a-f]{32}' 'wasm-unsafe-eval';", 0)
          .size(),
      1u);
  EXPECT_EQ(count(text, "<script nonce=\"" + nonce[0] + "\">"), 4u);
  for (const char* const tag : {"<script", "</script"})
    EXPECT_EQ(count(text, tag), 4u) << "of two recordings, the viewer and its page";
  for (const char* const name : {"<b>.json", "<b>.json.gz"})
    EXPECT_NE(text.find("[\"\\u003cb>" + std::string(name).substr(3) + "\"] = \"" +
                        base64(contents_of(path(name))) + "\";"),
              std::string::npos)
        << name;
}

// The site's pages name the recordings of lessons, which the program writes for them, with the examples.
TEST_F(ViewPageTest, SiteWritesTheRecordingsThatItsPagesName) {
  const ProgramResult written = run({"site", "--recordings", path("recordings")});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.err, "") << "nothing is drawn where no terminal is";
  std::size_t named = 0;
  for (const fs::directory_entry& lesson : fs::directory_iterator(RINGSCOPE_SOURCE_DIR "/lessons"))
    for (const std::string& file : found(contents_of((lesson.path() / "README.md").string()),
                                         "a story: `./ringscope view runs/lessons/([^`]+)`")) {
      ++named;
      EXPECT_TRUE(fs::exists(path("recordings/" + file))) << file;
    }
  EXPECT_GT(named, 5u);
  const rapidjson::Document examples = json_of(contents_of(path("recordings/examples.json")));
  EXPECT_EQ(examples.Size(), 5u);
  for (const auto& example : examples.GetArray())
    for (const auto& file : example["files"].GetArray()) {
      const ProgramResult shown = run({"explain", path("recordings/") + file.GetString()});
      EXPECT_TRUE(shown.status == 0) << file.GetString() << ": " << shown.err;
    }
}

}  // namespace
}  // namespace ringscope
