#include "src/vgpu/nccl_exchange.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace memmodel::vgpu {
namespace {

TEST_CASE("a contribution crosses processes, whole or as unknown") {
  std::string folder = (std::filesystem::temp_directory_path() / "nccl_exchange_XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const Exchange exchange(folder);
  const pid_t child = fork();
  if (child == 0) {
    usleep(20000);  // the other side waits first
    exchange.Post("comm.0.1", std::string("a\0b", 3));
    exchange.Post("comm.1.1", std::nullopt);
    _exit(0);
  }
  CHECK(exchange.Wait("comm.0.1") == std::string("a\0b", 3));
  CHECK(exchange.Wait("comm.1.1") == std::nullopt);
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("without a folder nothing is exchanged and nothing waits") {
  const Exchange exchange("");
  CHECK_FALSE(exchange.connected());
  exchange.Post("comm.0.0", std::string("x"));
  CHECK(exchange.Wait("comm.0.0") == std::nullopt);
}

}  // namespace
}  // namespace memmodel::vgpu
