#include <unistd.h>

#include <utility>

#include "core/process/invitation.h"
#include "core/process/lifeline.h"
#include "core/process/socket.h"

namespace ringscope {

LifelineDoor::LifelineDoor() {
  Listener listener = listen_on_all_addresses();
  invitation_ = to_text(invitation_to_this_host(listener.port, listener.takes_ipv6));
  socket_ = listener.socket.release();
}

LifelineDoor::~LifelineDoor() {
  if (socket_ >= 0) ::close(socket_);
}

LifelineDoor::LifelineDoor(LifelineDoor&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), invitation_(std::move(other.invitation_)) {}

}  // namespace ringscope
