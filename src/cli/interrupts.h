// Ctrl-C and its like as something that can be waited for, so that children are
// ended and temporary files removed on the way out.
#ifndef MEMMODEL_SRC_CLI_INTERRUPTS_H_
#define MEMMODEL_SRC_CLI_INTERRUPTS_H_

namespace memmodel::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP do not end the program but make
// fd() readable. Make it before any thread.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // The signal that came, or 0. The exit code is then 128 + signal.
  int Caught();

 private:
  int fd_ = -1;
  int caught_ = 0;
};

}  // namespace memmodel::cli

#endif  // MEMMODEL_SRC_CLI_INTERRUPTS_H_
