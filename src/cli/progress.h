// A line on the terminal that says what is going on, when it takes longer than a
// second.
#ifndef MEMMODEL_SRC_CLI_PROGRESS_H_
#define MEMMODEL_SRC_CLI_PROGRESS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace memmodel::cli {

// Writes to standard error, and only if that is a terminal; the line is wiped
// away by the destructor. Say may be called from any thread.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Say(const std::string& text);

 private:
  void Show();  // the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::string shown_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace memmodel::cli

#endif  // MEMMODEL_SRC_CLI_PROGRESS_H_
