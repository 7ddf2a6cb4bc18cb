/* Test double of cuBLAS. Products are sums in float64, in order, with factors rounded to TF32 if
 * that was allowed. Errors are cuBLAS's codes, which hide CUDA's: NOT_INITIALIZED if it could not
 * begin, EXECUTION_FAILED if a product failed. */
#include <stdlib.h>
#include <string.h>

#include "tests/devices/cuda_emulation/emulation.h"

enum { LEAVES_NO_MORE = TDM_CUDA_BLAS + 14 }; /* an internal error */

struct tdm_cuda_blas_opaque {
  tdm_cuda_stream stream;
  bool tf32;
};

typedef struct emulated_product {
  tdm_cuda_product product;
  bool tf32;
} emulated_product;

const char *emulated_blas_absence(void) {
  return emulated_blas_is_hidden() ? "libcublas.so.13: emulated as missing" : NULL;
}

tdm_cuda_code emulated_blas_create(tdm_cuda_blas *out, bool tf32, const char **out_reason) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  *out = NULL;
  *out_reason = NULL;
  if (code != TDM_CUDA_SUCCESS || emulated_is_full()) return TDM_CUDA_BLAS_NOT_INITIALIZED;
  *out = calloc(1, sizeof(**out));
  if (!*out) emulated_misuse("no memory");
  (*out)->tf32 = tf32;
  emulated_count(1);
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_blas_destroy(tdm_cuda_blas blas) {
  const int ordinal = emulated_ordinal();
  free(blas);
  emulated_count(-1);
  return emulated_strike(ordinal) == TDM_CUDA_SUCCESS ? TDM_CUDA_SUCCESS : LEAVES_NO_MORE;
}

tdm_cuda_code emulated_blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  blas->stream = stream; /* makes no call to the GPU */
  return emulated_strike(-1) == TDM_CUDA_SUCCESS ? TDM_CUDA_SUCCESS : LEAVES_NO_MORE;
}

/* Rounds to ten bits after the point, ties away from zero. */
static float tf32_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static double element(const emulated_product *asked, const void *matrix, int64_t index) {
  if (asked->product.dtype == TDM_FLOAT64) return ((const double *)matrix)[index];
  const float value = ((const float *)matrix)[index];
  return asked->tf32 ? tf32_of(value) : value;
}

static double row_by_column(const emulated_product *asked, int64_t i, int64_t j) {
  const tdm_cuda_product *product = &asked->product;
  double sum = 0;
  for (int64_t k = 0; k < product->k; k++) {
    const int64_t a = product->transpose_a ? k * product->a_stride + i : i * product->a_stride + k;
    const int64_t b = product->transpose_b ? j * product->b_stride + k : k * product->b_stride + j;
    sum += element(asked, product->a, a) * element(asked, product->b, b);
  }
  return sum;
}

static void run_product(void *data) {
  const emulated_product *asked = data;
  const tdm_cuda_product *product = &asked->product;
  const bool wide = product->dtype == TDM_FLOAT64;
  for (int64_t i = 0; i < product->m; i++) {
    for (int64_t j = 0; j < product->n; j++) {
      const int64_t c = i * product->c_stride + j;
      double sum = row_by_column(asked, i, j);
      if (product->beta != 0) {
        sum += product->beta *
               (wide ? ((const double *)product->c)[c] : (double)((const float *)product->c)[c]);
      }
      if (wide) {
        ((double *)product->c)[c] = sum;
      } else {
        ((float *)product->c)[c] = (float)sum;
      }
    }
  }
}

tdm_cuda_code emulated_blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  const tdm_cuda_code code = emulated_strike(emulated_stream_ordinal(blas->stream));
  emulated_did(EMULATED_PRODUCT);
  if (code != TDM_CUDA_SUCCESS) return TDM_CUDA_BLAS_EXECUTION_FAILED;
  emulated_product *mine = malloc(sizeof *mine);
  if (!mine) emulated_misuse("no memory");
  *mine = (emulated_product){.product = *product, .tf32 = blas->tf32};
  const int ordinal = emulated_stream_ordinal(blas->stream);
  mine->product.a = emulated_pointer(product->a, ordinal, "a product");
  mine->product.b = emulated_pointer(product->b, ordinal, "a product");
  mine->product.c = emulated_pointer(product->c, ordinal, "a product");
  emulated_enqueue(blas->stream, run_product, mine);
  return TDM_CUDA_SUCCESS;
}
