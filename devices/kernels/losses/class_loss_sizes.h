/* Sizes of losses of rows that have a class each, which the kernels of all device kinds read from a
 * request. */
#ifndef TANDEM_DEVICES_KERNELS_LOSSES_CLASS_LOSS_SIZES_H
#define TANDEM_DEVICES_KERNELS_LOSSES_CLASS_LOSS_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/losses/losses.h"

/* The loss of rows that have a class index each. */
typedef struct class_loss_sizes {
  int64_t rows;
  int64_t classes;
  int64_t ignored;
  int32_t reduction; /* tdm_reduction */
  bool wide_targets; /* int64 */
} class_loss_sizes;

static inline void class_loss_sizes_read(class_loss_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *targets, int64_t classes) {
  const tdm_loss_attributes *attributes = (const tdm_loss_attributes *)request->attributes;
  sizes->rows = count_of(targets);
  sizes->classes = classes;
  sizes->ignored = attributes->ignore_index;
  sizes->reduction = attributes->reduction;
  sizes->wide_targets = targets->dtype == TDM_INT64;
}

#endif
