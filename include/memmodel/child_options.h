// How the process that runs the job is started and kept within bounds.
#ifndef MEMMODEL_CHILD_OPTIONS_H_
#define MEMMODEL_CHILD_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "memmodel/bytes.h"

namespace memmodel {

struct ChildOptions {
  // Path of memmodel-trace. "": MEMMODEL_TRACE of the environment, else beside
  // this program or in ../libexec/memmodel.
  std::string program;
  // Variables set for the child alone, beside the inherited ones.
  std::vector<std::pair<std::string, std::string>> environment;
  // Private memory of each of its processes (RLIMIT_DATA). 0: three quarters of
  // the machine's, so that a hostile file ends in a message, not in swapping.
  Bytes memory_limit = 0;
  // The largest file it may write: traces of large networks are below 1 GiB.
  Bytes file_limit = 4 * kGiB;
  // Seconds without an answer after which it is ended. Loading reads the file's
  // structure alone; a probe may compile cuDNN plans for tens of seconds.
  double load_timeout_s = 120;
  double probe_timeout_s = 300;
  // A descriptor that becomes readable when the wait is to end (signalfd); -1: none.
  int interrupt_fd = -1;
};

}  // namespace memmodel

#endif  // MEMMODEL_CHILD_OPTIONS_H_
