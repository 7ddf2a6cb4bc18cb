/* A product whose rows do not depend on each other. A block computes a square tile of the result,
 * each thread one element, adding along k in order. cuBLAS is faster, but selects its algorithm by
 * the number of rows. */
#include "devices/kernels/products/cuda/products.h"

static const int TILE = 16; /* TILE * TILE threads a block */

/* Computes c (m, n) from a (m, k) and b (k, n), whose neighbours are b_row and b_column elements
 * apart. */
template <class stored>
static __global__ void rows_alone(const stored *a, const stored *b, stored *c, int64_t m, int64_t n,
                                  int64_t k, int64_t b_row, int64_t b_column, bool adds) {
  typedef real_of<stored> real;
  TDM_SHARED(real, a_tile, TILE * (TILE + 1)); /* one more column: no bank conflicts */
  TDM_SHARED(real, b_tile, TILE * (TILE + 1));
  const int64_t tiles = (n + TILE - 1) / TILE;
  const int y = (int)threadIdx.x / TILE, x = (int)threadIdx.x % TILE;
  const int64_t first_column = blockIdx.x % tiles * TILE;
  const int64_t row = blockIdx.x / tiles * TILE + y, column = first_column + x;
  const int i_of_b = b_row == 1 ? x : y, j_of_b = b_row == 1 ? y : x; /* neighbours in memory */
  const bool inside = row < m && column < n;
  real sum = 0;
  for (int64_t first = 0; first < k; first += TILE) {
    a_tile[y * (TILE + 1) + x] = row < m && first + x < k ? (real)a[row * k + first + x] : 0;
    b_tile[i_of_b * (TILE + 1) + j_of_b] =
        first_column + j_of_b < n && first + i_of_b < k
            ? (real)b[(first + i_of_b) * b_row + (first_column + j_of_b) * b_column]
            : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      sum += a_tile[y * (TILE + 1) + i] * b_tile[i * (TILE + 1) + x];
    __syncthreads();
  }
  if (inside) c[row * n + column] = adds ? c[row * n + column] + sum : sum;
}

template <class stored>
static tdm_status run_alone(const tdm_kernel_call *call, const tdm_cuda_product *product) {
  const int64_t blocks = ceil_div(product->m, TILE) * ceil_div(product->n, TILE);
  const int64_t stride = product->b_stride;
  return kernel_launch(call, "rows_alone", rows_alone<stored>, blocks, TILE * TILE,
                       static_cast<const stored *>(product->a),
                       static_cast<const stored *>(product->b), static_cast<stored *>(product->c),
                       product->m, product->n, product->k, product->transpose_b ? 1 : stride,
                       product->transpose_b ? stride : 1, product->beta != 0);
}

template <class stored>
tdm_status product_run(const tdm_kernel_call *call, const tdm_cuda_product *product, bool alone) {
  if (product->m == 0 || product->n == 0) return TDM_OK;
  if (product->k == 0) { /* a sum of nothing, which cuBLAS does not promise */
    if (product->beta != 0) return TDM_OK;
    const size_t bytes = (size_t)(product->m * product->n) * sizeof(stored);
    return tdm_cuda_kernel_stream_fill(kernel_stream_of(call), product->c, 0, bytes);
  }
  if (!alone) return tdm_cuda_kernel_stream_product(kernel_stream_of(call), product);
  return run_alone<stored>(call, product);
}

/* ---- What layers add ------------------------------------------------------------------------- */

template <class stored>
static __global__ void fill_rows(const stored *a, const stored *b, stored *out, int64_t columns,
                                 int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t column = i % columns;
    out[i] = b ? a[column] + b[column] : (real_of<stored>)a[column];
  }
}

template <class stored>
tdm_status rows_fill(const tdm_kernel_call *call, const void *a, const void *b, void *out,
                     int64_t rows, int64_t columns) {
  return kernel_launch(call, "fill_rows", fill_rows<stored>, blocks_for(rows * columns), BLOCK,
                       static_cast<const stored *>(a), static_cast<const stored *>(b),
                       static_cast<stored *>(out), columns, rows * columns);
}

/* ---- For the other sources ------------------------------------------------------------------- */

#define INSTANTIATE(stored, ...)                                                                   \
  template tdm_status product_run<stored>(const tdm_kernel_call *, const tdm_cuda_product *,       \
                                          bool);                                                   \
  template tdm_status rows_fill<stored>(const tdm_kernel_call *, const void *, const void *,       \
                                        void *, int64_t, int64_t);
TDM_CUDA_PRECISIONS(INSTANTIATE)
