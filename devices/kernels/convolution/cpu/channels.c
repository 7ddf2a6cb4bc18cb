/* Tiles of channels and windows (channels.h). Invariant: an element of the result is bias, then
 * channel after channel, tap after tap, wherever it lies in a tile. */
#include "devices/kernels/convolution/cpu/channels.h"

#include "devices/kernels/cpu/cases.h"

#define CACHE_LINE (64 / (int64_t)sizeof(real))
#define VECTORS 2 /* vectors of channels in a tile */
/* The most windows of a tile, so that the sums of two vectors each fit the registers. */
#define WIDE (TDM_VECTOR_BYTES == 64 ? 14 : 6)

/* ---- Padding --------------------------------------------------------------------------------- */

size_t channel_padded_bytes(const channel_plan *plan, int64_t in) {
  const int64_t count = in * plan->padded_rows * plan->lines * plan->width + LANES;
  return aligned_bytes((size_t)count * sizeof(real));
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
  if (first < 0) span.begin = lesser_of(ceil_div(-first, step), plan->width);
  if (left > 0) span.end = lesser_of(ceil_div(left, step), plan->width);
  if (span.end < span.begin) span.end = span.begin;
  return span;
}

/* Returns elements 0, 2, ... of the concatenation of a and b. */
ALWAYS_INLINE vec every_second(vec a, vec b) {
#if defined(__clang__)
  vec found = {0};
  for (int i = 0; i < LANES; i++)
    found[i] = 2 * i < LANES ? a[2 * i] : b[2 * i - LANES];
  return found;
#else
  vec_bits from = {0};
  for (int i = 0; i < LANES; i++)
    from[i] = 2 * i;
  return __builtin_shuffle(a, b, from);
#endif
}

/* Copies `count` elements at every second position, and reads none after the last. Writes up to one
 * vector beyond `count`. */
ALWAYS_INLINE void copy_second_loose(real *to, const real *from, int64_t ahead, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES, from += 2 * LANES) {
    const int64_t left = 2 * (count - i) - 1;
    __builtin_prefetch(from + ahead);
    const vec first = vec_load_first(from, left);
    const vec second = left > LANES ? vec_load_first(from + LANES, left - LANES) : (vec){0};
    vec_store(to + i, every_second(first, second));
  }
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
  } else if (plan->step[1] == 2) {
    copy_second_loose(line + span.begin, row + span.first + 2 * span.begin, ahead,
                      span.end - span.begin);
  } else {
    for (int64_t c = span.begin; c < span.end; c++)
      line[c] = row[span.first + c * plan->step[1]];
  }
  if (span.end < plan->width) row_zero_loose(line + span.end, plan->width - span.end);
}

void channel_pad(const channel_plan *plan, int64_t in, const real *x, int64_t band, real *padded) {
  const int64_t top = band * plan->rows * plan->step[0] + plan->lowest[0];
  const int64_t plane = plan->size[0] * plan->size[1];
  line_span span = span_of_line(plan, plan->lowest[1]);
  for (int64_t i = 0; i < in; i++, x += plane) {
    for (int64_t row = 0; row < plan->padded_rows; row++) {
      const bool seen = row % plan->step[0] <= plan->reach[0];
      const bool there = top + row >= 0 && top + row < plan->size[0];
      for (int64_t line = 0; line < plan->lines; line++, padded += plan->width) {
        if (!seen) continue;
        if (!there) {
          row_zero_loose(padded, plan->width);
          continue;
        }
        if (plan->lines > 1) span = span_of_line(plan, plan->lowest[1] + line);
        pad_line(plan, span, x + (top + row) * plan->size[1], plane, padded);
      }
    }
  }
}

enum { MOST_LINES = 4, MOST_WINDOWS = 14 }; /* the largest tile that is compiled */

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Values that the tiles of windows of one band, phase and tile of channels share. */
typedef struct tile_job {
  const channel_plan *plan;
  const int64_t *offsets; /* (taps) */
  int64_t taps;
  int64_t first_tap; /* taps first <= t < end read more than zeros */
  int64_t end_tap;
  int64_t plane;      /* elements of padded between two channels */
  const real *weight; /* (in, taps, the tile's channels) */
  vec start[VECTORS]; /* bias or zeros */
  int64_t x_line;     /* elements of padded between two lines of windows */
  int64_t y_line;     /* elements of y between two lines of windows */
  int64_t channels;   /* channels of the tile that exist */
  real *y;            /* the tile's first channel of the result */
  const real *ahead;  /* the next lines of x to prefetch, one of each channel */
  int64_t ahead_step;
  int64_t ahead_lines; /* lines that are not prefetched yet */
} tile_job;

/* Stores the sums (windows, tile's channels) to y (channels, h', w') from element `at` on. */
static __attribute__((noinline)) void store_tile(const tile_job *job, int64_t windows,
                                                 int64_t vectors, const vec (*sums)[VECTORS],
                                                 int64_t at) {
  const int64_t plane = job->plan->out_size[0] * job->plan->out_size[1];
  const int64_t apart = job->plan->apart[1];
  for (int64_t v = 0; v < vectors; v++) {
    const int64_t channels = lesser_of(job->channels - v * LANES, LANES);
    for (int64_t first = 0; first < windows; first += LANES) {
      const int64_t count = lesser_of(windows - first, LANES);
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

/* Prefetches the lines of y that a tile will write, which are far apart, while its sums are
 * computed. */
ALWAYS_INLINE void fetch_target(const tile_job *job, int64_t at) {
  const int64_t plane = job->plan->out_size[0] * job->plan->out_size[1];
  const real *to = job->y + at;
  for (int64_t c = 0; c < job->channels; c++, to += plane)
    __builtin_prefetch(to, 1);
}

/* lines of so many windows each, WIDE in all. These and vectors are constants where this is
 * inlined: the sums live in registers, and have room for what is inlined and never reached. x: what
 * the first window's first tap sees of the first channel; at: in y. */
ALWAYS_INLINE void tile(const int lines, const int windows, const int vectors, const tile_job *job,
                        const real *x, int64_t at) {
  vec sums[MOST_LINES * MOST_WINDOWS][VECTORS];
#pragma GCC unroll 14
  for (int p = 0; p < lines * windows; p++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[p][v] = job->start[v];
  }
  for (int l = 0; l < lines; l++)
    fetch_target(job, at + l * job->y_line);
  const int64_t down = job->x_line;
  const int64_t begin = job->first_tap, end = job->end_tap, plane = job->plane;
  const real *weight = job->weight + begin * vectors * LANES;
  const int64_t rest = (job->taps - (end - begin)) * vectors * LANES;
  const real *ahead = job->ahead;
  for (int64_t i = 0; i < job->plan->in; i++, x += plane, ahead += job->ahead_step) {
    __builtin_prefetch(ahead, 0, 2);
    for (int64_t t = begin; t < end; t++, weight += vectors * LANES) {
      const real *seen = x + job->offsets[t];
      const vec first = vec_load(weight);
      const vec second = vectors > 1 ? vec_load(weight + LANES) : first;
#pragma GCC unroll 4
      for (int l = 0; l < lines; l++, seen += down) {
#pragma GCC unroll 14
        for (int p = 0; p < windows; p++) {
          sums[l * windows + p][0] += seen[p] * first;
          if (vectors > 1) sums[l * windows + p][1] += seen[p] * second;
        }
      }
    }
    weight += rest;
  }
  for (int l = 0; l < lines; l++)
    store_tile(job, windows, vectors, (const vec(*)[VECTORS])sums + l * windows,
               at + l * job->y_line);
}

ALWAYS_INLINE void tile_of_any_width(const int lines, int64_t windows, const int vectors,
                                     const tile_job *job, const real *x, int64_t at) {
#define WINDOWS(constant)                                                                          \
  case constant:                                                                                   \
    if (lines * constant <= WIDE) tile(lines, constant, vectors, job, x, at);                      \
    break;
  switch (windows) {
    CASES_TO_14(WINDOWS)
  }
#undef WINDOWS
}

static void tile_of_any_size(int64_t lines, int64_t windows, const tile_job *job, const real *x,
                             int64_t at) {
#define LINES(constant)                                                                            \
  case constant:                                                                                   \
    if (job->channels > LANES)                                                                     \
      tile_of_any_width(constant, windows, 2, job, x, at);                                         \
    else                                                                                           \
      tile_of_any_width(constant, windows, 1, job, x, at);                                         \
    break;
  switch (lines) {
    LINES(1)
    LINES(2)
    LINES(4)
  }
#undef LINES
}

/* Points a tile at the line of each channel that it fetches, as long as there are such. */
static void fetch_next(tile_job *job) {
  const bool more = job->ahead_lines-- > 0;
  job->ahead += more ? CACHE_LINE : 0;
  job->ahead_step = more ? job->plan->size[0] * job->plan->size[1] : 0;
}

/* Leaves out the taps that read only zeros above or below x, in `lines` lines of windows from `row`
 * on. */
static void skip_zeros(tile_job *job, const channel_phase *phase, int64_t row, int64_t lines) {
  const channel_plan *plan = job->plan;
  const int64_t *seen = plan->rows_seen + phase->first_tap;
  const int64_t top = row * plan->step[0], bottom = (row + lines - 1) * plan->step[0];
  const int64_t height = plan->size[0];
  job->first_tap = 0;
  job->end_tap = job->taps;
  while (job->first_tap < job->end_tap &&
         (bottom + seen[job->first_tap] < 0 || top + seen[job->first_tap] >= height))
    job->first_tap++;
  while (job->end_tap > job->first_tap &&
         (bottom + seen[job->end_tap - 1] < 0 || top + seen[job->end_tap - 1] >= height))
    job->end_tap--;
}

/* Lines of a tile: several where they are short, so that a tile has enough sums. */
static int64_t lines_of(int64_t left, int64_t windows) {
  if (left >= 4 && windows * 4 <= WIDE) return 4;
  return left >= 2 && windows * 2 <= WIDE ? 2 : 1;
}

/* Computes all windows of one band and phase in tiles of equal width. */
static void tiles_of_windows(tile_job *job, const channel_phase *phase, const real *padded,
                             int64_t band) {
  const channel_plan *plan = job->plan;
  const int64_t first = band * plan->rows;
  const int64_t end = lesser_of(phase->windows[0], first + plan->rows);
  int64_t lines, width;
  for (int64_t row = first; row < end; row += lines) {
    const real *x = padded + (row - first) * job->x_line;
    const int64_t to = phase->start[0] * plan->out_size[1] + row * job->y_line + phase->start[1];
    lines = lines_of(end - row, phase->windows[1]);
    skip_zeros(job, phase, row, lines);
    for (int64_t column = 0; column < phase->windows[1]; column += width) {
      const int64_t left = phase->windows[1] - column;
      width = ceil_div(left, ceil_div(left, WIDE));
      fetch_next(job);
      tile_of_any_size(lines, width, job, x + column, to + column * plan->apart[1]);
    }
  }
}

/* Finds the lines of each channel of x that the band after `band` reads in addition to those that
 * were read, or the lines of the first band of the next image. */
static void find_next(const channel_plan *plan, const real *x, int64_t band, tile_job *job) {
  const int64_t height = plan->size[0], width = plan->size[1];
  const bool last = band + 1 == plan->bands;
  const int64_t top = last ? 0 : (band + 1) * plan->rows * plan->step[0] + plan->lowest[0];
  const int64_t seen = last ? 0 : top + plan->reach[0];
  const int64_t first = lesser_of(seen > 0 ? seen : 0, height);
  const int64_t end = lesser_of(top + plan->padded_rows, height);
  job->ahead = x + (last ? plan->in * height * width : first * width) - CACHE_LINE;
  job->ahead_lines = ceil_div((end > first ? end - first : 0) * width, CACHE_LINE);
}

void channel_band(const channel_plan *plan, int64_t first, int64_t end, const real *packed,
                  const real *bias, const channel_images *images, int64_t band) {
  const int64_t pixels = plan->out_size[0] * plan->out_size[1], line = plan->lines * plan->width;
  tile_job job = {.plan = plan,
                  .plane = plan->padded_rows * line,
                  .x_line = plan->step[0] * line,
                  .y_line = plan->apart[0] * plan->out_size[1]};
  find_next(plan, images->x + (images->count - 1) * images->x_step, band, &job);
  for (int64_t channel = first * CHANNEL_TILE; channel < end * CHANNEL_TILE && channel < plan->out;
       channel += CHANNEL_TILE) {
    job.channels = lesser_of(plan->out - channel, CHANNEL_TILE);
    for (int v = 0; v < VECTORS && bias; v++) {
      const int64_t left = job.channels - v * LANES;
      job.start[v] = vec_load_first(bias + channel + v * LANES, left > 0 ? left : 0);
    }
    for (int64_t p = 0; p < plan->phase_count; p++) {
      const channel_phase *phase = &plan->phases[p];
      job.offsets = plan->offsets + phase->first_tap;
      job.taps = phase->tap_count;
      job.weight = packed + channel_tile_place(plan, phase, channel);
      for (int64_t image = 0; image < images->count; image++) {
        job.y = images->y + image * images->y_step + channel * pixels;
        tiles_of_windows(&job, phase, images->padded + image * images->padded_step, band);
      }
    }
  }
}
