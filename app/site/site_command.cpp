// `ringscope site`: the lessons, the glossary, the claims, the reference and the viewer as pages
// that need no server. The lessons are told anew, so that their numbers and recordings belong
// together. The other pages are the project's own Markdown, which lies in the source folder or
// beside the installed program. Whatever a page links to comes along.
#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/report/terminal.h"
#include "app/site/html.h"
#include "app/view/view_command.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;
using lessons::Lesson;

constexpr const char* kMark = "ringscope-site.txt";  // by which a former site is known

// Return the folder of the project's pages, in the source folder or as installed.
fs::path folder_of_pages() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder :
       {program.parent_path() / "share/doc/ringscope", fs::path(RINGSCOPE_SOURCE_DIR)})
    if (fs::exists(folder / "lessons/claims.md", error)) return folder;
  throw InputError(
      "site: the project's pages are neither in the source folder nor in share/doc/ringscope; "
      "accepted: a program that is installed with its documentation");
}

// The links at the head of every page: an address from the root, and a name.
constexpr std::pair<const char*, const char*> kParts[] = {
    {"lessons/index.html", "Lessons"},
    {"lessons/glossary.html", "Glossary"},
    {"lessons/zoo.html", "Bug zoo"},
    {"lessons/claims.html", "Claims"},
    {"bench/published/scoreboard.html", "Scoreboard"},
    {"reference.html", "Reference"},
    {"viewer/index.html", "Viewer"}};

// The pages of the reference, by what a reader looks for.
constexpr std::pair<const char*, const char*> kReference[] = {
    {"README.md", "What Ringscope is, and how to get it"},
    {"commands.md", "Every command and its flags"},
    {"app/run/run.md", "Runs: inputs, masks, partitions, schemes, verification"},
    {"app/view/view.md", "The viewer, and why a run took so long"},
    {"app/check/check.md", "Is my own attention right?"},
    {"app/plan/plan.md", "What a run will cost"},
    {"app/simulate/simulate.md", "Machines that are not here"},
    {"app/train/train.md", "Training and generating"},
    {"core/README.md", "Semantics and sources"},
    {"cuda/README.md", "The kernels"},
    {"bench/README.md", "Measurements"},
    {"bench/published/scoreboard.md", "360 published measurements, predicted"},
    {"CONTRIBUTING.md", "How the code is made"}};

// The figures that move, by the lesson that they stand in, before its checks.
struct LiveFigure {
  std::string_view lesson;  // its folder without the number
  const char* name;         // in viz/model/figures
  const char* values;  // of its controls at first, as JSON, where they differ from the figure's own
};
constexpr LiveFigure kLiveFigures[] = {
    {"online_softmax", "merge", "{}"},
    {"the_ring", "ring", "{}"},
    {"causal_masks", "work", "{}"},
    {"striped_and_zigzag", "work", R"({"partition": "striped"})"},
    {"striped_and_zigzag", "race", "{}"},
    {"striped_and_zigzag", "deal", "{}"},
    {"backward", "ring", R"({"pass": "backward"})"},
    {"other_masks", "work",
     R"({"mask": "causal+window:1024", "partition": "contiguous", "ranks": 8})"},
    {"overlap", "overlap", "{}"},
    {"prefill_and_decode", "decode", "{}"},
    {"sixteen_bits", "count", R"({"ones": 300})"},
    {"two_nodes", "nodes", "{}"}};

class Site {
 public:
  Site(fs::path pages, fs::path out) : pages_(std::move(pages)), out_(std::move(out)) {}

  void write() {
    make_contents();
    write_text("style.css", lessons::embedded_text("app/site/style.css"));
    write_text("site.js", lessons::embedded_text("app/site/site.js"));
    const std::string script = web_script();
    has_viewer_ = !script.empty();
    write_lessons();
    write_viewer(script);
    for (const auto& [path, what] : kReference) want(path);
    for (const char* const path : {"lessons/README.md", "lessons/glossary.md", "lessons/zoo.md",
                                   "lessons/challenges.md", "lessons/claims.md"})
      want(path);
    write_front();
    write_reference();
    // Pages ask for further pages while they are written.
    while (!wanted_.empty()) {
      const std::string path = wanted_.front();
      wanted_.pop_front();
      write_wanted(path);
    }
    write_text(kMark, "Written by ringscope " + version_text() + ".\n");
  }

  std::size_t files() const { return written_; }
  bool has_viewer() const { return has_viewer_; }

 private:
  // ---
  // Addresses. Every file is known by its path from the root of the project.

  static bool is_picture(const std::string& path) {
    return path.ends_with(".png") || path.ends_with(".svg") || path.ends_with(".webp");
  }

  // Return where the file `path` lies in the site, or "" if it does not come along.
  std::string address_of(const std::string& path) {
    const fs::path file(path);
    if (path == "README.md") return "about.html";
    if (file.filename() == "README.md") return (file.parent_path() / "index.html").string();
    if (file.extension() == ".md") return fs::path(path).replace_extension(".html").string();
    if (is_picture(path)) return path;
    return "source/" + path + ".html";
  }

  bool is_there(const std::string& path) const {
    std::error_code error;
    return made_.contains(path) || fs::is_regular_file(pages_ / path, error);
  }

  void want(const std::string& path) {
    if (known_.insert(path).second) wanted_.push_back(path);
  }

  // Return the way from the page of `from` to the file `target`, or "" if there is no such file.
  std::string resolve(const std::string& from, const std::string& target) {
    const std::size_t hash = target.find('#');
    const std::string anchor = hash == std::string::npos ? "" : target.substr(hash);
    if (hash == 0) return anchor;
    std::string path =
        (fs::path(from).parent_path() / target.substr(0, hash)).lexically_normal().string();
    if (path.ends_with('/')) path.pop_back();
    if (!is_there(path) && is_there(path + "/README.md")) path += "/README.md";
    if (path.starts_with("..") || !is_there(path)) return "";
    want(path);
    return relative(address_of(from), address_of(path)) + anchor;
  }

  static std::string relative(const std::string& from, const std::string& to) {
    return fs::path(to).lexically_relative(fs::path(from).parent_path()).string();
  }

  // ---
  // Pages.

  void write_text(const std::string& address, std::string_view text) {
    const fs::path path = out_ / address;
    fs::create_directories(path.parent_path());
    write_file(path.string(), text);
    ++written_;
  }

  // Write a page around `main`. `beside` is navigation that stands beside it on wide screens.
  void write_page(const std::string& address, const std::string& title, const std::string& main,
                  const std::string& beside = "", const std::string& kind = "") {
    const std::string home = relative(address, "index.html");
    const std::string root = home.substr(0, home.size() - 10);
    std::string parts;
    for (const auto& [to, name] : kParts)
      parts += fmt::format("<a href=\"{}{}\"{}>{}</a>\n", root, to,
                           address == to ? " aria-current=\"page\"" : "", name);
    write_text(address,
               filled(lessons::embedded_text("app/site/page.html"),
                      {{"title", escaped(title == "Ringscope" ? title : title + " · Ringscope")},
                       {"root", root},
                       {"kind", kind},
                       {"parts", parts},
                       {"beside", beside},
                       {"main", main},
                       {"version", escaped(version_text())}}));
  }

  // Return the contents of a page with more than two sections.
  static std::string contents_of(const HtmlText& text) {
    std::string items;
    int sections = 0;
    for (const Heading& heading : text.headings) {
      if (heading.level != 2) continue;
      ++sections;
      items += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", heading.id,
                           std::string(heading.html).substr(0, heading.html.find("<a ")));
    }
    if (sections < 3) return "";
    return "<nav class=\"beside\" aria-label=\"On this page\"><h2>On this page</h2><ul>\n" + items +
           "</ul></nav>\n";
  }

  void write_markdown(const std::string& path, const std::string& markdown) {
    const HtmlText text =
        html_of(markdown, [&](const std::string& target) { return resolve(path, target); });
    write_page(address_of(path), text.title, text.body, contents_of(text));
  }

  void write_wanted(const std::string& path) {
    if (const auto made = made_.find(path); made != made_.end()) {
      if (!made->second.empty()) write_markdown(path, made->second);
      return;
    }
    const std::string text = read_file((pages_ / path).string(), "page");
    if (path.ends_with(".md"))
      write_markdown(path, text);
    else if (is_picture(path))
      write_text(path, text);
    else
      write_page(address_of(path), path,
                 fmt::format("<h1 class=\"path\">{}</h1>\n<pre class=\"source\" "
                             "tabindex=\"0\"><code>{}</code></pre>\n",
                             escaped(path), escaped(text)),
                 "", "wide-page");
  }

  // Make the pages that lie in no file as the site has them.
  void make_contents() {
    made_["lessons/README.md"] = lessons::contents_page();
    made_["lessons/glossary.md"] = lessons::glossary_page();
    made_["commands.md"] = help_page("markdown");
    for (const Lesson& lesson : lessons::all_lessons())
      made_["lessons/" + lesson.folder + "/README.md"];
  }

  static std::string page_path(const Lesson& lesson) {
    return "lessons/" + lesson.folder + "/README.md";
  }

  void write_lessons() {
    const auto all = lessons::all_lessons();
    const fs::path recordings = out_ / "recordings";
    ProgressBar bar("telling the lessons");
    for (std::size_t i = 0; i < all.size(); ++i) {
      bar.update(static_cast<double>(i) / static_cast<double>(all.size()));
      write_lesson(all[i], i > 0 ? &all[i - 1] : nullptr,
                   i + 1 < all.size() ? &all[i + 1] : nullptr, recordings);
    }
    // A page that is read from a folder may load scripts, but no other files.
    std::error_code error;
    std::set<std::string> names;
    for (const fs::directory_entry& file : fs::directory_iterator(recordings, error))
      names.insert(file.path().filename().string());
    for (const std::string& name : names)
      write_text("recordings/" + name + ".js",
                 recording_script(name, read_file((recordings / name).string(), "recording")));
    written_ += names.size();
  }

  void write_lesson(const Lesson& lesson, const Lesson* before, const Lesson* after,
                    const fs::path& recordings) {
    const std::string path = page_path(lesson);
    const lessons::Told told = lessons::tell(lesson, recordings.string());
    if (told.failed > 0)
      throw RunError(fmt::format("lesson {}: {} checks failed", lesson.number, told.failed));
    HtmlText text =
        html_of(told.page, [&](const std::string& target) { return resolve(path, target); });
    show_recordings(text.body, recordings.string(), lesson);
    show_figures(text.body, lesson.folder.substr(3));
    const auto link = [&](const Lesson* to, const char* rel, const char* word) {
      return to == nullptr
                 ? std::string()
                 : fmt::format(
                       "<a rel=\"{0}\" class=\"{0}\" href=\"{1}\"><span>{2}</span> {3} {4}</a>\n",
                       rel, relative(address_of(path), address_of(page_path(*to))), word,
                       to->label(), escaped(to->source.title));
    };
    text.body += "<nav class=\"turn\" aria-label=\"Lessons before and after\">\n" +
                 link(before, "prev", "Before:") + link(after, "next", "Next:") + "</nav>\n";
    std::string list;
    for (const Lesson& other : lessons::all_lessons())
      list += fmt::format("<li><a href=\"{}\"{}><span>{}</span> {}</a></li>\n",
                          relative(address_of(path), address_of(page_path(other))),
                          other.number == lesson.number ? " aria-current=\"page\"" : "",
                          other.label(), escaped(other.source.title));
    write_page(address_of(path), text.title, text.body,
               "<nav class=\"beside lessons\" aria-label=\"Lessons\"><h2>Lessons</h2><ul>\n" +
                   list + "</ul></nav>\n",
               "lesson");
  }

  // Put the lesson's moving figures before its checks, or a word on where they are to be had.
  void show_figures(std::string& body, std::string_view lesson) const {
    std::string shown;
    for (const LiveFigure& figure : kLiveFigures)
      if (figure.lesson == lesson)
        shown += fmt::format(
            "<section class=\"live\"{} aria-label=\"A figure that moves\">{}</section>\n",
            has_viewer_ ? fmt::format(" data-figure=\"{}\" data-values=\"{}\"", figure.name,
                                      escaped(figure.values))
                        : "",
            has_viewer_
                ? "<noscript><p>Here stands a figure that moves; it needs "
                  "JavaScript.</p></noscript>"
                : "<p>A figure that moves stands here in copies of the site that were made with "
                  "emscripten. This one was made without it.</p>");
    const std::size_t checks = body.find("<h2 id=\"checks\"");
    body.insert(checks == std::string::npos ? body.size() : checks, shown);
  }

  // Replace the paragraphs that name a recording of this computer's by links into the viewer.
  void show_recordings(std::string& body, const std::string& folder, const Lesson& lesson) {
    const std::string begin =
                          "<p>The lesson records this run, with a story: <code>./ringscope view " +
                          escaped(folder) + "/",
                      end = "</code>.</p>";
    for (std::size_t at = 0; (at = body.find(begin, at)) != std::string::npos;) {
      const std::size_t from = at + begin.size(), to = body.find(end, from);
      const std::string file = body.substr(from, to - from);
      const std::string shown = fmt::format(
          "<div class=\"recording\" data-recording=\"{0}\"><p>The lesson records this run, with a "
          "story. {1}"
          "<a href=\"../../recordings/{0}\" download>The recording</a> opens with <code>ringscope "
          "view {0}</code>.</p>"
          "</div>",
          file,
          has_viewer_
              ? fmt::format(
                    "<a class=\"open\" href=\"../../viewer/index.html?trace=../recordings/{}\">"
                    "Open it in the viewer</a>. ",
                    file)
              : "");
      body.replace(at, to + end.size() - at, shown);
      add_to_gallery(lesson, file);
      at += shown.size();
    }
  }

  // `file` is the lesson's number, perhaps a word, and .json; pictures of its story have that word.
  void add_to_gallery(const Lesson& lesson, const std::string& file) {
    const std::string word = fs::path(file).stem().string().substr(lesson.label().size());
    const std::string picture = "lessons/" + lesson.folder + "/story" + word + "-1.svg";
    gallery_ += gallery_item("?trace=../recordings/" + file,
                             is_there(picture) ? "../" + picture : "", lesson.source.title,
                             fmt::format("Lesson {}: {}", lesson.label(), lesson.source.summary));
  }

  // Write the examples that the desktop's viewer begins with, too, and put them before the lessons'.
  void write_examples() {
    std::string items;
    for (const viz::Example& example : viewer_examples()) {
      const std::vector<Recording> recordings = example.record();
      std::string traces;
      for (std::size_t i = 0; i < recordings.size(); ++i) {
        const std::string name = fmt::format("example-{}-{}.json", example.name, i + 1);
        std::ostringstream text;
        write_chrome_trace(text, recordings[i]);
        write_text("recordings/" + name, text.str());
        write_text("recordings/" + name + ".js", recording_script(name, text.str()));
        traces += fmt::format("{}trace=../recordings/{}", i == 0 ? "?" : "&amp;", name);
      }
      const std::string picture = example.name + ".png", png = example_picture(recordings);
      if (!png.empty()) write_text("viewer/" + picture, png);
      items += gallery_item(traces, png.empty() ? "" : picture, example.title, example.text);
    }
    gallery_ = items + gallery_;
  }

  static std::string gallery_item(const std::string& traces, const std::string& picture,
                                  const std::string& title, const std::string& text) {
    return fmt::format("<li><a href=\"{}\">{}<strong>{}</strong><span>{}</span></a></li>\n", traces,
                       picture.empty() ? ""
                                       : fmt::format("<img src=\"{}\" alt=\"What it begins with\" "
                                                     "loading=\"lazy\">",
                                                     picture),
                       escaped(title), escaped(text));
  }

  void write_viewer(const std::string& script) {
    if (has_viewer_) {
      write_examples();
      write_text("viewer/ringscope.js", script);
      write_text("viewer/viewer.js", lessons::embedded_text("app/site/viewer.js"));
      write_text("viewer/index.html", viewer_page(gallery_));
      return;
    }
    want("viz/compare.png");
    want("viz/what_if.png");
    write_page("viewer/index.html", "The viewer",
               filled(lessons::embedded_text("app/site/no_viewer.html"), {}));
  }

  void write_front() {
    want("viz/ring.webp");
    want("viz/compare.png");
    std::string ways, list;
    for (const lessons::Way& way : lessons::ways_through()) {
      ways += fmt::format("<li><h3>{}</h3><p>{}.</p><p class=\"numbers\">", way.name, way.aim);
      for (const int number : way.lessons) {
        const Lesson& lesson = lessons::lesson_of_number(number);
        ways += fmt::format("<a href=\"{}\" title=\"{}\">{}</a> ", address_of(page_path(lesson)),
                            escaped(lesson.source.title), lesson.label());
      }
      ways += "</p></li>\n";
    }
    for (const Lesson& lesson : lessons::all_lessons())
      list += fmt::format(
          "<li><a href=\"{}\"><span "
          "class=\"label\">{}</span><strong>{}</strong><span>{}</span></a></li>\n",
          address_of(page_path(lesson)), lesson.label(), escaped(lesson.source.title),
          escaped(lesson.source.summary));
    write_page("index.html", "Ringscope",
               filled(lessons::embedded_text("app/site/front.html"),
                      {{"first", address_of(page_path(lessons::all_lessons()[0]))},
                       {"ways", ways},
                       {"list", list}}),
               "", "front");
  }

  void write_reference() {
    std::string items;
    for (const auto& [path, what] : kReference)
      if (is_there(path))
        items += fmt::format("<li><a href=\"{}\">{}</a></li>\n", address_of(path), what);
    write_page("reference.html", "Reference",
               "<h1>Reference</h1>\n<p>How to use the program, what it computes, and how that is "
               "known.</p>\n"
               "<ul class=\"reference\">\n" +
                   items + "</ul>\n");
  }

  fs::path pages_, out_;
  std::map<std::string, std::string> made_;  // Markdown by path; "": a lesson, already written
  std::deque<std::string> wanted_;
  std::set<std::string> known_;
  std::size_t written_ = 0;
  bool has_viewer_ = false;
  std::string gallery_;  // items of a list
};

}  // namespace

int carry_out(const SiteOptions& options) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(fs::absolute(options.folder, error), error);
  if (!folder.has_filename()) folder = folder.parent_path();
  fs::create_directories(folder.parent_path(), error);
  // A former site makes way for the new one when that is whole.
  const bool replaces = fs::exists(folder / kMark, error);
  const std::string place = folder.string() + (replaces ? ".new" : "");
  const auto made = for_flag("site", [&] { return std::make_unique<AtomicFolder>(place); });
  try {
    std::string words;
    made->fill([&](const std::string& at) {
      Site site(folder_of_pages(), at);
      site.write();
      words = fmt::format("{} files", site.files());
      if (!site.has_viewer()) words += ", without emscripten: pictures in place of the viewer";
    });
    made->commit();
    if (replaces) {
      fs::remove_all(folder);
      fs::rename(place, folder);
    }
    print_out(fmt::format("{}. Open {}\n", words, (folder / "index.html").string()));
  } catch (const fs::filesystem_error& failed) {
    throw RunError(fmt::format("site '{}': {}", options.folder, failed.code().message()));
  }
  return 0;
}

Finish declare_site(CommandFlags& flags) {
  const auto words = std::make_shared<std::vector<std::string>>();
  flags.words("DIR", *words,
              "a new or empty folder, or a site that was written before; open DIR/index.html");
  return [words] {
    if (words->size() != 1)
      contradiction("site", fmt::format("{} folders given", words->size()), "site DIR");
    return SiteOptions{words->front()};
  };
}

}  // namespace ringscope
