// A model of the batch from a job, with the virtual GPU: what it says of a batch that was
// not run is what a run at that batch says.
#include "src/explain/fit_job.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "memmodel/allocator_replay.h"
#include "memmodel/device.h"
#include "src/predict/trace_job.h"

using namespace memmodel;

TEST_CASE("ResNet-50 from four batches is as run at others, workspaces included") {
  const Result<DeviceCatalogue> catalogue =
      DeviceCatalogue::Read(MEMMODEL_SOURCE_DIR "/data/devices");
  REQUIRE(catalogue.ok());
  FitJobOptions options;
  options.predict.device = *catalogue->Find("h200");
  options.predict.job.model = MEMMODEL_SOURCE_DIR "/models/resnet50.pt";
  options.predict.child.program = MEMMODEL_BINARY_DIR "/memmodel-trace";
  options.predict.child.environment = {{"MEMMODEL_VGPU_DEVICE", options.predict.device.path}};
  options.traces = 4;
  options.plan_batches = 12;
  options.model.curve_batches = 12;
  const Result<MemoryModel> model = FitJob(options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  CHECK(model->traced_batches() == std::vector<std::int64_t>{1, 8, 32, 64});
  // 53 convolutions, three passes, but for the gradient of the input; three steps.
  const std::int64_t convolutions = 3 * (3 * 53 - 1);
  CHECK(model->statistics().planned >= convolutions);
  CHECK(model->statistics().fitted == 0);

  const Result<std::unique_ptr<JobTracer>> tracer = JobTracer::Start(options.predict);
  REQUIRE(tracer.ok());
  REQUIRE((*tracer)->Run({3, 12}).ok());
  for (const std::int64_t batch : {3, 12}) {
    CAPTURE(batch);
    const Result<TracedRun> run = (*tracer)->At(batch);
    REQUIRE(run.ok());
    CHECK(static_cast<std::int64_t>(run->trace.convolutions.size()) == convolutions);
    const Result<ReplayResult> truth = Replay(run->trace, ReplayOptions(), nullptr);
    REQUIRE(truth.ok());
    const Result<BatchMemory> answer = model->At(batch);
    REQUIRE(answer.ok());
    CHECK(answer->basis == ModelBasis::kExact);
    CHECK(answer->allocated == truth->statistics.allocated_bytes.all.peak);
    CHECK(answer->reserved == truth->statistics.reserved_bytes.all.peak);
  }
  CHECK(model->At(13)->basis == ModelBasis::kInterpolated);  // cuDNN was asked up to 12
}

TEST_CASE("numbers of batches out of range are refused before anything is run") {
  FitJobOptions options;
  options.plan_batches = 1025;
  CHECK(FitJob(options).status().message() == "--plan-batches is 1025; it must be 0 to 1024");
  options.plan_batches = 64;
  options.traces = 65;
  CHECK(FitJob(options).status().message() == "--traces is 65; it must be 4 to 64");
}
