// The process that runs the job: memmodel-trace --serve.
//
// Whatever becomes of it (it cannot be started, dies, hangs, writes nonsense)
// ends in one Status. It and the probes that it forked are ended and reaped by
// the destructor.
//
// One thread uses a Child at a time.
#ifndef MEMMODEL_SRC_CHILD_CHILD_H_
#define MEMMODEL_SRC_CHILD_CHILD_H_

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "memmodel/child_options.h"
#include "memmodel/job.h"
#include "memmodel/status.h"
#include "src/child/protocol.h"

namespace memmodel {

// Where memmodel-trace is, by the rules of ChildOptions::program.
Result<std::string> FindTracer(const std::string& program);

class Child {
 public:
  // Starts the process and hands it the job.
  static Result<std::unique_ptr<Child>> Start(const ChildOptions& options, const Job& job);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // A line that is no job (src/step/calibrate.h) and its one answer. `doing` completes "while".
  static Result<std::string> AskOnce(const ChildOptions& options, const std::string& line,
                                     const std::string& doing);

  // Waits until the model is loaded. Call it once, before the first Ask.
  Result<LoadedModel> WaitLoaded();

  // Sends a probe and returns at once; gives it the id that its answer carries.
  Result<int> Ask(ProbeRequest probe);

  // Waits for the next answer, in whatever order they come.
  Result<ProbeAnswer> WaitAnswer();

  [[nodiscard]] std::size_t unanswered() const { return asked_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  Child(ChildOptions options, std::string model);

  Status Spawn(const std::string& program);
  Status Send(std::string line);
  Result<std::string> ReadLine(double timeout_s, const std::string& doing);
  // Reads what is there; false at the end of the stream.
  bool Drain(int fd, std::string* buffer);
  Status Died(const std::string& doing);
  [[nodiscard]] std::string Doing() const;

  ChildOptions options_;
  std::string model_;
  pid_t pid_ = -1;
  int input_ = -1;   // ours to write
  int output_ = -1;  // ours to read
  int errors_ = -1;
  std::string output_buffer_;
  std::string error_buffer_;  // the last few lines of its standard error
  std::map<int, std::int64_t> asked_;  // probe -> batch
  int next_id_ = 1;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CHILD_CHILD_H_
