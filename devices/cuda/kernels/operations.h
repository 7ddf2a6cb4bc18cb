/* Which kernels there are: from devices/real_kernels.h and the list here, prototypes and the table
 * are made. Each entry names an operation of devices/kernels.h and the functions
 * tdm_cuda_NAME_prepare and tdm_cuda_NAME_execute, which serve every dtype listed. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_OPERATIONS_H
#define TANDEM_DEVICES_CUDA_KERNELS_OPERATIONS_H

#include "devices/devices.h"
#include "devices/fused.h"
#include "devices/kernels.h"
#include "devices/real_kernels.h"

/* For the dtypes that follow the name. */
#define TDM_CUDA_TYPED_KERNELS(X)                                                                  \
  X(TDM_OP_ADD, add_integers, TDM_INT32, TDM_INT64)                                                \
  X(TDM_OP_COMPARE, compare, TDM_BOOL)                                                             \
  X(TDM_OP_FUSED, fused, TDM_FLOAT32, TDM_FLOAT64)                                                 \
  X(TDM_OP_FILL, fill, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64, TDM_UINT8, TDM_BOOL)        \
  X(TDM_OP_CAST, cast, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64, TDM_UINT8, TDM_BOOL)        \
  X(TDM_OP_SELECT, select, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64)                         \
  X(TDM_OP_SELECT_GRADIENT, select_gradient, TDM_FLOAT32, TDM_FLOAT64)                             \
  X(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,      \
    TDM_INT64)                                                                                     \
  X(TDM_OP_TRANSPOSE, transpose, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64)                   \
  X(TDM_OP_SPLIT, split, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64, TDM_UINT8, TDM_BOOL)      \
  X(TDM_OP_CONCAT, concat, TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64, TDM_UINT8, TDM_BOOL)

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_CUDA_PROTOTYPES(operation, name, ...)                                                  \
  tdm_status tdm_cuda_##name##_prepare(const tdm_kernel_request *request,                          \
                                       tdm_kernel_answer *answer);                                 \
  tdm_status tdm_cuda_##name##_execute(const tdm_kernel_call *call);

TDM_REAL_KERNELS(TDM_CUDA_PROTOTYPES)
TDM_ELEMENT_KERNELS(TDM_CUDA_PROTOTYPES)
TDM_CUDA_TYPED_KERNELS(TDM_CUDA_PROTOTYPES)

#ifdef __cplusplus
}
#endif
#endif
