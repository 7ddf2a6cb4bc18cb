/* Which kernels there are: from devices/real_kernels.h and the list here, prototypes and tables are
 * made. Each entry names an operation of devices/kernels.h and the functions tdm_NAME_prepare and
 * tdm_NAME_execute, with the suffix of their real type (the other lists) and instruction set (all).
 * Elements have tdm_NAME_part besides. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_OPERATIONS_H
#define TANDEM_DEVICES_CPU_KERNELS_OPERATIONS_H

#include "devices/devices.h"
#include "devices/fused.h"
#include "devices/kernels.h"
#include "devices/real_kernels.h"

/* One function serves every dtype listed. */
#define TDM_TYPED_KERNELS(X)                                                                       \
  X(TDM_OP_ADD, add_integers, TDM_INT32)                                                           \
  X(TDM_OP_ADD, add_integers, TDM_INT64)                                                           \
  X(TDM_OP_COMPARE, compare, TDM_BOOL)                                                             \
  X(TDM_OP_FUSED, fused, TDM_FLOAT32)                                                              \
  X(TDM_OP_FUSED, fused, TDM_FLOAT64)                                                              \
  X(TDM_OP_FILL, fill, TDM_FLOAT32)                                                                \
  X(TDM_OP_FILL, fill, TDM_FLOAT64)                                                                \
  X(TDM_OP_FILL, fill, TDM_INT32)                                                                  \
  X(TDM_OP_FILL, fill, TDM_INT64)                                                                  \
  X(TDM_OP_FILL, fill, TDM_UINT8)                                                                  \
  X(TDM_OP_FILL, fill, TDM_BOOL)                                                                   \
  X(TDM_OP_CAST, cast, TDM_FLOAT32)                                                                \
  X(TDM_OP_CAST, cast, TDM_FLOAT64)                                                                \
  X(TDM_OP_CAST, cast, TDM_INT32)                                                                  \
  X(TDM_OP_CAST, cast, TDM_INT64)                                                                  \
  X(TDM_OP_CAST, cast, TDM_UINT8)                                                                  \
  X(TDM_OP_CAST, cast, TDM_BOOL)                                                                   \
  X(TDM_OP_SELECT, select, TDM_FLOAT32)                                                            \
  X(TDM_OP_SELECT, select, TDM_FLOAT64)                                                            \
  X(TDM_OP_SELECT, select, TDM_INT32)                                                              \
  X(TDM_OP_SELECT, select, TDM_INT64)                                                              \
  X(TDM_OP_SELECT_GRADIENT, select_gradient, TDM_FLOAT32)                                          \
  X(TDM_OP_SELECT_GRADIENT, select_gradient, TDM_FLOAT64)                                          \
  X(TDM_OP_SPLIT, split, TDM_FLOAT32)                                                              \
  X(TDM_OP_SPLIT, split, TDM_FLOAT64)                                                              \
  X(TDM_OP_SPLIT, split, TDM_INT32)                                                                \
  X(TDM_OP_SPLIT, split, TDM_INT64)                                                                \
  X(TDM_OP_SPLIT, split, TDM_UINT8)                                                                \
  X(TDM_OP_SPLIT, split, TDM_BOOL)                                                                 \
  X(TDM_OP_CONCAT, concat, TDM_FLOAT32)                                                            \
  X(TDM_OP_CONCAT, concat, TDM_FLOAT64)                                                            \
  X(TDM_OP_CONCAT, concat, TDM_INT32)                                                              \
  X(TDM_OP_CONCAT, concat, TDM_INT64)                                                              \
  X(TDM_OP_CONCAT, concat, TDM_UINT8)                                                              \
  X(TDM_OP_CONCAT, concat, TDM_BOOL)                                                               \
  X(TDM_OP_TRANSPOSE, transpose, TDM_FLOAT32)                                                      \
  X(TDM_OP_TRANSPOSE, transpose, TDM_FLOAT64)                                                      \
  X(TDM_OP_TRANSPOSE, transpose, TDM_INT32)                                                        \
  X(TDM_OP_TRANSPOSE, transpose, TDM_INT64)                                                        \
  X(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions, TDM_FLOAT32)                              \
  X(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions, TDM_FLOAT64)                              \
  X(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions, TDM_INT32)                                \
  X(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions, TDM_INT64)

/* TDM_ISA is set by the build: baseline, avx2 or avx512. */
#define TDM_PASTE_EXPANDED(a, b, c) a##_##b##_##c
#define TDM_PASTE(a, b, c) TDM_PASTE_EXPANDED(a, b, c)
#define TDM_KERNEL_PROTOTYPES(name, type)                                                          \
  tdm_status TDM_PASTE(tdm_##name##_prepare, type, TDM_ISA)(const tdm_kernel_request *request,     \
                                                            tdm_kernel_answer *answer);            \
  tdm_status TDM_PASTE(tdm_##name##_execute, type, TDM_ISA)(const tdm_kernel_call *call);
#define TDM_REAL_PROTOTYPES(operation, name)                                                       \
  TDM_KERNEL_PROTOTYPES(name, float32)                                                             \
  TDM_KERNEL_PROTOTYPES(name, float64)
#define TDM_TYPED_PROTOTYPES(operation, name, dtype) TDM_KERNEL_PROTOTYPES(name, any)

#define TDM_ELEMENT_PROTOTYPES(operation, name)                                                    \
  TDM_REAL_PROTOTYPES(operation, name)                                                             \
  TDM_PART_PROTOTYPE(name, float32)                                                                \
  TDM_PART_PROTOTYPE(name, float64)
#define TDM_PART_PROTOTYPE(name, type)                                                             \
  tdm_status TDM_PASTE(tdm_##name##_part, type, TDM_ISA)(const tdm_kernel_call *call,              \
                                                         int64_t begin, int64_t end);

TDM_REAL_KERNELS(TDM_REAL_PROTOTYPES)
TDM_ELEMENT_KERNELS(TDM_ELEMENT_PROTOTYPES)
TDM_TYPED_KERNELS(TDM_TYPED_PROTOTYPES)

#endif
