#include "app/lesson_console.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "app/terminal.h"

namespace ringscope {
namespace {

// Not a terminal: 80 x 24.
winsize size_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// One byte from stdin; none at its end.
std::optional<char> read_byte() {
  char byte = 0;
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 1) return byte;
    if (count == 0 || errno != EINTR) return std::nullopt;
  }
}

// Keys come one by one and are not echoed, until it goes. Ctrl-C is one of them, so that no way out
// leaves the terminal like this.
class KeyByKey {
 public:
  KeyByKey() : good_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!good_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~KeyByKey() {
    if (good_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;

 private:
  termios before_{};
  bool good_;
};

}  // namespace

TerminalConsole::TerminalConsole(bool pauses) {
  const bool at_terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* const term = std::getenv("TERM");
  colour_ =
      at_terminal && !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
  somebody_reads_ = pauses && at_terminal && ::isatty(STDIN_FILENO) == 1;
}

void TerminalConsole::write(std::string_view text) { print_out(text); }

int TerminalConsole::width() const { return size_of_terminal().ws_col; }

int TerminalConsole::height() const { return size_of_terminal().ws_row; }

bool TerminalConsole::wait_for_key() {
  // A Ctrl-D that was pressed before keys came one by one reads as a zero.
  constexpr char kCtrlC = 3, kCtrlD = 4, kEarlyCtrlD = 0;
  const KeyByKey keys;
  for (;;) {
    const std::optional<char> key = read_byte();
    if (!key || *key == 'q' || *key == 'Q' || *key == kCtrlC) return false;
    if (*key == kCtrlD || *key == kEarlyCtrlD) return false;
    if (*key == ' ' || *key == '\n' || *key == '\r') return true;
  }
}

std::optional<std::string> TerminalConsole::read_line() {
  std::string line;
  for (;;) {
    const std::optional<char> byte = read_byte();
    if (!byte) return line.empty() ? std::nullopt : std::optional(line);
    if (*byte == '\n') return line;
    line += *byte;
  }
}

}  // namespace ringscope
