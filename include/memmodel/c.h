/* C interface of memmodel: what a saved memory model says about a training job,
   for schedulers and other languages.

     Handles     memmodel_model_t is opaque. A handle from an open function is
                 released with memmodel_model_close, once.
     Errors      Functions return a memmodel_status_t, or a handle or text that
                 is NULL on failure. If errptr is not NULL and *errptr is NULL,
                 *errptr then becomes a message of one line, to be released with
                 memmodel_free; on success it is left alone. A message that is
                 already there is kept. Out-parameters are written on success
                 alone. No function throws or ends the process.
     Memory      Texts that functions return belong to the caller: memmodel_free.
                 Arguments belong to the caller and are not kept.
     Structs     The caller sets struct_size to sizeof the struct (the _INIT
                 macros do) and thereby says which version of it it knows; later
                 versions only add fields at the end.
     Unknown     A figure that is not known is MEMMODEL_UNKNOWN, never 0.
     Threads     Any number of threads may use one handle at the same time,
                 except while it is closed.
     Versions    The library's soname carries MEMMODEL_C_API_VERSION, which
                 changes when a program must be compiled anew.

   All sizes are in bytes. A batch is a number of samples. */
#ifndef MEMMODEL_C_H_
#define MEMMODEL_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define MEMMODEL_EXPORT __attribute__((visibility("default")))
#else
#define MEMMODEL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MEMMODEL_C_API_VERSION 1
#define MEMMODEL_UNKNOWN INT64_C(-1)

typedef struct memmodel_model_t memmodel_model_t;

typedef enum memmodel_status_t {
  MEMMODEL_OK = 0,
  MEMMODEL_INVALID_ARGUMENT = 1, /* the request itself is wrong */
  MEMMODEL_BAD_INPUT = 2,        /* a file is missing, damaged or of another kind */
  MEMMODEL_UNDETERMINED = 3,     /* something that decides memory is not known */
  MEMMODEL_UNAVAILABLE = 4,      /* the machine lacks what is needed */
  MEMMODEL_INTERNAL = 5          /* a defect of memmodel */
} memmodel_status_t;

/* "0.1.0", and the MEMMODEL_C_API_VERSION that the library was built with. */
MEMMODEL_EXPORT const char* memmodel_version(void);
MEMMODEL_EXPORT int memmodel_c_api_version(void);

/* Releases a text that a function returned; NULL is allowed. */
MEMMODEL_EXPORT void memmodel_free(void* text);

/* Reads a model file, as `memmodel fit` writes it (docs/memory_model.md), or one
   that is already in memory. A newer format is refused with both numbers. */
MEMMODEL_EXPORT memmodel_model_t* memmodel_model_open(const char* path, char** errptr);
MEMMODEL_EXPORT memmodel_model_t* memmodel_model_parse(const void* data, size_t size,
                                                       char** errptr);
MEMMODEL_EXPORT void memmodel_model_close(memmodel_model_t* model);

/* How sure a figure is. */
typedef enum memmodel_basis_t {
  MEMMODEL_BASIS_TRACED = 0,       /* this batch was traced */
  MEMMODEL_BASIS_EXACT = 1,        /* between traced batches, every size exact */
  MEMMODEL_BASIS_INTERPOLATED = 2, /* between traced batches, some size fitted */
  MEMMODEL_BASIS_EXTRAPOLATED = 3  /* below or above all traced batches */
} memmodel_basis_t;

typedef struct memmodel_memory_t {
  size_t struct_size;
  int64_t batch;
  int64_t allocated_bytes; /* as torch.cuda.max_memory_allocated() */
  int64_t reserved_bytes;  /* as torch.cuda.max_memory_reserved() */
  int64_t device_bytes;    /* as nvidia-smi counts; MEMMODEL_UNKNOWN without a context */
  int64_t allocated_low_bytes;
  int64_t allocated_high_bytes;
  int64_t reserved_low_bytes;
  int64_t reserved_high_bytes;
  memmodel_basis_t basis;
} memmodel_memory_t;
#define MEMMODEL_MEMORY_INIT {sizeof(memmodel_memory_t), 0, 0, 0, 0, 0, 0, 0, 0, MEMMODEL_BASIS_TRACED}

/* The peaks of a step at `batch`, 1 to 2^24. A look-up for batches that the
   model has tabulated (256 by default), a simulation of some milliseconds above. */
MEMMODEL_EXPORT memmodel_status_t memmodel_model_peak(const memmodel_model_t* model,
                                                      int64_t batch, memmodel_memory_t* memory,
                                                      char** errptr);

/* A GPU as a scheduler knows it. The job may bring all processes together to
   target * total_bytes. */
typedef struct memmodel_gpu_t {
  size_t struct_size;
  int64_t total_bytes;
  int64_t used_bytes;    /* by other processes */
  double target;         /* in (0, 1] */
  int64_t context_bytes; /* driver context of the job; MEMMODEL_UNKNOWN: the model's own */
} memmodel_gpu_t;
#define MEMMODEL_GPU_INIT {sizeof(memmodel_gpu_t), 0, 0, 0.8, MEMMODEL_UNKNOWN}

typedef struct memmodel_limit_t {
  size_t struct_size;
  int64_t batch;        /* 0: not even one sample fits */
  int64_t budget_bytes; /* what reserved and context had to stay within */
  int bounded;          /* 0: the largest batch that the model answers for fits as well */
} memmodel_limit_t;
#define MEMMODEL_LIMIT_INIT {sizeof(memmodel_limit_t), 0, 0, 0}

/* The largest batch that stays within the budget. */
MEMMODEL_EXPORT memmodel_status_t memmodel_model_largest_batch(const memmodel_model_t* model,
                                                               const memmodel_gpu_t* gpu,
                                                               memmodel_limit_t* limit,
                                                               char** errptr);

typedef struct memmodel_fit_t {
  size_t struct_size;
  int fits;             /* reserved and context are within the budget */
  int certain;          /* and it is the same answer at both ends of the interval */
  int64_t needed_bytes; /* reserved and, where it is known, context */
  int64_t low_bytes;    /* the interval of needed_bytes */
  int64_t high_bytes;
  int64_t budget_bytes; /* target * total - used */
  int context_known;    /* 0: needed_bytes is reserved memory alone */
} memmodel_fit_t;
#define MEMMODEL_FIT_INIT {sizeof(memmodel_fit_t), 0, 0, 0, 0, 0, 0, 0}

/* Whether `batch` stays within the budget. */
MEMMODEL_EXPORT memmodel_status_t memmodel_model_fits(const memmodel_model_t* model, int64_t batch,
                                                      const memmodel_gpu_t* gpu,
                                                      memmodel_fit_t* fit, char** errptr);

/* Where the memory at `batch` goes, layer by layer, as one JSON object
   (docs/c_api.md, schema_version 1). NULL on failure. */
MEMMODEL_EXPORT char* memmodel_model_explain(const memmodel_model_t* model, int64_t batch,
                                             char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEMMODEL_C_H_ */
