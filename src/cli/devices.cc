#include <memory>

#include "memmodel/calibrate.h"
#include "memmodel/device.h"
#include "memmodel/report.h"
#include "src/cli/subcommand.h"
#include "src/core/atomic_file.h"

namespace memmodel::cli {
namespace {

struct Flags {
  std::string name, add;
  bool json = false;
};

// From the card of this machine, or from a device file.
Result<Device> Add(const std::string& from) {
  if (from == "present") {
    Result<Calibration> calibration = Calibrate({});
    if (!calibration.ok()) return calibration.status();
    return calibration->device;
  }
  Result<std::string> text = ReadFile(from, std::size_t{1} << 20);
  if (!text.ok()) return text.status();
  return AddDevice(*text, from);
}

void RunDevices(const Flags& flags, Context& context) {
  if (!flags.add.empty()) {
    if (!flags.name.empty()) {
      return context.Fail(Status::InvalidArgument("--add takes no further name: the file says it"));
    }
    Result<Device> device = Add(flags.add);
    if (!device.ok()) return context.Fail(device.status());
    return context.Print(flags.json ? FormatDevicesJson({*device}) : FormatDevice(*device));
  }
  Result<DeviceCatalogue> catalogue = DeviceCatalogue::ReadAll();
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
  CLI::App* command =
      app.add_subcommand("devices", "the GPUs that --gpu takes, and where each figure comes from");
  const auto flags = std::make_shared<Flags>();
  command->add_option("name", flags->name, "one of them: all of its figures and their sources")
      ->type_name("NAME");
  command
      ->add_option(
          "--add", flags->add,
          "add a GPU: 'present' for this machine's own, or a device file (docs/devices.md)")
      ->type_name("present|FILE");
  command->add_flag("--json", flags->json, "print JSON in place of the table");
  command->callback([flags, &context] { RunDevices(*flags, context); });
}

}  // namespace memmodel::cli
