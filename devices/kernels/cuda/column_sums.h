/* Sums of the columns of (rows, columns). Rows are divided into pieces, so that a few columns keep
 * a GPU busy too: a block sums one piece of a range of columns. The results are summed again until
 * one piece is left. Invariant: the order of a sum depends only on rows and columns. */
#ifndef TANDEM_DEVICES_KERNELS_CUDA_COLUMN_SUMS_H
#define TANDEM_DEVICES_KERNELS_CUDA_COLUMN_SUMS_H

#include "devices/kernels/cuda/kernel.h"

static const int64_t ROWS_A_THREAD = 64; /* the most rows that a thread adds */

/* A block's threads are groups of `width` neighbours, a column each. */
struct column_pieces {
  int64_t rows;
  int64_t columns;
  int width;
  int64_t length; /* rows of a piece */
  int64_t tiles;  /* stretches of `width` columns */
  int64_t count;  /* pieces; at least 1 */
};

static inline column_pieces column_pieces_of(int64_t rows, int64_t columns) {
  column_pieces pieces = {};
  pieces.rows = rows;
  pieces.columns = columns;
  pieces.width = WARP;
  while (pieces.width > 1 && pieces.width / 2 >= columns)
    pieces.width /= 2;
  pieces.length = ROWS_A_THREAD * (BLOCK / pieces.width);
  pieces.tiles = ceil_div(columns, pieces.width);
  pieces.count = rows > pieces.length ? ceil_div(rows, pieces.length) : 1;
  return pieces;
}

/* Computes out (count, columns), the sums of at(row, column) over the rows of each piece, in a
 * launch of tiles * count blocks of BLOCK threads. */
template <class real, class element, class value>
static __device__ void sum_piece(const column_pieces &pieces, element *out, value at) {
  TDM_SHARED(real, of_groups, BLOCK);
  const int width = pieces.width, groups = BLOCK / width;
  const int lane = (int)threadIdx.x % width, group = (int)threadIdx.x / width;
  const int64_t piece = blockIdx.x / pieces.tiles;
  const int64_t column = blockIdx.x % pieces.tiles * width + lane;
  const int64_t first = piece * pieces.length;
  const int64_t left = pieces.rows - first < pieces.length ? pieces.rows - first : pieces.length;
  real sum = 0;
  for (int64_t row = group; row < left && column < pieces.columns; row += groups)
    sum += at(first + row, column);
  of_groups[threadIdx.x] = sum;
  __syncthreads();
  for (int half = groups / 2; half > 0; half /= 2) {
    if (group < half) of_groups[threadIdx.x] += of_groups[threadIdx.x + half * width];
    __syncthreads();
  }
  if (group == 0 && column < pieces.columns) out[piece * pieces.columns + column] = of_groups[lane];
}

/* Returns the bytes of workspace for column_sums, for elements of so many bytes. */
static inline size_t column_sums_bytes(int64_t rows, int64_t columns, size_t element_bytes) {
  size_t bytes = 0;
  for (int64_t left = column_pieces_of(rows, columns).count; left > 1;
       left = column_pieces_of(left, columns).count)
    bytes += (size_t)(left * columns) * element_bytes;
  return bytes;
}

/* Enqueues: out (columns) = the sums of the columns of x (rows, columns). workspace:
 * column_sums_bytes. */
template <class stored>
tdm_status column_sums(const tdm_kernel_call *call, const stored *x, stored *out, int64_t rows,
                       int64_t columns, void *workspace);
/* Computes the same from the results of sum_piece. */
template <class stored>
tdm_status column_sums_of_pieces(const tdm_kernel_call *call, const real_of<stored> *x, stored *out,
                                 int64_t rows, int64_t columns, void *workspace);

#endif
