#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddPredict(CLI::App&, Context&) {}

}  // namespace memmodel::cli
