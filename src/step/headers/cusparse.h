// ATen/cuda/CUDAContextLight.h names this handle and nothing else of cuSPARSE.
// Found only where NVIDIA's own header, of a wheel of 160 MB, is not installed.
#ifndef MEMMODEL_SRC_STEP_HEADERS_CUSPARSE_H_
#define MEMMODEL_SRC_STEP_HEADERS_CUSPARSE_H_

typedef struct cusparseContext* cusparseHandle_t;

#endif  // MEMMODEL_SRC_STEP_HEADERS_CUSPARSE_H_
