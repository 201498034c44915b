#include "src/step/find_inputs.h"

#include <optional>
#include <sstream>
#include <utility>

#include "src/step/probe.h"
#include "src/step/stored_inputs.h"
#include "src/step/worker.h"

namespace memmodel::step {
namespace {

using Specs = std::vector<InputSpec>;

std::string ShapeText(const InputSpec& spec) {
  std::string text;
  for (const std::int64_t n : spec.shape) {
    text += text.empty() ? std::to_string(n) : "x" + std::to_string(n);
  }
  return (text.empty() ? "a number" : text) + ":" + DtypeName(spec.dtype);
}

std::string ShapesText(const Specs& specs) {
  std::string text;
  for (const InputSpec& spec : specs) {
    if (!text.empty()) text += ", ";
    if (!spec.name.empty()) text += spec.name + "=";
    text += ShapeText(spec);
  }
  return text;
}

// The job's inputs; what they leave open comes from `likely`.
Result<Specs> Given(const Job& job, const Specs& likely) {
  Specs specs;
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    const InputRequest& request = job.inputs[i];
    const InputSpec* match = i < likely.size() ? &likely[i] : nullptr;
    for (const InputSpec& spec : likely) {
      if (!request.name.empty() && spec.name == request.name) match = &spec;
    }
    InputSpec spec;
    spec.name = request.name;
    spec.shape = request.shape;
    if (match != nullptr) {
      spec.dtype = match->dtype;
      if (spec.name.empty()) spec.name = match->name;
    }
    if (!request.dtype.empty()) {
      const std::optional<at::ScalarType> dtype = ParseDtype(request.dtype);
      if (!dtype) {
        return Status::InvalidArgument("--input: unknown dtype " + request.dtype +
                                       "; use torch's names: float32, int64, bfloat16, ...");
      }
      spec.dtype = *dtype;
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<Specs> CandidatesFromAProcess(const Job& job, const Model& model) {
  const std::unique_ptr<Worker> worker = Worker::Start(
      [&](tracer::LastStarted*) {
        std::string text;
        for (const Specs& specs : model.InputCandidates()) text += FormatInputs(specs) + "\n";
        return text.empty() ? std::string("\n") : text;
      },
      {job.memory_limit_bytes, job.cpu_limit_s});
  worker->Wait();
  std::vector<Specs> candidates;
  std::istringstream lines(worker->Death().empty() ? worker->text() : "");
  for (std::string line; std::getline(lines, line);) {
    Result<Specs> specs = ParseStoredInputs(line);
    if (specs.ok() && !specs->empty()) candidates.push_back(std::move(specs.value()));
  }
  return candidates;
}

Trial TryInAProcess(const Job& job, const Specs& specs, Model& model) {
  const std::int64_t batch = model.FixedBatch().value_or(2);
  const std::unique_ptr<Worker> worker = Worker::Start(
      [&](tracer::LastStarted* last) {
        return FormatTrial(TryInputs(job, specs, batch, model, last));
      },
      {job.memory_limit_bytes, job.cpu_limit_s});
  worker->Wait();
  if (worker->Death().empty()) return ParseTrial(worker->text());
  Trial trial;
  trial.error = worker->Death();
  trial.op = worker->Last().op;
  trial.module = worker->Last().module;
  trial.unknown = true;
  return trial;
}

}  // namespace

std::string DtypeText(at::ScalarType dtype) { return DtypeName(dtype); }

FoundInputs FindInputs(const Job& job, Model& model) {
  FoundInputs found;
  const Specs stored = model.StoredInputs();
  std::vector<Specs> candidates;
  if (stored.empty()) candidates = CandidatesFromAProcess(job, model);
  const std::size_t needed = model.InputCount();
  if (!job.inputs.empty()) {
    const Specs likely = !stored.empty() ? stored : candidates.empty() ? Specs() : candidates[0];
    Result<Specs> given = Given(job, likely);
    if (!given.ok()) {
      found.status = given.status();
      return found;
    }
    if (needed != 0 && given->size() < needed) {
      found.status = Status::InvalidArgument("the network takes " + std::to_string(needed) +
                                             " inputs, " + std::to_string(given->size()) +
                                             " given; repeat --input for each");
      return found;
    }
    candidates = {given.value()};
  } else if (!stored.empty()) {
    candidates = {stored};
  } else {
    found.assumed = true;
  }
  if (candidates.empty()) {
    found.status = Status::InvalidArgument(
        "the file does not say what inputs the network takes (it takes " + std::to_string(needed) +
        "), and its first layers do not tell; give --input, such as "
        "--input 3x224x224 or --input tokens=512:int64");
    return found;
  }
  Trial first;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Trial trial = TryInAProcess(job, candidates[i], model);
    if (trial.error.empty()) {
      found.inputs = candidates[i];
      found.plan = trial.plan;
      if (found.assumed) {
        found.assumptions.push_back("input " + ShapesText(found.inputs) +
                                    ", found by trying; the file stores none");
      }
      if (job.loss == "auto" && job.training) {
        const std::string& kind = found.plan.kind;
        found.assumptions.push_back(kind == "output" ? "loss: the network returns it"
                                    : kind == "ce"   ? "loss: cross-entropy on the output"
                                                     : "loss: the sum of the output");
      }
      return found;
    }
    if (i == 0) first = std::move(trial);
    if (first.unknown) break;
  }
  found.op = first.op;
  found.module = first.module;
  std::string where;
  if (!first.op.empty()) where = " in " + first.op;
  if (!first.module.empty()) where += " (" + first.module + ")";
  const std::string message = "the network does not run on input " + ShapesText(candidates[0]) +
                              where + ": " + first.error + (found.assumed ? "; give --input" : "");
  found.status = first.unknown ? Status::Unknown(message) : Status::InvalidArgument(message);
  return found;
}

}  // namespace memmodel::step
