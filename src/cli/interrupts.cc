#include "src/cli/interrupts.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace memmodel::cli {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t signals = Signals();
  fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ >= 0) sigprocmask(SIG_BLOCK, &signals, nullptr);
}

Interrupts::~Interrupts() {
  if (fd_ < 0) return;
  Caught();  // what is read here is not delivered again
  close(fd_);
  const sigset_t signals = Signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

int Interrupts::Caught() {
  signalfd_siginfo info{};
  while (fd_ >= 0 && read(fd_, &info, sizeof info) == sizeof info) {
    caught_ = static_cast<int>(info.ssi_signo);
  }
  return caught_;
}

}  // namespace memmodel::cli
