/* What every family of kernels shares: the state that prepare makes, and sizes read from shapes.
 * Invariant: execute looks at no shape and allocates nothing. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_FAMILY_H
#define TANDEM_DEVICES_CUDA_KERNELS_FAMILY_H

#include "devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed memory for a kernel's state, stored in answer->state; NULL with the thread's message set
 * when memory is short. Freed by tdm_cuda_state_release. */
void *tdm_cuda_state_create(tdm_kernel_answer *answer, size_t bytes);
void tdm_cuda_state_release(void *state);

static inline int64_t count_of(const tdm_spec *spec) {
  return tdm_shape_count(&spec->shape);
}

static inline int64_t last_dim_of(const tdm_spec *spec) {
  return spec->shape.rank > 0 ? spec->shape.dims[spec->shape.rank - 1] : 1;
}

/* The product of dimensions first <= i < end. */
static inline int64_t dims_product(const tdm_spec *spec, int64_t first, int64_t end) {
  int64_t product = 1;
  for (int64_t i = first; i < end; i++)
    product *= spec->shape.dims[i];
  return product;
}

/* All dimensions but the last, as one. */
static inline int64_t rows_of(const tdm_spec *spec) {
  return dims_product(spec, 0, spec->shape.rank - 1);
}

static inline size_t aligned_bytes(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

#ifdef __cplusplus
}

template <class state_type> static inline state_type *state_create(tdm_kernel_answer *answer) {
  return static_cast<state_type *>(tdm_cuda_state_create(answer, sizeof(state_type)));
}

/* Operands of a call, typed. */
template <class type> static inline const type *input_of(const tdm_kernel_call *call, size_t i) {
  return static_cast<const type *>(call->inputs[i]);
}
template <class type> static inline type *output_of(const tdm_kernel_call *call, size_t i) {
  return static_cast<type *>(call->outputs[i]);
}
#endif
#endif
