/* Which batches of the operands belong to a batch of a product: NumPy's broadcasting of leading
 * dimensions. Shared by the kernels of every kind. A batch is one matrix. */
#ifndef TANDEM_DEVICES_KERNELS_PRODUCTS_MATMUL_BATCHES_H
#define TANDEM_DEVICES_KERNELS_PRODUCTS_MATMUL_BATCHES_H

#include <string.h>

#include "devices/kernels/products/products.h"

typedef struct tdm_matmul_batches {
  int64_t count; /* number of batches of the result */
  int rank;      /* number of the result's leading dimensions */
  int64_t dims[TDM_MAX_RANK];
  int64_t a_steps[TDM_MAX_RANK]; /* distance between neighbours of a dimension; 0: repeated */
  int64_t b_steps[TDM_MAX_RANK];
} tdm_matmul_batches;

static inline void tdm_matmul_steps(const tdm_matmul_batches *batches, const tdm_shape *operand,
                                    int64_t *steps) {
  int64_t step = 1;
  for (int i = batches->rank - 1, j = operand->rank - 3; i >= 0; i--, j--) {
    const int64_t size = j >= 0 ? operand->dims[j] : 1;
    steps[i] = size == 1 ? 0 : step;
    step *= size;
  }
}

static inline tdm_matmul_batches tdm_matmul_batches_of(const tdm_shape *a, const tdm_shape *b,
                                                       const tdm_shape *y) {
  tdm_matmul_batches batches;
  memset(&batches, 0, sizeof batches);
  batches.count = 1;
  batches.rank = y->rank - 2;
  for (int i = 0; i < batches.rank; i++) {
    batches.dims[i] = y->dims[i];
    batches.count *= y->dims[i];
  }
  tdm_matmul_steps(&batches, a, batches.a_steps);
  tdm_matmul_steps(&batches, b, batches.b_steps);
  return batches;
}

/* A batched matrix product. */
typedef struct tdm_matmul_sizes {
  tdm_matmul_batches batches;
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a;
  bool transpose_b;
} tdm_matmul_sizes;

static inline void tdm_matmul_sizes_read(tdm_matmul_sizes *sizes,
                                         const tdm_kernel_request *request) {
  const tdm_matmul_attributes *attributes = (const tdm_matmul_attributes *)request->attributes;
  const tdm_shape *a = &request->inputs[0].shape, *y = &request->outputs[0].shape;
  sizes->transpose_a = attributes->transpose_a != 0;
  sizes->transpose_b = attributes->transpose_b != 0;
  sizes->m = y->dims[y->rank - 2];
  sizes->n = y->dims[y->rank - 1];
  sizes->k = a->dims[a->rank - (sizes->transpose_a ? 2 : 1)];
  sizes->batches = tdm_matmul_batches_of(a, &request->inputs[1].shape, y);
}

/* Finds the batches of a and b whose product is `batch` of the result. */
static inline void tdm_matmul_operands(const tdm_matmul_batches *batches, int64_t batch,
                                       int64_t *out_a, int64_t *out_b) {
  *out_a = 0;
  *out_b = 0;
  for (int i = batches->rank - 1; i >= 0; i--) {
    const int64_t place = batch % batches->dims[i];
    *out_a += place * batches->a_steps[i];
    *out_b += place * batches->b_steps[i];
    batch /= batches->dims[i];
  }
}

#endif
