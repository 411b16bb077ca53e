// What a page calls for the numbers of its figures. Only the build for browsers has it (viz/browser/CMakeLists.txt).
#include <emscripten.h>

#include <string>
#include <vector>

#include "core/base/text.h"
#include "lessons/figures/figures.h"

// Return the numbers of a figure as JSON, until the next call. `arguments` has one a line.
extern "C" EMSCRIPTEN_KEEPALIVE const char* ringscope_figure(const char* name,
                                                             const char* arguments) {
  static std::string reply;
  std::vector<std::string> words;
  if (*arguments != '\0')
    for (const std::string_view word : ringscope::split(arguments, '\n')) words.emplace_back(word);
  reply = ringscope::lessons::figure_numbers(name, words);
  return reply.c_str();
}
