/* Operations: sums, means, products and extremes over dimensions. Part of devices/kernels.h, which
 * describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_REDUCTIONS_REDUCTIONS_H
#define TANDEM_DEVICES_KERNELS_REDUCTIONS_REDUCTIONS_H

#include <stdint.h>

/* x F -> F: summed over the dimensions of the mask (bit i: dimension i), which stay as 1 if `keep`;
 * divided by their count for the mean. At most two groups of neighbouring dimensions. */
#define TDM_OP_REDUCE "reduce"
/* d_out -> d_x F (dims): every element of x gets its sum's, divided likewise. */
#define TDM_OP_REDUCE_GRADIENT "reduce_gradient"
typedef struct tdm_reduce_attributes {
  int64_t mask;
  int64_t keep;
  int64_t mean;
  int64_t terms;   /* of the mean: divided by these instead, unless 0 */
  int64_t rank;    /* of x; of the gradient only */
  int64_t dims[8]; /* of x; of the gradient only */
} tdm_reduce_attributes;

/* x F -> values F, indices int64: the largest element along the dimension, or the least if `least`,
 * and its index; the dimension stays as 1 if `keep`. Among equal elements the first is taken; a NaN
 * precedes all numbers. Without elements the value is minus infinity, or infinity if `least`, and
 * the index 0; the shape rule refuses this unless `or_none`. */
#define TDM_OP_EXTREME "extreme"
/* d_values, indices -> d_x F. */
#define TDM_OP_EXTREME_GRADIENT "extreme_gradient"
/* x F -> y F like x: the sums of all up to each element along the dimension, or from each element
 * on if `reverse`. */
#define TDM_OP_CUMSUM "cumsum"
/* x F -> y F like x: the products of all up to each element along the dimension. */
#define TDM_OP_CUMPROD "cumprod"
/* d_y, x, y -> d_x. */
#define TDM_OP_CUMPROD_GRADIENT "cumprod_gradient"
/* x F -> y F like x: the logarithms of the sums of e^x up to each element along the dimension. */
#define TDM_OP_LOGCUMSUMEXP "logcumsumexp"
/* d_y, x, y -> d_x. */
#define TDM_OP_LOGCUMSUMEXP_GRADIENT "logcumsumexp_gradient"
/* x F -> y F: the logarithm of the sum of e^x along the dimension, which stays as 1 if `keep`. */
#define TDM_OP_LOGSUMEXP "logsumexp"
/* x F -> y F: the product along the dimension, which stays as 1 if `keep`. */
#define TDM_OP_PROD "prod"
/* d_y, x -> d_x: d_y times the product of all others. */
#define TDM_OP_PROD_GRADIENT "prod_gradient"
typedef struct tdm_dimension_attributes {
  int64_t dimension;
  int64_t keep;    /* of extreme, its gradient, prod and logsumexp */
  int64_t least;   /* of extreme */
  int64_t reverse; /* of cumsum */
  int64_t size;    /* of extreme_gradient: x's dimension */
  int64_t or_none; /* of extreme */
} tdm_dimension_attributes;

#endif
