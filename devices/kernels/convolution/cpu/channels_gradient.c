/* The gradient of the weight with its first channels in lanes (channels.h). A tile is some columns
 * of the weight, each a pair (channel that is read, tap), and up to two vectors of channels. Its
 * sums stay in registers over the windows of a band. Invariant: an element is the sum of the bands'
 * sums in order, each summed window after window, however the work is divided among threads. */
#include "devices/kernels/cpu/cases.h"
#include "devices/kernels/convolution/cpu/channels.h"
#include "devices/kernels/convolution/image_sizes.h"

#define VECTORS 2                                 /* vectors of channels in a tile */
#define COLUMNS (TDM_VECTOR_BYTES == 64 ? 14 : 6) /* columns of d_weight in a tile */
#define BAND_WINDOWS 384 /* about as many windows of d_y are processed at a time */

void channel_plan_gradient(channel_plan *plan, const convolution_sizes *of) {
  channel_plan_forward(plan, of);
  channel_plan_rows(plan, plan->out_size[1] > 0 ? BAND_WINDOWS / plan->out_size[1] : 1);
  const int64_t windows = plan->rows * plan->out_size[1];
  plan->set_images = plan->bands == 1 && windows > 0 ? BAND_WINDOWS / windows : 1;
  if (plan->set_images < 1) plan->set_images = 1;
}

/* Returns the size of the second buffer in channel_gradient's memory. */
static size_t turned_bytes(const channel_plan *plan) {
  return aligned_bytes((size_t)(plan->rows * plan->out_size[1] * CHANNEL_TILE) * sizeof(real)) *
         (size_t)plan->set_images;
}

size_t channel_gradient_bytes(const channel_plan *plan, int64_t tiles, int64_t columns) {
  const size_t sums_bytes = aligned_bytes((size_t)(tiles * columns * CHANNEL_TILE) * sizeof(real));
  const int64_t in = lesser_of(plan->in, (columns - 1) / plan->taps + 2); /* an upper bound */
  return (size_t)plan->set_images * channel_padded_bytes(plan, in) + turned_bytes(plan) +
         sums_bytes;
}

/* Transposes d_y (channels, ...), whose channels are `pixels` elements apart, to turned (count,
 * vectors of channels), in squares in registers. */
static void turn(const real *d_y, int64_t pixels, int64_t channels, int64_t count, real *turned) {
  const int64_t width = channels > LANES ? CHANNEL_TILE : LANES;
  for (int64_t first = 0; first < count; first += LANES) {
    for (int64_t channel = 0; channel < width; channel += LANES) {
      vec rows[LANES];
      for (int lane = 0; lane < LANES; lane++) {
        rows[lane] = channel + lane < channels
                         ? vec_load_first(d_y + (channel + lane) * pixels + first, count - first)
                         : (vec){0};
      }
      vec_transpose(rows);
      for (int p = 0; p < LANES && first + p < count; p++)
        vec_store(turned + (first + p) * width + channel, rows[p]);
    }
  }
}

/* Values that the tiles of one band of a set of images share. */
typedef struct tile_job {
  const channel_plan *plan;
  const real *turned; /* (images, rows, columns of windows, vectors of channels) */
  const real *padded; /* padded images, padded_step elements apart */
  int64_t padded_step;
  int64_t images;
  int64_t rows;             /* rows of windows in the band */
  int64_t offsets[COLUMNS]; /* element of padded that each column of the tile reads at the first
                             * window */
} tile_job;

/* columns and vectors are constants where this is inlined. sums (columns, vectors of channels) +=
 * what the band gives. */
ALWAYS_INLINE void tile(const int columns, const int vectors, const tile_job *job, real *sums) {
  const channel_plan *plan = job->plan;
  const int64_t width = plan->out_size[1];
  const int64_t down = plan->step[0] * plan->lines * plan->width;
  int64_t offsets[COLUMNS];
  vec totals[COLUMNS][VECTORS];
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++) {
    offsets[c] = job->offsets[c];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      totals[c][v] = (vec){0};
  }
  const real *d = job->turned;
  for (int64_t line = 0; line < job->images * job->rows; line++) {
    const real *x = job->padded + line / job->rows * job->padded_step + line % job->rows * down;
    for (const real *const end = x + width; x < end; x++, d += vectors * LANES) {
      const vec first = vec_load(d);
      const vec second = vectors > 1 ? vec_load(d + LANES) : first;
#pragma GCC unroll 14
      for (int c = 0; c < columns; c++) {
        totals[c][0] += x[offsets[c]] * first;
        if (vectors > 1) totals[c][1] += x[offsets[c]] * second;
      }
    }
  }
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      real *to = sums + (c * vectors + v) * LANES;
      vec_store(to, vec_load(to) + totals[c][v]);
    }
  }
}

ALWAYS_INLINE void tile_of_any_size(int64_t columns, const int vectors, const tile_job *job,
                                    real *sums) {
#define TILE_COLUMNS(constant)                                                                     \
  case constant:                                                                                   \
    if (constant <= COLUMNS) tile(constant, vectors, job, sums);                                   \
    break;
  switch (columns) {
    CASES_TO_14(TILE_COLUMNS)
  }
#undef TILE_COLUMNS
}

/* sums (columns, vectors of channels) += what one band gives to `out` channels of one tile. */
static void add_band(tile_job *job, const channel_part *part, int64_t out, real *sums) {
  const channel_plan *plan = job->plan;
  const int64_t plane = plan->padded_rows * plan->lines * plan->width;
  const int64_t skipped = part->first_column % plan->taps;
  const int64_t width = out > LANES ? CHANNEL_TILE : LANES;
  int64_t count;
  for (int64_t column = 0; column < part->columns; column += count) {
    const int64_t left = part->columns - column;
    count = ceil_div(left, ceil_div(left, COLUMNS));
    for (int64_t c = 0; c < count; c++) {
      const int64_t at = skipped + column + c;
      job->offsets[c] = at / plan->taps * plane + plan->offsets[at % plan->taps];
    }
    if (out > LANES)
      tile_of_any_size(count, 2, job, sums + column * width);
    else
      tile_of_any_size(count, 1, job, sums + column * width);
  }
}

/* Writes `out` rows of d_weight, from its column on, from sums (k, vectors of channels). */
static void put_sums(const channel_plan *plan, int64_t out, int64_t k, const real *sums,
                     real *d_weight) {
  const int64_t width = out > LANES ? CHANNEL_TILE : LANES, row = plan->in * plan->taps;
  for (int64_t channel = 0; channel < out; channel += LANES) {
    for (int64_t column = 0; column < k; column += LANES) {
      vec rows[LANES];
      for (int c = 0; c < LANES; c++)
        rows[c] = column + c < k ? vec_load(sums + (column + c) * width + channel) : (vec){0};
      vec_transpose(rows);
      for (int lane = 0; lane < LANES && channel + lane < out; lane++)
        vec_store_first(d_weight + (channel + lane) * row + column, rows[lane], k - column);
    }
  }
}

/* The buffers in a part's memory. */
typedef struct part_memory {
  real *padded; /* (set_images) of the channels that the part reads */
  real *turned;
  real *sums; /* (tiles, columns, CHANNEL_TILE) */
} part_memory;

/* sums += the products of one band of job->images images. */
static void add_set(tile_job *job, const channel_part *part, int64_t in, const channel_set *set,
                    int64_t band, const part_memory *memory) {
  const channel_plan *plan = job->plan;
  const int64_t pixels = plan->out_size[0] * plan->out_size[1];
  const int64_t first = band * plan->rows * plan->out_size[1];
  job->rows = lesser_of(plan->windows[0] - band * plan->rows, plan->rows);
  const int64_t count = job->rows * plan->out_size[1];
  for (int64_t image = 0; image < job->images; image++)
    channel_pad(plan, in, set->x + image * set->x_step, band,
                memory->padded + image * job->padded_step);
  for (int64_t channel = 0; channel < part->out; channel += CHANNEL_TILE) {
    const int64_t out = lesser_of(part->out - channel, CHANNEL_TILE);
    const int64_t turned_step = count * (out > LANES ? CHANNEL_TILE : LANES);
    for (int64_t image = 0; image < job->images; image++)
      turn(set->d_y + image * set->d_y_step + channel * pixels + first, pixels, out, count,
           memory->turned + image * turned_step);
    add_band(job, part, out, memory->sums + channel * part->columns);
  }
}

void channel_gradient(const channel_plan *plan, const channel_part *part, const channel_set *all,
                      char *memory, real *d_weight) {
  const int64_t pixels = plan->out_size[0] * plan->out_size[1], columns = part->columns;
  const int64_t first_in = part->first_column / plan->taps, row = plan->in * plan->taps;
  const int64_t in = channel_span(plan, part->first_column, part->first_column + columns);
  const size_t padded_bytes = channel_padded_bytes(plan, in);
  part_memory of = {.padded = (real *)memory};
  of.turned = (real *)(memory + (size_t)plan->set_images * padded_bytes);
  of.sums = (real *)((char *)of.turned + turned_bytes(plan));
  row_zero(of.sums, ceil_div(part->out, CHANNEL_TILE) * columns * CHANNEL_TILE);
  tile_job job = {.plan = plan,
                  .turned = of.turned,
                  .padded = of.padded,
                  .padded_step = (int64_t)(padded_bytes / sizeof(real))};
  channel_set set = *all;
  set.d_y += part->first_out * pixels;
  set.x += first_in * plan->size[0] * plan->size[1];
  for (int64_t image = 0; image < all->images; image += job.images) {
    job.images = lesser_of(all->images - image, plan->set_images);
    for (int64_t band = 0; band < plan->bands; band++)
      add_set(&job, part, in, &set, band, &of);
    set.d_y += job.images * set.d_y_step;
    set.x += job.images * set.x_step;
  }
  real *to = d_weight + part->first_out * row + part->first_column;
  for (int64_t channel = 0; channel < part->out; channel += CHANNEL_TILE)
    put_sums(plan, lesser_of(part->out - channel, CHANNEL_TILE), columns,
             of.sums + channel * columns, to + channel * row);
}
