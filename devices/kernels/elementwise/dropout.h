/* Operations: dropout. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_DROPOUT_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_DROPOUT_H

#include <stdint.h>

#include "tandem/devices/kernel.h"

/* x F -> F: element i is 0 with probability p, else x / (1 - p); of a run's (seed, step), `stream`
 * and the place of i in the whole value, of which this may be a chunk. Its own gradient. Word i % 4
 * of Philox's block i / 4 decides: its upper 24 bits below p 2^24 mean 0. */
#define TDM_OP_DROPOUT "dropout"
typedef struct tdm_dropout_attributes {
  double p;
  uint64_t stream;
  tdm_chunk chunk;
} tdm_dropout_attributes;

#endif
