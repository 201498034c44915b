// A forked process that answers with one line of text, watched by its parent.
#ifndef MEMMODEL_SRC_STEP_WORKER_H_
#define MEMMODEL_SRC_STEP_WORKER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "memmodel/bytes.h"
#include "src/tracer/operator_log.h"

namespace memmodel::step {

struct WorkerLimits {
  Bytes memory_bytes = 0;  // resident; 0: none
  std::int64_t cpu_s = 0;  // 0: none
};

class Worker {
 public:
  // Forks; the child runs `work`, whose argument is shared with the parent and says
  // what is running, sends what it returns and ends.
  static std::unique_ptr<Worker> Start(const std::function<std::string(tracer::LastStarted*)>& work,
                                       const WorkerLimits& limits);
  ~Worker();  // ends the process if it still runs
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] int fd() const { return fd_; }  // readable when there is something to take
  // Takes what has come; true once the process has sent all and ended.
  bool Take();
  // Kills the process if it holds more memory than it may.
  void CheckMemory();
  // Reads to the end.
  void Wait();

  // After Take() gave true: the answer, or "" and why there is none.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string Death() const;  // "" if it ended well
  [[nodiscard]] tracer::LastStarted Last() const;

 private:
  Worker() = default;

  pid_t pid_ = -1;
  int fd_ = -1;
  int status_ = 0;
  bool over_memory_ = false;
  WorkerLimits limits_;
  tracer::LastStarted* shared_ = nullptr;
  std::string text_;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_WORKER_H_
