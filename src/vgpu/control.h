// How the child's own code talks to the virtual GPU. A C interface without CUDA
// types, exported by libmemmodel_vgpu.so; callers look the functions up with
// dlsym(RTLD_DEFAULT, ...), and find none of them when a real GPU is used.
//
// All functions may be called from any thread.
#ifndef MEMMODEL_SRC_VGPU_CONTROL_H_
#define MEMMODEL_SRC_VGPU_CONTROL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Sets the total memory of `device` and the part of it that its context takes,
// from now on. Memory already handed out stays. total_bytes 0: unlimited.
// context_bytes 0: what the device file says, as it comes (at start, at the
// first kernel, with each cuBLAS and cuDNN handle).
void memmodel_vgpu_set_memory(int device, uint64_t total_bytes, uint64_t context_bytes);

// Bytes of device memory now handed out (cudaMalloc, mapped pages, pools), in
// whole pages, context not included.
uint64_t memmodel_vgpu_used_bytes(int device);

// Which plan is the fastest where a program times several of cuDNN's (cudnn.benchmark).
// 0, as it begins: the first that cuDNN's heuristic names. Else the one with the largest
// workspace.
void memmodel_vgpu_largest_workspace_fastest(int largest);

// The host asked for `size` bytes at `address` that no host ever wrote: only a
// kernel that did not run could know them. The reader may write its answer to
// `destination` (zeroed before the call). Returns 1 if it did (the bytes then
// count as known), else 0.
typedef int (*memmodel_vgpu_unknown_read_fn)(void* context, uint64_t address, uint64_t size,
                                             void* destination);
void memmodel_vgpu_on_unknown_read(memmodel_vgpu_unknown_read_fn reader, void* context);

// Copies the known bytes at `address` to `destination`; returns 1 if all `size`
// of them are known, else 0 and leaves `destination` alone.
int memmodel_vgpu_peek(uint64_t address, uint64_t size, void* destination);

// Makes `size` bytes at `address` known, as the host knows what an operator writes there.
void memmodel_vgpu_know(uint64_t address, uint64_t size, const void* bytes);

// Makes [address, address + size) unknown. For whoever sees memory change that
// the virtual GPU cannot see: an allocator that hands a block out anew, an
// operator that writes its argument in place.
void memmodel_vgpu_forget(uint64_t address, uint64_t size);

// The same for an allocator of the program's that tells where its blocks begin,
// not how long they are: it handed out the block at `address`, or takes it back.
// All up to the next block that is out is nobody's, and becomes unknown. Returns
// how many blocks were handed out so far.
uint64_t memmodel_vgpu_block_out(uint64_t address);
void memmodel_vgpu_block_back(uint64_t address);

// The program executed a convolution of cuDNN's backend API: `key` says which, as in a
// calibrated table (docs/cudnn.md), `workspace` is the address of its workspace, 0 if it
// has none. Called in the thread that executes; only where the key says all that the
// plan depends on.
typedef void (*memmodel_vgpu_convolution_fn)(void* context, const char* key, uint64_t workspace);
void memmodel_vgpu_on_convolution(memmodel_vgpu_convolution_fn watcher, void* context);

// The context grew and moves the addresses of what comes: `occasion` is a name of
// docs/trace_format.md. Called after it, in the thread in which it happened. What
// happened before this call is told at once, in order.
typedef void (*memmodel_vgpu_context_growth_fn)(void* context, const char* occasion);
void memmodel_vgpu_on_context_growth(memmodel_vgpu_context_growth_fn watcher, void* context);

// What happened so far, as one JSON object: {"unknown_reads":n,"refused":
// [{"function":"cudaX","count":n}],"accepted":[...],"approximate":[...],"modules_loaded":n,
// "code_bytes":n,"cublas_handles":n,"cudnn_handles":n,"kernels_launched":n,
// "distinct_kernels":n,"workspace":"calibrated", "deviceless" or "mixed" (only if a
// convolution was planned),"devices":[{"used_bytes":n,"context_bytes":n}]}, handles
// being those made so far. The text stays valid until the next call from the
// same thread.
const char* memmodel_vgpu_report_json(void);

#ifdef __cplusplus
}
#endif

#endif  // MEMMODEL_SRC_VGPU_CONTROL_H_
