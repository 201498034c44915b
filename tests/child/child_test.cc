// Children that misbehave: tests/child/fake_child.py speaks the protocol and
// dies, hangs or lies on demand.
#include "src/child/child.h"

#include <doctest/doctest.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/child/temporary_folder.h"

using namespace memmodel;

namespace {

ChildOptions Fake(const std::string& mode) {
  ChildOptions options;
  options.program = std::string(MEMMODEL_TEST_DATA) + "/fake_child.py";
  options.environment = {{"FAKE_MODE", mode}};
  options.load_timeout_s = 10;
  options.probe_timeout_s = 10;
  return options;
}

Job SomeJob() {
  Job job;
  job.model = "x.pt";
  return job;
}

ProbeRequest Batch(std::int64_t batch, const std::string& folder) {
  ProbeRequest probe;
  probe.batch = batch;
  probe.trace = folder + "/" + std::to_string(batch);
  return probe;
}

// The message with which loading, or else a probe of batch 4, fails.
std::string Failure(const ChildOptions& options) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  REQUIRE(folder.ok());
  Result<std::unique_ptr<Child>> child = Child::Start(options, SomeJob());
  if (!child.ok()) return child.status().message();
  const Result<LoadedModel> loaded = (*child)->WaitLoaded();
  if (!loaded.ok()) return loaded.status().message();
  const Result<int> asked = (*child)->Ask(Batch(4, folder->path()));
  if (!asked.ok()) return asked.status().message();
  const Result<ProbeAnswer> answer = (*child)->WaitAnswer();
  return answer.ok() ? "" : answer.status().message();
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a child answers, in whatever order") {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  REQUIRE(folder.ok());
  Result<std::unique_ptr<Child>> child = Child::Start(Fake("reverse"), SomeJob());
  REQUIRE_MESSAGE(child.ok(), child.status().message());
  const Result<LoadedModel> loaded = (*child)->WaitLoaded();
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  CHECK(loaded->torch_version == "2.11.0+cu130");
  REQUIRE((*child)->Ask(Batch(4, folder->path())).ok());
  REQUIRE((*child)->Ask(Batch(5, folder->path())).ok());
  CHECK((*child)->unanswered() == 2);
  const Result<ProbeAnswer> first = (*child)->WaitAnswer();
  const Result<ProbeAnswer> second = (*child)->WaitAnswer();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->batch == 5);
  CHECK(second->batch == 4);
  // 1 GiB and 100 MiB a sample, as the fake child defines it.
  CHECK(*second->peak_reserved == kGiB + 400 * kMiB);
}

TEST_CASE("a child that dies is one message with its last words") {
  const std::string loading = Failure(Fake("die_loading"));
  CHECK(Contains(loading, "ended with code 7 while loading x.pt"));
  CHECK(Contains(loading, "the file is damaged"));
  CHECK(Contains(Failure(Fake("die")), "ended with code 3 while running x.pt at batch 4"));
  CHECK(Contains(Failure(Fake("signal")), "died of signal 11"));
  CHECK(Contains(Failure(Fake("silent_exit")), "ended with code 0"));
}

TEST_CASE("a child that hangs is ended") {
  ChildOptions options = Fake("hang");
  options.probe_timeout_s = 0.3;
  CHECK(Contains(Failure(options), "while running x.pt at batch 4; the child was ended"));
  options = Fake("hang_loading");
  options.load_timeout_s = 0.3;
  CHECK(Contains(Failure(options), "while loading x.pt; the child was ended"));
  // Nobody is left behind: not the child, and no zombie.
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a child that exceeds its memory is one message") {
  ChildOptions options = Fake("");
  options.memory_limit = kMiB;  // less than an interpreter needs
  const std::string message = Failure(options);
  CHECK_MESSAGE(Contains(message, "while loading x.pt"), message);
}

TEST_CASE("what a child prints of its own is no answer") {
  CHECK(Contains(Failure(Fake("garbage")), "where an answer was expected"));
  CHECK(Failure(Fake("bad_input")) == "x.pt is no zip archive");
}

// proc(5): /proc/PID/personality; ADDR_NO_RANDOMIZE is 0x0040000.
TEST_CASE("a child's addresses are the same each time") {
  const int before = personality(0xffffffff);
  const bool allowed = personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) != -1;
  personality(static_cast<unsigned long>(before));
  if (!allowed) {
    MESSAGE("not looked at: this system does not let a process fix its addresses");
    return;
  }
  const std::string message = Failure(Fake("personality"));
  CAPTURE(message);
  CHECK((std::stoul(message.substr(message.rfind(' ') + 1), nullptr, 16) & 0x0040000) != 0);
}

TEST_CASE("a missing program is named with the way out") {
  ChildOptions options;
  options.program = "/nowhere/memmodel-trace";
  const Result<std::unique_ptr<Child>> child = Child::Start(options, SomeJob());
  REQUIRE_FALSE(child.ok());
  CHECK(child.status().code() == StatusCode::kUnavailable);
  CHECK(Contains(child.status().message(), "MEMMODEL_TRACE"));
}

TEST_CASE("a wait can be interrupted") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  ChildOptions options = Fake("hang_loading");
  options.interrupt_fd = ends[0];
  REQUIRE(write(ends[1], "x", 1) == 1);
  CHECK(Contains(Failure(options), "interrupted while loading x.pt"));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a temporary folder goes with all that is in it") {
  std::string path;
  {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    REQUIRE(folder.ok());
    path = folder->path();
    std::ofstream(path + "/trace") << "x";
    CHECK(std::filesystem::exists(path + "/trace"));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}
