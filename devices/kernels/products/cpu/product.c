/* The products of product.h: panels, tiles of registers, and the loops around them. */
#include "devices/kernels/products/cpu/product.h"

#include "devices/kernels/cpu/cases.h"

#define VECTORS 2 /* vectors in a tile's width */
#define WIDTH PRODUCT_WIDTH
_Static_assert(WIDTH == VECTORS * LANES, "a panel is a tile wide");
/* The tallest tiles, so that a tile of one or two vectors a row fits the registers. */
#define TALL_ROWS 12
#define WIDE_ROWS (TDM_VECTOR_BYTES == 64 ? 12 : 6)
_Static_assert(PRODUCT_COLUMNS % WIDTH == 0, "a task holds whole panels");

/* ---- Packing --------------------------------------------------------------------------------- */

/* Columns of the panel that begins at column `first`: whole vectors. */
ALWAYS_INLINE int64_t panel_width(int64_t n, int64_t first) {
  return n - first > LANES ? WIDTH : LANES;
}

ALWAYS_INLINE int64_t padded(int64_t n) {
  return (n + LANES - 1) / LANES * LANES;
}

size_t product_packed_bytes(int64_t k, int64_t n) {
  return aligned_bytes((size_t)(k * padded(n)) * sizeof(real));
}

/* The panel of the block at row p that begins at column j. */
ALWAYS_INLINE real *panel_of(packed_matrix of, int64_t p, int64_t depth, int64_t j) {
  return of.data + p * padded(of.n) + j * depth;
}

/* Packs depth rows of a panel whose columns (at most width) begin at b (depth, ...). */
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

/* Packs the same from b (columns, depth), in squares that are transposed in registers. */
static void pack_transposed(int64_t depth, int64_t columns, int64_t width, const real *b,
                            int64_t stride, real *panel) {
  for (int64_t j = 0; j < width; j += LANES) {
    for (int64_t p = 0; p < depth; p += LANES) {
      vec rows[LANES];
      for (int i = 0; i < LANES; i++)
        rows[i] = j + i < columns ? vec_load_first(b + (j + i) * stride + p, depth - p) : (vec){0};
      vec_transpose(rows);
      for (int i = 0; i < LANES && p + i < depth; i++)
        *(vec *)(panel + (p + i) * width + j) = rows[i];
    }
  }
}

static void pack_panel(matrix b, int64_t p, int64_t depth, int64_t j, int64_t columns,
                       int64_t width, real *panel) {
  if (b.transposed) {
    pack_transposed(depth, columns, width, b.data + j * b.stride + p, b.stride, panel);
  } else {
    pack_plain(depth, columns, width, b.data + p * b.stride + j, b.stride, panel);
  }
}

void product_pack(packed_matrix to, int64_t first, int64_t end, matrix b) {
  for (int64_t p = 0; p < to.k; p += PRODUCT_DEPTH) {
    const int64_t depth = lesser_of(to.k - p, PRODUCT_DEPTH);
    for (int64_t j = first; j < end; j += WIDTH) {
      const int64_t width = panel_width(to.n, j);
      pack_panel(b, p, depth, j, lesser_of(to.n - j, width), width, panel_of(to, p, depth, j));
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
  int64_t columns; /* columns of the panel that exist */
  const real *bias;
  bool add;
} target;

/* c = sum [+ c | + bias], of a vector of columns. */
ALWAYS_INLINE void tile_finish(vec sum, const target *to, int64_t row, int64_t column,
                               int64_t columns) {
  real *c = to->c + row * to->stride + column;
  if (to->add) {
    sum += vec_load_first(c, columns);
  } else if (to->bias) {
    sum += vec_load_first(to->bias + column, columns);
  }
  vec_store_first(c, sum, columns);
}

/* Completes rows of a tile whose last vector is not full. The height is not a template constant, so
 * that this function is compiled once: short vectors take longer to compile than all the products.
 */
static __attribute__((noinline)) void tile_finish_short(const vec (*sums)[VECTORS], int64_t rows,
                                                        int64_t vectors, const target *to,
                                                        int64_t row) {
  const target all = *to;
  const int64_t last = (vectors - 1) * LANES;
  for (int64_t r = 0; r < rows; r++) {
    if (vectors > 1) tile_finish(sums[r][0], &all, row + r, 0, LANES);
    tile_finish(sums[r][vectors - 1], &all, row + r, last, all.columns - last);
  }
}

/* Rows of a panel of the right operand, which are `step` elements apart. */
typedef struct panel_view {
  const real *data;
  int64_t step;
} panel_view;

/* rows and vectors are constants where this is inlined: the sums live in registers. */
ALWAYS_INLINE void tile(const int rows, const int vectors, int64_t depth, strip from,
                        panel_view panel, const target *to, int64_t row) {
  vec sums[TALL_ROWS][VECTORS];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[r][v] = (vec){0};
  }
  for (int64_t p = 0; p < depth; p++) {
    vec b[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      b[v] = vec_load(panel.data + v * LANES);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sums[r][v] += from.a[r * from.row_step] * b[v];
    }
    from.a += from.depth_step;
    panel.data += panel.step;
  }
  if (to->columns < vectors * LANES) {
    vec made[TALL_ROWS][VECTORS];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        made[r][v] = sums[r][v];
    }
    tile_finish_short((const vec(*)[VECTORS])made, rows, vectors, to, row);
    return;
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      tile_finish(sums[r][v], to, row + r, v * LANES, LANES);
  }
}

/* A tile of a height that is not known where this is compiled. */
ALWAYS_INLINE void tile_of_any_height(int64_t rows, const int vectors, int64_t depth, strip from,
                                      panel_view panel, const target *to, int64_t row) {
#define HEIGHT(constant)                                                                           \
  case constant:                                                                                   \
    if (vectors == 1 || constant <= WIDE_ROWS) {                                                   \
      tile(constant, vectors, depth, from, panel, to, row);                                        \
    }                                                                                              \
    break;
  switch (rows) {
    CASES_TO_12(HEIGHT)
  }
#undef HEIGHT
}

/* Rows of the first of `tiles` tiles that share m rows evenly: a low one would wait for its own
 * sums. */
ALWAYS_INLINE int64_t tile_rows(int64_t m, int64_t tiles) {
  return ceil_div(m, tiles);
}

/* One panel for all m rows of a left operand that lie in memory element after element. */
ALWAYS_INLINE void panel_rows(const int vectors, int64_t m, int64_t depth, strip from,
                              panel_view panel, const target *to) {
  for (int64_t tiles = ceil_div(m, vectors == 1 ? TALL_ROWS : WIDE_ROWS), row = 0; tiles > 0;
       tiles--) {
    const int64_t rows = tile_rows(m - row, tiles);
    tile_of_any_height(rows, vectors, depth, from, panel, to, row);
    from.a += rows * from.row_step;
    row += rows;
  }
}

static void panel_of_rows(int64_t width, int64_t m, int64_t depth, const real *a, int64_t a_stride,
                          panel_view panel, const target *to) {
  const strip from = {.a = a, .row_step = a_stride, .depth_step = 1};
  if (width == WIDTH) {
    panel_rows(VECTORS, m, depth, from, panel, to);
  } else {
    panel_rows(1, m, depth, from, panel, to);
  }
}

/* ---- Strips: a left operand whose columns lie in memory, packed tile by tile --------------------
 */

/* Writes the (depth, rows) strip of each tile. Reading a strip goes through memory line by line and
 * leaves room in the nearest cache for the panel. */
void product_strips(int64_t m, int64_t depth, const real *a, int64_t a_stride, real *strips) {
  int64_t row = 0;
  for (int64_t tiles = ceil_div(m, WIDE_ROWS); tiles > 0; tiles--) {
    const int64_t rows = tile_rows(m - row, tiles);
    for (int64_t p = 0; p < depth; p++, strips += rows)
      row_copy(strips, a + p * a_stride + row, rows);
    row += rows;
  }
}

/* Prefetches the lines of a tile that will be added to: rows of a large gradient are far apart. */
ALWAYS_INLINE void fetch_tile(const int vectors, const target *to, int64_t row, int64_t rows) {
  for (int64_t r = row; r < row + rows; r++)
    for (int v = 0; v < vectors; v++)
      __builtin_prefetch(to->c + r * to->stride + v * LANES, 1);
}

/* One panel for all strips. */
ALWAYS_INLINE void panel_strips(const int vectors, int64_t m, int64_t depth, const real *strips,
                                panel_view panel, const target *to) {
  for (int64_t tiles = ceil_div(m, WIDE_ROWS), row = 0; tiles > 0; tiles--) {
    const int64_t rows = tile_rows(m - row, tiles);
    const strip from = {.a = strips, .row_step = 1, .depth_step = rows};
    if (to->add) fetch_tile(vectors, to, row, rows);
    tile_of_any_height(rows, vectors, depth, from, panel, to, row);
    strips += rows * depth;
    row += rows;
  }
}

static void panel_of_strips(int64_t width, int64_t m, int64_t depth, const real *strips,
                            panel_view panel, const target *to) {
  if (width == WIDTH) {
    panel_strips(VECTORS, m, depth, strips, panel, to);
  } else {
    panel_strips(1, m, depth, strips, panel, to);
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

ALWAYS_INLINE target target_of(int64_t n, int64_t p, int64_t j, const real *bias,
                               product_start start, real *c, int64_t c_stride) {
  return (target){.c = c + j,
                  .stride = c_stride,
                  .columns = n - j,
                  .bias = bias ? bias + j : NULL,
                  .add = start == PRODUCT_ADD || p > 0};
}

void product_packed(int64_t m, packed_matrix b, int64_t first, int64_t end, const real *a,
                    int64_t a_stride, const real *bias, product_start start, real *c,
                    int64_t c_stride) {
  int64_t p = 0;
  do { /* runs once even if k = 0 */
    const int64_t depth = lesser_of(b.k - p, PRODUCT_DEPTH);
    for (int64_t j = first; j < end; j += WIDTH) {
      const int64_t width = panel_width(b.n, j);
      const target to = target_of(b.n, p, j, bias, start, c, c_stride);
      const panel_view panel = {panel_of(b, p, depth, j), width};
      panel_of_rows(width, m, depth, a + p, a_stride, panel, &to);
    }
    p += depth;
  } while (p < b.k);
}

void product_direct(int64_t m, int64_t k, int64_t n, matrix b, int64_t first, int64_t end,
                    const real *a, int64_t a_stride, const real *bias, real *c, int64_t c_stride) {
  _Alignas(64) real packed[PRODUCT_DEPTH * WIDTH];
  int64_t p = 0;
  do {
    const int64_t depth = lesser_of(k - p, PRODUCT_DEPTH);
    for (int64_t j = first; j < end; j += WIDTH) {
      const int64_t width = panel_width(n, j);
      const target to = target_of(n, p, j, bias, PRODUCT_SET, c, c_stride);
      panel_view panel = {packed, width};
      if (!b.transposed && m <= WIDE_ROWS && n - j >= width) { /* read once: where it lies */
        panel = (panel_view){b.data + p * b.stride + j, b.stride};
      } else {
        pack_panel(b, p, depth, j, lesser_of(n - j, width), width, packed);
      }
      panel_of_rows(width, m, depth, a + p, a_stride, panel, &to);
    }
    p += depth;
  } while (p < k);
}

#define GRADIENT_DEPTH 128 /* rows of the batch that are summed at a time */

void product_of_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_stride,
                           const real *b, int64_t b_stride, product_start start, real *c,
                           int64_t c_stride) {
  _Alignas(64) real strips[GRADIENT_DEPTH * PRODUCT_ROWS]; /* strips of a */
  _Alignas(64) real packed[GRADIENT_DEPTH * WIDTH];
  const matrix right = {b, b_stride, false};
  int64_t p = 0;
  do {
    const int64_t depth = lesser_of(k - p, GRADIENT_DEPTH);
    product_strips(m, depth, a + p * a_stride, a_stride, strips);
    for (int64_t j = 0; j < n; j += WIDTH) {
      const int64_t width = panel_width(n, j);
      const target to = target_of(n, p, j, NULL, start, c, c_stride);
      const panel_view panel = {packed, width};
      pack_panel(right, p, depth, j, lesser_of(n - j, width), width, packed);
      panel_of_strips(width, m, depth, strips, panel, &to);
    }
    p += depth;
  } while (p < k);
}

void product_of_strips(int64_t m, packed_matrix b, int64_t first, const real *strips,
                       product_start start, real *c, int64_t c_stride) {
  const int64_t depth = lesser_of(b.k - first, PRODUCT_DEPTH);
  for (int64_t j = 0; j < b.n; j += WIDTH) {
    const int64_t width = panel_width(b.n, j);
    const target to = target_of(b.n, 0, j, NULL, start, c, c_stride);
    const panel_view panel = {panel_of(b, first, depth, j), width};
    panel_of_strips(width, m, depth, strips, panel, &to);
  }
}

/* ---- Sums of columns ---------------------------------------------------------------------------
 */

/* One vector of columns of a (count, ...): four sums in turn, so that none waits for the last. */
ALWAYS_INLINE vec sum_rows(int64_t count, const real *a, int64_t stride, int64_t columns) {
  vec sums[4] = {{0}, {0}, {0}, {0}};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int s = 0; s < 4; s++)
      sums[s] += vec_load_first(a + (i + s) * stride, columns);
  }
  for (; i < count; i++)
    sums[0] += vec_load_first(a + i * stride, columns);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void column_sums(int64_t k, int64_t n, const real *a, int64_t a_stride, real *sums) {
  for (int64_t j = 0; j < n; j += LANES) {
    vec total = {0};
    for (int64_t p = 0; p < k; p += PRODUCT_DEPTH)
      total += sum_rows(lesser_of(k - p, PRODUCT_DEPTH), a + p * a_stride + j, a_stride, n - j);
    vec_store_first(sums + j, total, n - j);
  }
}
