#include <memory>

#include "memmodel/device.h"
#include "memmodel/report.h"
#include "src/cli/subcommand.h"

namespace memmodel::cli {
namespace {

struct Flags {
  std::string name;
  bool json = false;
};

void RunDevices(const Flags& flags, Context& context) {
  Result<std::string> data = DataFolder();
  if (!data.ok()) return context.Fail(data.status());
  Result<DeviceCatalogue> catalogue = DeviceCatalogue::Read(*data + "/devices");
  if (!catalogue.ok()) return context.Fail(catalogue.status());
  if (flags.name.empty()) {
    return context.Print(flags.json ? FormatDevicesJson(catalogue->devices())
                                    : FormatDevices(*catalogue));
  }
  Result<Device> device = catalogue->Find(flags.name);
  if (!device.ok()) return context.Fail(device.status());
  context.Print(flags.json ? FormatDevicesJson({*device}) : FormatDevice(*device));
}

}  // namespace

void AddDevices(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "devices", "the GPUs that --gpu takes, and where each figure comes from");
  const auto flags = std::make_shared<Flags>();
  command->add_option("name", flags->name, "one of them: all of its figures and their sources")
      ->type_name("NAME");
  command->add_flag("--json", flags->json, "print JSON in place of the table");
  command->callback([flags, &context] { RunDevices(*flags, context); });
}

}  // namespace memmodel::cli
