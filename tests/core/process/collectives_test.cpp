// Messages of all sizes, and the frames that they go in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "core/process/socket.h"
#include "core/process/wire.h"
#include "tests/core/process/job.h"

namespace ringscope {
namespace {

std::string text_of_size(std::size_t size, int seed) {
  std::string pattern(65521, '\0');  // does not repeat with the frames
  for (std::size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = static_cast<char>((i * 2654435761u + static_cast<unsigned>(seed)) >> 7);
  std::string text;
  text.reserve(size);
  while (text.size() < size) text.append(pattern, 0, std::min(pattern.size(), size - text.size()));
  return text;
}

TEST(Collectives, KeepTheirOrderAtAnySize) {
  Job job(3, [](Place& place) -> std::string {
    const auto line = place.enter();
    for (const std::size_t size : {0, 1, 65535, 65536, 65537, 131072, 1000000}) {
      const auto all = line->gather(text_of_size(size, place.rank));
      if (place.rank == 0)
        for (int r = 0; r < 3; ++r)
          if (all.at(static_cast<std::size_t>(r)) != text_of_size(size, r))
            return fmt::format("gathered wrong from {} at {}", r, size);
      if (line->broadcast(place.rank == 0 ? text_of_size(size, 7) : "") != text_of_size(size, 7))
        return fmt::format("broadcast wrong at {}", size);
    }
    line->leave();
    return "good";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.outcome(rank), "good");
}

// Both ways at once, far more than sockets hold; leave() is not faster than what was sent before it.
TEST(Collectives, LargeMessagesDoNotBlock) {
  Job job(3, [](Place& place) -> std::string {
    const auto line = place.enter();
    const std::string small = text_of_size(4 << 20, 1), large = text_of_size(32 << 20, 2);
    if (line->broadcast(place.rank == 0 ? small : "") != small) return "broadcast wrong";
    const auto all = line->gather(place.rank == 1 ? large : small);
    if (place.rank == 0 && (all.at(1) != large || all.at(2) != small)) return "gathered wrong";
    line->leave();
    return "good";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.outcome(rank), "good");
}

// A rank may be ahead of rank 0 by some messages.
TEST(Collectives, SendersDoNotWait) {
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter();
    std::string seen;
    if (place.rank == 1) {
      for (const char* each : {"a", "b", "c"}) line->gather(each);
      place.mark();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      for (int i = 0; i < 3; ++i) seen += line->gather("").at(1);
    }
    line->leave();
    return seen;
  });
  job.wait_for_mark(1);
  EXPECT_EQ(job.outcome(0), "abc");
  EXPECT_EQ(job.outcome(1), "");
}

// Nobody is gone before all have come to the end.
TEST(Collectives, LeavingIsTogether) {
  Job job(3, [](Place& place) -> std::string {
    const auto line = place.enter();
    const auto begin = std::chrono::steady_clock::now();
    if (place.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    line->leave();
    line->leave();  // once more does nothing
    const auto took = std::chrono::steady_clock::now() - begin;
    return took < std::chrono::milliseconds(250) ? "too early" : "together";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.outcome(rank), "together");
}

TEST(Wire, RestoresWhatWasPacked) {
  wire::Status status;
  status.where = {~std::uint64_t{0}, Pass::backward, 7, 3};
  status.watch = 5;
  status.is_collecting = true;
  const wire::Status again = wire::unpack<wire::Status>(wire::pack(status));
  const auto& [progress, pass, step, waiting_for] = again.where;
  EXPECT_EQ(std::tuple(progress, pass, step, waiting_for),
            std::tuple(~std::uint64_t{0}, Pass::backward, 7, 3));
  EXPECT_EQ(std::tuple(again.watch, again.is_watched, again.is_collecting),
            std::tuple(5u, false, true));
  const wire::Failure failure =
      wire::unpack<wire::Failure>(wire::pack(wire::Failure{-1, 2, true, "why"}));
  EXPECT_EQ(text_of(failure.error()), "rank -1, step 2: why");
  EXPECT_TRUE(failure.is_gone);
  // However long the reason, it fits into a frame.
  const wire::Failure longest{0, 0, false, std::string(1 << 20, 'x')};
  EXPECT_LE(wire::pack(longest).size(), wire::kMaxPayload);
}

TEST(Wire, TrustsNothing) {
  const std::string status = wire::pack(wire::Status{});
  for (std::size_t size = 0; size < status.size(); ++size)
    EXPECT_THROW(wire::unpack<wire::Status>(status.substr(0, size)), wire::Malformed) << size;
  EXPECT_THROW(wire::unpack<wire::Status>(status + "x"), wire::Malformed);
  for (std::size_t i = 8; i < 32; ++i) {  // pass, step and waiting_for far out of range
    std::string changed = status;
    changed[i] = '\xff';
    if (i % 8 < 4 && i >= 16) continue;  // could be
    EXPECT_THROW(wire::unpack<wire::Status>(changed), wire::Malformed) << i;
  }
  EXPECT_THROW(wire::unpack<wire::Failure>(
                   wire::Packer().number(0).number(0).number(0).number(~0ull).take()),
               wire::Malformed);

  const std::string frame = wire::frame(wire::Type::bye, "abc");
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_FALSE(wire::first_frame(frame.substr(0, size)).has_value()) << size;
  EXPECT_EQ(wire::first_frame(frame + "more")->payload, "abc");
  EXPECT_EQ(wire::first_frame(frame + "more")->bytes, frame.size());
  EXPECT_THROW(wire::first_frame(std::string("\x01\x00\x01\x00\x00", 5)), wire::Malformed);
  EXPECT_THROW(wire::first_frame(std::string("\xff\xff\xff\xff\x00", 5)), wire::Malformed);
  EXPECT_THROW(wire::first_frame(std::string("\x00\x00\x00\x00\x63", 5)), wire::Malformed);
}

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    near = std::make_unique<Connection>(Descriptor(ends[0]));
    far = Descriptor(ends[1]);
  }
  std::unique_ptr<Connection> near;
  Descriptor far;
};

// A sign of life does not wait behind a long message.
TEST(Wire, ShortFramesOvertakeLongMessages) {
  Pair pair;
  Connection far(std::move(pair.far));
  const auto message = std::make_shared<const std::string>(8 << 20, 'x');
  pair.near->send_message(wire::Type::message_part, wire::Type::message_end, message);
  pair.near->send(wire::Type::status, "alive");
  std::size_t before = 0, size = 0;
  bool is_complete = false;
  while (!is_complete) {
    pair.near->write();
    ASSERT_TRUE(far.read([&](wire::Type type, std::string_view payload) {
      if (type == wire::Type::status) before = size;
      if (type != wire::Type::status) size += payload.size();
      is_complete = is_complete || type == wire::Type::message_end;
    }));
  }
  EXPECT_EQ(size, message->size());
  EXPECT_LT(before, message->size() / 2);
}

TEST(Wire, WhatWasSaidBeforeTheEndIsStillRead) {
  Pair pair;
  const std::string said = wire::frame(wire::Type::bye, "") + "\xff\xff\xff\xff\xff";
  ASSERT_GT(::send(pair.far.get(), said.data(), said.size(), 0), 0);
  int frames = 0;
  EXPECT_FALSE(pair.near->read([&](wire::Type, std::string_view) { ++frames; }));
  EXPECT_EQ(frames, 1);

  Pair other;
  const std::string bye = wire::frame(wire::Type::bye, "");
  ASSERT_GT(::send(other.far.get(), bye.data(), bye.size(), 0), 0);
  other.far = Descriptor();
  other.near->send(wire::Type::status, "to nobody");  // no SIGPIPE, and reading goes on
  EXPECT_FALSE(other.near->read([&](wire::Type, std::string_view) { ++frames; }));
  EXPECT_EQ(frames, 2);
}

}  // namespace
}  // namespace ringscope
