/* Products of matrices: by cuBLAS, or by a kernel whose rows do not depend on each other; and the
 * additions of layers. Invariant: repeated runs give the same bits. */
#ifndef TANDEM_DEVICES_KERNELS_PRODUCTS_CUDA_PRODUCTS_H
#define TANDEM_DEVICES_KERNELS_PRODUCTS_CUDA_PRODUCTS_H

#include "devices/kernels/cuda/kernel.h"

/* Enqueues product, which may be empty in any dimension (its c has no gaps between rows). beta is 0
 * or 1. If `alone` is true, a row of c depends only on its row of a, bit by bit, whatever m is.
 * Then a must be stored untransposed. */
template <class real>
tdm_status product_run(const tdm_kernel_call *call, const tdm_cuda_product *product, bool alone);
/* Enqueues: every row of out (rows, columns) = a + b, both (columns), b may be NULL. */
template <class real>
tdm_status rows_fill(const tdm_kernel_call *call, const void *a, const void *b, void *out,
                     int64_t rows, int64_t columns);

/* Returns the product c (m, n) = a (m, k) b^T + beta c, b (n, k): rows times a weight as layers
 * store it. */
template <class stored>
static inline tdm_cuda_product product_with_transposed(const void *a, const void *b, void *c,
                                                       int64_t m, int64_t n, int64_t k,
                                                       double beta) {
  tdm_cuda_product product = {};
  product.dtype = precision<stored>::dtype;
  product.transpose_b = true;
  product.m = m;
  product.n = n;
  product.k = k;
  product.a = a;
  product.b = b;
  product.c = c;
  product.a_stride = k;
  product.b_stride = k;
  product.c_stride = n;
  product.beta = beta;
  return product;
}

/* Returns the product c (m, n) = a (m, k) b (k, n) + beta c: gradients of rows. */
template <class stored>
static inline tdm_cuda_product product_with(const void *a, const void *b, void *c, int64_t m,
                                            int64_t n, int64_t k, double beta) {
  tdm_cuda_product product = product_with_transposed<stored>(a, b, c, m, n, k, beta);
  product.transpose_b = false;
  product.b_stride = n;
  return product;
}

/* Returns the product c (m, n) = a^T b + beta c, a (k, m), b (k, n): gradients of weights. */
template <class stored>
static inline tdm_cuda_product product_of_transposed(const void *a, const void *b, void *c,
                                                     int64_t m, int64_t n, int64_t k, double beta) {
  tdm_cuda_product product = product_with<stored>(a, b, c, m, n, k, beta);
  product.transpose_a = true;
  product.a_stride = m;
  return product;
}

#endif
