// Clusters by hand: hops hidden and not, one node, one rank a node; and the ring of lesson 21, as the
// simulator has it.
#include <string>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  struct Case {
    const char* name;
    Cluster cluster;
    double flat, two_level;
  };
  for (const Case& c :
       {Case{"cheap hops", {2, 4, 10, 1, 2}, 80, 80},
        Case{"a slow network", {2, 4, 10, 1, 16}, 122, 80},
        Case{"a very slow network", {2, 4, 10, 1, 60}, 430, 100},
        Case{"slow inside as well", {2, 4, 10, 12, 60}, 430, 106},
        Case{"three nodes of two", {3, 2, 10, 1, 25}, 135, 70},
        Case{"one node", {1, 8, 10, 12, 99}, 94, 94},
        Case{"a rank a node", {4, 1, 10, 99, 16}, 58, 58},
        Case{"the ring of lesson 21", {2, 4, 0.2138, 0.0373, 0.3355}, 2.5623, 1.7104}}) {
    exercise.near(std::string(c.name) + ": flat", flat_ring(c.cluster), c.flat, 1e-3);
    exercise.near(std::string(c.name) + ": two-level", two_level_ring(c.cluster), c.two_level,
                  1e-3);
  }
  exercise.near("a straggler at 80 % among 8", speed_with_straggler(0.8, 8), 0.8, 1e-12);
  exercise.near("a straggler at 50 % among 100", speed_with_straggler(0.5, 100), 0.5, 1e-12);
  exercise.near("no straggler", speed_with_straggler(1, 8), 1, 1e-12);
}
