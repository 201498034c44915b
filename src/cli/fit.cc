#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddFit(CLI::App&, Context&) {}

}  // namespace memmodel::cli
