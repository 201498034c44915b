#include "src/vgpu/state.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>

namespace memmodel::vgpu {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The variable's whole number, `otherwise` if it is unset; complains of any other text.
std::uint64_t Number(const char* name, std::uint64_t most, std::uint64_t otherwise) {
  const std::string text = Environment(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) {
    std::fprintf(stderr, "memmodel: %s=%s is not a whole number up to %llu; ignored\n", name,
                 text.c_str(), static_cast<unsigned long long>(most));
    return otherwise;
  }
  return value;
}

thread_local int current_device = 0;

}  // namespace

State& State::Get() {
  // Never destroyed: libraries call in while the process ends.
  static State* state = [] {
    static State* made = new State;
    // A child of fork() finds the lock free and the state whole.
    pthread_atfork([] { made->mutex_.lock(); }, [] { made->mutex_.unlock(); },
                   [] { made->mutex_.unlock(); });
    return made;
  }();
  return *state;
}

State::State()
    : cudnn_path_(Environment("MEMMODEL_VGPU_CUDNN")),
      cublas_lt_path_(Environment("MEMMODEL_VGPU_CUBLASLT")),
      cache_folder_(Environment("MEMMODEL_VGPU_CACHE")),
      log_path_(Environment("MEMMODEL_VGPU_LOG")) {
  const std::string path = Environment("MEMMODEL_VGPU_DEVICE");
  Result<DeviceSpec> spec = path.empty()
                                ? Status::BadInput("MEMMODEL_VGPU_DEVICE names no device file")
                                : ReadDeviceFile(path);
  if (!spec.ok()) {
    std::fprintf(stderr, "memmodel: no virtual GPU: %s\n", spec.status().message().c_str());
    return;
  }
  spec_ = *std::move(spec);
  device_count_ = static_cast<int>(Number("MEMMODEL_VGPU_COUNT", kMostDevices, 1));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const std::uint64_t total = Number("MEMMODEL_VGPU_TOTAL_BYTES", kMost, spec_.total_bytes);
  const std::uint64_t context = Number("MEMMODEL_VGPU_CONTEXT_BYTES", kMost, 0);
  for (int device = 0; device < device_count_; ++device) {
    memory_.AddDevice(total, context, spec_.context);
  }
}

int State::CurrentDevice() { return current_device; }
void State::SetCurrentDevice(int device) { current_device = device; }

std::uint64_t State::TotalBytes(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t total = memory_.total(device);
  return total == 0 ? spec_.total_bytes : total;
}

std::uint64_t State::FreeBytes(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t total =
      memory_.total(device) == 0 ? spec_.total_bytes : memory_.total(device);
  const std::uint64_t taken = memory_.context(device) + memory_.used(device);
  return taken < total ? total - taken : 0;
}

std::uint64_t State::ContextBytes(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_.context(device) - memory_.system(device);
}

std::uint64_t State::UsedBytes(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_.used(device);
}

void State::SetMemory(int device, std::uint64_t total_bytes, std::uint64_t context_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_.SetCapacity(device, total_bytes, context_bytes);
}

MemoryOutcome State::Free(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const std::optional<Block> block = memory_.Find(address)) {
    shadow_.Forget(block->address, block->bytes);
  }
  return memory_.Free(address);
}

MemoryOutcome State::Unmap(std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const MemoryOutcome outcome = memory_.Unmap(address, bytes);
  if (outcome == MemoryOutcome::kOk) shadow_.Forget(address, bytes);
  return outcome;
}

void State::AddHostRange(const HostRange& range) {
  const std::lock_guard<std::mutex> lock(mutex_);
  host_ranges_[range.address] = range;
}

std::optional<HostRange> State::RemoveHostRange(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = host_ranges_.find(address);
  if (found == host_ranges_.end()) return std::nullopt;
  const HostRange range = found->second;
  host_ranges_.erase(found);
  return range;
}

std::optional<HostRange> State::FindHostRange(std::uint64_t address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = host_ranges_.upper_bound(address);
  if (found == host_ranges_.begin()) return std::nullopt;
  --found;
  if (address - found->first >= found->second.bytes) return std::nullopt;
  return found->second;
}

void State::Copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size) {
  if (size == 0) return;
  auto* const to = reinterpret_cast<void*>(destination);
  const auto* const from = reinterpret_cast<const void*>(source);
  if (!OnDevice(destination) && !OnDevice(source)) {
    std::memmove(to, from, size);
    return;
  }
  memmodel_vgpu_unknown_read_fn reader = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (OnDevice(destination) && OnDevice(source)) {
      shadow_.Copy(destination, source, size, launches());
      return;
    }
    if (OnDevice(destination)) {
      shadow_.Write(destination, from, size);
      return;
    }
    std::memset(to, 0, size);
    if (shadow_.Read(source, size, launches(), to)) return;
    reader = reader_;
    context = reader_context_;
  }
  // Unlocked: the reader may call into the virtual GPU.
  unknown_reads_.fetch_add(1, std::memory_order_relaxed);
  Log("unknown read of " + std::to_string(size) + " bytes");
  if (reader != nullptr && reader(context, source, size, to) != 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    shadow_.Write(source, to, size);
  }
}

void State::Fill(std::uint64_t address, unsigned char value, std::uint64_t size) {
  if (!OnDevice(address)) {
    std::memset(reinterpret_cast<void*>(address), value, size);
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  shadow_.Fill(address, value, size, launches());
}

void State::Know(std::uint64_t address, const void* bytes, std::uint64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shadow_.Know(address, bytes, size);
}

void State::Forget(std::uint64_t address, std::uint64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shadow_.Forget(address, size);
}

void State::ForgetWith(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shadow_.ForgetWith(address);
}

std::uint64_t State::BlockOut(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto block = blocks_out_.insert(address).first;
  const auto next = std::next(block);
  const std::uint64_t limit =
      next == blocks_out_.end() ? std::numeric_limits<std::uint64_t>::max() : *next;
  // To the end of the memory that lies there without a gap.
  std::uint64_t end = address;
  while (end < limit) {
    const std::optional<Block> held = memory_.Find(end);
    if (!held) break;
    end = held->address + held->bytes;
  }
  shadow_.Forget(address, std::min(end, limit) - address);
  return ++blocks_handed_out_;
}

void State::BlockBack(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_out_.erase(address);
}

bool State::Peek(std::uint64_t address, std::uint64_t size, void* destination) const {
  std::string bytes(size, '\0');
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!shadow_.Read(address, size, launches(), bytes.data())) return false;
  std::memcpy(destination, bytes.data(), size);
  return true;
}

void State::OnUnknownRead(memmodel_vgpu_unknown_read_fn reader, void* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reader_ = reader;
  reader_context_ = context;
}

void State::OnConvolution(memmodel_vgpu_convolution_fn watcher, void* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watcher_ = watcher;
  watcher_context_ = context;
}

void State::TellConvolution(const char* key, std::uint64_t workspace) {
  std::unique_lock<std::mutex> lock(mutex_);
  const memmodel_vgpu_convolution_fn watcher = watcher_;
  void* const context = watcher_context_;
  lock.unlock();
  if (watcher != nullptr) watcher(context, key, workspace);
}

void State::OnContextGrowth(memmodel_vgpu_context_growth_fn watcher, void* context) {
  std::unique_lock<std::mutex> lock(mutex_);
  growth_watcher_ = watcher;
  growth_watcher_context_ = context;
  const std::vector<ContextOccasion> before = occasions_;
  lock.unlock();
  if (watcher == nullptr) return;
  for (const ContextOccasion occasion : before) watcher(context, OccasionName(occasion).data());
}

void State::TellContextGrowth(ContextOccasion occasion) {
  std::unique_lock<std::mutex> lock(mutex_);
  occasions_.push_back(occasion);
  const memmodel_vgpu_context_growth_fn watcher = growth_watcher_;
  void* const context = growth_watcher_context_;
  lock.unlock();
  if (watcher != nullptr) watcher(context, OccasionName(occasion).data());
}

bool State::CountKernel(int device) {
  const std::uint32_t bit = std::uint32_t{1} << device;
  if ((devices_with_kernel_.load(std::memory_order_relaxed) & bit) == 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (memory_.FirstKernel(device) != MemoryOutcome::kOk) return false;
    const bool first = (devices_with_kernel_.fetch_or(bit) & bit) == 0;
    lock.unlock();
    if (first) TellContextGrowth(ContextOccasion::kFirstKernel);
  }
  kernels_launched_.fetch_add(1, std::memory_order_relaxed);
  CountLaunch();
  return true;
}

bool State::CountCublasHandle() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (device_count_ == 0 || memory_.CublasHandle(current_device) != MemoryOutcome::kOk) {
    return false;
  }
  lock.unlock();
  TellContextGrowth(ContextOccasion::kCublasHandle);
  cublas_handles_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool State::CountCudnnHandle() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (device_count_ == 0 || memory_.CudnnHandle(current_device) != MemoryOutcome::kOk) {
    return false;
  }
  lock.unlock();
  TellContextGrowth(ContextOccasion::kCudnnHandle);
  cudnn_handles_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void State::CountModule(std::uint64_t code_bytes) {
  modules_loaded_.fetch_add(1, std::memory_order_relaxed);
  code_bytes_.fetch_add(code_bytes, std::memory_order_relaxed);
}

std::uint64_t State::ReserveForVariables(std::uint64_t bytes) {
  std::uint64_t address = 0;
  return memory_.Reserve(bytes, 0, 0, &address) == MemoryOutcome::kOk ? address : 0;
}

void State::Log(const std::string& line) const {
  if (log_path_.empty()) return;
  const int fd = open(log_path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  const std::string text = line + "\n";
  // One write a line, so that lines of several processes do not mix. A log that
  // cannot be written is no reason to disturb the job.
  [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
  close(fd);
}

}  // namespace memmodel::vgpu
