/* Convolutions whose windows move by one element: vectors of neighbouring windows slide over x, so
 * that no columns are made. The input is copied to a buffer in which windows may reach over the
 * rim: a band of rows at a time, as many as stay in the cache.
 *
 *   padded (in, rows + reach, width) of one image and group: zeros around, and after each row the
 *   elements that a vector may read beyond it */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_SLIDE_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_SLIDE_H

#include "devices/kernels/cpu/real.h"

typedef struct slide_plan {
  int64_t in;  /* channels of a group that are read */
  int64_t out; /* channels of a group that are written */
  int64_t size[2];
  int64_t out_size[2];
  int64_t kernel[2];
  int64_t dilation[2];
  int64_t padding[2];
  int64_t rows;        /* rows of the result in a band */
  int64_t bands;       /* bands of an image */
  int64_t padded_rows; /* rows + reach */
  int64_t width;       /* elements of a padded row */
  bool flat;           /* vectors continue from row to row: used where rows fill few lanes */
} slide_plan;

/* Fills rows, bands, padded_rows, width and flat from the rest. */
void slide_plan_finish(slide_plan *plan);

/* Returns the bytes of the packed weight, of one padded band, and of slide_band's scratch;
 * multiples of 64. */
size_t slide_weight_bytes(const slide_plan *plan);
size_t slide_padded_bytes(const slide_plan *plan);
size_t slide_scratch_bytes(const slide_plan *plan);

/* Copies the weight of one group in the order in which slide_band reads it. Element (o, i, tap) is
 * at o * out_step + i * in_step + tap of weight; taps are in reverse order if `reversed`. */
void slide_weight(const slide_plan *plan, const real *weight, int64_t out_step, int64_t in_step,
                  bool reversed, real *to);

/* Writes the padded copy of band `band` of x (in, h, w). */
void slide_pad(const slide_plan *plan, const real *x, int64_t band, real *padded);

/* Computes the rows of band `band` of y (out, h', w') = bias (out; NULL: zeros) + the
 * convolution. */
void slide_band(const slide_plan *plan, const real *weight, const real *bias, const real *padded,
                int64_t band, real *scratch, real *y);

/* Bands whose padded copies are contiguous, for the gradient of the weight. */
typedef struct slide_bands {
  const real *padded;        /* count times slide_padded_bytes */
  const real *const *d_y;    /* (count): the band's first row of (out, h', w') */
  const int64_t *row_counts; /* (count) */
  int64_t count;
} slide_bands;

/* Adds the products of these bands to d_weight (out, in x kernel). */
void slide_weight_gradient(const slide_plan *plan, const slide_bands *bands, real *d_weight);

/* Returns the number of rows of band `band`. */
static inline int64_t slide_row_count(const slide_plan *plan, int64_t band) {
  return lesser_of(plan->out_size[0] - band * plan->rows, plan->rows);
}

#endif
