#include "tests/cudnn/convolution_plan.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace memmodel::cudnn_plans {
namespace {

#define CUDNN(name) Find<decltype(name)>(#name)

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    CUDNN(cudnnBackendCreateDescriptor)(type, &descriptor_);
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) CUDNN(cudnnBackendDestroyDescriptor)(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept { std::swap(descriptor_, other.descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const std::vector<Value>& values) {
    CUDNN(cudnnBackendSetAttribute)
    (descriptor_, name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  void Set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{part.descriptor_});
  }
  void Set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    Set(name, CUDNN_TYPE_INT64, values);
  }
  bool Finalize() { return CUDNN(cudnnBackendFinalize)(descriptor_) == CUDNN_STATUS_SUCCESS; }
  std::int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t requested, void* values) const {
    std::int64_t count = 0;
    const cudnnStatus_t status =
        CUDNN(cudnnBackendGetAttribute)(descriptor_, name, type, requested, &count, values);
    return status == CUDNN_STATUS_SUCCESS ? count : -1;
  }
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using Sizes = std::vector<std::int64_t>;

Descriptor Tensor(char id, cudnnDataType_t type, const Sizes& s, bool channels_last) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, s);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, channels_last
                                            ? Sizes{s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}
                                            : Sizes{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1});
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Sizes{id});
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Sizes{32});
  tensor.Finalize();
  return tensor;
}

struct Key {
  std::string operation, type;
  std::array<std::int64_t, 15> n{};  // N C H W K R S pad2 stride2 dilation2 groups channels_last
};

Descriptor Graph(const Key& key) {
  const cudnnDataType_t type = key.type == "f32"   ? CUDNN_DATA_FLOAT
                               : key.type == "f16" ? CUDNN_DATA_HALF
                                                   : CUDNN_DATA_BFLOAT16;
  const auto& n = key.n;
  const Sizes padding{n[7], n[8]};
  const Sizes stride{n[9], n[10]};
  const Sizes dilation{n[11], n[12]};
  const auto out = [&](int i) {
    return (n[2 + i] + 2 * padding[i] - dilation[i] * (n[5 + i] - 1) - 1) / stride[i] + 1;
  };
  const bool last = n[14] != 0;
  const Descriptor x = Tensor('x', type, {n[0], n[1], n[2], n[3]}, last);
  const Descriptor w = Tensor('w', type, {n[4], n[1] / n[13], n[5], n[6]}, last);
  const Descriptor y = Tensor('y', type, {n[0], n[4], out(0), out(1)}, last);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                  std::vector{CUDNN_DATA_FLOAT});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  std::vector{CUDNN_CROSS_CORRELATION});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  convolution.Finalize();

  const auto operation = [&](cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t x_name,
                             cudnnBackendAttributeName_t w_name, cudnnBackendAttributeName_t y_name,
                             cudnnBackendAttributeName_t convolution_name,
                             cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta) {
    Descriptor made(kind);
    made.Set(x_name, x);
    made.Set(w_name, w);
    made.Set(y_name, y);
    made.Set(convolution_name, convolution);
    made.Set(alpha, CUDNN_TYPE_FLOAT, std::vector{1.0F});
    made.Set(beta, CUDNN_TYPE_FLOAT, std::vector{0.0F});
    made.Finalize();
    return made;
  };
#define PART(kind, name) CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##name
#define OPERATION(type, kind, x, w, y)                                                             \
  operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_##type##_DESCRIPTOR, PART(kind, x), PART(kind, w), \
            PART(kind, y), PART(kind, CONV_DESC), PART(kind, ALPHA), PART(kind, BETA))
  const Descriptor done = key.operation == "fwd" ? OPERATION(FORWARD, FORWARD, X, W, Y)
                          : key.operation == "dgrad"
                              ? OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY)
                              : OPERATION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY);
#undef OPERATION
#undef PART
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, done);
  graph.Finalize();
  return graph;
}

bool DownConverts(const Descriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        notes.size(), notes.data());
  return std::find(notes.begin(), notes.begin() + std::max<std::int64_t>(count, 0),
                   CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) !=
         notes.begin() + std::max<std::int64_t>(count, 0);
}

std::optional<Plan> Try(const Descriptor& configuration) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t pointer = engine.get();
  configuration.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointer);
  if (DownConverts(engine)) return std::nullopt;
  Descriptor descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (!descriptor.Finalize()) return std::nullopt;
  Plan plan;
  descriptor.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &plan.bytes);
  engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &plan.engine);
  return plan;
}

}  // namespace

void* FindFunction(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s: not in the stand-ins\n", name);
    std::abort();
  }
  return found;
}

std::string OpenStandIns(const std::string& folder) {
  std::vector<std::string> libraries;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().filename() != "libmemmodel_vgpu.so") libraries.push_back(file.path());
  }
  if (error) return folder + ": " + error.message();
  std::sort(libraries.begin(), libraries.end());
  libraries.insert(libraries.begin(), folder + "/libmemmodel_vgpu.so");
  for (const std::string& library : libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  }
  return "";
}

std::vector<Plan> ReadPlans(const std::string& path) {
  std::vector<Plan> plans;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t engine = line.rfind(' ');
    if (line.starts_with("#") || engine == std::string::npos || engine == 0) continue;
    const std::size_t bytes = line.rfind(' ', engine - 1);
    if (bytes == std::string::npos) continue;
    plans.push_back({line.substr(0, bytes), std::atoll(line.c_str() + bytes),
                     std::atoll(line.c_str() + engine)});
  }
  return plans;
}

Plan Ask(const std::string& text) {
  Key key;
  std::istringstream words(text);
  words >> key.operation >> key.type;
  for (std::int64_t& n : key.n) words >> n;
  const Descriptor graph = Graph(key);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
    if (!heuristic.Finalize()) continue;
    const std::int64_t count =
        heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
    std::vector<Descriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> pointers;
    for (std::int64_t i = 0; i < count; ++i) {
      configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      pointers.push_back(configurations.back().get());
    }
    const std::int64_t given = heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, count, pointers.data());
    for (std::int64_t i = 0; i < given; ++i) {
      if (std::optional<Plan> plan = Try(configurations[i])) {
        plan->key = text;
        return *plan;
      }
    }
  }
  return {.key = text, .bytes = -1, .engine = -1};
}

std::string InProcess(const std::string& folder, const Environment& environment,
                      const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::string text = OpenStandIns(folder);
    if (text.empty()) text = body();
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = write(ends[1], text.data() + done, text.size() - done);
      if (wrote <= 0) _exit(3);
      done += static_cast<std::size_t>(wrote);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    return "died: " + std::to_string(status);
  }
  return text;
}

}  // namespace memmodel::cudnn_plans
