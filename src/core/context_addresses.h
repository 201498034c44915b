// cudaMalloc's addresses in a CUDA context: AddressChunks among what the driver holds
// for itself. The virtual GPU and the allocator simulator's device both place by it, so
// that the same requests and occasions find the same order of addresses. Layout and
// occasions stand in the .cc. Not thread-safe.
#ifndef MEMMODEL_SRC_CORE_CONTEXT_ADDRESSES_H_
#define MEMMODEL_SRC_CORE_CONTEXT_ADDRESSES_H_

#include <cstdint>

#include "src/core/address_chunks.h"

namespace memmodel {

class ContextAddresses {
 public:
  // A new context in [begin, end), both as AddressChunks takes them, at least 1 GiB apart.
  ContextAddresses(std::uint64_t begin, std::uint64_t end);

  // `bytes` is a multiple of 2 MiB and not 0. 0 if the space is exhausted.
  [[nodiscard]] std::uint64_t Allocate(std::uint64_t bytes) { return chunks_.Allocate(bytes); }
  void Free(std::uint64_t address, std::uint64_t bytes) { chunks_.Free(address, bytes); }

  // What the driver takes and gives back for itself on these occasions.
  void FirstKernel();  // once; further calls change nothing
  void CublasHandle();
  void CudnnHandle();

 private:
  AddressChunks chunks_;
  std::uint64_t arena_ = 0;  // 0: given back
  bool cublas_used_ = false;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_CONTEXT_ADDRESSES_H_
