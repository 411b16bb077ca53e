// Two hosts on one machine: network namespaces with a name each, joined by a veth pair whose rate a
// token bucket (tc tbf) limits, both ways. They need root, and are gone with the process that made
// them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/app/program.h"

namespace ringscope {

class TwoHosts {
 public:
  TwoHosts() = default;
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;

  // Makes them, with a link that nothing limits. Returns why they can't be had, or "".
  std::string make(const std::string& folder);
  // Lets no more than `bytes_per_s` pass each way from now on, headers not counted. Returns what is
  // wrong, or "".
  std::string limit(double bytes_per_s) const;

  // What starts Open MPI's mpirun on the first host, for `ranks_each` ranks on each of the two, which
  // then reach each other by the link alone.
  Strings mpirun(int ranks_each) const;

 private:
  std::string run(const Strings& words) const;       // why it failed, or ""
  Strings on(int host, const Strings& words) const;  // to be run there

  std::string folder_;
  pid_t keepers_[2] = {0, 0};  // processes that keep the namespaces
};

}  // namespace ringscope
