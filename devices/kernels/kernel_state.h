/* Shared by the kernels of every kind: the state that prepare creates, and sizes read from shapes.
 * The header devices/kernels/FAMILY/NAME_sizes.h has one struct per operation for what is read from
 * a request: the extents in its shapes, and the attributes as kernels use them. The function
 * NAME_read fills the struct from operands with valid shapes; a kind adds its own fields.
 * Invariant: execute reads no shape and allocates nothing. Sizes are plain values, which can be
 * passed to CUDA kernels unchanged. */
#ifndef TANDEM_DEVICES_KERNELS_KERNEL_STATE_H
#define TANDEM_DEVICES_KERNELS_KERNEL_STATE_H

#include <stdlib.h>

#include "core/status.h"
#include "tandem/devices/kernel.h"

/* Allocates zeroed memory for a kernel's state and stores it in answer->state. If memory is short,
 * returns NULL and sets the thread's message. */
static inline void *kernel_state_create(tdm_kernel_answer *answer, size_t bytes) {
  answer->state = calloc(1, bytes);
  if (!answer->state) (void)tdm_fail_memory(bytes, "the state of a kernel");
  return answer->state;
}

static inline void kernel_state_release(void *state) {
  free(state);
}

static inline int64_t count_of(const tdm_spec *spec) {
  return tdm_shape_count(&spec->shape);
}

static inline int64_t last_dim_of(const tdm_spec *spec) {
  return spec->shape.rank > 0 ? spec->shape.dims[spec->shape.rank - 1] : 1;
}

/* Returns true if a row may be processed as one contiguous piece, which requires that its elements
 * are adjacent (`inner` is 1). With `deterministic` it also requires that no dimension follows
 * (`is_last`). Otherwise a batch could have one row here and several rows elsewhere, which would be
 * processed as columns, in another order. */
static inline bool is_row(const tdm_kernel_request *request, int64_t inner, bool is_last) {
  return inner == 1 && (is_last || !request->deterministic);
}

/* Returns the product of dimensions first <= i < end. */
static inline int64_t dims_product(const tdm_spec *spec, int64_t first, int64_t end) {
  int64_t product = 1;
  for (int64_t i = first; i < end; i++)
    product *= spec->shape.dims[i];
  return product;
}

/* Returns the product of all dimensions except the last. */
static inline int64_t rows_of(const tdm_spec *spec) {
  return dims_product(spec, 0, spec->shape.rank - 1);
}

static inline int64_t ceil_div(int64_t count, int64_t divisor) {
  return (count + divisor - 1) / divisor;
}

static inline int64_t lesser_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline size_t aligned_bytes(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

#endif
