/* Operations: convolution and pooling. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_IMAGES_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_IMAGES_H

#include <stdint.h>

/* Images are (n, channels, height, width), or (n, channels, width): then element 0 of the pairs
 * below, which is that of the height, is 1, 1, 0, 1. */

/* x F (n, in, h, w), weight F (out, in / groups, kh, kw), [bias F (out)] -> F (n, out, h', w'):
 * cross-correlation, group by group of channels. */
#define TDM_OP_CONVOLUTION "convolution"
/* d_y, weight -> d_x F (n, in, input). */
#define TDM_OP_CONVOLUTION_INPUT_GRADIENT "convolution_input_gradient"
/* d_y, x -> d_weight F (out, in / groups, kernel), d_bias F (out). Always both. */
#define TDM_OP_CONVOLUTION_PARAMETER_GRADIENT "convolution_parameter_gradient"
typedef struct tdm_convolution_attributes {
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
  int64_t groups;
  int64_t kernel[2]; /* only set for the gradient of the weight */
  int64_t input[2];  /* x's height and width; only set for the gradient of the input */
} tdm_convolution_attributes;

/* x F -> y F, indices int32 like y: where in its plane (h, w) the largest element of each window
 * is, the first of equals; padding is never taken. */
#define TDM_OP_MAX_POOL "max_pool"
/* d_y, indices -> d_x F (n, channels, input). */
#define TDM_OP_MAX_POOL_GRADIENT "max_pool_gradient"
/* x F -> y F: the sum of each window, divided. */
#define TDM_OP_AVERAGE_POOL "average_pool"
/* d_y -> d_x F (n, channels, input). */
#define TDM_OP_AVERAGE_POOL_GRADIENT "average_pool_gradient"
typedef struct tdm_pool_attributes {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];   /* only set for max_pool */
  int64_t adaptive;      /* 1: windows share out x as evenly as may be; the four above are unused */
  int64_t output[2];     /* y's height and width */
  int64_t count_padding; /* average_pool: 1 if padding counts in the divisor */
  int64_t divisor;       /* average_pool: divisor of every window; 0: the number of its elements */
  int64_t ceil;          /* a last window may reach beyond the padding */
  int64_t input[2];      /* x's height and width; only set for the gradients */
} tdm_pool_attributes;

#endif
