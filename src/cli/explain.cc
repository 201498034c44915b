#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddExplain(CLI::App&, Context&) {}

}  // namespace memmodel::cli
