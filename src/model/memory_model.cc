#include "memmodel/memory_model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "src/model/layers.h"
#include "src/model/model_impl.h"
#include "src/model/simulate_requests.h"

namespace memmodel {
namespace {

enum class Choice : std::uint8_t { kCentral, kLow, kHigh };

std::vector<Bytes> SizesAt(const Program& program, std::int64_t batch, Choice choice) {
  std::vector<Bytes> sizes;
  sizes.reserve(program.rules.size());
  for (const SizeRule& rule : program.rules) {
    if (choice == Choice::kCentral || rule.ExactAt(batch)) {
      sizes.push_back(rule.At(batch));
    } else {
      const ByteRange range = rule.RangeAt(batch);
      sizes.push_back(choice == Choice::kLow ? range.low : range.high);
    }
  }
  return sizes;
}

void Widen(ByteRange* range, Bytes value) {
  range->low = std::min(range->low, value);
  range->high = std::max(range->high, value);
}

void WidenBy(double share, ByteRange* range) {
  constexpr double kMost = 4e18;
  const auto low = static_cast<double>(range->low), high = static_cast<double>(range->high);
  range->low = static_cast<Bytes>(std::floor(low * std::max(0.0, 1 - share)));
  range->high = static_cast<Bytes>(std::ceil(std::min(kMost, high * (1 + share))));
}

Status BadBatch(std::int64_t batch) {
  return Status::InvalidArgument("batch " + std::to_string(batch) + " is not in 1.." +
                                 std::to_string(MemoryModel::kLargestBatch));
}

}  // namespace

std::string_view BasisName(ModelBasis basis) {
  constexpr std::array<std::string_view, 4> kNames = {"traced", "exact", "interpolated",
                                                      "extrapolated"};
  return kNames[static_cast<std::size_t>(basis)];
}

MemoryModel::Impl::Impl(Program p, AllocatorSettings s)
    : program(std::move(p)), settings(s), envelope(program) {
  for (const SizeRule& rule : program.rules) {
    if (rule.kind == SizeRule::Kind::kPlanned) planned_to = std::min(planned_to, rule.last);
  }
  for (std::size_t low = 0; low + 1 < program.batches.size(); ++low) {
    exact_after.push_back(
        std::all_of(program.events.begin(), program.events.end(), [&](const ProgramEvent& e) {
          const bool here = ((e.mask >> low) & 1) != 0, after = ((e.mask >> (low + 1)) & 1) != 0;
          return here == after && (!here || e.kind != EventKind::kAlloc ||
                                   program.rules[static_cast<std::size_t>(e.target)].exact());
        }));
  }
}

ModelBasis MemoryModel::Impl::Basis(std::int64_t batch) const {
  const Program::Neighbours near = program.NeighboursOf(batch);
  if (!near.inside) return ModelBasis::kExtrapolated;
  if (near.low == near.high) return ModelBasis::kTraced;
  const bool exact = exact_after[near.low] && batch <= planned_to;
  return exact ? ModelBasis::kExact : ModelBasis::kInterpolated;
}

ModelPoint MemoryModel::Impl::Simulate(std::int64_t batch) const {
  ModelPoint point;
  const std::size_t nearest = program.Nearest(batch);
  const auto central =
      SimulateRequests(program, nearest, SizesAt(program, batch, Choice::kCentral), settings);
  point.allocated = central.allocated;
  point.reserved = central.reserved;
  point.allocated_range = {central.allocated, central.allocated};
  point.reserved_range = {central.reserved, central.reserved};
  const ModelBasis basis = Basis(batch);
  if (basis == ModelBasis::kTraced || basis == ModelBasis::kExact) return point;
  const bool all_exact = std::all_of(program.rules.begin(), program.rules.end(),
                                     [&](const SizeRule& rule) { return rule.ExactAt(batch); });
  const Program::Neighbours near = program.NeighboursOf(batch);
  for (const std::size_t sample : {near.low, near.high}) {
    for (const Choice choice : {Choice::kLow, Choice::kHigh}) {
      if (all_exact && (choice == Choice::kLow || sample == nearest)) continue;
      const auto other =
          SimulateRequests(program, sample, SizesAt(program, batch, choice), settings);
      Widen(&point.allocated_range, other.allocated);
      Widen(&point.reserved_range, other.reserved);
    }
    if (near.low == near.high || program.SameRequests(near.low, near.high)) break;
  }
  WidenBy(held_out.allocated, &point.allocated_range);
  WidenBy(held_out.reserved, &point.reserved_range);
  return point;
}

// Every inner batch is predicted from all others.
void MemoryModel::Impl::HoldOut() {
  for (std::size_t s = 1; s + 1 < program.batches.size(); ++s) {
    const std::int64_t batch = program.batches[s];
    const SimulatedPeaks truth =
        SimulateRequests(program, s, SizesAt(program, batch, Choice::kCentral), settings);
    const Program others = program.Without(s);
    const SimulatedPeaks answer = SimulateRequests(
        others, others.Nearest(batch), SizesAt(others, batch, Choice::kCentral), settings);
    const auto worst = [](Bytes is, Bytes should_be, double* error) {
      const double ratio = static_cast<double>(is) / static_cast<double>(should_be);
      *error = std::max(*error, std::fabs(ratio - 1));
    };
    if (truth.allocated <= 0 || truth.reserved <= 0) continue;
    worst(answer.allocated, truth.allocated, &held_out.allocated);
    worst(answer.reserved, truth.reserved, &held_out.reserved);
  }
}

void MemoryModel::Impl::MakeCurve(std::int64_t batches) {
  curve.assign(static_cast<std::size_t>(std::max<std::int64_t>(batches, 0)), {});
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < curve.size(); i = next++) {
      curve[i] = Simulate(static_cast<std::int64_t>(i) + 1);
    }
  };
  std::vector<std::thread> threads(std::min(std::thread::hardware_concurrency(), 8U));
  for (std::thread& thread : threads) thread = std::thread(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

void MemoryModel::Impl::MakeLayers() const {
  std::call_once(layers_made, [this] {
    layers = LayersOf(program);
    order_changes = OrderChangesOf(program);
    fitted_sizes = FittedSizesOf(program);
  });
}

MemoryModel::MemoryModel(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;
MemoryModel::~MemoryModel() = default;

Result<MemoryModel> MemoryModel::Fit(std::span<const Trace> traces, const ModelOptions& options) {
  Result<AllocatorSettings> settings = ParseAllocatorSettings(options.alloc_conf);
  if (!settings.ok()) return settings.status();
  if (options.curve_batches < 0 || options.curve_batches > kLargestBatch) {
    return BadBatch(options.curve_batches);
  }
  Result<Program> program = BuildProgram(traces, options.workspaces);
  if (!program.ok()) return program.status();
  auto impl = std::make_unique<Impl>(*std::move(program), *settings);
  impl->metadata = traces.front().metadata;
  impl->alloc_conf = options.alloc_conf;
  impl->context_bytes = options.context_bytes;
  impl->HoldOut();
  impl->MakeCurve(options.curve_batches);
  return MemoryModel(std::move(impl));
}

Result<std::vector<std::string>> MemoryModel::WorkspaceKeys(std::span<const Trace> traces,
                                                            std::int64_t last) {
  if (last < 1 || last > kLargestBatch) return BadBatch(last);
  return KeysOfProgram(traces, last);
}

Bytes MemoryModel::RequestedPeak(std::int64_t batch) const {
  return impl_->envelope.At(impl_->program, batch);
}

PeakMoment MemoryModel::PeakAt(std::int64_t batch) const {
  const Program& program = impl_->program;
  const std::int32_t peak = impl_->envelope.EventAt(program, batch);
  PeakMoment moment;
  for (std::int32_t i = 0; i <= peak; ++i) {
    const ProgramEvent& event = program.events[static_cast<std::size_t>(i)];
    if (event.kind != EventKind::kMarker) continue;
    const std::string& text = program.texts[static_cast<std::size_t>(event.target)];
    moment.step += text.starts_with(marker::kStepPrefix) ? 1 : 0;
    moment.phase = PhaseAfter(text, moment.phase);
  }
  const ProgramEvent& event = program.events[static_cast<std::size_t>(peak)];
  if (event.op >= 0) moment.operator_name = program.operators[static_cast<std::size_t>(event.op)];
  if (event.module >= 0) {
    moment.module_path = program.modules[static_cast<std::size_t>(event.module)].path;
  }
  return moment;
}

Result<BatchMemory> MemoryModel::At(std::int64_t batch) const {
  if (batch < 1 || batch > kLargestBatch) return BadBatch(batch);
  const bool known = batch <= static_cast<std::int64_t>(impl_->curve.size());
  const ModelPoint point =
      known ? impl_->curve[static_cast<std::size_t>(batch - 1)] : impl_->Simulate(batch);
  BatchMemory memory;
  memory.batch = batch;
  memory.requested_peak = RequestedPeak(batch);
  memory.allocated = point.allocated;
  memory.reserved = point.reserved;
  memory.allocated_range = point.allocated_range;
  memory.reserved_range = point.reserved_range;
  memory.basis = impl_->Basis(batch);
  if (impl_->context_bytes) memory.device = point.reserved + *impl_->context_bytes;
  return memory;
}

Result<BatchLimit> MemoryModel::Solve(const GpuBudget& budget) const {
  if (budget.total_bytes <= 0 || budget.used_bytes < 0 || !(budget.target > 0) ||
      !(budget.target <= 1)) {
    return Status::InvalidArgument(
        "a budget needs total bytes above 0, used bytes of at least 0 and a target in (0, 1]");
  }
  const Bytes context = budget.context_bytes.value_or(impl_->context_bytes.value_or(0));
  BatchLimit answer;
  answer.budget_bytes =
      static_cast<Bytes>(budget.target * static_cast<double>(budget.total_bytes)) -
      budget.used_bytes;
  const Bytes room = answer.budget_bytes - context;
  // Reserved is never below the requested peak, whose closed form bounds the
  // search at no cost.
  std::int64_t fits = 0, fails = kLargestBatch + 1;
  while (fails - fits > 1) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    (RequestedPeak(middle) <= room ? fits : fails) = middle;
  }
  answer.bounded = fails <= kLargestBatch;
  fits = 0;
  while (fails - fits > 1) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    const Result<BatchMemory> memory = At(middle);
    if (!memory.ok()) return memory.status();
    if (memory->reserved <= room) {
      fits = middle;
      answer.memory = *memory;
    } else {
      fails = middle;
      answer.bounded = true;
    }
  }
  answer.batch = fits;
  return answer;
}

Trace MemoryModel::Synthesise(std::int64_t batch) const {
  const Program& program = impl_->program;
  const std::size_t sample = program.Nearest(batch);
  const std::vector<Bytes> sizes = SizesAt(program, batch, Choice::kCentral);
  Trace trace;
  trace.metadata = impl_->metadata;
  trace.operators = program.operators;
  trace.modules = program.modules;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const ProgramEvent& source = program.events[i];
    if (((source.mask >> sample) & 1) == 0) continue;
    if (source.kind == EventKind::kContext) {
      trace.events.push_back(
          {.kind = EventKind::kContext, .occasion = static_cast<ContextOccasion>(source.target)});
      continue;
    }
    const auto target = static_cast<std::size_t>(source.target);
    const bool marker = source.kind == EventKind::kMarker;
    const std::size_t block = source.kind == EventKind::kAlloc ? i : target;
    const Bytes size = marker ? 0 : sizes[static_cast<std::size_t>(program.events[block].target)];
    if (!marker && size == 0) continue;  // a convolution that has no workspace
    Event event;
    event.kind = source.kind;
    event.stream = source.stream;
    event.op = static_cast<OperatorId>(source.op);
    event.module = static_cast<ModuleId>(source.module);
    if (marker) {
      std::string text = program.texts[target];
      if (text == marker::kStepPrefix) text += std::to_string(batch);
      event.text = trace.AddText(text);
    } else {
      event.address = static_cast<std::uint64_t>(block) + 1;
      event.size = size;
    }
    trace.events.push_back(event);
    if (source.kind == EventKind::kFree && source.completes) {
      event.kind = EventKind::kFreeCompleted;
      trace.events.push_back(event);
    }
    if (source.kind == EventKind::kAlloc && source.role != TensorRole::kNone) {
      Event tag = event;
      tag.kind = EventKind::kTag;
      tag.role = source.role;
      tag.text = trace.AddText(std::string(trace.ModulePath(event.module)));
      trace.events.push_back(tag);
    }
  }
  return trace;
}

const std::string& MemoryModel::metadata() const { return impl_->metadata; }
const std::vector<std::int64_t>& MemoryModel::traced_batches() const {
  return impl_->program.batches;
}
const std::vector<LayerModel>& MemoryModel::layers() const {
  impl_->MakeLayers();
  return impl_->layers;
}
const std::vector<OrderChange>& MemoryModel::order_changes() const {
  impl_->MakeLayers();
  return impl_->order_changes;
}
const std::vector<FittedSizes>& MemoryModel::fitted_sizes() const {
  impl_->MakeLayers();
  return impl_->fitted_sizes;
}
std::optional<Bytes> MemoryModel::context_bytes() const { return impl_->context_bytes; }
const std::string& MemoryModel::alloc_conf() const { return impl_->alloc_conf; }

MemoryModel::Statistics MemoryModel::statistics() const {
  Statistics statistics;
  const Program& program = impl_->program;
  const SampleMask all = (SampleMask{2} << (program.batches.size() - 1)) - 1;
  for (const ProgramEvent& event : program.events) {
    if (event.kind != EventKind::kAlloc) continue;
    ++statistics.requests;
    statistics.sometimes += event.mask != all;
    switch (program.rules[static_cast<std::size_t>(event.target)].kind) {
      case SizeRule::Kind::kConstant:
        ++statistics.constant;
        break;
      case SizeRule::Kind::kAffine:
        ++statistics.affine;
        break;
      case SizeRule::Kind::kQuadratic:
        ++statistics.quadratic;
        break;
      case SizeRule::Kind::kTable:
        ++statistics.fitted;
        break;
      case SizeRule::Kind::kPlanned:
        ++statistics.planned;
        break;
    }
  }
  statistics.peak_candidates = static_cast<std::int64_t>(impl_->envelope.candidates());
  return statistics;
}

}  // namespace memmodel
