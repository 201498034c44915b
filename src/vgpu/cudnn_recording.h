// cuDNN's backend descriptors as the program makes them, and what the real
// library says about them.
//
// A descriptor is recorded: its type, the attributes set on it, whether it is
// final, or the attribute of another descriptor that it was taken from. Two with
// the same record are the same to cuDNN, so a digest of the record names it, and
// what the real library answered about it (the status of finalizing, the value
// of an attribute) can be kept and found again. Only where no answer is kept is
// the real library opened and the descriptor made in it, with the device's
// properties in place of the program's handle.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_RECORDING_H_
#define MEMMODEL_SRC_VGPU_CUDNN_RECORDING_H_

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/vgpu/cudnn_cache.h"

namespace memmodel::vgpu {

struct Record;
using RecordPtr = std::shared_ptr<Record>;

struct Record {
  struct Attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    std::int64_t count = 0;
    std::string bytes;             // the values, unless they are descriptors
    std::vector<RecordPtr> parts;  // the descriptors
  };

  explicit Record(cudnnBackendDescriptorType_t t) : type(t) {}
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record();  // gives up what the real library made

  [[nodiscard]] const Attribute* Find(cudnnBackendAttributeName_t name) const;
  // The first value of an attribute of whole numbers; `otherwise` if it is not set.
  [[nodiscard]] std::int64_t Number(cudnnBackendAttributeName_t name, std::size_t index,
                                    std::int64_t otherwise) const;

  const cudnnBackendDescriptorType_t type;
  std::vector<Attribute> attributes;
  bool final = false;
  RecordPtr parent;  // set if taken from an attribute of another descriptor
  cudnnBackendAttributeName_t parent_attribute{};
  std::int64_t parent_index = 0;

  std::optional<Digest> digest;  // of all above; empty when something changed
  cudnnBackendDescriptor_t real = nullptr;
  std::map<cudnnBackendAttributeName_t, std::vector<cudnnBackendDescriptor_t>> real_parts;
};

// Bytes of one value; 0 for a type that this version does not know.
std::size_t ValueBytes(cudnnBackendAttributeType_t type);

// The answers for one device. Callers hold Mutex().
class Answers {
 public:
  static Answers& Get();
  static std::mutex& Mutex();

  [[nodiscard]] std::size_t Version();
  cudnnStatus_t Finalize(const RecordPtr& record);
  // As cudnnBackendGetAttribute. `values` are descriptors to be filled where
  // `type` says so: then `parts` gets a record for each of them.
  cudnnStatus_t Attribute(const RecordPtr& record, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, std::int64_t requested,
                          std::int64_t* count, void* values, std::vector<RecordPtr>* parts);
  // Reads one value or descriptor; false if there is none.
  bool Value(const RecordPtr& record, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, void* value);
  RecordPtr Part(const RecordPtr& record, cudnnBackendAttributeName_t name, std::int64_t index,
                 cudnnBackendDescriptorType_t type);
  void Flush() { cache_.Flush(); }

 private:
  Answers();
  const Digest& DigestOf(Record& record);
  // Makes the record in the real library, and finalizes it if it is final.
  cudnnStatus_t Make(Record& record);
  cudnnBackendDescriptor_t DeviceDescriptor();

  std::string device_;  // its properties
  CudnnCache cache_;
};

// Whether the real library is the one that was measured, cuDNN 9.19: what the rules
// of this folder say of another is an estimate.
inline bool IsMeasured(std::size_t version) { return version / 100 == 919; }

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_RECORDING_H_
