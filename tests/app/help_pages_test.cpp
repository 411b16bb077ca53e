// What --help says becomes a man page and completions: they know every command and flag, and shells
// accept them.
#include <gtest/gtest.h>

#include <regex>

#include "tests/app/program.h"

namespace ringscope {
namespace help_pages_test {

class HelpPagesTest : public ProgramTest {
 protected:
  // The words that `pattern`'s first group matches in `text`.
  static std::set<std::string> found(const std::string& text, const char* pattern) {
    std::set<std::string> words;
    const std::regex regex(pattern);
    for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
      words.insert((*at)[1]);
    return words;
  }
  std::set<std::string> commands() const {
    const std::string help = run_well("--help");
    return found(help.substr(help.find("Subcommands:")), "\n  ([a-z]+) ");
  }
  std::set<std::string> flags_of(const std::string& command) const {
    return found(run_well({command, "--help"}), "\n  (--[a-z0-9-]+)");
  }
};

TEST_F(HelpPagesTest, NameEveryCommandAndFlag) {
  const std::string man = run_well("help man"), bash = run_well("help bash"),
                    zsh = run_well("help zsh");
  ASSERT_GT(commands().size(), 8u);
  for (const std::string& command : commands()) {
    SCOPED_TRACE(command);
    EXPECT_NE(man.find(".SS \"ringscope " + command + "\""), std::string::npos);
    const std::size_t in_bash = bash.find("    " + command + ") words=\"");
    const std::size_t in_zsh = zsh.find("    " + command + ")\n");
    ASSERT_TRUE(in_bash != std::string::npos && in_zsh != std::string::npos);
    const std::string bash_line = bash.substr(in_bash, bash.find('\n', in_bash) - in_bash);
    const std::string zsh_lines = zsh.substr(in_zsh, zsh.find(";;", in_zsh) - in_zsh);
    for (const std::string& flag : flags_of(command)) {
      EXPECT_NE(bash_line.find(flag + " "), std::string::npos) << flag;
      EXPECT_NE(zsh_lines.find("'" + flag + "["), std::string::npos) << flag;
      EXPECT_NE(man.find("\\fB" + std::regex_replace(flag, std::regex("-"), "\\-") + "\\fR"),
                std::string::npos)
          << flag;
    }
  }
}

TEST_F(HelpPagesTest, BashCompletesCommandsFlagsAndValues) {
  write_text("completion", run_well("help bash"));
  const auto completed = [&](const std::string& words, int at) {
    const std::string command = "bash -c 'source \"" + path("completion") + "\"; COMP_WORDS=(" +
                                words + "); COMP_CWORD=" + std::to_string(at) +
                                "; _ringscope; echo \"${COMPREPLY[*]}\"' >'" + path("reply") + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return contents_of(path("reply"));
  };
  EXPECT_EQ(completed("ringscope sim", 1), "simulate\n");
  EXPECT_EQ(completed("ringscope run --parti", 2), "--partition --partition-q\n");
  EXPECT_EQ(completed("ringscope run --partition \"\"", 3),
            "contiguous striped zigzag fold searched\n");
  EXPECT_EQ(completed("ringscope run --seqlen \"\"", 3), "\n");
  EXPECT_EQ(completed("ringscope run --dtype b", 3), "bf16\n");
}

TEST_F(HelpPagesTest, HelpNamesAPageThatIsThere) {
  for (const std::string& command : commands()) {
    const std::set<std::string> pages =
        found(run_well({command, "--help"}), "In full: ([A-Za-z/]+[.]md)");
    ASSERT_EQ(pages.size(), 1u) << command;
    EXPECT_TRUE(std::filesystem::exists(RINGSCOPE_SOURCE_DIR "/" + *pages.begin())) << command;
  }
}

}  // namespace help_pages_test
}  // namespace ringscope
