#include "src/step/convolution_plan.h"

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

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
  Sizes strides(s.size(), 1);
  std::int64_t dense = channels_last ? s[1] : 1;
  for (std::size_t i = s.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = dense;
    dense *= s[i];
  }
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, s);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Sizes{id});
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Sizes{32});
  tensor.Finalize();
  return tensor;
}

struct Key {
  std::string operation, type;
  Sizes n;  // N C sizes K filter padding stride dilation groups channels_last
};

Descriptor Graph(const Key& key, cudnnHandle_t handle) {
  const cudnnDataType_t type = key.type == "f32"   ? CUDNN_DATA_FLOAT
                               : key.type == "f16" ? CUDNN_DATA_HALF
                                                   : CUDNN_DATA_BFLOAT16;
  const std::size_t spatial = (key.n.size() - 5) / 5;
  const auto part = [&](std::size_t first) {
    const auto begin = key.n.begin() + static_cast<std::ptrdiff_t>(first);
    return Sizes(begin, begin + static_cast<std::ptrdiff_t>(spatial));
  };
  const auto of = [](std::int64_t outer, std::int64_t channels, const Sizes& inner) {
    Sizes all{outer, channels};
    all.insert(all.end(), inner.begin(), inner.end());
    return all;
  };
  const std::int64_t batch = key.n[0], channels = key.n[1], filters = key.n[2 + spatial];
  const std::int64_t groups = key.n[key.n.size() - 2];
  const bool last = key.n.back() != 0;
  const Sizes size = part(2), filter = part(3 + spatial);
  const Sizes padding = part(3 + 2 * spatial), stride = part(3 + 3 * spatial);
  const Sizes dilation = part(3 + 4 * spatial);
  Sizes out;
  for (std::size_t i = 0; i < spatial; ++i) {
    out.push_back((size[i] + 2 * padding[i] - dilation[i] * (filter[i] - 1) - 1) / stride[i] + 1);
  }
  const Descriptor x = Tensor('x', type, of(batch, channels, size), last);
  const Descriptor w = Tensor('w', type, of(filters, channels / groups, filter), last);
  const Descriptor y = Tensor('y', type, of(batch, filters, out), last);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                  std::vector{CUDNN_DATA_FLOAT});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  std::vector{CUDNN_CROSS_CORRELATION});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Sizes{static_cast<std::int64_t>(spatial)});
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
  if (handle != nullptr) {
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
  }
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

std::optional<Plan> Try(const Descriptor& configuration, cudnnHandle_t handle) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t pointer = engine.get();
  configuration.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointer);
  if (DownConverts(engine)) return std::nullopt;
  Descriptor descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (handle != nullptr) {
    descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
  }
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
    std::fprintf(stderr, "%s: not in any library that is open\n", name);
    std::abort();
  }
  return found;
}

Plan Ask(const std::string& text, void* handle) {
  Key key;
  std::istringstream words(text);
  words >> key.operation >> key.type;
  for (std::int64_t n = 0; words >> n;) key.n.push_back(n);
  if (key.n.size() != 15 && key.n.size() != 20) return {.key = text};
  const Descriptor graph = Graph(key, static_cast<cudnnHandle_t>(handle));
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
      if (std::optional<Plan> plan = Try(configurations[i], static_cast<cudnnHandle_t>(handle))) {
        plan->key = text;
        return *plan;
      }
    }
  }
  return {.key = text, .bytes = -1, .engine = -1};
}

}  // namespace memmodel::cudnn_plans
