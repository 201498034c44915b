// Keeps the virtual GPU's knowledge of bytes honest.
#ifndef MEMMODEL_SRC_TRACER_KNOWN_BYTES_H_
#define MEMMODEL_SRC_TRACER_KNOWN_BYTES_H_

namespace memmodel::tracer {

// From now on a block that the caching allocator hands out holds no known bytes: what
// the host once wrote there belongs to a tensor that is gone. Does nothing on a real
// GPU.
void ForgetReusedBytes();

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_KNOWN_BYTES_H_
