// What a drawn mutant asks while it runs: is it the one that is switched on? Included by the files that
// mutants.py has rewritten; no other tree sees it.
//
// RINGSCOPE_MUTANT=ID     the mutant that is switched on; none without it
// RINGSCOPE_REACHED=FILE  a file of kMutants bytes; byte ID becomes 1 when code with mutant ID runs
#pragma once

#if defined(__cplusplus)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

namespace ringscope::mutation {

inline constexpr int kMutants = 4096;

struct Switchboard {
  int active = -1;
  volatile unsigned char* reached;

  Switchboard() {
    static unsigned char nowhere[kMutants];
    reached = nowhere;
    if (const char* id = std::getenv("RINGSCOPE_MUTANT")) active = std::atoi(id);
    const char* path = std::getenv("RINGSCOPE_REACHED");
    const int file = path ? open(path, O_RDWR) : -1;
    if (file < 0) return;
    void* const memory = mmap(nullptr, kMutants, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) reached = static_cast<unsigned char*>(memory);
    close(file);
  }
};

inline bool is_on(int id) {
  static Switchboard board;
  board.reached[id] = 1;
  return board.active == id;
}

// Never on while the compiler evaluates: what it computes stays as it is.
constexpr bool mutant(int id) { return std::is_constant_evaluated() ? false : is_on(id); }

}  // namespace ringscope::mutation
#endif
