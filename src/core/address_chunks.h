// Where the CUDA driver puts what cudaMalloc returns: the order of addresses decides
// which of two equally large free blocks PyTorch's allocator takes. Only addresses
// are handed out here; nothing stands behind them. Rules in the .cc. Not thread-safe.
#ifndef MEMMODEL_SRC_CORE_ADDRESS_CHUNKS_H_
#define MEMMODEL_SRC_CORE_ADDRESS_CHUNKS_H_

#include <cstdint>
#include <map>
#include <vector>

namespace memmodel {

// Free ranges by address.
class Gaps {
 public:
  void Add(std::uint64_t address, std::uint64_t bytes);  // joins its neighbours
  // The lowest gap that holds `bytes`, from its begin; 0 if there is none.
  [[nodiscard]] std::uint64_t TakeLowest(std::uint64_t bytes);
  // The highest `alignment`-aligned address at which `bytes` fit; 0 if none.
  [[nodiscard]] std::uint64_t TakeHighest(std::uint64_t bytes, std::uint64_t alignment);
  // The last `bytes` of the highest gap that holds `bytes + spare`; 0 if none does.
  [[nodiscard]] std::uint64_t TakeTop(std::uint64_t bytes, std::uint64_t spare);
  // Exactly [address, address + bytes), if that is free.
  [[nodiscard]] bool TakeAt(std::uint64_t address, std::uint64_t bytes);

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;
  void Take(Ranges::iterator gap, std::uint64_t address, std::uint64_t bytes);

  Ranges ranges_;  // begin -> bytes
};

// cudaMalloc's addresses on one device.
class AddressChunks {
 public:
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{32} << 20;

  // Hands out [begin, end), both multiples of kChunkBytes, begin not 0.
  AddressChunks(std::uint64_t begin, std::uint64_t end);

  // `bytes` is a multiple of 2 MiB and not 0. 0 if the space is exhausted.
  [[nodiscard]] std::uint64_t Allocate(std::uint64_t bytes);
  void Free(std::uint64_t address, std::uint64_t bytes);

  // A chunk that is there from the beginning, at the top of the space that no chunk
  // takes; its address. Its first `used` bytes are taken.
  std::uint64_t AddChunk(std::uint64_t bytes, std::uint64_t used);
  // Takes the top of the space away.
  void Skip(std::uint64_t bytes);

 private:
  struct Chunk {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
    Gaps gaps;
  };

  Gaps space_;                 // that no chunk takes
  std::vector<Chunk> chunks_;  // oldest first
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_ADDRESS_CHUNKS_H_
