#include "src/vgpu/device_identity.h"

#include <cstdio>

#include "src/vgpu/state.h"

namespace memmodel::vgpu {

Uuid DeviceUuid(int device) {
  // Version 8 (custom) of RFC 9562: "memmodel" and the number.
  Uuid uuid = {'m', 'e', 'm', 'm', 'o', 'd', 0x80, 'e', 0x80, 'l'};
  uuid[15] = static_cast<unsigned char>(device);
  return uuid;
}

std::string DevicePciBusId(int device) {
  const DeviceSpec& spec = State::Get().spec();
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0",
                static_cast<unsigned>(spec.Get("pciDomainID")) & 0xffffU,
                static_cast<unsigned>(spec.Get("pciBusID") + device) & 0xffU,
                static_cast<unsigned>(spec.Get("pciDeviceID")) & 0xffU);
  return text;
}

}  // namespace memmodel::vgpu
