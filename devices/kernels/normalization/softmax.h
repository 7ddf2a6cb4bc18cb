/* Operations: softmax. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_NORMALIZATION_SOFTMAX_H
#define TANDEM_DEVICES_KERNELS_NORMALIZATION_SOFTMAX_H

#include <stdint.h>

/* x F -> F of the same shape, along `dimension`. */
#define TDM_OP_SOFTMAX "softmax"
#define TDM_OP_LOG_SOFTMAX "log_softmax"
#define TDM_OP_SOFTMAX_GRADIENT "softmax_gradient"         /* d_y, y -> d_x */
#define TDM_OP_LOG_SOFTMAX_GRADIENT "log_softmax_gradient" /* d_y, y -> d_x */
typedef struct tdm_softmax_attributes {
  int64_t dimension; /* dimension, not negative */
} tdm_softmax_attributes;

#endif
