#include "core/ring/scheme_seams.h"

#include <string>

#include "core/base/error.h"
#include "core/ring/seams.h"

namespace ringscope {

namespace {

[[noreturn]] void lacks(const char* what) {
  throw RunError(std::string("this backend has no ") + what);
}

}  // namespace

void SchemeBackend::use_heads(const HeadShare&) { lacks("shares of heads"); }

void SchemeBackend::await(const StepInfo&, Payload, const Completion& after) { wait_for(after); }

Completion SchemeBackend::merge(const StepInfo&, const QueryBlock&, const SoftmaxState&,
                                const SoftmaxState&, const Completion&) {
  lacks("merges of states");
}

Completion SchemeBackend::add_dq(const StepInfo&, const QueryBlock&, const BackwardState&,
                                 const BackwardState&, const Completion&) {
  lacks("sums of query gradients");
}

}  // namespace ringscope
