#include "src/step/pt2_pickles.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <sys/mman.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

namespace memmodel::step {
namespace {

constexpr std::size_t kMaxValueBytes = std::size_t{64} << 10;

// A record of the outer archive as a file of its own.
class RecordReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  RecordReader(const ZipFile& zip, std::string record) : zip_(zip), record_(std::move(record)) {}

  [[nodiscard]] std::size_t size() const override { return zip_.Size(record_); }
  std::size_t read(std::uint64_t position, void* buffer, std::size_t n,
                   const char* /*what*/) const override {
    const Result<std::uint64_t> got = zip_.ReadPart(record_, position, buffer, n);
    return got.ok() ? static_cast<std::size_t>(*got) : 0;
  }

 private:
  const ZipFile& zip_;
  std::string record_;
};

struct Mapping {
  void* address;
  std::size_t bytes;
};

// Zero pages that cost memory only where they are touched.
at::DataPtr UntouchedBytes(std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(address != MAP_FAILED, "no address space for ", bytes, " bytes");
  auto* mapping = new Mapping{address, bytes};
  const auto release = [](void* context) {
    const std::unique_ptr<Mapping> owned(static_cast<Mapping*>(context));
    ::munmap(owned->address, owned->bytes);
  };
  return {address, mapping, release, at::kCPU};
}

}  // namespace

Status ReadPickledTensors(const ZipFile& zip, const std::string& record, const std::string& path,
                          StoredTensors& tensors) {
  caffe2::serialize::PyTorchStreamReader reader(std::make_shared<RecordReader>(zip, record));
  const auto [pickle, pickle_bytes] = reader.getRecord("data.pkl");
  const char* bytes = static_cast<const char*>(pickle.get());
  std::size_t at = 0;
  const auto read = [&, size = pickle_bytes](char* buffer, std::size_t n) {
    n = std::min(n, size - at);
    std::memcpy(buffer, bytes + at, n);
    at += n;
    return n;
  };
  std::set<const void*> known;  // storages whose values were read
  const auto read_record = [&](const std::string& name) -> at::DataPtr {
    const std::string full = "data/" + name;
    const std::size_t size = reader.getRecordSize(full);
    if (size > kMaxValueBytes) return UntouchedBytes(size);
    at::DataPtr data = std::get<0>(reader.getRecord(full));
    known.insert(data.get());
    return data;
  };
  torch::jit::Unpickler unpickler(read, nullptr, nullptr, read_record, at::kCPU);
  const c10::IValue value = unpickler.parse_ivalue();
  if (!value.isGenericDict()) {
    return Status::BadInput(path + ": record " + record + " is not a dictionary of tensors");
  }
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString() || !entry.value().isTensor()) continue;
    StoredTensor stored;
    stored.tensor = entry.value().toTensor();
    stored.has_values =
        stored.tensor.numel() == 0 || known.count(stored.tensor.storage().data()) != 0;
    // Tied parameters are one object in Python; here they share their memory.
    for (const auto& [name, other] : tensors) {
      if (stored.tensor.numel() > 0 && other.tensor.is_same_size(stored.tensor) &&
          other.tensor.data_ptr() == stored.tensor.data_ptr() &&
          other.tensor.strides() == stored.tensor.strides()) {
        stored.tensor = other.tensor;
        break;
      }
    }
    tensors.insert_or_assign(entry.key().toStringRef(), stored);
  }
  return Status::Ok();
}

}  // namespace memmodel::step
