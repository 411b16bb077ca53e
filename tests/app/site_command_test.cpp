// The site: every page is whole, and every link leads somewhere inside it.
#include <algorithm>
#include <map>
#include <regex>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

class SiteTest : public ProgramTest {
 protected:
  // Write the site over a former one, and read its pages. It takes seconds, so one test looks at all of it.
  void make() {
    fs::create_directories(site());
    write_text("site/ringscope-site.txt", "");
    write_text("site/stale.html", "");
    const ProgramResult written = run({"site", site().string()});
    EXPECT_EQ(written.status, 0);
    EXPECT_EQ(written.err, "") << "nothing is drawn where no terminal is";
    EXPECT_FALSE(fs::exists(site() / "stale.html"));
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(site()))
      if (file.path().extension() == ".html")
        pages_[file.path().lexically_relative(site()).string()] = contents_of(file.path().string());
    EXPECT_EQ(std::distance(fs::directory_iterator(path("")), {}), 1) << "something stayed behind";
  }

  fs::path site() const { return path("site"); }
  static std::vector<std::string> found(const std::string& text, const char* pattern,
                                        int group = 1) {
    std::vector<std::string> all;
    const std::regex regex(pattern);
    for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
      all.push_back((*at)[static_cast<std::size_t>(group)]);
    return all;
  }

  // Return what stands between each `begin` and the `end` after it. On whole pages, patterns take seconds.
  static std::vector<std::string> between(const std::string& text, const std::string& begin,
                                          const std::string& end) {
    std::vector<std::string> all;
    for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
      at += begin.size();
      all.push_back(text.substr(at, text.find(end, at) - at));
    }
    return all;
  }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t times = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
    return times;
  }

  void expect_all_parts();
  void expect_links_that_lead_somewhere();
  void expect_landmarks();

  std::map<std::string, std::string> pages_;  // by address
};

void SiteTest::expect_all_parts() {
  for (const fs::directory_entry& lesson : fs::directory_iterator(RINGSCOPE_SOURCE_DIR "/lessons"))
    if (fs::exists(lesson.path() / "exercise.h")) {
      const std::string page = "lessons/" + lesson.path().filename().string() + "/index.html";
      ASSERT_TRUE(pages_.contains(page)) << page;
      EXPECT_NE(pages_[page].find("class=\"predict\""), std::string::npos) << page;
    }
  for (const char* const page :
       {"index.html", "lessons/index.html", "lessons/glossary.html", "lessons/claims.html",
        "bench/published/scoreboard.html", "reference.html", "commands.html", "about.html",
        "app/run/run.html", "viewer/index.html"})
    EXPECT_TRUE(pages_.contains(page)) << page;
  std::size_t figures = 0;
  const char* const figure = "aria-label=\"A figure that moves\"";
  for (const auto& [name, text] : pages_) figures += count(text, figure);
  EXPECT_EQ(figures, 12u) << "the lesson of one is not there";
  for (const auto& [lesson, moving] : {std::pair{"08_striped_and_zigzag", 3u},
                                       {"09_backward", 1u},
                                       {"10_grouped_heads", 0u},
                                       {"18_two_nodes", 1u}})
    EXPECT_EQ(count(pages_[std::string("lessons/") + lesson + "/index.html"], figure), moving)
        << lesson;
}

void SiteTest::expect_links_that_lead_somewhere() {
  std::map<std::string, std::set<std::string>> ids;
  for (const auto& [name, text] : pages_)
    for (const std::string& id : between(text, " id=\"", "\""))
      EXPECT_TRUE(ids[name].insert(id).second) << name << " has '" << id << "' twice";
  std::size_t links = 0;
  for (const auto& [name, text] : pages_) {
    std::vector<std::string> targets = between(text, " href=\"", "\"");
    for (std::string& source : between(text, " src=\"", "\"")) targets.push_back(source);
    for (const std::string& target : targets) {
      if (target == "data:,") continue;
      ++links;
      EXPECT_EQ(target.find("://"), std::string::npos) << name << " leads out, to " << target;
      const std::size_t hash = target.find('#');
      const std::string file = target.substr(0, target.find_first_of("?#"));
      const std::string page =
          file.empty() ? name : (fs::path(name).parent_path() / file).lexically_normal().string();
      EXPECT_TRUE(fs::is_regular_file(site() / page)) << name << " leads to " << target;
      EXPECT_TRUE(hash == std::string::npos || ids[page].contains(target.substr(hash + 1)))
          << name << " leads to " << target;
    }
  }
  EXPECT_GT(links, 2000u);
}

void SiteTest::expect_landmarks() {
  for (const auto& [name, text] : pages_) {
    SCOPED_TRACE(name);
    for (const char* const part :
         {"<html lang=\"en\">", "<main", "<h1", "<meta name=\"viewport\"",
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
          "'none'; script-src 'self' 'wasm-unsafe-eval'; style-src"})
      EXPECT_EQ(count(text, part), 1u) << part;
    EXPECT_EQ(count(text, "<title>") + count(text, "Ringscope</title>"), 2u);
    for (const std::string& picture : between(text, "<img", ">")) {
      const std::vector<std::string> told = between(picture, " alt=\"", "\"");
      EXPECT_TRUE(told.size() == 1 && told[0].size() >= 10) << picture;
    }
    EXPECT_TRUE(name == "viewer/index.html" ||
                text.find("class=\"skip\" href=\"#main\"") != std::string::npos);
    for (const char* const against : {"<script>", " style="})
      EXPECT_EQ(count(text, against), 0u) << "against the policy: " << against;
    for (const std::string& handler : between(text, " on", "="))
      EXPECT_FALSE(
          std::all_of(handler.begin(), handler.end(), [](char c) { return 'a' <= c && c <= 'z'; }))
          << "against the policy: on" << handler;
    // Elements that were opened are closed.
    for (const std::string tag :
         {"p", "li", "ul", "ol", "table", "tr", "pre", "code", "em", "strong", "details",
          "blockquote", "figure", "nav", "section", "div"})
      EXPECT_EQ(count(text, "<" + tag + " ") + count(text, "<" + tag + ">"),
                count(text, "</" + tag + ">"))
          << tag;
  }
}

TEST_F(SiteTest, IsWholeLinkedAndReadable) {
  make();
  expect_all_parts();
  expect_links_that_lead_somewhere();
  expect_landmarks();
}

// A page of `view --html` has its recordings byte for byte, and says that no script but its own may
// run. The program finds a viewer beside itself, here one of a line.
TEST_F(SiteTest, APageOfRecordingsHoldsThemAndItsOwnScripts) {
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

TEST_F(SiteTest, ReplacesNothingButASite) {
  fs::create_directories(path("mine"));
  write_text("mine/letter.txt", "dear");
  expect_refused({"site", path("mine")}, {"not", "empty", "accepted:"});
  write_text("file", "");
  expect_refused({"site", path("file")}, {"not", "a", "folder"});
}

}  // namespace
}  // namespace ringscope
