// What every child of memmodel does between fork and exec.
#ifndef MEMMODEL_SRC_CHILD_BEGIN_CHILD_H_
#define MEMMODEL_SRC_CHILD_BEGIN_CHILD_H_

#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace memmodel {

// Async-signal-safe. `death_signal` comes when the parent dies. The program that is then
// executed lies at the same addresses each time, as far as the system allows it (a
// container may forbid it): the order in which autocast's cache drops its entries is that of a
// hash table keyed by addresses, and with it the allocator's answers vary.
inline void BeginChild(int death_signal) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, death_signal);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  constexpr unsigned long kAsk = 0xffffffff;
  if (const int now = personality(kAsk); now != -1) {
    static_cast<void>(personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE));
  }
}

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CHILD_BEGIN_CHILD_H_
