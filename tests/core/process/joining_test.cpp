// How a lifeline comes about, and what strangers at the door can do: nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <thread>
#include <tuple>

#include "core/process/invitation.h"
#include "core/process/socket.h"
#include "core/process/wire.h"
#include "tests/core/process/job.h"

namespace ringscope {
namespace {

using Line = std::unique_ptr<Lifeline>;

// All ranks of a run as threads of this process.
class ThreadedRun {
 public:
  explicit ThreadedRun(int world_size) : world_size_(world_size) {
    LifelineDoor door;
    invitation_ = door.invitation();
    lines_.push_back(std::async(std::launch::async, [this, door = std::move(door)]() mutable {
      return Lifeline::host(std::move(door), world_size_, kPatience);
    }));
  }

  const std::string& invitation() const { return invitation_; }
  void join(int rank) {
    lines_.push_back(std::async(std::launch::async, [this, rank] {
      return Lifeline::join(invitation_, rank, world_size_, kPatience);
    }));
  }
  void wait_for_last() { lines_.back().wait(); }
  // All have joined and can speak to each other.
  void expect_whole() {
    std::vector<Line> lines;
    for (std::future<Line>& line : lines_) lines.push_back(line.get());
    std::vector<std::thread> threads;
    std::vector<std::string> gathered;
    for (const Line& line : lines)
      threads.emplace_back([&gathered, &line] {
        auto all = line->gather("of " + std::to_string(line->rank()));
        if (line->rank() == 0) gathered = std::move(all);
        EXPECT_EQ(line->broadcast(line->rank() == 0 ? "to all" : "to none"), "to all");
        line->leave();
        EXPECT_FALSE(line->failure().has_value());
        EXPECT_EQ(line->is_speaker(), line->rank() == 0);
      });
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < world_size_; ++rank)
      EXPECT_EQ(gathered.at(static_cast<std::size_t>(rank)), "of " + std::to_string(rank));
  }

 private:
  int world_size_;
  std::string invitation_;
  std::vector<std::future<Line>> lines_;
};

// Return a connection to rank 0 that has sent `bytes`.
Descriptor connection_that_sends(const Invitation& invitation, const std::string& bytes) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(invitation.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  return socket;
}

bool is_dropped(const Descriptor& socket, double seconds = kPatience) {
  const timeval patience{static_cast<time_t>(seconds), 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte;
  const ssize_t n = ::recv(socket.get(), &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

std::string join_request(const Invitation& invitation, int rank, int world_size) {
  return wire::frame(
      wire::Type::join_request,
      wire::pack(wire::JoinRequest{invitation.join_secret, wire::kVersion, rank, world_size}));
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
    return Lifeline::join(text, 1, 2, kPatience);
  });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  const Line line = Lifeline::host(std::move(door), 2, kPatience);
  EXPECT_EQ(other.get()->rank(), 1);
}

TEST(Joining, StrangersAreDroppedAndDisturbNobody) {
  ThreadedRun run(3);
  const Invitation invitation = invitation_from(run.invitation());
  Invitation wrong = invitation;
  wrong.join_secret[15] ^= 1;
  const std::string right = join_request(invitation, 2, 3);
  std::vector<Descriptor> dropped;
  dropped.push_back(connection_that_sends(invitation, join_request(wrong, 1, 3)));
  dropped.push_back(
      connection_that_sends(invitation, "GET / HTTP/1.1\r\nHost: localhost:1234567890\r\n\r\n"));
  dropped.push_back(connection_that_sends(invitation, std::string(1000, '\xff')));
  dropped.push_back(connection_that_sends(invitation, std::string(1000, '\0')));
  dropped.push_back(connection_that_sends(
      invitation, join_request(invitation, 0, 3)));  // a rank that cannot join
  dropped.push_back(connection_that_sends(invitation, join_request(invitation, 3, 3)));
  dropped.push_back(connection_that_sends(invitation, join_request(invitation, -1, 3)));
  // Those that say too little stay, and bother nobody.
  std::vector<Descriptor> silent;
  for (int i = 0; i < 20; ++i)
    silent.push_back(
        connection_that_sends(invitation, right.substr(0, static_cast<std::size_t>(i))));
  for (const Descriptor& socket : dropped) EXPECT_TRUE(is_dropped(socket));
  run.join(2);
  run.join(1);
  run.expect_whole();
  for (const Descriptor& socket : silent) EXPECT_TRUE(is_dropped(socket));
}

TEST(Joining, MoreStrangersThanThereIsRoomFor) {
  ThreadedRun run(2);
  const Invitation invitation = invitation_from(run.invitation());
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connection_that_sends(invitation, ""));
  EXPECT_TRUE(is_dropped(silent[0], 4));  // and not only since it is silent
  run.join(1);
  run.expect_whole();
}

// A rank is reachable by several addresses; a second connection of it is one too many.
TEST(Joining, ASecondOfARankIsDropped) {
  ThreadedRun run(3);
  const Invitation invitation = invitation_from(run.invitation());
  run.join(1);
  run.wait_for_last();
  EXPECT_TRUE(is_dropped(connection_that_sends(invitation, join_request(invitation, 1, 3))));
  run.join(2);
  run.expect_whole();
}

// What has the right port on some other host is not rank 0.
TEST(Joining, NobodyButRank0IsTrusted) {
  const Listener listener = listen_on_all_addresses();
  const Invitation invitation = invitation_to_this_host(listener.port, listener.takes_ipv6);
  std::atomic<bool> is_over = false;
  std::thread impostor([&] {
    const std::string lie =
        wire::frame(wire::Type::welcome, wire::Packer().secret(invitation.join_secret).take());
    std::vector<Descriptor> all_accepted;
    while (!is_over) {
      if (auto accepted = accept_at(listener.socket.get())) {
        (void)!::send(accepted->get(), lie.data(), lie.size(), MSG_NOSIGNAL);
        all_accepted.push_back(std::move(*accepted));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  expect_contains(run_error_of([&] { Lifeline::join(to_text(invitation), 1, 2, kPatience); }),
                  "rank 0, step -1: rank 1 cannot reach it at 127.0.0.1");
  is_over = true;
  impostor.join();
}

TEST(Joining, OfADifferentRunIsNamed) {
  LifelineDoor door;
  std::future<void> other = std::async(std::launch::async, [text = door.invitation()] {
    EXPECT_THROW(Lifeline::join(text, 1, 3, 1), RunError);
  });
  EXPECT_EQ(run_error_of([&] { Lifeline::host(std::move(door), 2, kPatience); }),
            "rank 1, step -1: it counts 3 ranks, rank 0 2");
}

TEST(Joining, OfNobodyEndsByTheTimeout) {
  LifelineDoor door;  // nobody hosts
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(Lifeline::join(door.invitation(), 1, 2, 0.3), RunError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

TEST(Invitation, SaysEverythingInOneLine) {
  const Invitation invitation = invitation_to_this_host(41234, true);
  const std::string text = to_text(invitation);
  for (const char c : text) EXPECT_TRUE(c > ' ' && c < 127) << text;
  const Invitation again = invitation_from(text);
  EXPECT_EQ(again.port, 41234);
  EXPECT_EQ(std::tie(again.addresses, again.join_secret, again.answer),
            std::tie(invitation.addresses, invitation.join_secret, invitation.answer));
  EXPECT_NE(again.join_secret, again.answer);
  EXPECT_NE(invitation_to_this_host(1, true).join_secret, invitation.join_secret);
  EXPECT_EQ(invitation.addresses[0], "127.0.0.1");
  for (const std::string& address : invitation.addresses)
    EXPECT_FALSE(address.starts_with("fe80")) << address;
}

TEST(Invitation, DamagedIsRefused) {
  const std::string text = to_text(invitation_to_this_host(41234, true));
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(invitation_from(text.substr(0, size)), RunError) << size;
  for (const char* port : {"", "0", "-1", "65536", "1x", "99999999999"}) {
    std::string changed = text;
    changed.replace(changed.find("/41234/") + 1, 5, port);
    EXPECT_THROW(invitation_from(changed), RunError) << port;
  }
  EXPECT_THROW(invitation_from(text + "0"), RunError);
  EXPECT_THROW(invitation_from(text + "/"), RunError);
  EXPECT_THROW(invitation_from(text.substr(0, text.size() - 1) + "g"), RunError);
}

}  // namespace
}  // namespace ringscope
