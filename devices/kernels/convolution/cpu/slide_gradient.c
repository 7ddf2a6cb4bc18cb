/* The gradient of the weight by sliding windows: tiles of some channels of d_y and some taps, whose
 * sums stay in registers, a partial sum in each lane, over all windows. */
#include "devices/kernels/convolution/cpu/slide.h"
#include "devices/kernels/cpu/vector.h"

#define TAPS 4
#define CHANNELS (TDM_VECTOR_BYTES == 64 ? 4 : 2)
#define SUMS (TAPS * CHANNELS)
#define GROUPS ((SUMS + LANES - 1) / LANES) /* vectors of sums */

/* Tap t of the tile is at padded + taps[t]. */
typedef struct tile_job {
  const slide_plan *plan;
  const slide_bands *bands;
  int64_t taps[TAPS];
  int64_t channel; /* the first */
} tile_job;

/* One vector of windows, of which the first `count` are there: x + offsets[t] is what tap t sees.
 */
ALWAYS_INLINE void add_windows(const int channels, const int taps, const real *d_y, int64_t pixels,
                               const real *x, const int64_t offsets[TAPS], int64_t count,
                               vec sums[CHANNELS][TAPS]) {
  vec seen[TAPS];
#pragma GCC unroll 4
  for (int t = 0; t < taps; t++)
    seen[t] = vec_load_first(x + offsets[t], count);
#pragma GCC unroll 4
  for (int c = 0; c < channels; c++) {
    const vec d = vec_load_first(d_y + c * pixels, count);
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++)
      sums[c][t] += d * seen[t];
  }
}

/* Lane i of the result is the sum of rows[i]: in pairs, one fixed order. */
ALWAYS_INLINE vec sums_of_lanes(vec rows[LANES]) {
#pragma GCC unroll 4
  for (int step = 1; step < LANES; step *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 2 * step) {
      vec_exchange(&rows[i], &rows[i + step], step);
      rows[i] += rows[i + step];
    }
  }
  return rows[0];
}

/* to (channels, k) += the sums, for the tile's taps. */
ALWAYS_INLINE void add_sums(const int channels, const int taps, vec sums[CHANNELS][TAPS], real *to,
                            int64_t k) {
  vec rows[GROUPS * LANES];
  real totals[GROUPS * LANES];
#pragma GCC unroll 16
  for (int i = 0; i < GROUPS * LANES; i++) {
    const bool used = i < SUMS && i / TAPS < channels && i % TAPS < taps;
    rows[i] = used ? sums[i / TAPS][i % TAPS] : (vec){0};
  }
#pragma GCC unroll 2
  for (int g = 0; g < GROUPS; g++)
    vec_store(totals + g * LANES, sums_of_lanes(rows + g * LANES));
  for (int c = 0; c < channels; c++)
    for (int t = 0; t < taps; t++)
      to[c * k + t] += totals[c * TAPS + t];
}

/* channels and taps are constants where this is inlined. to: (channels, k) from the first tap on.
 */
ALWAYS_INLINE void tile(const int channels, const int taps, const tile_job *job, real *to,
                        int64_t k) {
  const slide_plan *plan = job->plan;
  const slide_bands *bands = job->bands;
  const int64_t width = plan->out_size[1], pixels = plan->out_size[0] * width;
  const int64_t step = (int64_t)(slide_padded_bytes(plan) / sizeof(real));
  vec sums[CHANNELS][TAPS];
#pragma GCC unroll 4
  for (int c = 0; c < channels; c++) {
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++)
      sums[c][t] = (vec){0};
  }
  int64_t offsets[TAPS];
#pragma GCC unroll 4
  for (int t = 0; t < taps; t++)
    offsets[t] = job->taps[t];
  const int64_t whole = width / LANES * LANES, x_step = plan->width;
  for (int64_t b = 0; b < bands->count; b++) {
    const real *d_y = bands->d_y[b] + job->channel * pixels;
    const real *x = bands->padded + b * step;
    const real *const end = d_y + bands->row_counts[b] * width;
    for (; d_y < end; d_y += width, x += x_step) {
      for (int64_t column = 0; column < whole; column += LANES)
        add_windows(channels, taps, d_y + column, pixels, x + column, offsets, LANES, sums);
      if (whole < width)
        add_windows(channels, taps, d_y + whole, pixels, x + whole, offsets, width - whole, sums);
    }
  }
  add_sums(channels, taps, sums, to, k);
}

ALWAYS_INLINE void tile_of_any_taps(const int channels, int64_t taps, const tile_job *job, real *to,
                                    int64_t k) {
  switch (taps) {
  case 1:
    tile(channels, 1, job, to, k);
    break;
  case 2:
    tile(channels, 2, job, to, k);
    break;
  case 3:
    tile(channels, 3, job, to, k);
    break;
  case 4:
    tile(channels, 4, job, to, k);
    break;
  }
}

static void tile_of_any_size(int64_t channels, int64_t taps, const tile_job *job, real *to,
                             int64_t k) {
  switch (channels) {
  case 1:
    tile_of_any_taps(1, taps, job, to, k);
    break;
  case 2:
    tile_of_any_taps(2, taps, job, to, k);
    break;
#if TDM_VECTOR_BYTES == 64
  case 3:
    tile_of_any_taps(3, taps, job, to, k);
    break;
  case 4:
    tile_of_any_taps(4, taps, job, to, k);
    break;
#endif
  }
}

/* Returns the size of the next tile, so that the remaining `left` are divided evenly. */
static int64_t even_size(int64_t left, int64_t most) {
  return ceil_div(left, ceil_div(left, most));
}

void slide_weight_gradient(const slide_plan *plan, const slide_bands *bands, real *d_weight) {
  const int64_t taps = plan->kernel[0] * plan->kernel[1], k = plan->in * taps;
  const int64_t plane = plan->padded_rows * plan->width;
  tile_job job = {.plan = plan, .bands = bands};
  for (int64_t tap = 0, tap_count; tap < k; tap += tap_count) {
    tap_count = even_size(k - tap, TAPS);
    for (int64_t t = 0; t < tap_count; t++) {
      const int64_t in_plane = (tap + t) % taps;
      job.taps[t] = (tap + t) / taps * plane +
                    in_plane / plan->kernel[1] * plan->dilation[0] * plan->width +
                    in_plane % plan->kernel[1] * plan->dilation[1];
    }
    for (int64_t count; job.channel < plan->out; job.channel += count) {
      count = even_size(plan->out - job.channel, CHANNELS);
      tile_of_any_size(count, tap_count, &job, d_weight + job.channel * k + tap, k);
    }
    job.channel = 0;
  }
}
