// How the ranks of a communicator, which are processes of their own, give each
// other the few bytes whose values are known.
//
// Every rank posts what it contributes to a small collective as a file of the
// exchange folder (MEMMODEL_VGPU_EXCHANGE) and waits for those it needs. Large
// collectives (gradients, activations) exchange nothing: their bytes are unknown.
// Without a folder every rank is taken to contribute what this one does, which is
// right for what such programs compare (parameter shapes, flags).
#ifndef MEMMODEL_SRC_VGPU_NCCL_EXCHANGE_H_
#define MEMMODEL_SRC_VGPU_NCCL_EXCHANGE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace memmodel::vgpu {

// A contribution: its bytes, or none if they are not known.
using Contribution = std::optional<std::string>;

class Exchange {
 public:
  // More bytes than this, summed over the ranks, are never exchanged.
  static constexpr std::uint64_t kLargest = std::uint64_t{1} << 20;
  // A rank that does not come has ended or died; its bytes then are unknown.
  static constexpr int kWaitSeconds = 30;

  // `folder` "": none.
  explicit Exchange(std::string folder) : folder_(std::move(folder)) {}

  [[nodiscard]] bool connected() const { return !folder_.empty(); }
  // `key` names one contribution: communicator, number of the operation, rank.
  void Post(const std::string& key, const Contribution& bytes) const;
  [[nodiscard]] Contribution Wait(const std::string& key) const;

 private:
  [[nodiscard]] std::string Path(const std::string& key) const;
  std::string folder_;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_NCCL_EXCHANGE_H_
