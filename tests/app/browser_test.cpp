// The site in Chromium, with the viewer and the figures compiled for browsers: pages say no error,
// text is there without scripts, the viewer draws what the desktop's draws and takes keys, wheel
// and files, figures have the numbers of the native code, and a story moves its recording. Skipped
// where Chromium or that build is missing.
//
// The browser is driven through a pipe, by its DevTools protocol (a JSON text for each command,
// ended by a NUL), so that keys and drops are those of a user. Nothing waits for a fixed time.
#include <fcntl.h>
#include <poll.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <signal.h>

#include <chrono>
#include <cmath>

#include "lessons/figures/figures.h"
#include "tests/app/program.h"

namespace ringscope::browser_test {
namespace {

namespace fs = std::filesystem;

constexpr int kPatience_ms = 60'000;  // for an answer that takes a second at most

std::string quoted(const std::string& text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer>(buffer).String(text.c_str());
  return buffer.GetString();
}

// A page in a browser of its own.
class Browser {
 public:
  explicit Browser(const std::string& profile) {
    ::signal(SIGPIPE, SIG_IGN);  // a browser that has ended is an error of write()
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int in = ::fcntl(to[0], F_DUPFD, 10), out = ::fcntl(from[1], F_DUPFD, 10);
      const int nothing = ::open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
      ::dup2(in, 3);  // where the protocol expects them
      ::dup2(out, 4);
      const std::string folder = "--user-data-dir=" + profile;
      ::execlp("chromium", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
               "--disable-dev-shm-usage", "--remote-debugging-pipe",
               "--allow-file-access-from-files", "--no-first-run", folder.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    const std::string target =
        call("Target.createTarget", R"({"url": "about:blank"})")["targetId"].GetString();
    session_ = call("Target.attachToTarget",
                    "{\"flatten\": true, \"targetId\": " + quoted(target) + "}")["sessionId"]
                   .GetString();
    for (const char* const domain : {"Page", "Runtime", "Log"})
      call(std::string(domain) + ".enable");
    resize(1280, 720);
  }
  ~Browser() {
    ::close(to_);
    ::close(from_);
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Carry out a command, and return its result.
  rapidjson::Document call(const std::string& method, const std::string& parameters = "{}") {
    const int id = ++last_;
    std::string text = "{\"id\": " + std::to_string(id) + ", \"method\": \"" + method +
                       "\", \"params\": " + parameters;
    if (!session_.empty()) text += ", \"sessionId\": \"" + session_ + "\"";
    text += std::string("}") + '\0';
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t written = ::write(to_, text.data() + at, text.size() - at);
      if (written <= 0) throw std::runtime_error("the browser has ended");
      at += static_cast<std::size_t>(written);
    }
    for (;;) {
      rapidjson::Document message = next();
      if (!message.HasMember("id") || message["id"].GetInt() != id) continue;
      if (message.HasMember("error"))
        throw std::runtime_error(method + ": " + message["error"]["message"].GetString());
      rapidjson::Document result;
      result.CopyFrom(message["result"], result.GetAllocator());
      return result;
    }
  }

  void open(const std::string& url) {
    loaded_ = false;
    call("Page.navigate", "{\"url\": " + quoted(url) + "}");
    while (!loaded_) next();
  }

  // Run the body of an asynchronous function in the page, and return the text that it returns.
  std::string evaluate(const std::string& body) {
    static const std::string help = contents_of(RINGSCOPE_SOURCE_DIR "/tests/app/browser_test.js");
    const rapidjson::Document said = call(
        "Runtime.evaluate", "{\"awaitPromise\": true, \"returnByValue\": true, \"expression\": " +
                                quoted("(async () => {" + help + body + "})()") + "}");
    if (said.HasMember("exceptionDetails")) {
      const auto& why = said["exceptionDetails"];
      ADD_FAILURE() << (why.HasMember("exception") && why["exception"].HasMember("description")
                            ? why["exception"]["description"].GetString()
                            : why["text"].GetString())
                    << "\nin " << body;
      return "";
    }
    return said["result"].HasMember("value") && said["result"]["value"].IsString()
               ? said["result"]["value"].GetString()
               : "";
  }

  void resize(int width, int height) {
    call("Emulation.setDeviceMetricsOverride",
         "{\"mobile\": false, \"deviceScaleFactor\": 1, \"width\": " + std::to_string(width) +
             ", \"height\": " + std::to_string(height) + "}");
  }
  void prefer(const char* scheme) {
    call("Emulation.setEmulatedMedia",
         std::string(R"({"features": [{"name": "prefers-reduced-motion", "value": "reduce"},
                         {"name": "prefers-color-scheme", "value": ")") +
             scheme + "\"}]}");
  }
  void key(const std::string& name) {
    const std::string text = name.size() == 1 ? ", \"text\": " + quoted(name) : "";
    // Tab moves the focus by its number alone.
    const std::string number = name == "Tab" ? ", \"windowsVirtualKeyCode\": 9" : "";
    call("Input.dispatchKeyEvent",
         "{\"type\": \"keyDown\", \"key\": " + quoted(name) + text + number + "}");
    call("Input.dispatchKeyEvent", "{\"type\": \"keyUp\", \"key\": " + quoted(name) + number + "}");
  }
  void mouse(const std::string& type, int x, int y, const std::string& more = "") {
    call("Input.dispatchMouseEvent", "{\"type\": \"" + type + "\", \"x\": " + std::to_string(x) +
                                         ", \"y\": " + std::to_string(y) + more + "}");
  }
  void drop(const std::string& file) {
    for (const char* const type : {"dragEnter", "dragOver", "drop"})
      call(
          "Input.dispatchDragEvent",
          std::string("{\"type\": \"") + type +
              R"(", "x": 200, "y": 200, "data": {"items": [], "dragOperationsMask": 1, "files": [)" +
              quoted(file) + "]}}");
  }

  // What the page's console has said since the last call: errors and warnings, one a line.
  std::string complaints() { return std::exchange(complaints_, ""); }

 private:
  rapidjson::Document next() {
    const auto begun = std::chrono::steady_clock::now();
    std::size_t end;
    while ((end = received_.find('\0')) == std::string::npos) {
      char bytes[65536];
      pollfd ready{from_, POLLIN, 0};
      if (::poll(&ready, 1, 1000) > 0) {
        const ssize_t count = ::read(from_, bytes, sizeof bytes);
        if (count <= 0) throw std::runtime_error("the browser has ended");
        received_.append(bytes, static_cast<std::size_t>(count));
      }
      if (std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(kPatience_ms))
        throw std::runtime_error("the browser does not answer");
    }
    rapidjson::Document message;
    message.Parse(received_.substr(0, end).c_str());
    const std::string text = received_.substr(0, end);
    received_.erase(0, end + 1);
    const std::string method = message.HasMember("method") ? message["method"].GetString() : "";
    const auto is = [&](const char* object, const char* key, const char* value) {
      const auto& parameters = message["params"];
      return (object == nullptr ? parameters : parameters[object])[key] == value;
    };
    loaded_ |= method == "Page.loadEventFired";
    if (method == "Runtime.exceptionThrown" ||
        (method == "Runtime.consoleAPICalled" &&
         (is(nullptr, "type", "error") || is(nullptr, "type", "warning"))) ||
        (method == "Log.entryAdded" && is("entry", "level", "error")))
      complaints_ += text + "\n";
    return message;
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, last_ = 0;
  bool loaded_ = false;
  std::string session_, received_, complaints_;
};

class BrowserTest : public ProgramTest {
 protected:
  std::string site(const std::string& page) const { return "file://" + path("site/" + page); }
  std::string recording(const char* name) const {
    return path(std::string("site/recordings/") + name);
  }
  void open_viewer(const std::string& parameters) {
    browser_->open(site("viewer/show.html" + parameters));
    browser_->evaluate("await until(() => document.body.dataset.drawn);");
  }
  std::string canvas_size() {
    return browser_->evaluate(
        "const { width, height } = document.getElementById('viewer'); return "
        "`${width}x${height}`;");
  }
  // Return a text that is the same for the same picture in the viewer, when it rests.
  std::string picture() { return browser_->evaluate("return picture();"); }

  void expect_pages();
  void expect_text_without_scripts();
  void expect_tab_order();
  void expect_figures();
  void expect_told_stories();
  void expect_the_desktops_pictures();
  void expect_keys_and_wheel();
  void expect_the_address_to_restore_the_view();
  void expect_a_gallery();
  void expect_the_chosen_theme();
  void expect_one_script_for_all();
  void expect_scrolling_past_recordings();
  void expect_dropped_files();
  void expect_pages_that_hold_recordings();

  std::unique_ptr<Browser> browser_;
};

// Every page loads without a complaint, fits a phone, and its text has WCAG 2's contrast of 4.5 (3
// for large text) in both themes, as the browser has its colours.
void BrowserTest::expect_pages() {
  browser_->resize(390, 844);
  std::size_t pages = 0;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(path("site"))) {
    const std::string name = file.path().lexically_relative(path("site")).string();
    if (file.path().extension() != ".html" || name.starts_with("source/")) continue;
    SCOPED_TRACE(name);
    ++pages;
    browser_->open(site(name));
    EXPECT_EQ(browser_->evaluate("return tooWide();"), "false");
    for (const char* const scheme : {"light", "dark"}) {
      browser_->prefer(scheme);
      EXPECT_EQ(browser_->evaluate("return unreadable();"), "") << scheme;
    }
    EXPECT_EQ(browser_->complaints(), "");
  }
  EXPECT_GT(pages, 40u);
  browser_->resize(1280, 720);
}

void BrowserTest::expect_text_without_scripts() {
  const char* const text = "return visibleText();";
  for (const char* const page :
       {"index.html", "lessons/08_striped_and_zigzag/index.html", "lessons/claims.html"}) {
    SCOPED_TRACE(page);
    browser_->open(site(page));
    const std::string with = browser_->evaluate(text);
    browser_->call("Emulation.setScriptExecutionDisabled", R"({"value": true})");
    browser_->open(site(page));
    browser_->call("Emulation.setScriptExecutionDisabled", R"({"value": false})");
    const std::string without = browser_->evaluate(text);
    EXPECT_EQ(browser_->evaluate("return String(document.querySelector('.guess'));"), "null");
    EXPECT_GT(without.size(), 2000u);
    EXPECT_EQ(with, without);
  }
}

// The Tab key reaches what can be used in the order of the text, the way past the navigation first.
void BrowserTest::expect_tab_order() {
  for (const char* const page : {"index.html", "lessons/03_online_softmax/index.html"}) {
    SCOPED_TRACE(page);
    browser_->open(site(page));
    const int usable = std::stoi(browser_->evaluate("return usable();"));
    EXPECT_GT(usable, 20);
    browser_->key("Tab");
    expect_has(browser_->evaluate("return document.activeElement.className;"), "skip-to-content");
    for (int i = 1; i < usable; ++i) browser_->key("Tab");
    EXPECT_EQ(browser_->evaluate("return focused();"), "0 wrong, 0 unlit");
    EXPECT_GE(std::stoi(browser_->evaluate("return String(new Set(order).size);")), usable - 1);
  }
}

// Expect the same values: whole numbers to the bit, others to 1e-12 of their size.
void expect_same(const rapidjson::Value& page, const rapidjson::Value& native,
                 const std::string& where) {
  ASSERT_EQ(page.GetType(), native.GetType()) << where;
  if (native.IsObject()) {
    ASSERT_EQ(page.MemberCount(), native.MemberCount()) << where;
    for (const auto& [name, value] : native.GetObject()) {
      ASSERT_TRUE(page.HasMember(name)) << where;
      expect_same(page[name], value, where + "." + name.GetString());
    }
  } else if (native.IsArray()) {
    ASSERT_EQ(page.Size(), native.Size()) << where;
    for (unsigned i = 0; i < native.Size(); ++i)
      expect_same(page[i], native[i], where + "[" + std::to_string(i) + "]");
  } else if (native.IsNumber() && !(native.IsInt64() && page.IsInt64())) {
    EXPECT_LE(std::abs(page.GetDouble() - native.GetDouble()), 1e-12 * std::abs(native.GetDouble()))
        << where;
  } else {
    EXPECT_TRUE(page == native) << where;
  }
}

// Every control of every figure changes its numbers, and they are those of the native code.
void BrowserTest::expect_figures() {
  std::set<std::string> figures;
  std::size_t states = 0;
  for (const fs::directory_entry& lesson : fs::directory_iterator(path("site/lessons"))) {
    if (!lesson.is_directory() ||
        contents_of((lesson.path() / "index.html").string()).find("data-figure=") ==
            std::string::npos)
      continue;
    SCOPED_TRACE(lesson.path().filename());
    browser_->open("file://" + (lesson.path() / "index.html").string());
    const rapidjson::Document all = json_of(browser_->evaluate("return figures();"));
    ASSERT_TRUE(all.IsObject() && all.HasMember("states"));
    for (const auto& still : all["still"].GetArray())
      ADD_FAILURE() << still.GetString() << " moves nothing";
    for (const auto& state : all["states"].GetArray()) {
      const std::string name = state[0].GetString(), arguments = state[1].GetString();
      std::vector<std::string> words;
      std::istringstream lines(arguments + "\n");
      for (std::string line; std::getline(lines, line);) words.push_back(line);
      figures.insert(name);
      ++states;
      expect_same(json_of(state[2].GetString()),
                  json_of(lessons::figure_numbers(name == "race" ? "work" : name, words)),
                  name + "(" + arguments + ")");
    }
    EXPECT_EQ(browser_->complaints(), "");
  }
  EXPECT_EQ(figures, (std::set<std::string>{"count", "deal", "decode", "merge", "nodes", "overlap",
                                            "race", "ring", "work"}));
  EXPECT_GT(states, 80u);
}

// A lesson that is scrolled from top to bottom tells every paragraph of its story, in order, to its
// recording, which stays in sight.
void BrowserTest::expect_told_stories() {
  for (const int height : {720, 1440}) {
    browser_->resize(height == 720 ? 390 : 1280, height);
    browser_->open(site("lessons/07_causal_masks/index.html"));
    EXPECT_EQ(browser_->evaluate("return toldParagraphs();"),
              "1 2 3 4 of 4, half a window each: true")
        << height;
    EXPECT_EQ(browser_->complaints(), "");
  }
  browser_->resize(1280, 720);
}

// The viewer draws what `ringscope view --screenshot` draws, which tests/viz compares with golden
// pictures. Both have one code, and no GPU; but a compiler may round a position otherwise, and then
// the edge of a shape is another shade. So one pixel in 500 may differ by more than an eighth of
// the range of a colour, which text in another place exceeds.
void BrowserTest::expect_the_desktops_pictures() {
  const std::pair<const char*, const char*> cases[] = {
      {"?trace=../recordings/08-zigzag.json&at=2&select=1",
       "--at 2 --select rank:1,kind:compute,step:2,pass:forward"},
      {"?trace=../recordings/08-zigzag.json&story=3", "--story 3"},
      {"?trace=../recordings/09.json&at=back:1", "--at back:1"},
      {"?trace=../recordings/07.json&trace=../recordings/08-zigzag.json&at=1", "--at 1"}};
  for (const auto& [parameters, flags] : cases) {
    SCOPED_TRACE(parameters);
    open_viewer(parameters);
    Strings files;
    for (const std::string name : {"07.json", "08-zigzag.json", "09.json"})
      if (std::string(parameters).find(name) != std::string::npos)
        files.push_back(recording(name.c_str()));
    ASSERT_EQ(run(Strings{"view"} + files + Strings(flags) +
                  Strings{"--size", canvas_size(), "--screenshot", path("site/native.png")})
                  .status,
              0);
    picture();
    const std::string differ = browser_->evaluate("return differentPixels();");
    ASSERT_FALSE(differ.empty());
    EXPECT_LE(std::stod(differ), 1 / 500.0);
    EXPECT_EQ(browser_->complaints(), "");
  }
}

void BrowserTest::expect_keys_and_wheel() {
  open_viewer("?trace=../recordings/08-zigzag.json&at=1");
  browser_->evaluate("document.getElementById('viewer').focus();");
  browser_->key("ArrowRight");  // from the middle of a step to an edge
  const std::string begin = picture();
  std::set<std::string> pictures{begin};
  browser_->key("ArrowRight");
  pictures.insert(picture());
  EXPECT_EQ(pictures.size(), 2u) << "the right arrow";
  browser_->key("ArrowLeft");
  EXPECT_EQ(picture(), begin) << "the left arrow undoes the right one";
  browser_->key("?");
  pictures.insert(picture());
  EXPECT_EQ(pictures.size(), 3u) << "help";
  browser_->key("Escape");
  EXPECT_EQ(picture(), begin);
  const int top = std::stoi(browser_->evaluate(
      "return String(document.getElementById('viewer').getBoundingClientRect().top);"));
  browser_->mouse("mouseMoved", 700, top + 200);
  pictures.insert(picture());
  browser_->mouse("mouseWheel", 700, top + 200, R"(, "deltaX": 0, "deltaY": -300)");
  pictures.insert(picture());
  EXPECT_EQ(pictures.size(), 5u) << "the wheel over the timeline";
  const char* const left = R"(, "button": "left", "buttons": 1, "clickCount": 1)";
  browser_->mouse("mousePressed", 700, top + 105, left);
  browser_->mouse("mouseReleased", 700, top + 105, left);
  pictures.insert(picture());
  EXPECT_EQ(pictures.size(), 6u) << "a click selects";
  EXPECT_EQ(browser_->complaints(), "");
}

void BrowserTest::expect_the_address_to_restore_the_view() {
  open_viewer("?trace=../recordings/08-zigzag.json&at=1&select=1");
  browser_->evaluate("document.getElementById('viewer').focus();");
  const std::string begin = picture();
  for (const char* const key : {"m", "ArrowRight"}) browser_->key(key);  // pins rank 1
  const std::string shown = picture();
  EXPECT_NE(shown, begin);
  const std::string address = browser_->evaluate("return location.search;");
  EXPECT_NE(address.find("&pin=1&"), std::string::npos) << address;
  open_viewer(address);
  EXPECT_EQ(picture(), shown) << address;
  EXPECT_EQ(browser_->complaints(), "");
}

// The gallery shows all recordings of the site, pictures included, and each opens by its address.
void BrowserTest::expect_a_gallery() {
  std::size_t recordings = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(path("site/recordings")))
    if (file.path().extension() == ".json") ++recordings;
  ASSERT_GT(recordings, 5u);
  browser_->open(site("viewer/index.html"));
  EXPECT_EQ(browser_->evaluate("return gallery();"),
            std::to_string(recordings) + ", pictures true");
  browser_->open(browser_->evaluate("return document.querySelector('.cards a').href;"));
  browser_->evaluate("await until(() => document.body.dataset.drawn);");
  EXPECT_EQ(browser_->evaluate("return document.querySelector('nav a').getAttribute('href');"),
            "index.html")
      << "there is a way back";
  EXPECT_EQ(browser_->complaints(), "");
}

// The viewer's page has the theme that was chosen in the others, or the system's.
void BrowserTest::expect_the_chosen_theme() {
  std::set<std::string> pictures;
  for (const char* const theme : {"dark", "light"}) {
    browser_->evaluate("localStorage.setItem('theme', " + quoted(theme) + ");");
    open_viewer("?trace=../recordings/08-zigzag.json");
    pictures.insert(picture());
    EXPECT_EQ(browser_->evaluate("return getComputedStyle(document.body).colorScheme;"), theme);
  }
  EXPECT_EQ(pictures.size(), 2u);
  browser_->evaluate("localStorage.removeItem('theme');");
}

// A page that shows recordings and figures loads the viewer's script once.
void BrowserTest::expect_one_script_for_all() {
  browser_->open(site("lessons/08_striped_and_zigzag/index.html"));
  EXPECT_EQ(browser_->evaluate("return scriptsOfAll();"), "2 recordings, 3 figures, 1 script");
  EXPECT_EQ(browser_->complaints(), "");
}

// The wheel over a recording in a lesson scrolls the lesson, until a click has caught it. One panel
// is shown from the first frame.
void BrowserTest::expect_scrolling_past_recordings() {
  browser_->open(site("lessons/08_striped_and_zigzag/index.html"));
  const char* const place = "return showRecording();";
  const char* const now = "await frames(); await pause(100); return `1 at ${scrollY}`;";
  const std::string begin = browser_->evaluate(place);
  EXPECT_EQ(begin.substr(0, 5), "1 at ");
  const char* const notch = R"(, "deltaX": 0, "deltaY": 100)";
  const char* const left = R"(, "button": "left", "buttons": 1, "clickCount": 1)";
  browser_->mouse("mouseMoved", 640, 360);
  browser_->mouse("mouseWheel", 640, 360, notch);
  EXPECT_NE(browser_->evaluate(now), begin) << "the page scrolls";
  browser_->evaluate(place);
  browser_->mouse("mousePressed", 640, 360, left);
  browser_->mouse("mouseReleased", 640, 360, left);
  const std::string clicked = browser_->evaluate(now);
  browser_->mouse("mouseWheel", 640, 360, notch);
  EXPECT_EQ(browser_->evaluate(now), clicked) << "the wheel zooms";
  EXPECT_EQ(browser_->complaints(), "");
}

// A dropped recording is opened, a hostile one refused with the words of the native program.
void BrowserTest::expect_dropped_files() {
  open_viewer("?trace=../recordings/08-zigzag.json");
  const std::string drawn = picture();
  open_viewer("");
  browser_->drop(recording("08-zigzag.json"));
  browser_->evaluate("await until(() => document.body.dataset.opened);");
  EXPECT_EQ(browser_->evaluate("return document.body.dataset.opened + document.title;"),
            "yes08-zigzag.json · Ringscope");
  EXPECT_EQ(picture(), drawn);

  const std::string good = contents_of(recording("08-zigzag.json"));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string hostile[] = {"",
                                 "no recording",
                                 good.substr(0, 40),  // with whole slices it would open
                                 replaced("\"world_size\": 4", "\"world_size\": 4000000000"),
                                 replaced("\"ts\":", "\"ts\":1e999,\"x\":"),
                                 std::string(100'000, '['),
                                 "{\"traceEvents\": 7}"};
  for (const std::string& text : hostile) {
    write_text("bad.json", text);
    const ProgramResult native = run("view bad.json --screenshot bad.png");
    EXPECT_EQ(native.status, 2);
    browser_->evaluate("delete document.body.dataset.opened;");
    browser_->drop(path("bad.json"));
    const std::string why = browser_->evaluate("return until(() => document.body.dataset.opened);");
    EXPECT_EQ("ringscope: " + why + "\n", native.err);
  }
  EXPECT_EQ(browser_->complaints(), "");
  write_text("site/viewer/evil.js", "document.body.dataset.evil = 'yes';");
  for (const std::string& address :
       {std::string("../recordings/none.json"), site("viewer/evil"),
        std::string("http://localhost/a"), std::string("//localhost/a"),
        std::string("data:text/javascript,document.body.dataset.evil='yes'//")}) {
    browser_->open(site("viewer/show.html?trace=" + address));
    EXPECT_EQ(browser_->evaluate(
                  "await until(() => document.getElementById('message').textContent.includes("
                  "\"can't be loaded\")); return document.body.dataset.evil;"),
              "")
        << address;
  }
  browser_->complaints();  // drop those about addresses that fail on purpose
}

// A page of its own opens what it holds, also if it is packed, and runs no other scripts.
void BrowserTest::expect_pages_that_hold_recordings() {
  std::filesystem::copy_file(recording("08-zigzag.json"), path("whole.json"));
  ASSERT_EQ(run_words({"/bin/sh", "-c", "gzip -kn whole.json"}).status, 0);
  for (const char* const name : {"whole.json", "whole.json.gz"}) {
    run_well(Strings{"view", name, "--html", "page.html"});
    browser_->open("file://" + path("page.html"));
    EXPECT_EQ(browser_->evaluate("return until(() => document.body.dataset.opened);"), "yes")
        << name;
    EXPECT_EQ(browser_->complaints(), "");
  }
  write_text("evil.js", "document.body.dataset.evil = 'yes';");
  EXPECT_EQ(browser_->evaluate(
                "const script = document.createElement('script'); script.src = 'evil.js';"
                "const ended = new Promise((done) => { script.onload = script.onerror = done; });"
                "document.head.append(script); await ended; return document.body.dataset.evil;"),
            "");
}

TEST_F(BrowserTest, SiteViewerAndFiguresWork) {
  if (std::system("command -v chromium >/dev/null") != 0) GTEST_SKIP() << "no chromium here";
  if (!fs::exists(RINGSCOPE_SOURCE_DIR "/build/wasm/viz/browser/ringscope_web.js"))
    GTEST_SKIP()
        << "the viewer for browsers is not built: ./ringscope site DIR builds it, with emscripten";
  const std::string generator = RINGSCOPE_SOURCE_DIR "/build/site-env/bin/python";
  if (!fs::exists(generator)) GTEST_SKIP() << "the site's generator is not installed, as above";
  ASSERT_EQ(run_words({generator, RINGSCOPE_SOURCE_DIR "/app/site/build.py", RINGSCOPE_PROGRAM,
                       path("site"), path("work")})
                .status,
            0);
  browser_ = std::make_unique<Browser>(path("profile"));
  browser_->prefer("light");
  expect_pages();
  expect_text_without_scripts();
  expect_tab_order();
  expect_figures();
  expect_told_stories();
  expect_the_desktops_pictures();
  expect_keys_and_wheel();
  expect_the_address_to_restore_the_view();
  expect_a_gallery();
  expect_the_chosen_theme();
  expect_one_script_for_all();
  expect_scrolling_past_recordings();
  expect_dropped_files();
  expect_pages_that_hold_recordings();
}

}  // namespace
}  // namespace ringscope::browser_test
