#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddDevices(CLI::App&, Context&) {}

}  // namespace memmodel::cli
