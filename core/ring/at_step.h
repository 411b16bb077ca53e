// Where a failure happened: whatever goes wrong inside a step leaves it as a RunError that names
// the rank and the step.
#pragma once

#include <exception>
#include <new>

#include "core/base/error.h"

namespace ringscope {

template <class F>
void at_step(int rank, int step, F&& f) {
  try {
    f();
  } catch (const RunError& error) {
    if (error.rank() >= 0) throw;  // it says already where
    throw RunError(error.what(), rank, step);
  } catch (const std::bad_alloc&) {
    throw RunError("out of memory", rank, step);
  } catch (const std::exception& error) {
    throw RunError(error.what(), rank, step);
  }
}

}  // namespace ringscope
