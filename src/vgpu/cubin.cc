#include "src/vgpu/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

namespace memmodel::vgpu {
namespace {

constexpr Elf64_Half kMachineCuda = 190;  // EM_CUDA
constexpr std::uint8_t kSized = 4;
constexpr std::uint8_t kMostThreads = 0x05;
constexpr std::uint8_t kBlockThreads = 0x10;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kParameter = 0x17;
constexpr std::uint8_t kRegisterCount = 0x2f;
constexpr std::string_view kCode = ".text.";
constexpr std::uint64_t kReservedShared = 1024;

// The bytes of an image, none of which is read beyond its end.
class Image {
 public:
  Image(const void* data, std::uint64_t size)
      : data_(static_cast<const char*>(data)), size_(size) {}

  template <typename T>
  bool Load(std::uint64_t at, T* value) const {
    if (at > size_ || size_ - at < sizeof(T)) return false;
    std::memcpy(value, data_ + at, sizeof(T));
    return true;
  }
  // "" if it is not whole.
  [[nodiscard]] std::string_view Part(std::uint64_t at, std::uint64_t size) const {
    if (at > size_ || size_ - at < size) return {};
    return {data_ + at, size};
  }

 private:
  const char* data_;
  std::uint64_t size_;
};

std::string_view TextAt(std::string_view table, std::uint64_t at) {
  if (at >= table.size()) return {};
  const std::string_view rest = table.substr(at);
  return rest.substr(0, rest.find('\0'));
}

std::uint32_t Word(std::string_view bytes, std::size_t index) {
  std::uint32_t word = 0;
  if (bytes.size() >= (index + 1) * sizeof word) {
    std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  }
  return word;
}

int Threads(std::string_view bytes) {
  std::uint64_t threads = 1;
  for (std::size_t dimension = 0; dimension < 3; ++dimension) {
    threads *= std::min<std::uint64_t>(Word(bytes, dimension), 1 << 20);
  }
  return static_cast<int>(std::min<std::uint64_t>(threads, std::numeric_limits<int>::max()));
}

// Calls found(attribute, bytes) for each attribute of format 4.
template <typename Found>
void ForEachAttribute(std::string_view section, const Found& found) {
  while (section.size() >= 4) {
    const auto format = static_cast<std::uint8_t>(section[0]);
    const auto attribute = static_cast<std::uint8_t>(section[1]);
    std::uint16_t size = 0;
    std::memcpy(&size, section.data() + 2, sizeof size);
    section.remove_prefix(4);
    if (format != kSized) continue;
    if (size > section.size()) return;
    found(attribute, section.substr(0, size));
    section.remove_prefix(size);
  }
}

class Reader {
 public:
  explicit Reader(Image image) : image_(image) {}

  std::optional<Cubin> Read() {
    Elf64_Ehdr header;
    if (!image_.Load(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda ||
        header.e_shentsize != sizeof(Elf64_Shdr)) {
      return std::nullopt;
    }
    Cubin cubin;
    cubin.bytes = sizeof header + std::uint64_t{header.e_phnum} * header.e_phentsize;
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section;
      if (!image_.Load(header.e_shoff + i * sizeof section, &section)) return std::nullopt;
      cubin.bytes += sizeof section + (section.sh_type == SHT_NOBITS ? 0 : section.sh_size);
      sections_.push_back(section);
    }
    if (header.e_shstrndx >= sections_.size()) return std::nullopt;
    names_ = Bytes(sections_[header.e_shstrndx]);
    for (const Elf64_Shdr& section : sections_) {
      if (Name(section).starts_with(kCode)) cubin.kernels.push_back(Kernel(section));
    }
    ReadCommon(&cubin);
    return cubin;
  }

 private:
  [[nodiscard]] std::string_view Bytes(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? std::string_view()
                                         : image_.Part(section.sh_offset, section.sh_size);
  }
  [[nodiscard]] std::string_view Name(const Elf64_Shdr& section) const {
    return TextAt(names_, section.sh_name);
  }

  [[nodiscard]] KernelCode Kernel(const Elf64_Shdr& code) const {
    KernelCode kernel;
    kernel.name = Name(code).substr(kCode.size());
    std::uint64_t reserved = 0;
    for (const Elf64_Shdr& section : sections_) {
      if (Name(section) == ".nv.shared." + kernel.name) kernel.shared_bytes += section.sh_size;
      if (Name(section) == ".nv.info." + kernel.name) ReadOwn(Bytes(section), &kernel);
      if (Name(section) == ".nv.shared.reserved.0") reserved = kReservedShared;
    }
    kernel.shared_bytes -= std::min(kernel.shared_bytes, reserved);
    return kernel;
  }

  static void ReadOwn(std::string_view attributes, KernelCode* kernel) {
    ForEachAttribute(attributes, [kernel](std::uint8_t attribute, std::string_view bytes) {
      if (attribute == kMostThreads || attribute == kBlockThreads) kernel->threads = Threads(bytes);
      if (attribute != kParameter) return;
      kernel->parameters.push_back({.ordinal = Word(bytes, 1) & 0xffff,
                                    .offset = Word(bytes, 1) >> 16,
                                    .bytes = Word(bytes, 2) >> 18});
    });
  }

  // Attributes of all kernels name each by its symbol.
  void ReadCommon(Cubin* cubin) const {
    for (const Elf64_Shdr& section : sections_) {
      if (Name(section) != ".nv.info" || section.sh_link >= sections_.size()) continue;
      const Elf64_Shdr& symbols = sections_[section.sh_link];
      ForEachAttribute(Bytes(section), [&](std::uint8_t attribute, std::string_view bytes) {
        if (attribute != kRegisterCount && attribute != kFrameSize) return;
        const std::string_view name = SymbolName(symbols, Word(bytes, 0));
        for (KernelCode& kernel : cubin->kernels) {
          if (kernel.name != name) continue;
          (attribute == kFrameSize ? kernel.local_bytes : kernel.registers) =
              static_cast<int>(Word(bytes, 1));
        }
      });
    }
  }

  [[nodiscard]] std::string_view SymbolName(const Elf64_Shdr& symbols, std::uint32_t index) const {
    Elf64_Sym symbol;
    if (symbols.sh_link >= sections_.size() ||
        !image_.Load(symbols.sh_offset + std::uint64_t{index} * sizeof symbol, &symbol)) {
      return {};
    }
    return TextAt(Bytes(sections_[symbols.sh_link]), symbol.st_name);
  }

  Image image_;
  std::vector<Elf64_Shdr> sections_;
  std::string_view names_;
};

}  // namespace

const KernelCode* Cubin::Find(const std::string& name) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const KernelCode& kernel) { return kernel.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

std::optional<Cubin> ReadCubin(const void* image, std::uint64_t most) {
  return image == nullptr ? std::nullopt : Reader(Image(image, most)).Read();
}

}  // namespace memmodel::vgpu
