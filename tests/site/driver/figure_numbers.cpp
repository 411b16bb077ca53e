// Prints the numbers of a figure: figure_numbers NAME ARGUMENT…
#include <cstdio>

#include "lessons/figures/figures.h"

int main(int count, char** words) {
  std::puts(ringscope::lessons::figure_numbers(words[1], {words + 2, words + count}).c_str());
}
