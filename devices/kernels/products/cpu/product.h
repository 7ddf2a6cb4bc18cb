/* Matrix products on one thread. The right operand is packed into panels first; the left one is
 * read where it lies, or packed on the stack.
 *
 *   packed B (k, n):  blocks of PRODUCT_DEPTH rows; in a block, panels of PRODUCT_WIDTH columns
 *                     (the last one as wide as needed, in whole vectors, padded with zeros); in a
 *                     panel row after row.
 *
 * Invariant: an element of the result is the sum of the blocks' sums in order, each block summed in
 * order of k, with the same roundings, whatever m, the row's place and the other rows are. */
#ifndef TANDEM_DEVICES_KERNELS_PRODUCTS_CPU_PRODUCT_H
#define TANDEM_DEVICES_KERNELS_PRODUCTS_CPU_PRODUCT_H

#include "devices/kernels/cpu/vector.h"

#define PRODUCT_DEPTH 256
/* Columns of a panel. */
#define PRODUCT_WIDTH (2 * LANES)
/* Columns that a task packs or computes: a multiple of every panel's width. */
#define PRODUCT_COLUMNS 256
/* The most rows of product_of_transposed; a multiple of every tile's height. */
#define PRODUCT_ROWS 128

/* A right operand (k, n) where it lies; if transposed, memory holds (n, k). */
typedef struct matrix {
  const real *data;
  int64_t stride; /* elements from one row in memory to the next */
  bool transposed;
} matrix;

typedef struct packed_matrix {
  real *data; /* aligned to 64 */
  int64_t k;
  int64_t n;
} packed_matrix;

/* Initial values of a product: zeros, or the present contents of the result. */
typedef enum product_start { PRODUCT_SET, PRODUCT_ADD } product_start;

/* Returns the bytes of packed B (k, n); a multiple of 64. */
size_t product_packed_bytes(int64_t k, int64_t n);

/* Packs columns first <= j < end of b. first is a multiple of PRODUCT_WIDTH, and so is end, or it
 * is n. */
void product_pack(packed_matrix to, int64_t first, int64_t end, matrix b);

/* Computes columns first <= j < end (as above) of c (m, n) = a (m, k) B + start, where start is c
 * itself (ADD), else bias (n) for every row if it is not NULL. Rows of a and c are a_stride and
 * c_stride apart. */
void product_packed(int64_t m, packed_matrix b, int64_t first, int64_t end, const real *a,
                    int64_t a_stride, const real *bias, product_start start, real *c,
                    int64_t c_stride);

/* Computes the same bits with a b (k, n) that is packed during the product: for few rows. */
void product_direct(int64_t m, int64_t k, int64_t n, matrix b, int64_t first, int64_t end,
                    const real *a, int64_t a_stride, const real *bias, real *c, int64_t c_stride);

/* Computes c (m, n) = [c +] a^T b with a (k, m) and b (k, n): m rows of the gradient of a weight,
 * at most PRODUCT_ROWS. */
void product_of_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_stride,
                           const real *b, int64_t b_stride, product_start start, real *c,
                           int64_t c_stride);

/* Packs a (depth, m), whose rows are a_stride apart, to strips (depth m elements), which
 * product_of_strips reads for results of n columns. depth is at most PRODUCT_DEPTH, m at most
 * PRODUCT_ROWS. */
void product_strips(int64_t m, int64_t depth, const real *a, int64_t a_stride, real *strips);

/* Computes c (m, n) = [c +] a^T b, where b (depth, n) is a block of rows of B that begins at row
 * `first`, a multiple of PRODUCT_DEPTH, and ends with B or at the next; strips are those of a. */
void product_of_strips(int64_t m, packed_matrix b, int64_t first, const real *strips,
                       product_start start, real *c, int64_t c_stride);

/* Returns the rows of a weight's gradient in a task: enough to share the packing of b, few enough
 * for every thread to have some. Results do not depend on it. */
static inline int64_t product_gradient_rows(int64_t out, size_t team_size) {
  const int64_t wanted = (ceil_div(out, 2 * (int64_t)team_size) + 7) / 8 * 8;
  return wanted > PRODUCT_ROWS ? PRODUCT_ROWS : wanted < 32 ? 32 : wanted;
}

/* sums (n) = the sums over the rows of a (k, n). */
void column_sums(int64_t k, int64_t n, const real *a, int64_t a_stride, real *sums);

#endif
