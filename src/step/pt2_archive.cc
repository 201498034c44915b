#include "src/step/pt2_archive.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "src/step/pt2_pickles.h"
#include "src/step/pt2_zip.h"
#include "src/step/torch_compat.h"

namespace memmodel::step {
namespace {

constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kMaxWholeBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxRealBytes = std::uint64_t{64} << 10;
constexpr std::string_view kOldProgram = "serialized_exported_program.json";

std::vector<std::int64_t> Numbers(const std::vector<Dimension>& dimensions) {
  std::vector<std::int64_t> numbers;
  for (const Dimension& d : dimensions) {
    TORCH_CHECK(d.value || d.hint, "a stored tensor has a size that is not known: ", d.expression);
    numbers.push_back(d.value ? *d.value : *d.hint);
  }
  return numbers;
}

// Values as the file has them; nullopt if they are not needed or not there.
std::optional<at::Tensor> Values(const ZipFile& zip, const std::string& record,
                                 const TensorMeta& meta) {
  const std::vector<std::int64_t> sizes = Numbers(meta.sizes);
  const std::vector<std::int64_t> strides = Numbers(meta.strides);
  const std::int64_t offset = meta.storage_offset.value.value_or(0);
  if (sizes.size() != strides.size() || offset < 0) return std::nullopt;
  const std::uint64_t item = c10::elementSize(meta.dtype);
  const std::uint64_t limit =
      c10::isIntegralType(meta.dtype, /*includeBool=*/true) ? kMaxWholeBytes : kMaxRealBytes;
  std::uint64_t elements = 1;  // of the tensor
  std::uint64_t extent = 1;    // of the storage, from the tensor's start
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return std::nullopt;
    if (sizes[i] == 0) return at::empty(sizes, at::dtype(meta.dtype));
    if (static_cast<std::uint64_t>(sizes[i]) > limit ||
        static_cast<std::uint64_t>(strides[i]) > limit) {
      return std::nullopt;
    }
    elements *= static_cast<std::uint64_t>(sizes[i]);
    extent += static_cast<std::uint64_t>(sizes[i] - 1) * static_cast<std::uint64_t>(strides[i]);
    if (elements * item > limit || extent * item > limit) return std::nullopt;
  }
  const auto start = static_cast<std::uint64_t>(offset) * item;
  if (static_cast<std::uint64_t>(offset) > zip.Size(record) ||
      start + extent * item > zip.Size(record)) {
    return std::nullopt;
  }
  at::Tensor storage = at::empty({static_cast<std::int64_t>(extent)}, at::dtype(meta.dtype));
  const Result<std::uint64_t> got =
      zip.ReadPart(record, start, storage.mutable_data_ptr(), extent * item);
  if (!got.ok() || *got != extent * item) return std::nullopt;
  return storage.as_strided(sizes, strides);
}

// The tensors that a payload table describes.
Status ReadRawTensors(const ZipFile& zip, const std::string& folder, const std::string& table,
                      const std::string& path, StoredTensors& tensors) {
  const Result<std::string> text = zip.Read(table, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  const auto payloads = ParsePayloads(*text, path + ": " + table);
  if (!payloads.ok()) return payloads.status();
  using Identity = std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Identity, StoredTensor> seen;
  for (const auto& [name, payload] : *payloads) {
    if (payload.pickled || !payload.meta) continue;  // the graph's own description serves
    const Identity identity{payload.record, Numbers(payload.meta->sizes),
                            Numbers(payload.meta->strides)};
    const auto [it, added] = seen.try_emplace(identity);
    if (added) {
      StoredTensor& stored = it->second;
      if (!payload.meta->requires_grad) {
        if (auto values = Values(zip, folder + payload.record, *payload.meta)) {
          stored.tensor = *std::move(values);
          stored.has_values = true;
        }
      }
      if (!stored.has_values) stored.tensor = HollowTensor(*payload.meta);
    }
    tensors.insert_or_assign(name, it->second);
  }
  return Status::Ok();
}

Status ReadTensors(const ZipFile& zip, const std::string& folder, const std::string& pickle,
                   const std::string& table, const std::string& path, StoredTensors& tensors) {
  if (zip.Has(pickle)) return ReadPickledTensors(zip, pickle, path, tensors);
  if (zip.Has(table)) return ReadRawTensors(zip, folder, table, path, tensors);
  return Status::Ok();  // weights were taken out: the graph describes them
}

}  // namespace

at::Tensor HollowTensor(const TensorMeta& meta) {
  const std::vector<std::int64_t> sizes = Numbers(meta.sizes);
  return at::zeros({1}, at::dtype(meta.dtype))
      .as_strided(sizes, std::vector<std::int64_t>(sizes.size(), 0));
}

Result<Pt2Archive> ReadPt2Archive(const std::string& path) {
  const Result<ZipFile> opened = ZipFile::Open(path);
  if (!opened.ok()) return opened.status();
  const ZipFile& zip = *opened;

  std::string program_record;
  std::string state_pickle, state_folder, state_table;
  std::string constants_pickle, constants_folder, constants_table;
  if (zip.Has(kOldProgram)) {
    program_record = kOldProgram;
    state_pickle = "serialized_state_dict.pt";
    constants_pickle = "serialized_constants.pt";
  } else {
    constexpr std::string_view kModels = "/models/";
    std::vector<std::string> found;
    for (const std::string& name : zip.Names()) {
      const std::size_t at = name.find('/');
      if (at != std::string::npos && name.substr(at, kModels.size()) == kModels &&
          name.ends_with(".json")) {
        found.push_back(name);
      }
    }
    if (found.empty()) {
      return Status::BadInput(path +
                              ": holds no torch.export program (no models/*.json in it); "
                              "torch.export.save writes one");
    }
    if (found.size() > 1) {
      return Status::BadInput(path + ": holds " + std::to_string(found.size()) + " programs (" +
                              found[0] + ", " + found[1] +
                              ", ...), expected one; save the one to be measured alone");
    }
    program_record = found[0];
    const std::string root = program_record.substr(0, program_record.find('/') + 1);
    const std::size_t model_at = root.size() + kModels.size() - 1;
    const std::string model = program_record.substr(model_at, program_record.size() - model_at - 5);
    state_folder = root + "data/weights/";
    state_pickle = state_folder + model + ".pt";
    state_table = state_folder + model + "_weights_config.json";
    constants_folder = root + "data/constants/";
    constants_pickle = constants_folder + model + ".pt";
    constants_table = constants_folder + model + "_constants_config.json";
  }

  const Result<std::string> text = zip.Read(program_record, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  Result<Program> program = ParseProgram(*text, path);
  if (!program.ok()) return program.status();
  Pt2Archive archive;
  archive.program = std::move(program).value();
  try {
    Status status = ReadTensors(zip, state_folder, state_pickle, state_table, path, archive.state);
    if (!status.ok()) return status;
    status = ReadTensors(zip, constants_folder, constants_pickle, constants_table, path,
                         archive.constants);
    if (!status.ok()) return status;
  } catch (const std::exception& error) {
    return Status::BadInput(path + ": its tensors cannot be read: " + FirstLine(error));
  }
  return archive;
}

}  // namespace memmodel::step
