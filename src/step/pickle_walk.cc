#include "src/step/pickle_walk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/step/pickle_value.h"

namespace memmodel::step {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kListedTensors = 200;
constexpr std::size_t kLegacyBytes = std::size_t{256} << 20;  // read of a legacy file
constexpr Bytes kMostBytes = std::numeric_limits<Bytes>::max() / 4;

struct Dtype {
  std::string_view storage;  // torch.FloatStorage, or torch.float32 in newer files
  std::string_view name;
  Bytes bytes;
};

constexpr std::array<Dtype, 11> kDtypes = {{{"FloatStorage", "float32", 4},
                                            {"DoubleStorage", "float64", 8},
                                            {"HalfStorage", "float16", 2},
                                            {"BFloat16Storage", "bfloat16", 2},
                                            {"LongStorage", "int64", 8},
                                            {"IntStorage", "int32", 4},
                                            {"ShortStorage", "int16", 2},
                                            {"CharStorage", "int8", 1},
                                            {"ByteStorage", "uint8", 1},
                                            {"BoolStorage", "bool", 1},
                                            {"ComplexFloatStorage", "complex64", 8}}};

const Dtype* FindDtype(std::string_view global) {
  const std::size_t dot = global.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? global : global.substr(dot + 1);
  for (const Dtype& dtype : kDtypes) {
    if (dtype.storage == last || dtype.name == last) return &dtype;
  }
  return nullptr;
}

bool IsCall(const PickleValue* value, std::string_view function) {
  return value->kind == Kind::kCall && value->items[0]->kind == Kind::kGlobal &&
         value->items[0]->text.starts_with(function);
}

const std::vector<PickleValue*>& Arguments(const PickleValue* call) {
  return call->items[1]->items;
}

// Entries of a dict or OrderedDict, {key, value, ...}; null for anything else.
const std::vector<PickleValue*>* EntriesOf(const PickleValue* value) {
  if (value == nullptr) return nullptr;
  if (value->kind == Kind::kDict) return &value->items;
  if (IsCall(value, "collections.OrderedDict") || IsCall(value, "collections.defaultdict")) {
    return &value->entries;
  }
  return nullptr;
}

const PickleValue* Member(const PickleValue* dict, std::string_view key) {
  const std::vector<PickleValue*>* entries = EntriesOf(dict);
  if (entries == nullptr) return nullptr;
  for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
    if ((*entries)[i]->kind == Kind::kText && (*entries)[i]->text == key) return (*entries)[i + 1];
  }
  return nullptr;
}

class Collector {
 public:
  // Adds `value` if it would rebuild a tensor; false if it would not.
  bool AddTensor(const PickleValue* value, const std::string& name) {
    if (IsCall(value, "torch._utils._rebuild_parameter") && !Arguments(value).empty()) {
      value = Arguments(value)[0];
    }
    if (!IsCall(value, "torch._utils._rebuild_tensor") || Arguments(value).size() < 3) return false;
    const std::vector<PickleValue*>& arguments = Arguments(value);
    PickledTensor tensor;
    tensor.name = name;
    const Dtype* dtype = nullptr;
    std::string storage_key;
    if (arguments[0]->kind == Kind::kPersistent && arguments[0]->items[0]->items.size() >= 3) {
      const std::vector<PickleValue*>& id = arguments[0]->items[0]->items;
      dtype = FindDtype(id[1]->text);
      storage_key = id[2]->text;
    }
    for (const PickleValue* argument : arguments) {
      if (argument->kind != Kind::kGlobal) continue;
      if (const Dtype* named = FindDtype(argument->text)) dtype = named;  // _rebuild_tensor_v3
    }
    if (dtype == nullptr) return false;
    tensor.dtype = dtype->name;
    Bytes bytes = dtype->bytes;
    for (const PickleValue* size : arguments[2]->items) {
      tensor.shape.push_back(size->number);
      if (size->number < 0 || (size->number > 0 && bytes > kMostBytes / size->number)) {
        overflow_ = true;
        return true;
      }
      bytes *= size->number;
    }
    tensor.bytes = bytes;
    if (!seen_.emplace(storage_key, arguments[1]->number).second) return true;  // tied
    total_ = total_ > kMostBytes - bytes ? kMostBytes : total_ + bytes;
    elements_ += bytes / dtype->bytes;
    tensors_.push_back(std::move(tensor));
    return true;
  }

  void AddDict(const PickleValue* dict) {
    const std::vector<PickleValue*>& entries = *EntriesOf(dict);
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      const std::string& name = entries[i]->text;
      if (IsBufferName(name)) continue;
      AddTensor(entries[i + 1], name);
    }
  }

  // Parameters of a pickled nn.Module and of all its children. Depth is bounded by
  // the set of modules seen, not by recursion.
  void AddModule(const PickleValue* root) {
    std::vector<std::pair<const PickleValue*, std::string>> queue{{root, ""}};
    std::unordered_set<const PickleValue*> visited;
    while (!queue.empty()) {
      const auto [module, path] = queue.back();
      queue.pop_back();
      if (!visited.insert(module).second) continue;
      const auto visit = [&](std::string_view key, const auto& fn) {
        const std::vector<PickleValue*>* entries = EntriesOf(Member(module->state, key));
        for (std::size_t i = 0; entries != nullptr && i + 1 < entries->size(); i += 2) {
          fn((*entries)[i + 1],
             path.empty() ? (*entries)[i]->text : path + "." + (*entries)[i]->text);
        }
      };
      visit("_parameters", [&](const PickleValue* v, const std::string& n) { AddTensor(v, n); });
      visit("_modules",
            [&](const PickleValue* v, const std::string& n) { queue.emplace_back(v, n); });
    }
  }

  [[nodiscard]] bool empty() const { return tensors_.empty(); }
  [[nodiscard]] bool overflow() const { return overflow_; }

  StateDictAnswer Finish(std::string what) {
    StateDictAnswer answer;
    answer.what = std::move(what);
    answer.parameters = elements_;
    answer.parameter_bytes = total_;
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    if (tensors_.size() > kListedTensors) tensors_.resize(kListedTensors);
    answer.tensors = std::move(tensors_);
    return answer;
  }

 private:
  static bool IsBufferName(std::string_view name) {
    for (const std::string_view end : {"running_mean", "running_var", "num_batches_tracked"}) {
      if (name.ends_with(end)) return true;
    }
    return false;
  }

  std::vector<PickledTensor> tensors_;
  std::set<std::pair<std::string, std::int64_t>> seen_;  // storage and offset
  std::int64_t elements_ = 0;
  Bytes total_ = 0;
  bool overflow_ = false;
};

Result<StateDictAnswer> Describe(const PickleValue* root, const std::string& name) {
  Collector collector;
  std::string what = "state_dict";
  if (EntriesOf(root) != nullptr) {
    // A checkpoint keeps the weights under one of these names.
    const PickleValue* dict = root;
    for (const char* key : {"state_dict", "model_state_dict", "model", "module", "net", "params"}) {
      const PickleValue* member = Member(root, key);
      if (member == nullptr) continue;
      if (EntriesOf(member) != nullptr) {
        dict = member;
        break;
      }
      if (member->state != nullptr) {
        collector.AddModule(member);
        what = "module";
        dict = nullptr;
        break;
      }
    }
    if (dict != nullptr) collector.AddDict(dict);
  } else if (root->kind == Kind::kCall && !collector.AddTensor(root, "")) {
    collector.AddModule(root);
    what = "module";
  }
  if (collector.overflow()) {
    return Status::BadInput(name + " declares a tensor of an impossible size");
  }
  if (collector.empty()) {
    return Status::BadInput(
        name +
        " was written by torch.save, but holds no weights that can be "
        "recognised; export the model with torch.jit.save or torch.export.save");
  }
  return collector.Finish(what);
}

}  // namespace

Result<StateDictAnswer> WalkPickle(std::string_view bytes, const std::string& name) {
  Pickle pickle;
  if (const Status status = pickle.Read(bytes); !status.ok()) {
    return Status::BadInput(name + ": " + status.message());
  }
  return Describe(pickle.root(), name);
}

Result<StateDictAnswer> DescribePickle(const std::string& path, const Archive& archive) {
  if (archive.kind == ArchiveKind::kPickle) return WalkPickle(archive.pickle, path);
  // The old form is a row of pickles: magic number, protocol version, system
  // information, the object; then the storages.
  const auto kMagic =
      static_cast<std::int64_t>(0xa86a20f9469cfc6cULL);  // low bits of 0x1950a86a20f9469cfc6c
  std::string bytes(std::min(archive.file->size(), kLegacyBytes), '\0');
  bytes.resize(archive.file->read(0, bytes.data(), bytes.size()));
  std::string_view rest = bytes;
  for (int i = 0; i < 4; ++i) {
    Pickle pickle;
    const Status status = pickle.Read(rest);
    if (i == 0 && (!status.ok() || pickle.root()->number != kMagic)) {
      return Status::BadInput(path +
                              " is a Python pickle, but not one of torch.save; expected a "
                              "file of torch.jit.save (.pt) or torch.export.save (.pt2)");
    }
    if (!status.ok()) return Status::BadInput(path + ": " + status.message());
    if (i == 3) return Describe(pickle.root(), path);
    rest.remove_prefix(pickle.consumed());
  }
  return Status::Internal("unreachable");
}

}  // namespace memmodel::step
