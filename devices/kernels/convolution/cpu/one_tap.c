/* Tiles of channels and pixels (one_tap.h). Invariant: an element of the result is bias, then
 * channel after channel, wherever it lies in a tile. */
#include "devices/kernels/convolution/cpu/one_tap.h"

#include "devices/kernels/cpu/cases.h"
#include "devices/kernels/cpu/vector.h"

#define BLOCK_BYTES (128 * 1024) /* panels of a block: they stay in the second-level cache */
#define MOST_PANELS 16
#define PANEL (2 * LANES) /* pixels of a panel */
/* The tallest tiles, so that sums of two vectors a channel fit the registers. */
#define TALL (TDM_VECTOR_BYTES == 64 ? 11 : 6)

void one_tap_plan_finish(one_tap_plan *plan) {
  const int64_t bytes = plan->in * PANEL * (int64_t)sizeof(real);
  const int64_t fit = bytes > 0 ? BLOCK_BYTES / bytes : 1;
  const int64_t panels = ceil_div(plan->pixels, PANEL);
  plan->block_panels = lesser_of(fit < 1 ? 1 : fit, MOST_PANELS);
  plan->blocks = ceil_div(panels, plan->block_panels);
  if (plan->blocks > 0) plan->block_panels = ceil_div(panels, plan->blocks);
}

size_t one_tap_weight_bytes(const one_tap_plan *plan) {
  /* Packing stores whole vectors. */
  return aligned_bytes((size_t)(plan->in * plan->out + LANES) * sizeof(real));
}

size_t one_tap_panel_bytes(const one_tap_plan *plan) {
  return aligned_bytes((size_t)(plan->block_panels * plan->in * PANEL) * sizeof(real));
}

/* Channels of the tile that begins at channel `first`: tiles are of even heights. */
static int64_t tile_height(const one_tap_plan *plan, int64_t first) {
  const int64_t left = plan->out - first;
  return ceil_div(left, ceil_div(left, TALL));
}

/* Transposes weight (height, in), whose rows are out_step apart, to `to` (in, height), in squares
 * in registers. */
static void pack_turned(int64_t in, int64_t height, const real *weight, int64_t out_step,
                        real *to) {
  for (int64_t i = 0; i < in; i += LANES) {
    for (int64_t first = 0; first < height; first += LANES) {
      vec rows[LANES];
      for (int o = 0; o < LANES; o++) {
        rows[o] = first + o < height ? vec_load_first(weight + (first + o) * out_step + i, in - i)
                                     : (vec){0};
      }
      vec_transpose(rows);
      for (int r = 0; r < LANES && i + r < in; r++)
        vec_store_first(to + (i + r) * height + first, rows[r], height - first);
    }
  }
}

void one_tap_weight(const one_tap_plan *plan, const real *weight, int64_t out_step, int64_t in_step,
                    real *packed) {
  for (int64_t first = 0, height; first < plan->out; first += height) {
    height = tile_height(plan, first);
    real *to = packed + first * plan->in;
    const real *from = weight + first * out_step;
    if (in_step == 1) {
      pack_turned(plan->in, height, from, out_step, to);
      continue;
    }
    for (int64_t i = 0; i < plan->in; i++)
      row_copy_loose(to + i * height, from + i * in_step, height);
  }
}

/* panels of pixels first <= p < first + count of x (in, pixels); each row's next pixels are fetched
 * while the row before it is copied. */
static void pack_panels(const one_tap_plan *plan, const real *x, int64_t first, int64_t count,
                        real *panels) {
  const int64_t step = plan->in * PANEL;
  for (int64_t i = 0; i < plan->in; i++, panels += PANEL) {
    const real *from = x + i * plan->pixels + first;
    real *to = panels;
    for (int64_t p = 0; p < count; p += PANEL, to += step) {
      __builtin_prefetch(from + plan->pixels + p);
      __builtin_prefetch(from + plan->pixels + p + LANES);
      vec_store(to, vec_load_first(from + p, count - p));
      const int64_t left = count - p - LANES;
      vec_store(to + LANES, left > 0 ? vec_load_first(from + p + LANES, left) : (vec){0});
    }
  }
}

/* Values that the tiles of one panel and of the same channels share. */
typedef struct tile_job {
  int64_t in;
  const real *weight; /* (in, height) */
  const real *bias;   /* (height) or NULL */
  const real *panel;  /* (in, PANEL) */
  real *y;            /* (height, pixels) from the panel's first pixel on */
  int64_t pixels;
  int64_t count;     /* pixels of the panel that exist */
  const real *ahead; /* the next lines of x to prefetch, one of each channel */
  int64_t ahead_step;
} tile_job;

/* height is a constant where this is inlined: the sums live in registers. */
ALWAYS_INLINE void tile(const int height, const tile_job *job) {
  vec sums[TALL][2];
  real *y = job->y;
#pragma GCC unroll 14
  for (int o = 0; o < height; o++, y += job->pixels) {
    sums[o][0] = sums[o][1] = vec_set(job->bias ? job->bias[o] : 0);
    __builtin_prefetch(y, 1);
    __builtin_prefetch(y + LANES, 1);
  }
  const real *weight = job->weight, *x = job->panel, *ahead = job->ahead;
  for (int64_t i = 0; i < job->in; i++, weight += height, x += PANEL, ahead += job->ahead_step) {
    __builtin_prefetch(ahead, 0, 2);
    const vec first = vec_load(x), second = vec_load(x + LANES);
#pragma GCC unroll 14
    for (int o = 0; o < height; o++) {
      sums[o][0] += weight[o] * first;
      sums[o][1] += weight[o] * second;
    }
  }
  y = job->y;
  const int64_t left = job->count - LANES;
#pragma GCC unroll 14
  for (int o = 0; o < height; o++, y += job->pixels) {
    vec_store_first(y, sums[o][0], job->count);
    if (left > 0) vec_store_first(y + LANES, sums[o][1], left);
  }
}

static void tile_of_any_height(int64_t height, const tile_job *job) {
#define HEIGHT(constant)                                                                           \
  case constant:                                                                                   \
    if (constant <= TALL) tile(constant, job);                                                     \
    break;
  switch (height) {
    CASES_TO_12(HEIGHT)
  }
#undef HEIGHT
}

/* Sets the line of each channel that a tile prefetches: from the next block, or from the first
 * block of the next image, while there is one. */
static void fetch_next(tile_job *job, int64_t *lines) {
  job->ahead_step = *lines > 0 ? job->pixels : 0;
  job->ahead += *lines > 0 ? LANES : 0;
  (*lines)--;
}

void one_tap_block(const one_tap_plan *plan, const real *packed, const real *bias, const real *x,
                   int64_t block, real *panels, real *y) {
  const int64_t block_pixels = plan->block_panels * PANEL, begin = block * block_pixels;
  const int64_t count = lesser_of(plan->pixels - begin, block_pixels);
  const int64_t next = block + 1 < plan->blocks ? begin + count : plan->in * plan->pixels;
  tile_job job = {.in = plan->in, .pixels = plan->pixels, .ahead = x + next - LANES};
  int64_t lines = ceil_div(block_pixels, LANES);
  pack_panels(plan, x, begin, count, panels);
  for (int64_t p = 0; p < count; p += PANEL) {
    job.panel = panels + p * plan->in;
    job.count = count - p;
    for (int64_t first = 0, height; first < plan->out; first += height) {
      height = tile_height(plan, first);
      job.weight = packed + first * plan->in;
      job.bias = bias ? bias + first : NULL;
      job.y = y + first * plan->pixels + begin + p;
      fetch_next(&job, &lines);
      tile_of_any_height(height, &job);
    }
  }
}
