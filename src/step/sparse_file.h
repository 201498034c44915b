// Reads a PyTorch archive without reading the data of its large tensors.
#ifndef MEMMODEL_SRC_STEP_SPARSE_FILE_H_
#define MEMMODEL_SRC_STEP_SPARSE_FILE_H_

#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "memmodel/status.h"

namespace memmodel::step {

// A file in which some ranges, once named, read as "whatever the destination
// holds". PyTorchStreamReader reads a stored record into memory that it has just
// allocated: pages never touched cost nothing, so that a file of many GB is loaded
// in milliseconds. The bytes must exist in the file all the same.
class SparseFile : public caffe2::serialize::ReadAdapterInterface {
 public:
  // Fails for what is not a readable regular file, naming path and reason.
  static Result<std::shared_ptr<SparseFile>> Open(const std::string& path);
  ~SparseFile() override;
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  [[nodiscard]] std::size_t size() const override { return size_; }
  // Reads up to `n` bytes; fewer at the end of the file.
  std::size_t read(std::uint64_t position, void* buffer, std::size_t n,
                   const char* what = "") const override;

  // Reads that lie within [position, position + n) leave the destination alone.
  void Skip(std::uint64_t position, std::uint64_t n) { skipped_[position] = n; }

 private:
  SparseFile(int fd, std::size_t size) : fd_(fd), size_(size) {}

  int fd_;
  std::size_t size_;
  std::map<std::uint64_t, std::uint64_t> skipped_;  // length by position
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_SPARSE_FILE_H_
