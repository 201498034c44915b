#include "src/vgpu/cudnn_plan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "src/vgpu/calls.h"
#include "src/vgpu/cudnn_properties.h"
#include "src/vgpu/cudnn_table.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

using Name = cudnnBackendAttributeName_t;

RecordPtr PartOf(const Record& record, Name name) {
  const Record::Attribute* attribute = record.Find(name);
  return attribute == nullptr || attribute->parts.empty() ? nullptr : attribute->parts.front();
}

// Where an operation keeps its descriptors.
struct Places {
  cudnnBackendDescriptorType_t type;
  Name x, w, y, convolution;
  ConvolutionOp op;
  const char* name;
};
constexpr std::array<Places, 3> kPlaces = {{
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     ConvolutionOp::kForward, "fwd"},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, ConvolutionOp::kBackwardData, "dgrad"},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, ConvolutionOp::kBackwardFilter,
     "wgrad"},
}};

const char* TypeName(std::int64_t type, ElementType* element) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      *element = ElementType::kFloat;
      return "f32";
    case CUDNN_DATA_HALF:
      *element = ElementType::kHalf;
      return "f16";
    case CUDNN_DATA_BFLOAT16:
      *element = ElementType::kBFloat16;
      return "bf16";
    default:
      return nullptr;
  }
}

std::string KeyOf(const char* op, const char* type, const Record& x, const Record& w,
                  const Record& convolution, const ConvolutionPlan& plan) {
  const auto spatial =
      static_cast<std::size_t>(convolution.Number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0, 0));
  std::string key = std::string(op) + " " + type;
  const auto add = [&](const Record& record, Name name, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      key.append(" ").append(std::to_string(record.Number(name, i, 0)));
    }
  };
  add(x, CUDNN_ATTR_TENSOR_DIMENSIONS, 0, 2 + spatial);
  add(w, CUDNN_ATTR_TENSOR_DIMENSIONS, 0, 1);
  add(w, CUDNN_ATTR_TENSOR_DIMENSIONS, 2, 2 + spatial);
  for (const Name name :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
    add(convolution, name, 0, spatial);
  }
  return key + " " + std::to_string(plan.shape.groups) + (plan.channels_last ? " 1" : " 0");
}

// Whether `tensor` is as torch lays out one whose storage it made itself: dense, in the
// order of the key, at an address of the alignment that torch looks for.
bool Plain(const Record& tensor, bool channels_last) {
  const Record::Attribute* sizes = tensor.Find(CUDNN_ATTR_TENSOR_DIMENSIONS);
  if (sizes == nullptr || tensor.Number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0, 0) != 32) return false;
  const auto size = [&](std::size_t i) {
    return tensor.Number(CUDNN_ATTR_TENSOR_DIMENSIONS, i, 0);
  };
  const auto count = static_cast<std::size_t>(sizes->count);
  std::int64_t expected = 1;
  const auto dense = [&](std::size_t i) {
    const bool right = size(i) == 1 || tensor.Number(CUDNN_ATTR_TENSOR_STRIDES, i, 0) == expected;
    expected *= size(i);
    return right;
  };
  if (channels_last && !dense(1)) return false;
  for (std::size_t i = count; i-- > 0;) {
    if (!(channels_last && i == 1) && !dense(i)) return false;
  }
  return true;
}

bool Describe(const Record& operation, const Places& places, ConvolutionPlan* plan) {
  const RecordPtr x = PartOf(operation, places.x);
  const RecordPtr w = PartOf(operation, places.w);
  const RecordPtr y = PartOf(operation, places.y);
  const RecordPtr convolution = PartOf(operation, places.convolution);
  if (x == nullptr || w == nullptr || y == nullptr || convolution == nullptr) return false;
  const auto spatial = convolution->Number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0, 0);
  if (spatial != 2 && spatial != 3) return false;
  const auto size = [](const RecordPtr& tensor, std::size_t i) {
    return tensor->Number(CUDNN_ATTR_TENSOR_DIMENSIONS, i, 0);
  };
  // The depth of 3-D counts with the height: only products of the two are used.
  const auto height = [&](const RecordPtr& tensor) {
    return size(tensor, 2) * (spatial == 3 ? size(tensor, 3) : 1);
  };
  const std::size_t last = spatial == 3 ? 4 : 3;
  ConvolutionShape& shape = plan->shape;
  shape.op = places.op;
  const char* type = TypeName(x->Number(CUDNN_ATTR_TENSOR_DATA_TYPE, 0, -1), &shape.type);
  if (type == nullptr || size(w, 1) < 1) return false;
  shape.n = size(x, 0);
  shape.c = size(x, 1);
  shape.h = height(x);
  shape.w = size(x, last);
  shape.k = size(w, 0);
  shape.r = height(w);
  shape.s = size(w, last);
  shape.p = height(y);
  shape.q = size(y, last);
  shape.groups = shape.c / size(w, 1);
  // Channels last: channels lie side by side in the input or, where it has one
  // channel or one pixel and the strides do not tell, in the weights or output.
  for (const RecordPtr& tensor : {x, w, y}) {
    if (size(tensor, 1) == 1 || height(tensor) * size(tensor, last) == 1) continue;
    plan->channels_last = tensor->Number(CUDNN_ATTR_TENSOR_STRIDES, 1, 0) == 1;
    break;
  }
  plan->key = KeyOf(places.name, type, *x, *w, *convolution, *plan);
  return true;
}

void DescribeChoice(const RecordPtr& config, EngineChoice* choice) {
  Answers& answers = Answers::Get();
  const RecordPtr engine =
      answers.Part(config, CUDNN_ATTR_ENGINECFG_ENGINE, 0, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (!answers.Value(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &choice->engine)) {
    return;
  }
  constexpr std::int64_t kMostKnobs = 64;
  std::int64_t knobs = 0;
  std::vector<RecordPtr> parts(kMostKnobs,
                               std::make_shared<Record>(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
  if (answers.Attribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        kMostKnobs, &knobs, nullptr, &parts) != CUDNN_STATUS_SUCCESS) {
    return;
  }
  for (std::int64_t i = 0; i < std::min(knobs, kMostKnobs); ++i) {
    const RecordPtr& knob = parts[static_cast<std::size_t>(i)];
    cudnnBackendKnobType_t type{};
    std::int64_t value = 0;
    if (!answers.Value(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type) ||
        !answers.Value(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value)) {
      continue;
    }
    switch (type) {
      case CUDNN_KNOB_TYPE_TILE_SIZE:
        choice->tile_size = value;
        break;
      case CUDNN_KNOB_TYPE_TILEK:
        choice->tile_k = value;
        break;
      case CUDNN_KNOB_TYPE_WORKSPACE:
        choice->workspace = value;
        break;
      case CUDNN_KNOB_TYPE_TILE_CGA_M:
        choice->cluster_m = value;
        break;
      case CUDNN_KNOB_TYPE_TILE_CGA_N:
        choice->cluster_n = value;
        break;
      default:
        break;
    }
  }
}

// MEMMODEL_VGPU_CUDNN_TABLE, else cudnn/NAME.plans beside the folder of the
// device file; empty for none.
std::string TablePath() {
  if (const char* path = std::getenv("MEMMODEL_VGPU_CUDNN_TABLE"); path != nullptr) {
    return std::string_view(path) == "0" ? std::string() : std::string(path);
  }
  const char* device = std::getenv("MEMMODEL_VGPU_DEVICE");
  if (device == nullptr) return {};
  const std::filesystem::path path = std::filesystem::path(device).parent_path() / ".." / "cudnn" /
                                     (State::Get().spec().name + ".plans");
  std::error_code error;
  return std::filesystem::exists(path, error) ? path.string() : std::string();
}

// The table that belongs to the device and the real library; empty without one.
const PlanTable& Table() {
  static const PlanTable* table = [] {
    const std::string path = TablePath();
    if (path.empty()) return new PlanTable;
    Result<PlanTable> opened = PlanTable::Open(path);
    if (!opened.ok()) {
      std::fprintf(stderr, "memmodel: %s\n", opened.status().message().c_str());
      return new PlanTable;
    }
    const bool fits =
        opened->device() == State::Get().spec().device_name &&
        opened->cudnn_version() == static_cast<std::int64_t>(Answers::Get().Version());
    return fits ? new PlanTable(*std::move(opened)) : new PlanTable;
  }();
  return *table;
}

// Appends the key to the file that MEMMODEL_VGPU_CUDNN_ASKED names, for `memmodel calibrate`.
void NoteAsked(const std::string& key) {
  const char* path = std::getenv("MEMMODEL_VGPU_CUDNN_ASKED");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  const std::string line = key + "\n";
  // One write a line, so that those of several processes do not mix.
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

// Whether the plan is the first that the heuristic gives: the one that a calibrated table
// speaks of where the real library's first has an engine that is not offered without a device.
bool FirstOfAll(const Record& plan) {
  const RecordPtr config = PartOf(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return config != nullptr && config->parent != nullptr && config->parent_index == 0 &&
         config->parent->Number(CUDNN_ATTR_ENGINEHEUR_MODE, 0, -1) == CUDNN_HEUR_MODE_INSTANT;
}

// Whether the plan's configuration is the first of its engine that the heuristic
// gives: the one that a calibrated table speaks of.
bool FirstOfItsEngine(const Record& plan, std::int64_t engine) {
  const RecordPtr config = PartOf(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config == nullptr || config->parent == nullptr ||
      config->parent->Number(CUDNN_ATTR_ENGINEHEUR_MODE, 0, -1) != CUDNN_HEUR_MODE_INSTANT) {
    return false;
  }
  Answers& answers = Answers::Get();
  for (std::int64_t i = 0; i < config->parent_index; ++i) {
    const RecordPtr other = answers.Part(config->parent, config->parent_attribute, i,
                                         CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const RecordPtr part =
        answers.Part(other, CUDNN_ATTR_ENGINECFG_ENGINE, 0, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::int64_t index = -1;
    if (answers.Value(part, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index) &&
        index == engine) {
      return false;
    }
  }
  return true;
}

// Whether part of the workspace is an answer of cublasLt's heuristic under a limit other than 0,
// which was fitted to one GPU's (cublas_lt_workspace.h).
bool AsksCublasLt(const ConvolutionPlan& plan) {
  std::int64_t engine = -1;
  switch (plan.shape.op) {
    case ConvolutionOp::kForward:
      engine = 58;
      break;
    case ConvolutionOp::kBackwardData:
      engine = 63;
      break;
    case ConvolutionOp::kBackwardFilter:
      engine = 62;
      break;
  }
  return plan.choice.engine == engine && plan.choice.workspace > 0;
}

// The one convolution that the plan is for; null if it is for something else.
std::pair<RecordPtr, const Places*> OperationOf(const Record& plan) {
  const RecordPtr config = PartOf(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config == nullptr) return {};
  // A configuration comes from a heuristic of the graph, or is the program's own.
  RecordPtr graph;
  if (config->parent != nullptr) {
    graph = PartOf(*config->parent, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  } else if (const RecordPtr engine = PartOf(*config, CUDNN_ATTR_ENGINECFG_ENGINE)) {
    graph = PartOf(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  }
  if (graph == nullptr) return {};
  const Record::Attribute* operations = graph->Find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == nullptr || operations->parts.size() != 1) return {};
  for (const Places& places : kPlaces) {
    if (operations->parts.front()->type == places.type) return {operations->parts.front(), &places};
  }
  return {};
}

}  // namespace

std::optional<ConvolutionPlan> DescribePlan(const RecordPtr& plan) {
  ConvolutionPlan described;
  const auto [operation, places] = OperationOf(*plan);
  if (operation == nullptr || !Describe(*operation, *places, &described)) return std::nullopt;
  DescribeChoice(PartOf(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), &described.choice);
  return described;
}

std::string WholeKey(const RecordPtr& plan) {
  ConvolutionPlan described;
  const auto [operation, places] = OperationOf(*plan);
  if (operation == nullptr || !Describe(*operation, *places, &described)) return {};
  for (const Name name : {places->x, places->w, places->y}) {
    if (!Plain(*PartOf(*operation, name), described.channels_last)) return {};
  }
  const RecordPtr convolution = PartOf(*operation, places->convolution);
  const auto spatial = convolution->Number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(spatial); ++i) {
    if (convolution->Number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i, 0) !=
        convolution->Number(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i, 0)) {
      return {};
    }
  }
  return described.key;
}

std::int64_t DeviceWorkspace(const RecordPtr& plan, std::int64_t bytes) {
  const std::optional<ConvolutionPlan> described = DescribePlan(plan);
  if (!described) return bytes;
  if (!described->key.empty()) NoteAsked(described->key);
  const std::optional<PlanTable::Row> row =
      described->key.empty() ? std::nullopt : Table().Find(described->key);
  if (row && (row->engine == described->choice.engine ? FirstOfItsEngine(*plan, row->engine)
                                                      : FirstOfAll(*plan))) {
    State::Get().CountWorkspace(/*calibrated=*/true);
    return row->workspace;
  }
  State::Get().CountWorkspace(/*calibrated=*/false);
  if (bytes > 0 && !IsMeasured(Answers::Get().Version())) {
    static memmodel_vgpu_call call = {"cudnnBackendGetAttribute", 0, nullptr};
    memmodel_vgpu_approximate(&call);
  }
  // On Hopper the answer is fitted; on other GPUs there is none.
  if (AsksCublasLt(*described) && State::Get().spec().ComputeCapability() != 90) {
    static memmodel_vgpu_call call = {"cublasLtMatmulAlgoGetHeuristic", 0, nullptr};
    memmodel_vgpu_approximate(&call);
  }
  const EngineChoice& choice = described->choice;
  const std::int64_t clusters =
      MaxActiveClusters(State::Get().spec(), choice.cluster_m * choice.cluster_n);
  const auto without = StreamKBytes(described->shape, choice, DevicelessClusters(choice));
  const auto with = StreamKBytes(described->shape, choice, clusters);
  if (!without || !with || bytes < *without) return bytes;
  return bytes - *without + *with;
}

}  // namespace memmodel::vgpu
