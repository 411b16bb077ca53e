// How a lifeline comes about, and what strangers at the door can do: nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <future>
#include <thread>

#include "core/base/text.h"
#include "tests/core/processes/supervision/job.h"

namespace ringscope {
namespace {

using Line = std::unique_ptr<Lifeline>;

void expect_none(const RunError& error, int, bool) { ADD_FAILURE() << text_of(error); }

// All ranks of a run as threads of this process.
class ThreadedRun {
 public:
  explicit ThreadedRun(int world_size) : world_size_(world_size) {
    LifelineDoor door;
    invitation_ = door.invitation();
    lines_.push_back(std::async(std::launch::async, [this, door = std::move(door)]() mutable {
      return Lifeline::host(std::move(door), world_size_, kPatience, expect_none);
    }));
  }

  const std::string& invitation() const { return invitation_; }
  int port() const { return parse_number<int>(split(invitation_, '/')[1]).value(); }
  std::string join_request(int rank, int world_size) const {
    return join_request_with(std::string(split(invitation_, '/')[2]), rank, world_size);
  }
  static std::string join_request_with(const std::string& secret, int rank, int world_size) {
    MessageHead head;
    head.kind = MessageHead::Kind::join;
    head.rank = rank;
    head.number = world_size;
    head.text_bytes = secret.size();
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + secret;
  }
  // Return a connection to rank 0 that has sent `bytes`.
  Descriptor connection_that_sends(const std::string& bytes) const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return socket;
  }

  void join(int rank) {
    lines_.push_back(std::async(std::launch::async, [this, rank] {
      return Lifeline::join(invitation_, rank, world_size_, kPatience, expect_none);
    }));
  }
  void wait_for_last() { lines_.back().wait(); }
  // All have joined and leave together.
  void expect_whole() {
    std::vector<Line> lines;
    for (std::future<Line>& line : lines_) lines.push_back(line.get());
    std::vector<std::thread> threads;
    for (const Line& line : lines) threads.emplace_back([&line] { line->leave(); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int world_size_;
  std::string invitation_;
  std::vector<std::future<Line>> lines_;
};

bool is_dropped(const Descriptor& socket) {
  const timeval patience{static_cast<time_t>(kPatience), 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte;
  const ssize_t n = ::recv(socket.get(), &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

TEST(Joining, InAnyOrder) {
  std::vector<int> order = {1, 2, 3};
  do {
    ThreadedRun run(4);
    for (const int rank : order) run.join(rank);
    run.expect_whole();
  } while (std::next_permutation(order.begin(), order.end()));
  ThreadedRun(1).expect_whole();
}

TEST(Joining, BeforeRank0OpensIsPatient) {
  LifelineDoor door;
  std::future<Line> other = std::async(std::launch::async, [text = door.invitation()] {
    return Lifeline::join(text, 1, 2, kPatience, expect_none);
  });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  const Line line = Lifeline::host(std::move(door), 2, kPatience, expect_none);
  const Line of_other = other.get();
  std::thread leaves([&] { of_other->leave(); });
  line->leave();
  leaves.join();
}

TEST(Joining, StrangersAreDroppedAndDisturbNobody) {
  ThreadedRun run(3);
  std::vector<Descriptor> dropped;
  for (const std::string& said :
       {run.join_request_with(std::string(32, '0'), 1, 3),
        std::string("GET / HTTP/1.1\r\nHost: localhost:1234567890\r\nAccept: text/html\r\n\r\n"),
        std::string(1000, '\xff'), std::string(1000, '\0'),
        run.join_request(0, 3),  // a rank that cannot join
        run.join_request(3, 3), run.join_request(-1, 3)})
    dropped.push_back(run.connection_that_sends(said));
  // Those that say too little stay, and bother nobody.
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < 20; ++i)
    silent.push_back(run.connection_that_sends(run.join_request(2, 3).substr(0, i)));
  run.join(2);
  run.join(1);
  run.expect_whole();
  for (const Descriptor& socket : silent) EXPECT_TRUE(is_dropped(socket));
}

TEST(Joining, MoreStrangersThanThereIsRoomFor) {
  ThreadedRun run(2);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(run.connection_that_sends(""));
  EXPECT_TRUE(is_dropped(silent[0]));
  run.join(1);
  run.expect_whole();
}

// Strangers that come one after the other without a pause, for as long as the ranks meet.
TEST(Joining, AFloodOfStrangersOnlyTakesTime) {
  ThreadedRun run(4);
  std::vector<pid_t> flooding;
  for (int i = 0; i < 2; ++i) {
    flooding.push_back(::fork());
    if (flooding.back() != 0) continue;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(run.port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (std::deque<Descriptor> open;;) {
      open.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      (void)::connect(open.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
      if (open.size() > 400) open.pop_front();
    }
  }
  for (const int rank : {1, 2, 3}) run.join(rank);
  run.expect_whole();
  for (const pid_t child : flooding) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

// A rank is reachable by several addresses; a second connection of it is one too many.
TEST(Joining, ASecondOfARankIsDropped) {
  ThreadedRun run(3);
  run.join(1);
  run.wait_for_last();
  const Descriptor second = run.connection_that_sends(run.join_request(1, 3));
  run.join(2);
  run.expect_whole();
  char answer[1000];
  while (::recv(second.get(), answer, sizeof answer, 0) > 0) {
  }
  EXPECT_TRUE(is_dropped(second));
}

// What has the right port on some other host is not rank 0.
TEST(Joining, NobodyButRank0IsTrusted) {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&own), size), 0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  std::thread impostor([&] {
    std::vector<Connection> all_accepted;
    for (;;) {
      Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
      if (!accepted.is_open()) return;
      all_accepted.emplace_back(std::move(accepted));
      all_accepted.back().send({Message::Kind::welcome, "the wrong one"});
    }
  });
  const std::string invitation = fmt::format("127.0.0.1/{}/a/b", ntohs(own.sin_port));
  EXPECT_THROW(reach_rank_0(invitation, 1, 2, 0.5), RunError);
  ::shutdown(listener.get(), SHUT_RDWR);
  impostor.join();
}

TEST(Joining, OfADifferentRunIsNamed) {
  Job job(2, [](Place& place) -> std::string {
    Line line;
    if (place.rank == 0) {
      line = place.enter_alone();
    } else {
      line = Lifeline::join(place.invitation, 1, 3, kPatience, [](const RunError&, int, bool) {});
    }
    place.wait_for_failure();
  });
  EXPECT_EQ(job.outcome(0), "rank 1, step -1: it counts 3 ranks, rank 0 2 (speaks)");
}

TEST(Joining, OfNobodyEndsByTheTimeout) {
  std::string invitation = LifelineDoor().invitation();  // the door is closed again
  EXPECT_TRUE(run_error_of([&] {
                reach_rank_0(invitation, 1, 2, 0.3);
              }).starts_with("rank 1, step -1: cannot reach rank 0 at 127.0.0.1 (port "));
  for (const char* damaged : {"", "127.0.0.1", "127.0.0.1/1/a", "127.0.0.1/1/a/b/c"})
    EXPECT_EQ(run_error_of([&] { reach_rank_0(damaged, 1, 2, kPatience); }),
              "rank -1, step -1: the invitation of rank 0 came damaged");
}

// ---
// Where rank 0 listens.

std::string addresses_of(const std::vector<std::string>& cards) {
  return std::string(split(LifelineDoor(cards).invitation(), '/')[0]);
}

TEST(Door, OfRanksOnOneHostIsTheLoopback) {
  EXPECT_EQ(addresses_of({}), "127.0.0.1");
  EXPECT_EQ(addresses_of({host_card(), host_card()}), "127.0.0.1");
  const std::string invitation = LifelineDoor().invitation();
  for (const char c : invitation) EXPECT_TRUE(c > ' ' && c < 127) << invitation;
  EXPECT_NE(split(invitation, '/')[2], split(invitation, '/')[3]);
  EXPECT_NE(split(invitation, '/')[2], split(LifelineDoor().invitation(), '/')[2]);
}

TEST(Door, OfRanksOnSeveralHostsIsTheInterfaceThatLeadsToThem) {
  const std::string card = host_card();
  const std::vector<std::string_view> words = split(card, ' ');
  if (words.size() < 2) GTEST_SKIP() << "this host is on no network";
  std::string all;
  for (std::size_t i = 1; i < words.size(); ++i)
    all += (i > 1 ? "," : "") + std::string(words[i].substr(0, words[i].find('/')));
  // A host elsewhere, and one that has no other addresses than this one's, as of bridges.
  EXPECT_EQ(addresses_of({card, "elsewhere 198.51.100.7/24"}), all);
  EXPECT_EQ(addresses_of({card, "elsewhere" + card.substr(card.find(' '))}), all);

  const std::string mine(words[1].substr(0, words[1].find('/')));
  if (mine.find(':') != std::string::npos || words[1].ends_with("/32"))
    GTEST_SKIP() << "no neighbour's address is known here";
  std::string neighbour = mine;
  neighbour.back() = neighbour.back() == '1' ? '2' : '1';
  const std::string card_of_neighbour = "elsewhere 198.51.100.7/24 " + neighbour + "/24";
  EXPECT_EQ(addresses_of({card, card_of_neighbour}), mine);
  EXPECT_EQ(addresses_of({card, card_of_neighbour, "third 203.0.113.8/24"}), all);
}

}  // namespace
}  // namespace ringscope
