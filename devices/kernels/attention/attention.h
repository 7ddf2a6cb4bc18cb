/* Operations: scaled dot-product attention. Part of devices/kernels.h, which describes the
 * notation. */
#ifndef TANDEM_DEVICES_KERNELS_ATTENTION_ATTENTION_H
#define TANDEM_DEVICES_KERNELS_ATTENTION_ATTENTION_H

#include <stdint.h>

#include "tandem/devices/kernel.h"

/* Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), for each head:
 *
 *     q F (batch, queries, heads dim), k F (batch, keys, heads dim),
 *     v F (batch, keys, heads width), [padding bool (batch, keys)],
 *     [mask, bool or F, (queries, keys) or (batch, heads, queries, keys)] ->
 *     y F (batch, queries, heads width), log_sums F (batch, heads, queries)
 *
 * Keys whose padding is true are left out, as are pairs whose mask is true. A mask F is added to
 * the scaled products. log_sums are the logarithms of the sums of exponentials. With `causal`,
 * query i attends to the keys 0 to i. A query without keys has y 0 and an infinite log_sum. */
#define TDM_OP_ATTENTION "attention"
/* The same, with probabilities dropped as TDM_OP_DROPOUT drops the elements of a (batch, heads,
 * queries, keys). */
#define TDM_OP_ATTENTION_DROPOUT "attention_dropout"
/* d_y, q, k, v, y, log_sums, [padding], [mask] -> d_q, d_k, d_v; drops by p. */
#define TDM_OP_ATTENTION_GRADIENT "attention_gradient"
typedef struct tdm_attention_attributes {
  int64_t heads;
  int64_t causal;
  double scale; /* factor of the products */
  double p;     /* dropout probability; attention itself drops nothing */
  uint64_t stream;
  tdm_chunk chunk; /* range of y's batch */
} tdm_attention_attributes;

#endif
