/* Sums of columns, repeated until one piece is left. Invariant: see column_sums.h. */
#include "devices/kernels/cuda/column_sums.h"

/* Computes out (pieces, columns), the sums of the rows of each piece of x (rows, columns). */
template <class real, class from, class to>
static __global__ void sum_columns(const from *x, to *out, column_pieces pieces) {
  sum_piece<real>(pieces, out, [=](int64_t row, int64_t column) {
    return (real)x[row * pieces.columns + column];
  });
}

template <class real, class from, class to>
static tdm_status sum_once(const tdm_kernel_call *call, const from *x, to *out,
                           const column_pieces &pieces) {
  return kernel_launch(call, "sum_columns", sum_columns<real, from, to>,
                       pieces.tiles * pieces.count, BLOCK, x, out, pieces);
}

template <class stored>
tdm_status column_sums_of_pieces(const tdm_kernel_call *call, const real_of<stored> *x, stored *out,
                                 int64_t rows, int64_t columns, void *workspace) {
  typedef real_of<stored> real;
  real *next = static_cast<real *>(workspace);
  column_pieces pieces = column_pieces_of(rows, columns);
  for (; pieces.count > 1; pieces = column_pieces_of(pieces.count, columns)) {
    TDM_TRY((sum_once<real>(call, x, next, pieces)));
    x = next;
    next += pieces.count * columns;
  }
  return sum_once<real>(call, x, out, pieces);
}

template <class stored>
tdm_status column_sums(const tdm_kernel_call *call, const stored *x, stored *out, int64_t rows,
                       int64_t columns, void *workspace) {
  typedef real_of<stored> real;
  const column_pieces pieces = column_pieces_of(rows, columns);
  if (pieces.count == 1) return sum_once<real>(call, x, out, pieces);
  real *sums = static_cast<real *>(workspace);
  TDM_TRY((sum_once<real>(call, x, sums, pieces)));
  return column_sums_of_pieces<stored>(call, sums, out, pieces.count, columns,
                                       sums + pieces.count * columns);
}

/* ---- For the other sources ------------------------------------------------------------------- */

#define INSTANTIATE(stored, ...)                                                                   \
  template tdm_status column_sums<stored>(const tdm_kernel_call *, const stored *, stored *,       \
                                          int64_t, int64_t, void *);                               \
  template tdm_status column_sums_of_pieces<stored>(                                               \
      const tdm_kernel_call *, const real_of<stored> *, stored *, int64_t, int64_t, void *);
TDM_CUDA_PRECISIONS(INSTANTIATE)
