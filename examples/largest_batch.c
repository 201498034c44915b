/* The largest batch of a job on a GPU, from its memory model.

     largest_batch MODEL TOTAL_BYTES [USED_BYTES]

   cc -std=c11 largest_batch.c $(pkg-config --cflags --libs memmodel) */
#include <inttypes.h>
#include <memmodel/c.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(char* error) {
  fprintf(stderr, "largest_batch: %s\n", error != NULL ? error : "out of memory");
  memmodel_free(error);
  return 2;
}

int main(int argc, char** argv) {
  char* error = NULL;
  memmodel_model_t* model;
  memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
  memmodel_limit_t limit = MEMMODEL_LIMIT_INIT;
  memmodel_memory_t memory = MEMMODEL_MEMORY_INIT;

  if (argc < 3) {
    fprintf(stderr, "usage: largest_batch MODEL TOTAL_BYTES [USED_BYTES]\n");
    return 2;
  }
  gpu.total_bytes = strtoll(argv[2], NULL, 10);
  gpu.used_bytes = argc > 3 ? strtoll(argv[3], NULL, 10) : 0;

  model = memmodel_model_open(argv[1], &error);
  if (model == NULL) return fail(error);
  if (memmodel_model_largest_batch(model, &gpu, &limit, &error) != MEMMODEL_OK) {
    memmodel_model_close(model);
    return fail(error);
  }
  if (limit.batch > 0) {
    if (memmodel_model_peak(model, limit.batch, &memory, &error) != MEMMODEL_OK) {
      memmodel_model_close(model);
      return fail(error);
    }
    printf("largest batch %" PRId64 ": reserved %" PRId64 " of %" PRId64 " bytes\n", limit.batch,
           memory.reserved_bytes, limit.budget_bytes);
  } else {
    printf("not even one sample fits into %" PRId64 " bytes\n", limit.budget_bytes);
  }
  memmodel_model_close(model);
  return limit.batch > 0 ? 0 : 1;
}
