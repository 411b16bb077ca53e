#include "tests/mpi_link/two_hosts.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>

namespace ringscope {
namespace {

constexpr const char* kNames[] = {"ring-a", "ring-b"};
constexpr const char* kDevices[] = {"toward-b", "toward-a"};
constexpr const char* kAddresses[] = {"10.77.0.1", "10.77.0.2"};
constexpr const char* kNet = "10.77.0.0/24";

// Of a frame of 1514 bytes, Ethernet, IP and TCP headers take 66.
constexpr double kFrameBytesPerByte = 1514.0 / 1448;

// A process in new namespaces, which does nothing but keep them; -errno when it can't have them.
pid_t start_keeper(const char* name) {
  int pipe[2];
  if (::pipe(pipe) != 0) return -errno;
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int error = ::unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 ? 0 : errno;
    if (error == 0 && ::sethostname(name, std::strlen(name)) != 0) error = errno;
    if (::write(pipe[1], &error, sizeof error) != sizeof error || error != 0) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(pipe[1]);
  int error = 0;
  if (keeper < 0 || ::read(pipe[0], &error, sizeof error) != sizeof error) error = ECHILD;
  ::close(pipe[0]);
  if (error == 0) return keeper;
  if (keeper > 0) ::waitpid(keeper, nullptr, 0);
  return -error;
}

}  // namespace

TwoHosts::~TwoHosts() {
  for (const pid_t keeper : keepers_) {
    if (keeper <= 0) continue;
    ::kill(keeper, SIGKILL);
    ::waitpid(keeper, nullptr, 0);
  }
}

std::string TwoHosts::make(const std::string& folder) {
  folder_ = folder;
  for (const int host : {0, 1}) {
    const pid_t keeper = start_keeper(kNames[host]);
    if (keeper < 0) return std::string("no network namespaces: ") + std::strerror(-keeper);
    keepers_[host] = keeper;
  }
  std::vector<Strings> steps = {{"ip", "link", "add", kDevices[0], "netns",
                                 std::to_string(keepers_[0]), "type", "veth", "peer", "name",
                                 kDevices[1], "netns", std::to_string(keepers_[1])}};
  for (const int host : {0, 1}) {
    const std::string address = std::string(kAddresses[host]) + "/24";
    steps.push_back(on(host, {"ip", "address", "add", address, "dev", kDevices[host]}));
    for (const char* device : {kDevices[host], "lo"})
      steps.push_back(on(host, {"ip", "link", "set", device, "up"}));
  }
  for (const Strings& step : steps)
    if (const std::string why = run(step); !why.empty()) return why;
  if (const std::string why = limit(1e9); !why.empty()) return why;
  // Open MPI starts its daemon on the other host by something that is called like ssh.
  std::ofstream agent(folder_ + "/agent");
  agent << "#!/bin/sh\nshift\nexec nsenter -t " << keepers_[1] << " -n -u sh -c \"$*\"\n";
  agent.close();
  std::filesystem::permissions(folder_ + "/agent", std::filesystem::perms::owner_all);
  return "";
}

std::string TwoHosts::limit(double bytes_per_s) const {
  for (const int host : {0, 1}) {
    // A queue in which nothing is ever dropped: then a transfer takes as long as its bytes do.
    const std::string why =
        run(on(host, {"tc", "qdisc", "replace", "dev", kDevices[host], "root", "tbf", "rate",
                      fmt::format("{:.0f}bit", 8 * kFrameBytesPerByte * bytes_per_s), "burst",
                      "64kb", "limit", "64mb"}));
    if (!why.empty()) return why;
  }
  return "";
}

Strings TwoHosts::mpirun(int ranks_each) const {
  const std::string count = std::to_string(ranks_each);
  Strings words =
      on(0, {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
             "mpirun", "--bind-to", "none", "-np", std::to_string(2 * ranks_each), "-host",
             fmt::format("{}:{},{}:{}", kNames[0], count, kAddresses[1], count)});
  const std::pair<std::string, std::string> parameters[] = {
      {"plm_rsh_agent", folder_ + "/agent"},
      {"orte_tmpdir_base", folder_},
      {"pml", "ob1"},
      {"btl", "tcp,self"},
      {"btl_tcp_if_include", kNet},
      {"oob_tcp_if_include", kNet},
      // Two ranks talk both ways over one connection. Where a block is written to it in one piece, the
      // word that the other block may come waits behind it, and they go one after the other; so they
      // go in fragments.
      {"btl_tcp_flags", "send"}};
  for (const auto& [name, value] : parameters) words = words + Strings{"--mca", name, value};
  return words;
}

std::string TwoHosts::run(const Strings& words) const {
  const std::string said = folder_ + "/said";
  std::string command;
  for (const std::string& word : words) command += word + " ";
  const int status = std::system((command + ">" + said + " 2>&1 </dev/null").c_str());
  if (status == 0) return "";
  std::string what = contents_of(said);
  return command + "failed: " + what.substr(0, what.find('\n'));
}

Strings TwoHosts::on(int host, const Strings& words) const {
  return Strings{"/usr/bin/nsenter", "-t", std::to_string(keepers_[host]), "-n", "-u"} + words;
}

}  // namespace ringscope
