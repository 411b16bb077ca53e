// What the linker wrote into every program that this tree builds: where it looks for libraries, and
// what makes attacks on its memory harder. And what the launcher says where it can't build any.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <utility>

namespace ringscope::structure {
namespace {

// Return what a program's dynamic section lacks or has too much, or "". `section` is what
// `readelf -d` prints.
std::string complaint_about(const std::string& section) {
  const std::regex path(R"(\((RPATH|RUNPATH)\)[^\[]*\[([^\]]*)\])");
  const std::regex absolute("(/[^:$]+(:/[^:$]+)*)?");
  for (std::sregex_iterator it(section.begin(), section.end(), path), end; it != end; ++it)
    if (!std::regex_match((*it)[2].str(), absolute))
      return (*it)[1].str() + " [" + (*it)[2].str() + "]; absolute folders alone accepted";
  const std::regex flags(R"(\(FLAGS_1\)[^\n]*)");
  std::smatch line;
  if (!std::regex_search(section, line, flags)) return "no FLAGS_1";
  for (const char* flag : {"NOW", "PIE"})
    if (line.str().find(flag) == std::string::npos) return std::string("not ") + flag;
  return "";
}

// Return what a shell's command prints, and its exit status.
std::pair<std::string, int> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {"", -1};
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  const int status = ::pclose(pipe);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

TEST(Launcher, SaysInOneLineThatItCannotWrite) {
  std::string folder = testing::TempDir() + "ring scope-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::filesystem::copy(RINGSCOPE_SOURCE_DIR "/ringscope", folder);
  std::ofstream(folder + "/build") << "a file";
  for (const char* command : {"info", "package"}) {
    const auto [text, status] = output_of("'" + folder + "/ringscope' " + command + " 2>&1");
    EXPECT_EQ(text, "ringscope: can't write to " + folder + "/build\n") << command;
    EXPECT_EQ(status, 3) << command;
  }
  std::filesystem::remove_all(folder);
}

TEST(Programs, ComplaintsNameWhatIsWrong) {
  const std::string flags = " 0x000000006ffffffb (FLAGS_1)            Flags: NOW PIE\n";
  const auto with_path = [&](const std::string& path) {
    return complaint_about(" 0x000000000000001d (RUNPATH)  Library runpath: [" + path + "]\n" +
                           flags);
  };
  for (const char* right : {"", "/usr/lib/openmpi/lib", "/opt/a:/opt/b"})
    EXPECT_EQ(with_path(right), "");
  for (const char* wrong : {":", "/opt/a:", ":/opt/a", "/opt/a::/opt/b", ".", "lib", "$ORIGIN"})
    EXPECT_EQ(with_path(wrong),
              "RUNPATH [" + std::string(wrong) + "]; absolute folders alone accepted");
  EXPECT_EQ(complaint_about(flags), "");
  EXPECT_EQ(complaint_about("(FLAGS_1) Flags: PIE\n"), "not NOW");
  EXPECT_EQ(complaint_about("(FLAGS_1) Flags: NOW\n"), "not PIE");
  EXPECT_EQ(complaint_about("no dynamic section"), "no FLAGS_1");
}

TEST(Programs, LoadNothingFromTheCurrentFolder) {
  std::ifstream list(RINGSCOPE_PROGRAMS);
  int seen = 0;
  for (std::string program; std::getline(list, program);) {
    if (!std::filesystem::exists(program)) continue;  // built for other tests alone
    const auto [section, status] = output_of("readelf -dW '" + program + "'");
    ASSERT_EQ(status, 0) << "readelf (of binutils) failed for " << program;
    EXPECT_EQ(complaint_about(section), "") << program;
    ++seen;
  }
  EXPECT_GE(seen, 1);
}

}  // namespace
}  // namespace ringscope::structure
