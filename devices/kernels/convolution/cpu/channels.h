/* Convolutions with the written channels in the lanes of vectors, for layers of many channels. A
 * tile is some neighbouring windows and up to two vectors of channels. Its sums stay in registers
 * over all channels that are read and all taps. Lanes are full whatever the width is, and windows
 * may move by any stride.
 *
 * The gradient of x is the same computation over d_y. The elements of x that lie `stride` apart
 * form a phase. Each element of a phase is the sum of the same taps, and windows move by one. So
 * there is one phase forward, and stride x stride phases backward.
 *
 *   padded (in, padded_rows, lines, width) of one image and group: a band of rows, zeros around.
 *          Element (row, l, c) is column c step + l, so that neighbouring windows read neighbouring
 *          elements. Elements that no window reads are left out.
 *   packed weight: phase after phase, tile after tile of channels that are written,
 *          (in, taps of the phase, the tile's channels) */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_CHANNELS_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_CHANNELS_H

#include "devices/kernels/convolution/image_sizes.h"
#include "devices/kernels/cpu/vector.h"

#define CHANNEL_TILE (2 * LANES) /* channels of a tile; the last one may have LANES */
#define CHANNELS_MOST_TAPS 128
#define CHANNELS_MOST_PHASES 16

/* Elements that a phase writes: start, start + apart, ... along each of both axes, `windows` of
 * them. */
typedef struct channel_phase {
  int64_t start[2];
  int64_t windows[2];
  int64_t first_tap; /* index of the phase's first tap in `offsets` */
  int64_t tap_count;
} channel_phase;

typedef struct channel_plan {
  int64_t in;  /* channels of a group that are read */
  int64_t out; /* channels of a group that are written */
  int64_t size[2];
  int64_t out_size[2];
  int64_t taps;      /* kernel height x kernel width */
  int64_t step[2];   /* distance of neighbouring windows in the elements that are read */
  int64_t apart[2];  /* distance of a phase's windows in the elements that are written */
  int64_t lowest[2]; /* row and column that the first window of all looks at: negative over zeros */
  int64_t reach[2];  /* distance from a window's first element to the farthest tap of any phase */
  int64_t windows[2]; /* the largest number of windows of any phase */
  int64_t rows;       /* rows of windows in a band */
  int64_t bands;      /* bands of an image */
  int64_t set_images; /* images that the gradient of the weight processes together */
  int64_t padded_rows;
  int64_t lines; /* lines of a padded row; columns that are `step` apart make one */
  int64_t width; /* elements of a line */
  int64_t phase_count;
  channel_phase phases[CHANNELS_MOST_PHASES];
  int64_t offsets[CHANNELS_MOST_TAPS];   /* position of each tap in one channel of padded, phase
                                          * after phase */
  int64_t rows_seen[CHANNELS_MOST_TAPS]; /* rows of x that these taps read in the first window */
  int32_t phase_of[CHANNELS_MOST_TAPS];  /* phase of each tap of the kernel; -1: none */
  int32_t place_of[CHANNELS_MOST_TAPS];  /* index of each tap of the kernel among its phase's
                                          * taps */
} channel_plan;

/* Plans with at most CHANNELS_MOST_TAPS taps and CHANNELS_MOST_PHASES phases: of the convolution,
 * and of the gradient of x, which reads d_y and writes d_x. Bands have as many rows as stay in the
 * cache. */
void channel_plan_forward(channel_plan *plan, const convolution_sizes *of);
void channel_plan_back(channel_plan *plan, const convolution_sizes *of);
/* Bands of so many rows instead, shared out evenly. */
void channel_plan_rows(channel_plan *plan, int64_t rows);

static inline int64_t channel_tiles(const channel_plan *plan) {
  return ceil_div(plan->out, CHANNEL_TILE);
}

/* Channels of the tile that begins at channel `first`: whole vectors. */
static inline int64_t channel_tile_width(const channel_plan *plan, int64_t first) {
  return plan->out - first > LANES ? CHANNEL_TILE : LANES;
}

/* Returns the position of that tile in a phase of the packed weight. */
static inline int64_t channel_tile_place(const channel_plan *plan, const channel_phase *phase,
                                         int64_t first) {
  const int64_t padded_out = ceil_div(plan->out, LANES) * LANES;
  return plan->in * (padded_out * phase->first_tap + first * phase->tap_count);
}

/* Returns the number of channels that columns first <= c < end of the weight's gradient read. */
static inline int64_t channel_span(const channel_plan *plan, int64_t first, int64_t end) {
  return (end - 1) / plan->taps - first / plan->taps + 1;
}

/* Returns the bytes of a packed weight, and of `in` channels of a padded band; multiples of 64. */
size_t channel_weight_bytes(const channel_plan *plan);
size_t channel_padded_bytes(const channel_plan *plan, int64_t in);

/* Packs one tile of the weight of one group, whose element (o, i, tap) is at o * out_step + i *
 * in_step + tap. */
void channel_weight(const channel_plan *plan, int64_t tile, const real *weight, int64_t out_step,
                    int64_t in_step, real *packed);

/* Writes the padded copy of band `band` of `in` channels x (in, h, w). */
void channel_pad(const channel_plan *plan, int64_t in, const real *x, int64_t band, real *padded);

/* Images that read a tile's weight one after the other, of one group: where they are small, it
 * comes into the cache once for all of them. */
typedef struct channel_images {
  int64_t count;
  const real *x;      /* first image (in, h, w); images are x_step apart */
  const real *padded; /* padded copy of x; images are padded_step apart */
  real *y;            /* first result (out, h', w'); results are y_step apart */
  int64_t x_step;
  int64_t padded_step;
  int64_t y_step;
} channel_images;

/* Computes tiles first <= i < end of band `band` of y = bias (out; NULL: zeros) + the convolution.
 * Adds bias, then channel after channel, tap after tap. Prefetches the elements of x after the band
 * into the cache. */
void channel_band(const channel_plan *plan, int64_t first, int64_t end, const real *packed,
                  const real *bias, const channel_images *images, int64_t band);

/* ---- Gradient of the weight ------------------------------------------------------------------ */

/* Makes a forward plan for the gradient of the weight. Its bands and sets of images do not depend
 * on how channels are divided among tasks. */
void channel_plan_gradient(channel_plan *plan, const convolution_sizes *of);

/* A part of d_weight (out, in taps): some tiles of its rows and some of its columns. */
typedef struct channel_part {
  int64_t first_out; /* a multiple of CHANNEL_TILE */
  int64_t out;
  int64_t first_column;
  int64_t columns;
} channel_part;

/* Returns the bytes of memory that channel_gradient requires for a part of so many tiles and
 * columns. */
size_t channel_gradient_bytes(const channel_plan *plan, int64_t tiles, int64_t columns);

/* The images of one group. */
typedef struct channel_set {
  int64_t images;
  const real *d_y; /* first image's (out, h', w'); images are d_y_step apart */
  const real *x;   /* first image (in, h, w); images are x_step apart */
  int64_t d_y_step;
  int64_t x_step;
} channel_set;

/* Computes that part of d_weight (out, in taps): the sum over all images, set_images at a time and
 * band after band. */
void channel_gradient(const channel_plan *plan, const channel_part *part, const channel_set *all,
                      char *memory, real *d_weight);

#endif
