#include "src/cli/subcommand.h"

namespace memmodel::cli {

void AddValidate(CLI::App&, Context&) {}

}  // namespace memmodel::cli
