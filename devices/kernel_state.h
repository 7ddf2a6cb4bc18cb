/* What the kernels of every kind share: the state that prepare makes, and sizes read from shapes.
 * What is read of a request stands in one struct an operation, devices/operations/NAME_sizes.h:
 * the extents that its shapes stand for, and the attributes as kernels use them. Each NAME_read
 * fills the struct from operands whose shapes the operation's rule has let through; a kind adds
 * what is its own. Invariant: execute looks at no shape and allocates nothing; sizes are plain
 * values, which CUDA's kernels may be told as they are. */
#ifndef TANDEM_DEVICES_KERNEL_STATE_H
#define TANDEM_DEVICES_KERNEL_STATE_H

#include <stdlib.h>

#include "core/status.h"
#include "tandem/devices/kernel.h"

/* Zeroed memory for a kernel's state, stored in answer->state; NULL with the thread's message set
 * when memory is short. */
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

/* May a row be taken as one piece of memory, behind each of whose elements `inner` others lie? With
 * `deterministic` only where no dimension stands behind: a batch there may be of one row here, and
 * of several elsewhere, which are taken as columns, in another order. */
static inline bool is_row(const tdm_kernel_request *request, int64_t inner, bool is_last) {
  return inner == 1 && (is_last || !request->deterministic);
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
