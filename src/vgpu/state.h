// The one state that all stand-ins of a process share. It lives in
// libmemmodel_vgpu.so, is made at first use from the environment
// (docs/architecture.md), and holds no thread and, across fork(), no lock.
#ifndef MEMMODEL_SRC_VGPU_STATE_H_
#define MEMMODEL_SRC_VGPU_STATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memmodel/trace.h"
#include "src/devices/device_file.h"
#include "src/vgpu/control.h"
#include "src/vgpu/device_memory.h"
#include "src/vgpu/export.h"
#include "src/vgpu/shadow_bytes.h"

namespace memmodel::vgpu {

using memmodel::DeviceSpec;  // for the stand-ins' functions, which stand in no namespace

// Host memory that CUDA knows about.
struct HostRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  enum Kind { kPinned, kRegistered, kManaged } kind = kPinned;
  unsigned flags = 0;
  int device = 0;
};

// All methods may be called from any thread.
class MEMMODEL_VGPU_EXPORT State {
 public:
  static State& Get();

  // 0 if the device file could not be read, which was then said on standard error.
  [[nodiscard]] int device_count() const { return device_count_; }
  [[nodiscard]] const DeviceSpec& spec() const { return spec_; }
  // The calling thread's device, which the runtime and the driver share.
  static int CurrentDevice();
  static void SetCurrentDevice(int device);
  // The lock of this state, for what lies beside it (streams.h).
  [[nodiscard]] std::unique_lock<std::mutex> Lock() const { return std::unique_lock(mutex_); }
  // The figure of cudaDeviceProp.totalGlobalMem; the device file's if unlimited.
  [[nodiscard]] std::uint64_t TotalBytes(int device) const;
  [[nodiscard]] std::uint64_t FreeBytes(int device) const;
  // What the context takes, as NVML counts it for the process.
  [[nodiscard]] std::uint64_t ContextBytes(int device) const;
  [[nodiscard]] std::uint64_t UsedBytes(int device) const;
  void SetMemory(int device, std::uint64_t total_bytes, std::uint64_t context_bytes);

  // Runs `action` on the memory under the lock.
  template <typename Action>
  auto WithMemory(Action action) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return action(memory_);
  }
  // As cudaFree: also forgets the bytes.
  MemoryOutcome Free(std::uint64_t address);
  MemoryOutcome Unmap(std::uint64_t address, std::uint64_t bytes);

  void AddHostRange(const HostRange& range);
  std::optional<HostRange> RemoveHostRange(std::uint64_t address);
  [[nodiscard]] std::optional<HostRange> FindHostRange(std::uint64_t address) const;

  // A copy between any two addresses; host bytes are moved, device bytes known
  // or not (shadow_bytes.h). Reading unknown bytes asks the reader of control.h
  // and is counted; what it leaves is zero.
  void Copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size);
  void Fill(std::uint64_t address, unsigned char value, std::uint64_t size);
  void Know(std::uint64_t address, const void* bytes, std::uint64_t size);
  void Forget(std::uint64_t address, std::uint64_t size);
  // A kernel was given this address, and may have written there.
  void ForgetWith(std::uint64_t address);
  // Blocks of the program's own allocator (control.h).
  std::uint64_t BlockOut(std::uint64_t address);
  void BlockBack(std::uint64_t address);
  bool Peek(std::uint64_t address, std::uint64_t size, void* destination) const;
  void OnUnknownRead(memmodel_vgpu_unknown_read_fn reader, void* context);
  void OnConvolution(memmodel_vgpu_convolution_fn watcher, void* context);
  void OnContextGrowth(memmodel_vgpu_context_growth_fn watcher, void* context);
  // Tells the watcher, if there is one.
  void TellConvolution(const char* key, std::uint64_t workspace);

  // Something was launched that may write device memory.
  void CountLaunch() { launches_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  // Kernels: see kernels.h for what is loaded when.
  // Counts a launch of a kernel; false if the device has no memory for what the
  // first one takes.
  bool CountKernel(int device);
  // A handle of cuBLAS or cuDNN, which takes device memory of its own.
  // A handle was made on the current device; false if there is no memory for it.
  bool CountCublasHandle();
  bool CountCudnnHandle();
  // Where the workspace of a convolution's plan came from: a calibrated table, or rules.
  void CountWorkspace(bool calibrated) {
    (calibrated ? calibrated_workspaces_ : deviceless_workspaces_)
        .fetch_add(1, std::memory_order_relaxed);
  }
  // See memmodel_vgpu_largest_workspace_fastest.
  void SetLargestWorkspaceFastest(bool is) { largest_workspace_fastest_ = is; }
  [[nodiscard]] bool largest_workspace_fastest() const { return largest_workspace_fastest_; }
  void CountDistinctKernel() { distinct_kernels_.fetch_add(1, std::memory_order_relaxed); }
  // A module was loaded.
  void CountModule(std::uint64_t code_bytes);
  // Address space for device variables. Called under the lock.
  [[nodiscard]] std::uint64_t ReserveForVariables(std::uint64_t bytes);
  [[nodiscard]] std::string ReportJson() const;

  // One line to MEMMODEL_VGPU_LOG, if that is set.
  void Log(const std::string& line) const;
  [[nodiscard]] const std::string& cudnn_path() const { return cudnn_path_; }
  [[nodiscard]] const std::string& cublas_lt_path() const { return cublas_lt_path_; }
  [[nodiscard]] const std::string& cache_folder() const { return cache_folder_; }

 private:
  State();
  // Counts the occasion and tells of it; not under the lock.
  void TellContextGrowth(ContextOccasion occasion);

  DeviceSpec spec_;
  int device_count_ = 0;
  std::string cudnn_path_;
  std::string cublas_lt_path_;
  std::string cache_folder_;
  std::string log_path_;

  mutable std::mutex mutex_;  // guards what follows
  DeviceMemory memory_;
  ShadowBytes shadow_;
  std::map<std::uint64_t, HostRange> host_ranges_;
  std::set<std::uint64_t> blocks_out_;  // where each begins
  std::uint64_t blocks_handed_out_ = 0;
  memmodel_vgpu_unknown_read_fn reader_ = nullptr;
  void* reader_context_ = nullptr;
  memmodel_vgpu_convolution_fn watcher_ = nullptr;
  void* watcher_context_ = nullptr;
  std::vector<ContextOccasion> occasions_;  // so far
  memmodel_vgpu_context_growth_fn growth_watcher_ = nullptr;
  void* growth_watcher_context_ = nullptr;

  std::atomic<std::uint64_t> unknown_reads_ = 0;
  std::atomic<std::uint64_t> launches_ = 0;
  std::atomic<std::uint32_t> devices_with_kernel_ = 0;  // a bit a device
  std::atomic<std::uint64_t> kernels_launched_ = 0;
  std::atomic<std::uint64_t> distinct_kernels_ = 0;
  std::atomic<std::uint64_t> cublas_handles_ = 0;
  std::atomic<std::uint64_t> cudnn_handles_ = 0;
  std::atomic<std::uint64_t> calibrated_workspaces_ = 0;
  std::atomic<std::uint64_t> deviceless_workspaces_ = 0;
  std::atomic<bool> largest_workspace_fastest_ = false;
  std::atomic<std::uint64_t> modules_loaded_ = 0;
  std::atomic<std::uint64_t> code_bytes_ = 0;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_STATE_H_
