/* Tiles of channels and windows (channels.h). Invariant: an element of the result is bias, then
 * channel after channel, tap after tap, wherever it lies in a tile. */
#include "devices/cpu/kernels/channels.h"

#include "devices/cpu/kernels/vector.h"

#define BAND_BYTES (192 * 1024) /* padded: stays in the second cache */
#define VECTORS 2               /* of a tile's channels */
#define TILE (VECTORS * LANES)
/* The most windows of a tile, so that the sums of two vectors each fit the registers. */
#define WIDE (TDM_VECTOR_BYTES == 64 ? 14 : 6)

/* ---- The plan -------------------------------------------------------------------------------- */

bool channel_plan_fits(const channel_windows *of) {
  return of->kernel[0] * of->kernel[1] <= CHANNELS_MOST_TAPS &&
         of->stride[0] * of->stride[1] <= CHANNELS_MOST_PHASES;
}

/* How the taps of one axis lie: tap k of phase p looks at `offset` from the first window's place,
 * or is none of the phase's. */
typedef struct axis_taps {
  int64_t kernel;
  int64_t dilation;
  int64_t padding;
  int64_t stride; /* back: of the convolution; forward: 0 */
} axis_taps;

static bool tap_offset(const axis_taps *axis, int64_t phase, int64_t k, int64_t *out_offset) {
  const int64_t along = k * axis->dilation - axis->padding;
  *out_offset = along;
  if (axis->stride == 0) return true;
  const int64_t from = phase - along;
  *out_offset = from / axis->stride;
  return from % axis->stride == 0;
}

static void measure_axis(channel_plan *plan, int axis, const axis_taps *taps, int64_t phases) {
  bool any = false;
  int64_t highest = 0;
  plan->lowest[axis] = 0;
  for (int64_t phase = 0; phase < phases; phase++) {
    for (int64_t k = 0; k < taps->kernel; k++) {
      int64_t offset;
      if (!tap_offset(taps, phase, k, &offset)) continue;
      if (!any || offset < plan->lowest[axis]) plan->lowest[axis] = offset;
      if (!any || offset > highest) highest = offset;
      any = true;
    }
  }
  plan->reach[axis] = highest - plan->lowest[axis];
  plan->apart[axis] = phases;
  plan->windows[axis] = tdm_cpu_chunks(plan->out_size[axis], phases);
}

static void add_tap(channel_plan *plan, int64_t tap, int64_t row, int64_t column) {
  channel_phase *phase = &plan->phases[plan->phase_count];
  const int64_t down = row - plan->lowest[0], aside = column - plan->lowest[1];
  plan->phase_of[tap] = (int32_t)plan->phase_count;
  plan->place_of[tap] = (int32_t)phase->tap_count;
  plan->offsets[phase->first_tap + phase->tap_count++] =
      (down * plan->step[1] + aside % plan->step[1]) * plan->width + aside / plan->step[1];
}

static void add_phase(channel_plan *plan, const axis_taps taps[2], int64_t down, int64_t aside,
                      int64_t first_tap) {
  channel_phase *phase = &plan->phases[plan->phase_count];
  *phase = (channel_phase){.start = {down, aside}, .first_tap = first_tap};
  for (int axis = 0; axis < 2; axis++) {
    const int64_t left = plan->out_size[axis] - phase->start[axis];
    phase->windows[axis] = left > 0 ? tdm_cpu_chunks(left, plan->apart[axis]) : 0;
  }
  for (int64_t ky = 0; ky < taps[0].kernel; ky++) {
    int64_t row, column;
    if (!tap_offset(&taps[0], down, ky, &row)) continue;
    for (int64_t kx = 0; kx < taps[1].kernel; kx++)
      if (tap_offset(&taps[1], aside, kx, &column))
        add_tap(plan, ky * taps[1].kernel + kx, row, column);
  }
  plan->phase_count++;
}

void channel_plan_rows(channel_plan *plan, int64_t rows) {
  if (rows < 1) rows = 1;
  plan->bands = tdm_cpu_chunks(plan->windows[0], rows);
  plan->rows = plan->bands > 0 ? tdm_cpu_chunks(plan->windows[0], plan->bands) : 1;
  plan->padded_rows = (plan->rows - 1) * plan->step[0] + plan->reach[0] + 1;
}

static void finish_plan(channel_plan *plan, const axis_taps taps[2], const int64_t phases[2]) {
  plan->taps = taps[0].kernel * taps[1].kernel;
  for (int axis = 0; axis < 2; axis++)
    measure_axis(plan, axis, &taps[axis], phases[axis]);
  const int64_t columns = (plan->windows[1] - 1) * plan->step[1] + plan->reach[1] + 1;
  plan->width = tdm_cpu_chunks(columns > 0 ? columns : 1, plan->step[1]);
  for (int64_t tap = 0; tap < plan->taps; tap++)
    plan->phase_of[tap] = -1;
  int64_t first_tap = 0;
  for (int64_t down = 0; down < phases[0]; down++) {
    for (int64_t aside = 0; aside < phases[1]; aside++) {
      add_phase(plan, taps, down, aside, first_tap);
      first_tap += plan->phases[plan->phase_count - 1].tap_count;
    }
  }
  const int64_t row_bytes = plan->in * plan->step[1] * plan->width * (int64_t)sizeof(real);
  const int64_t fit = row_bytes > 0 ? BAND_BYTES / row_bytes : 1;
  channel_plan_rows(plan, (fit - plan->reach[0] - 1) / plan->step[0] + 1);
}

void channel_plan_forward(channel_plan *plan, const channel_windows *of) {
  axis_taps taps[2];
  for (int axis = 0; axis < 2; axis++) {
    taps[axis] = (axis_taps){of->kernel[axis], of->dilation[axis], of->padding[axis], 0};
    plan->step[axis] = of->stride[axis];
  }
  finish_plan(plan, taps, (const int64_t[2]){1, 1});
}

void channel_plan_back(channel_plan *plan, const channel_windows *of) {
  axis_taps taps[2];
  for (int axis = 0; axis < 2; axis++) {
    taps[axis] =
        (axis_taps){of->kernel[axis], of->dilation[axis], of->padding[axis], of->stride[axis]};
    plan->step[axis] = 1;
  }
  finish_plan(plan, taps, of->stride);
}

/* ---- The weight ------------------------------------------------------------------------------ */

int64_t channel_tile(void) {
  return TILE;
}

static int64_t padded_out(const channel_plan *plan) {
  return tdm_cpu_chunks(plan->out, LANES) * LANES;
}

/* Channels of the tile that begins at channel `first`: whole vectors. */
static int64_t tile_width(const channel_plan *plan, int64_t first) {
  return plan->out - first > LANES ? TILE : LANES;
}

/* Where the tile that begins at channel `first` lies in a phase of the packed weight. */
static int64_t tile_place(const channel_plan *plan, const channel_phase *phase, int64_t first) {
  return plan->in * (padded_out(plan) * phase->first_tap + first * phase->tap_count);
}

size_t channel_weight_bytes(const channel_plan *plan) {
  return tdm_cpu_aligned((size_t)(padded_out(plan) * plan->in * plan->taps) * sizeof(real));
}

/* Taps first <= t < first + LANES of one channel that is read, for one vector of channels: squares
 * that are transposed in registers. to: the vector's place in the first tap of the tile. */
static void pack_square(const channel_plan *plan, int64_t tile_first, int64_t channel, int64_t i,
                        int64_t first, const real *weight, int64_t out_step, real *packed) {
  const int64_t width = tile_width(plan, tile_first);
  vec rows[LANES];
  for (int lane = 0; lane < LANES; lane++) {
    rows[lane] =
        channel + lane < plan->out
            ? vec_load_first(weight + (channel + lane) * out_step + first, plan->taps - first)
            : (vec){0};
  }
  vec_transpose(rows);
  for (int t = 0; t < LANES && first + t < plan->taps; t++) {
    if (plan->phase_of[first + t] < 0) continue;
    const channel_phase *phase = &plan->phases[plan->phase_of[first + t]];
    const int64_t at = i * phase->tap_count + plan->place_of[first + t];
    vec_store(packed + tile_place(plan, phase, tile_first) + at * width + channel - tile_first,
              rows[t]);
  }
}

void channel_weight(const channel_plan *plan, int64_t tile, const real *weight, int64_t out_step,
                    int64_t in_step, real *packed) {
  const int64_t first = tile * TILE, end = first + tile_width(plan, first);
  for (int64_t i = 0; i < plan->in; i++)
    for (int64_t channel = first; channel < end; channel += LANES)
      for (int64_t tap = 0; tap < plan->taps; tap += LANES)
        pack_square(plan, first, channel, i, tap, weight + i * in_step, out_step, packed);
}

/* ---- Padding --------------------------------------------------------------------------------- */

size_t channel_padded_bytes(const channel_plan *plan, int64_t in) {
  const int64_t count = in * plan->padded_rows * plan->step[1] * plan->width + LANES;
  return tdm_cpu_aligned((size_t)count * sizeof(real));
}

/* How the columns of one line of padded lie in a row of x: element c is column first + c * step,
 * and is there for begin <= c < end. */
typedef struct line_span {
  int64_t first;
  int64_t begin;
  int64_t end;
} line_span;

static line_span span_of_line(const channel_plan *plan, int64_t first) {
  const int64_t step = plan->step[1], left = plan->size[1] - first;
  line_span span = {.first = first};
  if (first < 0) span.begin = tdm_cpu_min(tdm_cpu_chunks(-first, step), plan->width);
  if (left > 0) span.end = tdm_cpu_min(tdm_cpu_chunks(left, step), plan->width);
  if (span.end < span.begin) span.end = span.begin;
  return span;
}

/* row: of x (w); the same row of the next channel is `ahead` elements away, and fetched. */
ALWAYS_INLINE void pad_line(const channel_plan *plan, line_span span, const real *row,
                            int64_t ahead, real *line) {
  if (span.begin > 0) row_zero_loose(line, span.begin);
  if (plan->step[1] == 1) {
    const real *from = row + span.first;
    for (int64_t c = span.begin; c < span.end; c += LANES) {
      __builtin_prefetch(from + ahead + c);
      vec_store(line + c, vec_load_first(from + c, span.end - c));
    }
  } else {
    for (int64_t c = span.begin; c < span.end; c++)
      line[c] = row[span.first + c * plan->step[1]];
  }
  if (span.end < plan->width) row_zero_loose(line + span.end, plan->width - span.end);
}

void channel_pad(const channel_plan *plan, int64_t in, const real *x, int64_t band, real *padded) {
  const int64_t top = band * plan->rows * plan->step[0] + plan->lowest[0];
  const int64_t plane = plan->size[0] * plan->size[1], lines = plan->step[1];
  line_span span = span_of_line(plan, plan->lowest[1]);
  for (int64_t i = 0; i < in; i++, x += plane) {
    for (int64_t row = top; row < top + plan->padded_rows; row++) {
      for (int64_t r = 0; r < lines; r++, padded += plan->width) {
        if (row < 0 || row >= plan->size[0]) {
          row_zero_loose(padded, plan->width);
          continue;
        }
        if (lines > 1) span = span_of_line(plan, plan->lowest[1] + r);
        pad_line(plan, span, x + row * plan->size[1], plane, padded);
      }
    }
  }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Of one band, phase and tile of channels: what its tiles of windows share. */
typedef struct tile_job {
  const channel_plan *plan;
  const int64_t *offsets; /* (taps) */
  int64_t taps;
  int64_t plane;      /* of padded, from channel to channel */
  const real *weight; /* (in, taps, the tile's channels) */
  vec start[VECTORS]; /* bias or zeros */
  int64_t channels;   /* that are there */
  real *y;            /* of the tile's first channel */
} tile_job;

/* The sums (windows, tile's channels) go to y (channels, h', w') from element `at` on. */
static __attribute__((noinline)) void store_tile(const tile_job *job, int64_t windows,
                                                 int64_t vectors, const vec sums[WIDE][VECTORS],
                                                 int64_t at) {
  const int64_t plane = job->plan->out_size[0] * job->plan->out_size[1];
  const int64_t apart = job->plan->apart[1];
  for (int64_t v = 0; v < vectors; v++) {
    const int64_t channels = tdm_cpu_min(job->channels - v * LANES, LANES);
    for (int64_t first = 0; first < windows; first += LANES) {
      const int64_t count = tdm_cpu_min(windows - first, LANES);
      vec rows[LANES];
      for (int64_t p = 0; p < LANES; p++)
        rows[p] = p < count ? sums[first + p][v] : (vec){0};
      vec_transpose(rows);
      real *to = job->y + v * LANES * plane + at + first * apart;
      for (int64_t c = 0; c < channels; c++, to += plane) {
        if (apart == 1) {
          vec_store_first(to, rows[c], count);
          continue;
        }
        for (int64_t p = 0; p < count; p++)
          to[p * apart] = rows[c][p];
      }
    }
  }
}

/* The lines of y that a tile is going to write lie far apart: they come while its sums are made. */
ALWAYS_INLINE void fetch_target(const tile_job *job, int64_t at) {
  const int64_t plane = job->plan->out_size[0] * job->plan->out_size[1];
  const real *to = job->y + at;
  for (int64_t c = 0; c < job->channels; c++, to += plane)
    __builtin_prefetch(to, 1);
}

/* windows and vectors are constants where this is inlined: the sums live in registers. x: what the
 * first window's first tap sees of the first channel. */
ALWAYS_INLINE void tile(const int windows, const int vectors, const tile_job *job, const real *x,
                        int64_t at) {
  vec sums[WIDE][VECTORS];
#pragma GCC unroll 14
  for (int p = 0; p < windows; p++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[p][v] = job->start[v];
  }
  fetch_target(job, at);
  const real *weight = job->weight;
  const int64_t taps = job->taps, plane = job->plane;
  for (int64_t i = 0; i < job->plan->in; i++, x += plane) {
    for (int64_t t = 0; t < taps; t++, weight += vectors * LANES) {
      const real *seen = x + job->offsets[t];
      const vec first = vec_load(weight);
      const vec second = vectors > 1 ? vec_load(weight + LANES) : first;
#pragma GCC unroll 14
      for (int p = 0; p < windows; p++) {
        sums[p][0] += seen[p] * first;
        if (vectors > 1) sums[p][1] += seen[p] * second;
      }
    }
  }
  store_tile(job, windows, vectors, (const vec(*)[VECTORS])sums, at);
}

ALWAYS_INLINE void tile_of_any_width(int64_t windows, const int vectors, const tile_job *job,
                                     const real *x, int64_t at) {
#define WINDOWS(constant)                                                                          \
  case constant:                                                                                   \
    if (constant <= WIDE) tile(constant, vectors, job, x, at);                                     \
    break;
  switch (windows) {
    WINDOWS(1)
    WINDOWS(2)
    WINDOWS(3)
    WINDOWS(4)
    WINDOWS(5)
    WINDOWS(6)
    WINDOWS(7)
    WINDOWS(8)
    WINDOWS(9)
    WINDOWS(10)
    WINDOWS(11)
    WINDOWS(12)
    WINDOWS(13)
    WINDOWS(14)
  }
#undef WINDOWS
}

/* All windows of one band and phase; tiles of even widths. */
static void tiles_of_windows(const tile_job *job, const channel_phase *phase, const real *padded,
                             int64_t band) {
  const channel_plan *plan = job->plan;
  const int64_t first = band * plan->rows, line = plan->step[1] * plan->width;
  const int64_t end = tdm_cpu_min(phase->windows[0], first + plan->rows);
  for (int64_t row = first; row < end; row++) {
    const real *x = padded + (row - first) * plan->step[0] * line;
    const int64_t to = (phase->start[0] + row * plan->apart[0]) * plan->out_size[1];
    int64_t width;
    for (int64_t column = 0; column < phase->windows[1]; column += width) {
      const int64_t left = phase->windows[1] - column;
      width = tdm_cpu_chunks(left, tdm_cpu_chunks(left, WIDE));
      const int64_t at = to + phase->start[1] + column * plan->apart[1];
      if (job->channels > LANES)
        tile_of_any_width(width, 2, job, x + column, at);
      else
        tile_of_any_width(width, 1, job, x + column, at);
    }
  }
}

void channel_band(const channel_plan *plan, int64_t first, int64_t end, const real *packed,
                  const real *bias, const real *padded, int64_t band, real *y) {
  const int64_t pixels = plan->out_size[0] * plan->out_size[1];
  for (int64_t channel = first * TILE; channel < end * TILE && channel < plan->out;
       channel += TILE) {
    tile_job job = {.plan = plan,
                    .plane = plan->padded_rows * plan->step[1] * plan->width,
                    .channels = tdm_cpu_min(plan->out - channel, TILE),
                    .y = y + channel * pixels};
    for (int v = 0; v < VECTORS && bias != NULL; v++) {
      const int64_t left = job.channels - v * LANES;
      job.start[v] = vec_load_first(bias + channel + v * LANES, left > 0 ? left : 0);
    }
    for (int64_t p = 0; p < plan->phase_count; p++) {
      const channel_phase *phase = &plan->phases[p];
      job.offsets = plan->offsets + phase->first_tap;
      job.taps = phase->tap_count;
      job.weight = packed + tile_place(plan, phase, channel);
      tiles_of_windows(&job, phase, padded, band);
    }
  }
}
