#include "src/vgpu/cudnn_recording.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "src/vgpu/calls.h"
#include "src/vgpu/cudnn_properties.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(
      RealFunction(State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", name));
}

cudnnBackendDescriptor_t Create(cudnnBackendDescriptorType_t type) {
  static auto* real = Real<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  cudnnBackendDescriptor_t made = nullptr;
  return real(type, &made) == CUDNN_STATUS_SUCCESS ? made : nullptr;
}

cudnnStatus_t Set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  static auto* real = Real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  return real(descriptor, name, type, count, values);
}

cudnnStatus_t GetReal(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count,
                      void* values) {
  static auto* real = Real<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  return real(descriptor, name, type, requested, count, values);
}

void Destroy(cudnnBackendDescriptor_t descriptor) {
  static auto* real =
      Real<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  if (descriptor != nullptr) real(descriptor);
}

// Finalizing these only checks what the operation graph checks again: not worth
// a question of its own.
bool CheckedByGraph(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      return false;
    default:
      return true;
  }
}

constexpr cudnnBackendDescriptorType_t kDevice = CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;

// A file for each real library and device, and for the stand-ins of cuDNN and of cublasLt,
// which cuDNN asks: another file has another size or time.
std::string CachePath(const std::string& folder, const std::string& library,
                      const std::string& device) {
  if (folder.empty()) return folder;
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&CachePath), &self);
  const std::string own = self.dli_fname == nullptr ? "" : self.dli_fname;
  const std::string blas = own.substr(0, own.rfind('/') + 1) + "libcublasLt.so.13";
  Digester digester;
  for (const std::string& file : {library, own, blas}) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0) return {};
    digester.Add(info.st_size).Add(info.st_mtim.tv_sec).Add(info.st_mtim.tv_nsec);
  }
  const Digest digest = digester.Add(device).digest();
  char name[64];
  std::snprintf(name, sizeof name, "/cudnn-%016llx.answers",
                static_cast<unsigned long long>(digest.high ^ digest.low));
  return folder + name;
}

}  // namespace

Record::~Record() {
  // What the process leaves behind when it ends is not worth opening order.
  for (const auto& [name, descriptors] : real_parts) {
    for (const cudnnBackendDescriptor_t part : descriptors) Destroy(part);
  }
  if (parent == nullptr) Destroy(real);
}

const Record::Attribute* Record::Find(cudnnBackendAttributeName_t name) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [name](const Attribute& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

std::int64_t Record::Number(cudnnBackendAttributeName_t name, std::size_t index,
                            std::int64_t otherwise) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  const std::size_t size = ValueBytes(attribute->type);
  if ((size != 4 && size != 8) || (index + 1) * size > attribute->bytes.size()) return otherwise;
  std::int64_t wide = 0;
  std::int32_t narrow = 0;
  if (size == 8) {
    std::memcpy(&wide, attribute->bytes.data() + index * size, size);
    return wide;
  }
  std::memcpy(&narrow, attribute->bytes.data() + index * size, size);
  return narrow;
}

std::size_t ValueBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:
      return 4;  // enumerations, 32-bit integers and floats
  }
}

std::mutex& Answers::Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

Answers& Answers::Get() {
  // Never destroyed: descriptors may be given up while the process ends.
  static auto* answers = new Answers;
  return *answers;
}

Answers::Answers()
    : device_(CudnnDeviceProperties(State::Get().spec())),
      cache_(CachePath(State::Get().cache_folder(), State::Get().cudnn_path(), device_),
             "memmodel cudnn answers 3\n") {}

std::size_t Answers::Version() {
  static const Digest key = Digester().Add(std::string_view("version")).digest();
  std::size_t version = 0;
  if (const std::string* kept = cache_.Find(key); kept != nullptr && kept->size() == 8) {
    std::memcpy(&version, kept->data(), 8);
    return version;
  }
  version = Real<decltype(cudnnGetVersion)>("cudnnGetVersion")();
  cache_.Add(key, std::string_view(reinterpret_cast<const char*>(&version), 8));
  cache_.Flush();
  return version;
}

const Digest& Answers::DigestOf(Record& record) {
  if (record.digest) return *record.digest;
  Digester digester;
  digester.Add(record.type).Add(record.final);
  if (record.parent != nullptr) {
    digester.Add(DigestOf(*record.parent)).Add(record.parent_attribute).Add(record.parent_index);
  }
  for (const Record::Attribute& attribute : record.attributes) {
    digester.Add(attribute.name).Add(attribute.type).Add(attribute.count);
    digester.Add(attribute.bytes);
    for (const RecordPtr& part : attribute.parts) digester.Add(DigestOf(*part));
  }
  record.digest = digester.digest();
  return *record.digest;
}

cudnnBackendDescriptor_t Answers::DeviceDescriptor() {
  static const cudnnBackendDescriptor_t descriptor = [this] {
    const cudnnBackendDescriptor_t made = Create(kDevice);
    cudnnStatus_t status =
        made == nullptr ? CUDNN_STATUS_ALLOC_FAILED
                        : Set(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                              static_cast<std::int64_t>(device_.size()), device_.data());
    if (status == CUDNN_STATUS_SUCCESS) {
      status = Real<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize")(made);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
      std::fprintf(stderr,
                   "memmodel: cuDNN takes no device properties (status %d); version 9.8 or later "
                   "is needed, for a GPU of compute capability 7.5 or later\n",
                   static_cast<int>(status));
      static memmodel_vgpu_call call = {"cudnnBackendFinalize", 0, nullptr};
      memmodel_vgpu_refuse(&call);
    }
    return made;
  }();
  return descriptor;
}

cudnnStatus_t Answers::Make(Record& record) {
  if (record.real != nullptr) return CUDNN_STATUS_SUCCESS;
  if (record.parent != nullptr) {
    Record& parent = *record.parent;
    if (const cudnnStatus_t status = Make(parent); status != CUDNN_STATUS_SUCCESS) return status;
    auto& parts = parent.real_parts[record.parent_attribute];
    if (parts.empty()) {
      std::int64_t count = 0;
      GetReal(parent.real, record.parent_attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
              nullptr);
      // Some attributes say how many they are only while they are read.
      constexpr std::int64_t kMost = 64;
      if (count <= record.parent_index) count = kMost;
      for (std::int64_t i = 0; i < count; ++i) parts.push_back(Create(record.type));
      std::int64_t read = 0;
      GetReal(parent.real, record.parent_attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &read,
              parts.data());
      while (static_cast<std::int64_t>(parts.size()) > std::max<std::int64_t>(read, 0)) {
        Destroy(parts.back());
        parts.pop_back();
      }
    }
    if (record.parent_index >= static_cast<std::int64_t>(parts.size())) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    record.real = parts[static_cast<std::size_t>(record.parent_index)];
    return CUDNN_STATUS_SUCCESS;
  }
  if (record.type == kDevice) {
    record.real = DeviceDescriptor();
    return CUDNN_STATUS_SUCCESS;
  }
  const cudnnBackendDescriptor_t made = Create(record.type);
  if (made == nullptr) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto keep = [&status](cudnnStatus_t next) {
    if (status == CUDNN_STATUS_SUCCESS) status = next;
  };
  for (const Record::Attribute& attribute : record.attributes) {
    std::vector<cudnnBackendDescriptor_t> parts;
    for (const RecordPtr& part : attribute.parts) {
      keep(Make(*part));
      parts.push_back(part->real);
    }
    keep(Set(made, attribute.name, attribute.type, attribute.count,
             parts.empty() ? static_cast<const void*>(attribute.bytes.data()) : parts.data()));
  }
  const cudnnBackendDescriptor_t device = DeviceDescriptor();
  const auto on_device = [&](cudnnBackendAttributeName_t name) {
    keep(Set(made, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device));
  };
  if (record.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    on_device(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  } else if (record.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    on_device(CUDNN_ATTR_ENGINE_DEVICEPROP);
  } else if (record.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    on_device(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  }
  if (record.final) {
    keep(Real<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize")(made));
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    record.real = made;
  } else {
    Destroy(made);
  }
  return status;
}

cudnnStatus_t Answers::Finalize(const RecordPtr& record) {
  record->final = true;
  record->digest.reset();
  if (record->parent == nullptr && record->real != nullptr) {
    Destroy(record->real);  // what was made while it was not final
    record->real = nullptr;
  }
  if (CheckedByGraph(record->type)) return CUDNN_STATUS_SUCCESS;
  const Digest key = Digester().Add('F').Add(DigestOf(*record)).digest();
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (const std::string* kept = cache_.Find(key);
      kept != nullptr && kept->size() == sizeof status) {
    std::memcpy(&status, kept->data(), sizeof status);
  } else {
    status = Make(*record);
    cache_.Add(key, std::string_view(reinterpret_cast<const char*>(&status), sizeof status));
  }
  if (status != CUDNN_STATUS_SUCCESS) {
    record->final = false;
    record->digest.reset();
  }
  return status;
}

cudnnStatus_t Answers::Attribute(const RecordPtr& record, cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type, std::int64_t requested,
                                 std::int64_t* count, void* values, std::vector<RecordPtr>* parts) {
  const bool descriptors = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  const Digest key =
      Digester().Add('A').Add(DigestOf(*record)).Add(name).Add(type).Add(requested).digest();
  // Kept: status, count, then the values.
  struct Head {
    std::int64_t status = 0, count = 0;
  } head;
  std::string made;
  const std::string* kept = cache_.Find(key);
  if (kept == nullptr || kept->size() < sizeof head) {
    std::string bytes(
        ValueBytes(type) * static_cast<std::size_t>(std::max<std::int64_t>(requested, 0)), '\0');
    std::vector<cudnnBackendDescriptor_t> real_parts;
    cudnnStatus_t status = Make(*record);
    if (status == CUDNN_STATUS_SUCCESS && descriptors && requested > 0) {
      const auto part_type =
          parts->empty() ? CUDNN_BACKEND_ENGINECFG_DESCRIPTOR : parts->front()->type;
      for (std::int64_t i = 0; i < requested; ++i) real_parts.push_back(Create(part_type));
    }
    if (status == CUDNN_STATUS_SUCCESS) {
      void* const to = descriptors ? static_cast<void*>(real_parts.data()) : bytes.data();
      status =
          GetReal(record->real, name, type, requested, &head.count, requested > 0 ? to : nullptr);
    }
    for (const cudnnBackendDescriptor_t part : real_parts) Destroy(part);
    head.status = status;
    made.assign(reinterpret_cast<const char*>(&head), sizeof head);
    if (!descriptors) {
      const auto filled = static_cast<std::size_t>(
          std::clamp<std::int64_t>(head.count, 0, std::max<std::int64_t>(requested, 0)));
      made.append(bytes, 0, ValueBytes(type) * filled);
    }
    cache_.Add(key, made);
    kept = &made;
  }
  std::memcpy(&head, kept->data(), sizeof head);
  if (count != nullptr) *count = head.count;
  if (!descriptors && values != nullptr) {
    std::memcpy(values, kept->data() + sizeof head,
                std::min(kept->size() - sizeof head,
                         ValueBytes(type) *
                             static_cast<std::size_t>(std::max<std::int64_t>(requested, 0))));
  }
  if (descriptors && parts != nullptr && head.status == CUDNN_STATUS_SUCCESS) {
    const auto filled =
        std::min<std::int64_t>(head.count, static_cast<std::int64_t>(parts->size()));
    for (std::int64_t i = 0; i < filled; ++i) {
      RecordPtr& part = (*parts)[static_cast<std::size_t>(i)];
      part = Part(record, name, i, part->type);
    }
  }
  return static_cast<cudnnStatus_t>(head.status);
}

bool Answers::Value(const RecordPtr& record, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, void* value) {
  std::int64_t count = 0;
  return Attribute(record, name, type, 1, &count, value, nullptr) == CUDNN_STATUS_SUCCESS &&
         count >= 1;
}

RecordPtr Answers::Part(const RecordPtr& record, cudnnBackendAttributeName_t name,
                        std::int64_t index, cudnnBackendDescriptorType_t type) {
  auto part = std::make_shared<Record>(type);
  part->final = true;
  part->parent = record;
  part->parent_attribute = name;
  part->parent_index = index;
  return part;
}

}  // namespace memmodel::vgpu
