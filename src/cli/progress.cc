#include "src/cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace memmodel::cli {
namespace {

constexpr std::chrono::seconds kQuiet(1);
constexpr std::size_t kColumns = 79;

}  // namespace

Progress::Progress() {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { Show(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::Say(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    text_ = text;
  }
  changed_.notify_all();
}

void Progress::Show() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kQuiet, [this] { return done_; })) return;
  while (!done_) {
    if (text_ != shown_) {
      std::string line = text_.substr(0, kColumns - 4) + " ...";
      line.resize(kColumns, ' ');
      std::fprintf(stderr, "\r%s", line.c_str());
      std::fflush(stderr);
      shown_ = text_;
    }
    changed_.wait(lock, [this] { return done_ || text_ != shown_; });
  }
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(kColumns), "");
  std::fflush(stderr);
}

}  // namespace memmodel::cli
