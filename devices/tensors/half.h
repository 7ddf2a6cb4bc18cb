/* Converts float16 and bfloat16 on the host. Invariant: every conversion rounds to the nearest,
 * ties to even, and preserves infinities and NaN, as PyTorch does. */
#ifndef TANDEM_DEVICES_TENSORS_HALF_H
#define TANDEM_DEVICES_TENSORS_HALF_H

#include "tandem/core/core.h"

static inline bool tdm_is_half(tdm_dtype dtype) {
  return dtype == TDM_FLOAT16 || dtype == TDM_BFLOAT16;
}

/* Converts count elements of dtype, float16 or bfloat16, to float32, and back. */
void tdm_half_widen(tdm_dtype dtype, const uint16_t *from, float *to, int64_t count);
void tdm_half_narrow(tdm_dtype dtype, const float *from, uint16_t *to, int64_t count);

#endif
