// The part of NCCL's public interface (nccl.h of NCCL 2.28) that the stand-in
// needs: no package of this machine brings the header.
#ifndef MEMMODEL_SRC_VGPU_NCCL_TYPES_H_
#define MEMMODEL_SRC_VGPU_NCCL_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace memmodel::vgpu {

inline constexpr int kNcclVersion = 22809;  // 2.28.9, the one that torch 2.11 asks for
inline constexpr int kNcclSplitNoColor = -1;
inline constexpr std::size_t kNcclUniqueIdBytes = 128;

struct NcclUniqueId {
  char internal[kNcclUniqueIdBytes];
};

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
};

enum NcclType : int {
  kNcclInt8,
  kNcclUint8,
  kNcclInt32,
  kNcclUint32,
  kNcclInt64,
  kNcclUint64,
  kNcclFloat16,
  kNcclFloat32,
  kNcclFloat64,
  kNcclBfloat16,
  kNcclFloat8e4m3,
  kNcclFloat8e5m2,
  kNcclTypes,
};
// Bytes of an element, 0 for an unknown type.
constexpr std::size_t NcclTypeBytes(int type) {
  constexpr std::size_t kBytes[kNcclTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < kNcclTypes ? kBytes[type] : 0;
}

// Operations from kNcclAverage + 1 on are made by ncclRedOpCreatePreMulSum.
enum NcclOperation : int { kNcclSum, kNcclProduct, kNcclMax, kNcclMin, kNcclAverage };

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_NCCL_TYPES_H_
