/* The table of the kind's kernels. */
#include "core/status.h"
#include "devices/cuda/kernels.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/operations.h"

#define ENTRY(operation, name, dtype) NUMBERED_ENTRY(operation, name, dtype, TDM_ELEMENT_NONE)
#define NUMBERED_ENTRY(operation, name, dtype, element)                                            \
  {sizeof(tdm_kernel),                                                                             \
   operation,                                                                                      \
   "cuda",                                                                                         \
   dtype,                                                                                          \
   tdm_cuda_##name##_prepare,                                                                      \
   tdm_cuda_##name##_execute,                                                                      \
   tdm_cuda_state_release,                                                                         \
   NULL,                                                                                           \
   element},

/* One to six dtypes. */
#define ENTRIES_1(operation, name, dtype) ENTRY(operation, name, dtype)
#define ENTRIES_2(operation, name, dtype, ...)                                                     \
  ENTRY(operation, name, dtype) ENTRIES_1(operation, name, __VA_ARGS__)
#define ENTRIES_3(operation, name, dtype, ...)                                                     \
  ENTRY(operation, name, dtype) ENTRIES_2(operation, name, __VA_ARGS__)
#define ENTRIES_4(operation, name, dtype, ...)                                                     \
  ENTRY(operation, name, dtype) ENTRIES_3(operation, name, __VA_ARGS__)
#define ENTRIES_5(operation, name, dtype, ...)                                                     \
  ENTRY(operation, name, dtype) ENTRIES_4(operation, name, __VA_ARGS__)
#define ENTRIES_6(operation, name, dtype, ...)                                                     \
  ENTRY(operation, name, dtype) ENTRIES_5(operation, name, __VA_ARGS__)
#define CHOSEN(a, b, c, d, e, f, entries, ...) entries
#define TYPED_ENTRIES(operation, name, ...)                                                        \
  CHOSEN(__VA_ARGS__, ENTRIES_6, ENTRIES_5, ENTRIES_4, ENTRIES_3, ENTRIES_2, ENTRIES_1, 0)         \
  (operation, name, __VA_ARGS__)
#define REAL_ENTRIES(operation, name) ENTRIES_2(operation, name, TDM_FLOAT32, TDM_FLOAT64)
#define ELEMENT_ENTRIES(operation, name)                                                           \
  NUMBERED_ENTRY(operation, name, TDM_FLOAT32, TDM_ELEMENT_##name)                                 \
  NUMBERED_ENTRY(operation, name, TDM_FLOAT64, TDM_ELEMENT_##name)

static const tdm_kernel kernels[] = {TDM_REAL_KERNELS(REAL_ENTRIES) TDM_ELEMENT_KERNELS(
    ELEMENT_ENTRIES) TDM_CUDA_TYPED_KERNELS(TYPED_ENTRIES)};

static const tdm_kernel_list all = {kernels, TDM_COUNT_OF(kernels)};
static const tdm_kernel_list *const lists[] = {&all, NULL};

tdm_status tdm_cuda_each_kernel(tdm_kernel_visitor visit, void *user) {
  return tdm_kernel_lists_each(lists, visit, user);
}
