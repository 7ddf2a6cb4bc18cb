/* The products of product.h: panels, tiles of registers, and the loops around them. */
#include "devices/cpu/kernels/product.h"

#include "devices/cpu/kernels/vector.h"

#define VECTORS 2 /* of a tile's width */
#define WIDTH (VECTORS * LANES)
#define TILE_ROWS 8
_Static_assert(PRODUCT_ROWS % TILE_ROWS == 0 && PRODUCT_COLUMNS % WIDTH == 0, "whole tiles");

/* ---- Packing --------------------------------------------------------------------------------- */

/* Columns of the panel that begins at column `first`: whole vectors. */
ALWAYS_INLINE int64_t panel_width(int64_t n, int64_t first) {
  return n - first > LANES ? WIDTH : LANES;
}

ALWAYS_INLINE int64_t padded(int64_t n) {
  return (n + LANES - 1) / LANES * LANES;
}

size_t product_packed_bytes(int64_t k, int64_t n) {
  return tdm_cpu_aligned((size_t)(k * padded(n)) * sizeof(real));
}

/* The panel of the block at row p that begins at column j. */
ALWAYS_INLINE real *panel_of(packed_matrix matrix, int64_t p, int64_t depth, int64_t j) {
  return matrix.data + p * padded(matrix.n) + j * depth;
}

/* depth rows of a panel whose columns (at most width) begin at b (depth, ...). */
static void pack_plain(int64_t depth, int64_t columns, int64_t width, const real *b, int64_t stride,
                       real *panel) {
  for (int64_t p = 0; p < depth; p++, b += stride, panel += width) {
    for (int64_t j = 0; j < width; j += LANES) {
      *(vec *)(panel + j) = columns - j >= LANES ? vec_load(b + j)
                            : columns > j        ? vec_load_first(b + j, columns - j)
                                                 : (vec){0};
    }
  }
}

/* The same from b (columns, depth). */
static void pack_transposed(int64_t depth, int64_t columns, int64_t width, const real *b,
                            int64_t stride, real *panel) {
  for (int64_t p = 0; p < depth; p++) {
    for (int64_t j = 0; j < columns; j++)
      panel[p * width + j] = b[j * stride + p];
    for (int64_t j = columns; j < width; j++)
      panel[p * width + j] = 0;
  }
}

void product_pack(packed_matrix to, int64_t first, int64_t end, product_layout layout,
                  const real *b, int64_t stride) {
  for (int64_t p = 0; p < to.k; p += PRODUCT_DEPTH) {
    const int64_t depth = tdm_cpu_min(to.k - p, PRODUCT_DEPTH);
    for (int64_t j = first; j < end; j += WIDTH) {
      const int64_t width = panel_width(to.n, j);
      const int64_t columns = tdm_cpu_min(to.n - j, width);
      real *panel = panel_of(to, p, depth, j);
      if (layout == PRODUCT_PLAIN) {
        pack_plain(depth, columns, width, b + p * stride + j, stride, panel);
      } else {
        pack_transposed(depth, columns, width, b + j * stride + p, stride, panel);
      }
    }
  }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* A strip of rows of the left operand: element (r, p) is at a[r * row_step + p * depth_step]. */
typedef struct strip {
  const real *a;
  int64_t row_step;
  int64_t depth_step;
} strip;

/* Where a tile of the result goes, and what it is added to. */
typedef struct target {
  real *c; /* rows of `columns` elements, stride apart */
  int64_t stride;
  int64_t columns; /* of the panel that are there */
  const real *bias;
  bool add;
} target;

ALWAYS_INLINE void tile_finish(vec sum, const target *to, int64_t row, int64_t column) {
  real *c = to->c + row * to->stride + column;
  const int64_t columns = to->columns - column;
  if (to->add) {
    sum += vec_load_first(c, columns);
  } else if (to->bias != NULL) {
    sum += vec_load_first(to->bias + column, columns);
  }
  vec_store_first(c, sum, columns);
}

/* rows and vectors are constants where this is inlined: the sums live in registers. */
ALWAYS_INLINE void tile(const int rows, const int vectors, int64_t depth, strip from,
                        const real *panel, const target *to, int64_t row) {
  vec sums[TILE_ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[r][v] = (vec){0};
  }
  for (int64_t p = 0; p < depth; p++) {
    vec b[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      b[v] = *(const vec *)(panel + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sums[r][v] += from.a[r * from.row_step] * b[v];
    }
    from.a += from.depth_step;
    panel += vectors * LANES;
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      tile_finish(sums[r][v], to, row + r, v * LANES);
  }
}

/* One panel for all m rows, in tiles of 8, 4, 2 and 1 rows. */
ALWAYS_INLINE void panel_rows(const int vectors, int64_t m, int64_t depth, strip from,
                              const real *panel, const target *to) {
  int64_t row = 0;
  for (; m - row >= 8; row += 8, from.a += 8 * from.row_step) {
    tile(8, vectors, depth, from, panel, to, row);
  }
  if (m - row >= 4) {
    tile(4, vectors, depth, from, panel, to, row);
    row += 4, from.a += 4 * from.row_step;
  }
  if (m - row >= 2) {
    tile(2, vectors, depth, from, panel, to, row);
    row += 2, from.a += 2 * from.row_step;
  }
  if (m > row) tile(1, vectors, depth, from, panel, to, row);
}

/* The strips of a whole left operand whose rows lie in memory, element after element. */
static void panel_of_rows(int64_t width, int64_t m, int64_t depth, const real *a, int64_t a_stride,
                          const real *panel, const target *to) {
  const strip from = {.a = a, .row_step = a_stride, .depth_step = 1};
  if (width == WIDTH) {
    panel_rows(VECTORS, m, depth, from, panel, to);
  } else {
    panel_rows(1, m, depth, from, panel, to);
  }
}

void product(int64_t m, packed_matrix b, int64_t first, int64_t end, const real *a,
             int64_t a_stride, const real *bias, product_start start, real *c, int64_t c_stride) {
  int64_t p = 0;
  do { /* once also for k = 0 */
    const int64_t depth = tdm_cpu_min(b.k - p, PRODUCT_DEPTH);
    for (int64_t j = first; j < end; j += WIDTH) {
      const target to = {.c = c + j,
                         .stride = c_stride,
                         .columns = b.n - j,
                         .bias = bias != NULL ? bias + j : NULL,
                         .add = start == PRODUCT_ADD || p > 0};
      panel_of_rows(panel_width(b.n, j), m, depth, a + p, a_stride, panel_of(b, p, depth, j), &to);
    }
    p += depth;
  } while (p < b.k);
}

/* ---- The gradient of a weight ------------------------------------------------------------------
 */

static void panel_of_columns(int64_t width, int64_t m, int64_t depth, const real *a,
                             int64_t a_stride, const real *panel, const target *to) {
  const strip from = {.a = a, .row_step = 1, .depth_step = a_stride};
  if (width == WIDTH) {
    panel_rows(VECTORS, m, depth, from, panel, to);
  } else {
    panel_rows(1, m, depth, from, panel, to);
  }
}

void product_of_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_stride,
                           const real *b, int64_t b_stride, product_start start, real *c,
                           int64_t c_stride) {
  _Alignas(64) real columns[PRODUCT_DEPTH * PRODUCT_ROWS]; /* (depth, m) */
  _Alignas(64) real panel[PRODUCT_DEPTH * WIDTH];
  int64_t p = 0;
  do {
    const int64_t depth = tdm_cpu_min(k - p, PRODUCT_DEPTH);
    for (int64_t i = 0; i < depth; i++)
      row_copy(columns + i * m, a + (p + i) * a_stride, m);
    for (int64_t j = 0; j < n; j += WIDTH) {
      const int64_t width = panel_width(n, j);
      const target to = {
          .c = c + j, .stride = c_stride, .columns = n - j, .add = start == PRODUCT_ADD || p > 0};
      pack_plain(depth, tdm_cpu_min(n - j, width), width, b + p * b_stride + j, b_stride, panel);
      panel_of_columns(width, m, depth, columns, m, panel, &to);
    }
    p += depth;
  } while (p < k);
}

void column_sums(int64_t k, int64_t n, const real *a, int64_t a_stride, product_start start,
                 real *sums) {
  for (int64_t j = 0; j < n; j += LANES) {
    const int64_t columns = n - j;
    vec total = start == PRODUCT_ADD ? vec_load_first(sums + j, columns) : (vec){0};
    for (int64_t p = 0; p < k; p += PRODUCT_DEPTH) {
      const int64_t end = tdm_cpu_min(k, p + PRODUCT_DEPTH);
      vec block = {0};
      for (int64_t i = p; i < end; i++)
        block += vec_load_first(a + i * a_stride + j, columns);
      total += block;
    }
    vec_store_first(sums + j, total, columns);
  }
}
