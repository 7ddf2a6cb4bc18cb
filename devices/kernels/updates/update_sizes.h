/* Sizes of updates, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_UPDATE_SIZES_H
#define TANDEM_DEVICES_KERNELS_UPDATES_UPDATE_SIZES_H

#include "devices/kernels/kernel_state.h"

/* The work of an optimizer's kernel: `count` elements, or at most `count` rows of `dim`. */
typedef struct update_sizes {
  int64_t count;
  int64_t dim;
} update_sizes;

static inline void update_sizes_read(update_sizes *sizes, const tdm_kernel_request *request) {
  sizes->count = count_of(&request->inputs[0]);
}

/* Reads the sizes of a sparse gradient: parameter (rows, dim), rows (n, dim), indices (n), ... */
static inline void update_rows_sizes_read(update_sizes *sizes, const tdm_kernel_request *request) {
  sizes->count = count_of(&request->inputs[2]);
  sizes->dim = last_dim_of(&request->inputs[0]);
}

/* The work of adafactor: `rows` pieces of `length` elements. If factored, these are the rows of
 * `batches` matrices of so many rows each. Otherwise, they are pieces of a vector, the last of
 * which may be shorter. */
typedef struct adafactor_sizes {
  int64_t count;
  int64_t rows;
  int64_t length;
  int64_t batches;
  int64_t height;
  bool factored;
} adafactor_sizes;

#define ADAFACTOR_PIECE 8192

static inline void adafactor_sizes_read(adafactor_sizes *sizes, const tdm_kernel_request *request) {
  const tdm_shape *shape = &request->inputs[0].shape;
  sizes->count = count_of(&request->inputs[0]);
  sizes->factored = shape->rank >= 2;
  sizes->length = ADAFACTOR_PIECE;
  sizes->height = 1;
  if (sizes->factored && sizes->count > 0) {
    sizes->length = shape->dims[shape->rank - 1];
    sizes->height = shape->dims[shape->rank - 2];
  }
  sizes->rows = ceil_div(sizes->count, sizes->length);
  sizes->batches = sizes->rows / sizes->height;
}

#endif
