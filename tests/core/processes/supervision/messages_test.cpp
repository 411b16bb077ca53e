// The messages of a lifeline, and what a connection makes of bytes that are not.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "core/processes/supervision/meeting.h"

namespace ringscope {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    near = std::make_unique<Connection>(Descriptor(ends[0]));
    far = Descriptor(ends[1]);
  }
  void say(const std::string& bytes) const {
    ASSERT_EQ(::send(far.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // Return whether more may come.
  bool read() {
    return near->read([&](const Message& message) { heard.push_back(message); });
  }

  std::unique_ptr<Connection> near;
  Descriptor far;
  std::vector<Message> heard;
};

Message sample() {
  Message message(Message::Kind::verdict, "its process ended");
  message.rank = 3;
  message.step = 7;
  message.pass = 1;
  message.waiting_for = 2;
  message.number = 3;
  message.progress = ~std::uint64_t{0};
  return message;
}

// The bytes of a message as they travel.
std::string bytes_of(const Message& message) {
  Pair pair;
  pair.near->send(message);
  char bytes[2 * Message::kMaxText];
  const ssize_t n = ::recv(pair.far.get(), bytes, sizeof bytes, 0);
  return {bytes, static_cast<std::size_t>(n)};
}

TEST(Messages, ArriveAsTheyWereSentInWhateverPieces) {
  const std::string bytes = bytes_of(sample());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    Pair pair;
    pair.say(bytes.substr(0, cut));
    EXPECT_TRUE(pair.read());
    EXPECT_TRUE(pair.heard.empty()) << cut;
    pair.say(bytes.substr(cut) + bytes);
    EXPECT_TRUE(pair.read());
    ASSERT_EQ(pair.heard.size(), 2u) << cut;
    for (const Message& heard : pair.heard) EXPECT_EQ(bytes_of(heard), bytes);
  }
}

TEST(Messages, LongTextsAreCut) {
  Message longest = sample();
  longest.text.assign(1 << 20, 'x');
  Pair pair;
  pair.say(bytes_of(longest));
  EXPECT_TRUE(pair.read());
  ASSERT_EQ(pair.heard.size(), 1u);
  EXPECT_EQ(pair.heard[0].text, std::string(Message::kMaxText, 'x'));
}

TEST(Messages, AnythingElseEndsTheConnectionButNotWhatCameBefore) {
  Message unknown = sample(), too_long = sample();
  unknown.kind = static_cast<Message::Kind>(99);
  std::string long_bytes = bytes_of(too_long);
  const std::uint64_t lie = Message::kMaxText + 1;
  long_bytes.replace(offsetof(MessageHead, text_bytes), sizeof lie,
                     reinterpret_cast<const char*>(&lie), sizeof lie);
  for (const std::string& other :
       {bytes_of(unknown), long_bytes, std::string(sizeof(MessageHead), '\xff')}) {
    Pair pair;
    pair.say(bytes_of(sample()) + other);
    EXPECT_FALSE(pair.read());
    EXPECT_EQ(pair.heard.size(), 1u);
  }
}

TEST(Messages, ToNobodyAreNoSignalAndReadingGoesOn) {
  Pair pair;
  pair.say(bytes_of(sample()));
  pair.far = Descriptor();
  pair.near->send(sample());
  EXPECT_FALSE(pair.read());
  EXPECT_EQ(pair.heard.size(), 1u);
}

// A peer that does not read holds up nobody, and gets all when it reads on.
TEST(Messages, WaitForAPeerThatDoesNotReadWithoutHoldingUpTheSender) {
  Pair pair;
  Connection far(std::move(pair.far));
  int sent = 0, arrived = 0;
  for (; !pair.near->has_unsent(); ++sent) pair.near->send(sample());
  while (arrived < sent) {
    pair.near->write();
    ASSERT_TRUE(far.read([&](const Message&) { ++arrived; }));
  }
  EXPECT_FALSE(pair.near->has_unsent());
}

}  // namespace
}  // namespace ringscope
