// ATen/cuda/CUDAContextLight.h names this handle and nothing else of cuSOLVER.
// Found only where NVIDIA's own header is not installed.
#ifndef MEMMODEL_SRC_STEP_HEADERS_CUSOLVERDN_H_
#define MEMMODEL_SRC_STEP_HEADERS_CUSOLVERDN_H_

typedef struct cusolverDnContext* cusolverDnHandle_t;

#endif  // MEMMODEL_SRC_STEP_HEADERS_CUSOLVERDN_H_
