/* Products as cuBLAS makes them, one sum after the other in float64. */
#include <stdlib.h>

#include "tests/devices/cuda_emulation/emulation.h"

struct tdm_cuda_blas_opaque {
  tdm_cuda_stream stream;
};

tdm_cuda_code emulated_blas_create(tdm_cuda_blas *out, const char **out_reason) {
  const tdm_cuda_code code = emulated_strike();
  *out = NULL;
  *out_reason = NULL;
  if (code != TDM_CUDA_SUCCESS) return code;
  *out = calloc(1, sizeof(**out));
  if (*out == NULL) emulated_misuse("no memory");
  emulated_count(1);
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_blas_destroy(tdm_cuda_blas blas) {
  free(blas);
  emulated_count(-1);
  return emulated_strike();
}

tdm_cuda_code emulated_blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  blas->stream = stream;
  return emulated_strike();
}

static double element(const tdm_cuda_product *product, const void *matrix, int64_t index) {
  return product->wide ? ((const double *)matrix)[index] : (double)((const float *)matrix)[index];
}

static double row_by_column(const tdm_cuda_product *product, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < product->k; ++k) {
    const int64_t a = product->transpose_a ? k * product->a_stride + i : i * product->a_stride + k;
    const int64_t b = product->transpose_b ? j * product->b_stride + k : k * product->b_stride + j;
    sum += element(product, product->a, a) * element(product, product->b, b);
  }
  return sum;
}

static void run_product(void *data) {
  const tdm_cuda_product *product = data;
  for (int64_t i = 0; i < product->m; ++i) {
    for (int64_t j = 0; j < product->n; ++j) {
      const int64_t c = i * product->c_stride + j;
      double sum = row_by_column(product, i, j);
      if (product->beta != 0) sum += product->beta * element(product, product->c, c);
      if (product->wide) {
        ((double *)product->c)[c] = sum;
      } else {
        ((float *)product->c)[c] = (float)sum;
      }
    }
  }
}

tdm_cuda_code emulated_blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  const tdm_cuda_code code = emulated_strike();
  if (code != TDM_CUDA_SUCCESS) return code;
  tdm_cuda_product *mine = malloc(sizeof(*mine));
  if (mine == NULL) emulated_misuse("no memory");
  *mine = *product;
  const int ordinal = emulated_stream_ordinal(blas->stream);
  mine->a = emulated_pointer(product->a, ordinal, "a product");
  mine->b = emulated_pointer(product->b, ordinal, "a product");
  mine->c = emulated_pointer(product->c, ordinal, "a product");
  emulated_enqueue(blas->stream, run_product, mine);
  return TDM_CUDA_SUCCESS;
}
