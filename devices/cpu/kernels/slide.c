/* Sliding windows: tiles of some channels of the result and up to two vectors of windows, whose
 * sums stay in registers over all channels and taps. Invariant: an element of the result is bias,
 * then channel after channel, tap after tap, wherever it lies in a vector. */
#include "devices/cpu/kernels/slide.h"

#include "devices/cpu/kernels/vector.h"

#define BAND_BYTES (192 * 1024) /* padded: stays in the second cache */
/* The tallest tiles, so that sums of two vectors a channel fit the registers. */
#define TALL (TDM_VECTOR_BYTES == 64 ? 12 : 6)

static int64_t taps_of(const slide_plan *plan) {
  return plan->kernel[0] * plan->kernel[1];
}

static int64_t vectors_of_row(const slide_plan *plan) {
  return tdm_cpu_chunks(plan->out_size[1], LANES);
}

/* Vectors of a band of that many rows, in one channel. */
static int64_t vectors_of(const slide_plan *plan, int64_t rows) {
  if (!plan->flat) return rows * vectors_of_row(plan);
  return tdm_cpu_chunks((rows - 1) * plan->width + plan->out_size[1], LANES);
}

void slide_plan_finish(slide_plan *plan) {
  const int64_t reach = (plan->kernel[0] - 1) * plan->dilation[0];
  plan->width = plan->size[1] + 2 * plan->padding[1];
  const int64_t row_bytes = plan->in * plan->width * (int64_t)sizeof(real);
  const int64_t fit = row_bytes > 0 ? BAND_BYTES / row_bytes - reach : 1;
  plan->rows = tdm_cpu_min(fit > 1 ? fit : 1, plan->out_size[0]);
  plan->bands = plan->rows > 0 ? tdm_cpu_chunks(plan->out_size[0], plan->rows) : 0;
  plan->padded_rows = plan->rows + reach;
  /* Where it saves more than the copy from scratch costs. */
  const int64_t apart = plan->rows * vectors_of_row(plan);
  plan->flat = true;
  plan->flat = plan->rows > 0 && vectors_of(plan, plan->rows) * 4 < apart * 3;
}

size_t slide_weight_bytes(const slide_plan *plan) {
  return tdm_cpu_aligned((size_t)(plan->out * plan->in * taps_of(plan)) * sizeof(real));
}

size_t slide_padded_bytes(const slide_plan *plan) {
  const int64_t count = plan->in * plan->padded_rows * plan->width + 2 * LANES;
  return tdm_cpu_aligned((size_t)count * sizeof(real));
}

size_t slide_scratch_bytes(const slide_plan *plan) {
  if (!plan->flat) return 0;
  return tdm_cpu_aligned((size_t)(TALL * LANES * vectors_of(plan, plan->rows)) * sizeof(real));
}

/* Channels of the tile that begins at channel `first`: tiles are of even heights. */
static int64_t tile_height(const slide_plan *plan, int64_t first) {
  const int64_t left = plan->out - first;
  return tdm_cpu_chunks(left, tdm_cpu_chunks(left, TALL));
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

/* What follows a line is written after it, or is room for it. */
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

/* Up to two vectors of neighbouring windows, and where their sums go. */
typedef struct windows {
  const real *x[2]; /* in padded: the first window's first element */
  real *y[2];       /* of the tile's first channel */
  int64_t counts[2];
  int64_t first_line; /* lines of the kernel first <= ky < end look at more than zeros */
  int64_t end_line;
} windows;

/* Of one band: what all tiles share. */
typedef struct tile_job {
  const slide_plan *plan;
  const real *weight; /* (in, kernel, tile's channels) */
  const real *bias;   /* (tile's channels) or NULL */
  int64_t y_step;     /* from channel to channel */
  int64_t band;
} tile_job;

/* rows and vectors are constants where this is inlined: the sums live in registers. */
ALWAYS_INLINE void tile(const int rows, const int vectors, const tile_job *job, const windows *of) {
  const slide_plan *plan = job->plan;
  const int64_t plane = plan->padded_rows * plan->width, down = plan->dilation[0] * plan->width;
  const int64_t aside = plan->dilation[1], apart = of->x[vectors - 1] - of->x[0];
  const int64_t line_step = plan->kernel[1] * rows;
  vec sums[TALL][2];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[r][v] = vec_set(job->bias != NULL ? job->bias[r] : 0);
  }
  for (int64_t i = 0; i < plan->in; i++) {
    const real *line = of->x[0] + i * plane + of->first_line * down;
    const real *weight = job->weight + (i * plan->kernel[0] + of->first_line) * line_step;
    for (int64_t ky = of->first_line; ky < of->end_line; ky++, line += down) {
      const real *x = line;
      for (int64_t kx = 0; kx < plan->kernel[1]; kx++, x += aside, weight += rows) {
        const vec first = vec_load(x);
        const vec second = vectors > 1 ? vec_load(x + apart) : first;
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
          sums[r][0] += weight[r] * first;
          if (vectors > 1) sums[r][1] += weight[r] * second;
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      vec_store_first(of->y[v] + r * job->y_step, sums[r][v], of->counts[v]);
  }
}

ALWAYS_INLINE void tile_of_any_height(int64_t rows, const int vectors, const tile_job *job,
                                      const windows *of) {
#define HEIGHT(constant)                                                                           \
  case constant:                                                                                   \
    if (constant <= TALL) tile(constant, vectors, job, of);                                        \
    break;
  switch (rows) {
    HEIGHT(1)
    HEIGHT(2)
    HEIGHT(3)
    HEIGHT(4)
    HEIGHT(5)
    HEIGHT(6)
    HEIGHT(7)
    HEIGHT(8)
    HEIGHT(9)
    HEIGHT(10)
    HEIGHT(11)
    HEIGHT(12)
  }
#undef HEIGHT
}

/* Takes in the lines of the kernel that do not look at zeros above or below x, in windows of row
 * `row` of the result. */
ALWAYS_INLINE void widen_lines(const slide_plan *plan, int64_t row, windows *of) {
  const int64_t step = plan->dilation[0], above = plan->padding[0] - row;
  const int64_t first = above > 0 ? (above + step - 1) / step : 0;
  const int64_t below = (plan->size[0] + above + step - 1) / step; /* the first that is too far */
  of->first_line = tdm_cpu_min(of->first_line, first);
  if (of->end_line < below) of->end_line = tdm_cpu_min(below, plan->kernel[0]);
}

/* Vector `index` of a band's channel. */
ALWAYS_INLINE void place_windows(const slide_plan *plan, const real *padded, real *y, int64_t index,
                                 windows *of, int v) {
  if (plan->flat) {
    of->x[v] = padded + index * LANES;
    of->y[v] = y + index * LANES;
    of->counts[v] = LANES;
    return;
  }
  const int64_t in_row = vectors_of_row(plan);
  const int64_t row = index / in_row, column = index % in_row * LANES;
  of->x[v] = padded + row * plan->width + column;
  of->y[v] = y + row * plan->out_size[1] + column;
  of->counts[v] = plan->out_size[1] - column;
}

/* Vectors first <= i < first + count of a band's channel, 1 or 2. */
ALWAYS_INLINE windows windows_at(const slide_plan *plan, const real *padded, real *y, int64_t band,
                                 int64_t first, int64_t count) {
  windows of = {.first_line = plan->kernel[0]};
  if (plan->flat) {
    of.first_line = 0;
    of.end_line = plan->kernel[0];
  }
  for (int v = 0; v < count; v++) {
    place_windows(plan, padded, y, first + v, &of, v);
    if (!plan->flat) widen_lines(plan, band * plan->rows + (first + v) / vectors_of_row(plan), &of);
  }
  return of;
}

static void tiles_of_channels(const tile_job *job, int64_t height, const real *padded, real *y,
                              int64_t vectors) {
  windows of;
  int64_t i = 0;
  for (; i + 2 <= vectors; i += 2) {
    of = windows_at(job->plan, padded, y, job->band, i, 2);
    tile_of_any_height(height, 2, job, &of);
  }
  if (i == vectors) return;
  of = windows_at(job->plan, padded, y, job->band, i, 1);
  tile_of_any_height(height, 1, job, &of);
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
                    .bias = bias != NULL ? bias + first : NULL,
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
