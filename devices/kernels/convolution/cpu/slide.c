/* Sliding windows: tiles of some channels of the result and some vectors of windows, whose sums
 * stay in registers over all channels and taps. Invariant: an element of the result is bias, then
 * channel after channel, tap after tap, wherever it lies in a vector. */
#include "devices/kernels/convolution/cpu/slide.h"

#include "devices/kernels/cpu/vector.h"

#define BAND_BYTES (192 * 1024) /* padded: stays in the second cache */
/* The tallest tiles, so that sums of two vectors a channel fit the registers. */
#define TALL (TDM_VECTOR_BYTES == 64 ? 12 : 6)
#define MOST_SUMS (2 * TALL)
#define MOST_VECTORS 8

static int64_t taps_of(const slide_plan *plan) {
  return plan->kernel[0] * plan->kernel[1];
}

static int64_t vectors_of_row(const slide_plan *plan) {
  return ceil_div(plan->out_size[1], LANES);
}

/* Returns the number of vectors in a band of that many rows, in one channel. */
static int64_t vectors_of(const slide_plan *plan, int64_t rows) {
  if (!plan->flat) return rows * vectors_of_row(plan);
  return ceil_div((rows - 1) * plan->width + plan->out_size[1], LANES);
}

void slide_plan_finish(slide_plan *plan) {
  const int64_t reach = (plan->kernel[0] - 1) * plan->dilation[0];
  plan->width = plan->size[1] + 2 * plan->padding[1];
  const int64_t row_bytes = plan->in * plan->width * (int64_t)sizeof(real);
  const int64_t fit = row_bytes > 0 ? BAND_BYTES / row_bytes - reach : 1;
  plan->rows = lesser_of(fit > 1 ? fit : 1, plan->out_size[0]);
  plan->bands = plan->rows > 0 ? ceil_div(plan->out_size[0], plan->rows) : 0;
  plan->padded_rows = plan->rows + reach;
  /* Used where it saves more than the copy from scratch costs. */
  const int64_t apart = plan->rows * vectors_of_row(plan);
  plan->flat = true;
  plan->flat = plan->rows > 0 && vectors_of(plan, plan->rows) * 4 < apart * 3;
}

size_t slide_weight_bytes(const slide_plan *plan) {
  return aligned_bytes((size_t)(plan->out * plan->in * taps_of(plan)) * sizeof(real));
}

size_t slide_padded_bytes(const slide_plan *plan) {
  const int64_t count = plan->in * plan->padded_rows * plan->width + 2 * LANES;
  return aligned_bytes((size_t)count * sizeof(real));
}

size_t slide_scratch_bytes(const slide_plan *plan) {
  if (!plan->flat) return 0;
  return aligned_bytes((size_t)(TALL * LANES * vectors_of(plan, plan->rows)) * sizeof(real));
}

/* Channels of the tile that begins at channel `first`: tiles are of even heights. */
static int64_t tile_height(const slide_plan *plan, int64_t first) {
  const int64_t left = plan->out - first;
  return ceil_div(left, ceil_div(left, TALL));
}

void slide_weight(const slide_plan *plan, const real *weight, int64_t out_step, int64_t in_step,
                  bool reversed, real *to) {
  const int64_t taps = taps_of(plan);
  for (int64_t first = 0, height; first < plan->out; first += height) {
    height = tile_height(plan, first);
    for (int64_t i = 0; i < plan->in; i++) {
      for (int64_t tap = 0; tap < taps; tap++) {
        const real *from =
            weight + first * out_step + i * in_step + (reversed ? taps - 1 - tap : tap);
        for (int64_t o = 0; o < height; o++)
          *to++ = from[o * out_step];
      }
    }
  }
}

/* ---- Padding --------------------------------------------------------------------------------- */

/* Elements after a line may be overwritten: they are written later, or are padding of the buffer.
 */
void slide_pad(const slide_plan *plan, const real *x, int64_t band, real *padded) {
  const int64_t plane = plan->size[0] * plan->size[1], side = plan->padding[1];
  const int64_t top = band * plan->rows - plan->padding[0];
  if (side == 0 && top == 0 && plan->padded_rows == plan->size[0]) {
    row_copy_loose(padded, x, plan->in * plane);
    return;
  }
  for (int64_t i = 0; i < plan->in; i++, x += plane) {
    for (int64_t row = top; row < top + plan->padded_rows; row++, padded += plan->width) {
      if (row < 0 || row >= plan->size[0]) {
        row_zero_loose(padded, plan->width);
        continue;
      }
      row_zero_loose(padded, side);
      row_copy_loose(padded + side, x + row * plan->size[1], plan->size[1]);
      row_zero_loose(padded + side + plan->size[1], side);
    }
  }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Vectors of neighbouring windows, and where their sums go. */
typedef struct windows {
  const real *x[MOST_VECTORS]; /* first element of each vector's first window in padded */
  real *y[MOST_VECTORS];       /* element of the tile's first channel that receives each vector's
                                * first sum */
  int64_t counts[MOST_VECTORS];
  int64_t first_line; /* lines of the kernel first <= ky < end look at more than zeros */
  int64_t end_line;
} windows;

/* Values that all tiles of a band share. */
typedef struct tile_job {
  const slide_plan *plan;
  const real *weight; /* (in, kernel, tile's channels) */
  const real *bias;   /* (tile's channels) or NULL */
  int64_t y_step;     /* elements of y between two channels */
  int64_t band;
} tile_job;

/* rows and vectors are constants where this is inlined: the sums live in registers. */
ALWAYS_INLINE void tile(const int rows, const int vectors, const tile_job *job, const windows *of) {
  const slide_plan *plan = job->plan;
  const int64_t plane = plan->padded_rows * plan->width, down = plan->dilation[0] * plan->width;
  const int64_t aside = plan->dilation[1], line_step = plan->kernel[1] * rows;
  int64_t apart[MOST_VECTORS];
  vec sums[MOST_SUMS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++)
    apart[v] = of->x[v] - of->x[0];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r * vectors + v] = vec_set(job->bias ? job->bias[r] : 0);
  }
  for (int64_t i = 0; i < plan->in; i++) {
    const real *line = of->x[0] + i * plane + of->first_line * down;
    const real *weight = job->weight + (i * plan->kernel[0] + of->first_line) * line_step;
    for (int64_t ky = of->first_line; ky < of->end_line; ky++, line += down) {
      const real *x = line;
      for (int64_t kx = 0; kx < plan->kernel[1]; kx++, x += aside, weight += rows) {
        vec seen[MOST_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
          seen[v] = vec_load(x + apart[v]);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
          for (int v = 0; v < vectors; v++)
            sums[r * vectors + v] += weight[r] * seen[v];
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      vec_store_first(of->y[v] + r * job->y_step, sums[r * vectors + v], of->counts[v]);
  }
}

static void tile_of_any_size(int64_t rows, int vectors, const tile_job *job, const windows *of) {
#define SIZE(rows, vectors)                                                                        \
  case (rows)*16 + (vectors):                                                                      \
    if ((rows) <= TALL && (rows) * (vectors) <= MOST_SUMS) tile(rows, vectors, job, of);           \
    break;
  switch (rows * 16 + vectors) {
    SIZE(1, 8)
    SIZE(1, 4)
    SIZE(2, 4)
    SIZE(3, 4)
    SIZE(1, 2)
    SIZE(2, 2)
    SIZE(3, 2)
    SIZE(4, 2)
    SIZE(5, 2)
    SIZE(6, 2)
    SIZE(7, 2)
    SIZE(8, 2)
    SIZE(9, 2)
    SIZE(10, 2)
    SIZE(11, 2)
    SIZE(12, 2)
    SIZE(1, 1)
    SIZE(2, 1)
    SIZE(3, 1)
    SIZE(4, 1)
    SIZE(5, 1)
    SIZE(6, 1)
    SIZE(7, 1)
    SIZE(8, 1)
    SIZE(9, 1)
    SIZE(10, 1)
    SIZE(11, 1)
    SIZE(12, 1)
  }
#undef SIZE
}

/* The next vector of a band's channel: windows from column on, or if flat, from row to row. */
typedef struct cursor {
  int64_t row;
  int64_t column;
} cursor;

/* ceil_div; division by 1, the common case, takes no time. */
ALWAYS_INLINE int64_t steps_over(int64_t count, int64_t step) {
  return step == 1 ? count : ceil_div(count, step);
}

/* Extends the range by the lines of the kernel that read more than zeros above or below x, in
 * windows of row `row` of the result. */
ALWAYS_INLINE void widen_lines(const slide_plan *plan, int64_t row, windows *of) {
  const int64_t step = plan->dilation[0], above = plan->padding[0] - row;
  const int64_t first = above > 0 ? steps_over(above, step) : 0;
  const int64_t below = steps_over(plan->size[0] + above, step); /* the first that is too far */
  of->first_line = lesser_of(of->first_line, first);
  if (of->end_line < below) of->end_line = lesser_of(below, plan->kernel[0]);
}

/* Sets the position of vector v, and advances `at` to the next vector. */
ALWAYS_INLINE void place_windows(const slide_plan *plan, const real *padded, real *y, cursor *at,
                                 windows *of, int v) {
  const int64_t width = plan->out_size[1];
  if (plan->flat) {
    of->x[v] = padded + at->column;
    of->y[v] = y + at->column;
    of->counts[v] = LANES;
    at->column += LANES;
    return;
  }
  of->x[v] = padded + at->row * plan->width + at->column;
  of->y[v] = y + at->row * width + at->column;
  of->counts[v] = width - at->column;
  at->column += LANES;
  if (at->column >= width) *at = (cursor){at->row + 1, 0};
}

/* The next `count` vectors of a band's channel. */
ALWAYS_INLINE windows windows_at(const slide_plan *plan, const real *padded, real *y, int64_t band,
                                 cursor *at, int count) {
  windows of = {.first_line = plan->kernel[0]};
  if (plan->flat) {
    of.first_line = 0;
    of.end_line = plan->kernel[0];
  }
#pragma GCC unroll 8
  for (int v = 0; v < count; v++) {
    if (!plan->flat) widen_lines(plan, band * plan->rows + at->row, &of);
    place_windows(plan, padded, y, at, &of, v);
  }
  return of;
}

/* Tiles of `vectors` vectors, as many as there are of *left. */
ALWAYS_INLINE void tiles_of_vectors(const int vectors, const tile_job *job, int64_t height,
                                    const real *padded, real *y, cursor *at, int64_t *left) {
  for (; *left >= vectors; *left -= vectors) {
    const windows of = windows_at(job->plan, padded, y, job->band, at, vectors);
    tile_of_any_size(height, vectors, job, &of);
  }
}

/* Computes tiles of `height` channels. Low tiles are wide, so that loads do not take longer than
 * the products. */
static void tiles_of_channels(const tile_job *job, int64_t height, const real *padded, real *y,
                              int64_t vectors) {
  cursor at = {0, 0};
  if (height == 1) tiles_of_vectors(8, job, height, padded, y, &at, &vectors);
  if (height <= 3) tiles_of_vectors(4, job, height, padded, y, &at, &vectors);
  tiles_of_vectors(2, job, height, padded, y, &at, &vectors);
  tiles_of_vectors(1, job, height, padded, y, &at, &vectors);
}

void slide_band(const slide_plan *plan, const real *weight, const real *bias, const real *padded,
                int64_t band, real *scratch, real *y) {
  const int64_t pixels = plan->out_size[0] * plan->out_size[1], width = plan->out_size[1];
  const int64_t rows = slide_row_count(plan, band), vectors = vectors_of(plan, rows);
  const int64_t k = plan->in * taps_of(plan);
  y += band * plan->rows * width;
  for (int64_t first = 0, height; first < plan->out; first += height) {
    height = tile_height(plan, first);
    tile_job job = {.plan = plan,
                    .weight = weight + first * k,
                    .bias = bias ? bias + first : NULL,
                    .y_step = plan->flat ? vectors * LANES : pixels,
                    .band = band};
    real *to = y + first * pixels; /* (height, pixels) */
    tiles_of_channels(&job, height, padded, plan->flat ? scratch : to, vectors);
    if (!plan->flat) continue;
    for (int64_t o = 0; o < height; o++)
      for (int64_t row = 0; row < rows; row++)
        row_copy(to + o * pixels + row * width, scratch + o * job.y_step + row * plan->width,
                 width);
  }
}
