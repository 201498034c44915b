#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddTrace(CLI::App&, Context&) {}

}  // namespace memmodel::cli
