/* Means and variances of rows. Sums are taken of distances from a number near the mean, so that a
 * mean that is large beside the deviation loses none of its digits, and equal elements have the
 * variance 0. Distances whose squares leave the range of `real` are scaled by a power of two first.
 * Invariant: the order of a sum depends on the number of its terms only. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_MOMENTS_H
#define TANDEM_DEVICES_KERNELS_CPU_MOMENTS_H

#include <float.h>
#include <math.h>

#include "devices/kernels/cpu/rows.h"

#define MOMENT_TERMS 32 /* terms that a lane adds in `real` before its sum is added to a double */

#if TDM_REAL_BITS == 64
#define REAL_MAX_EXPONENT DBL_MAX_EXP
#else
#define REAL_MAX_EXPONENT FLT_MAX_EXP
#endif

/* `count` pieces of `length` neighbouring elements, which begin `stride` elements apart. */
typedef struct strips {
  const stored *x;
  int64_t count;
  int64_t stride;
  int64_t length;
} strips;

typedef struct moments {
  double mean;
  double variance; /* divided by the number of elements, times the square of scale */
  double scale;    /* a power of two: 1 unless squares would leave the range of `real` */
} moments;

/* Sums of (x - shift) scale and of its square. */
typedef struct deviations {
  double sum;
  double squares;
} deviations;

ALWAYS_INLINE deviations row_deviations(const stored *x, int64_t count, real shift, real scale) {
  deviations total = {0, 0};
  for (int64_t first = 0; first < count; first += 4 * LANES * MOMENT_TERMS) {
    const int64_t end = lesser_of(count, first + 4 * LANES * MOMENT_TERMS);
    vec sums[4] = {{0}, {0}, {0}, {0}}, squares[4] = {{0}, {0}, {0}, {0}};
    int64_t i = first;
    for (; i + 4 * LANES <= end; i += 4 * LANES) {
      for (int v = 0; v < 4; v++) {
        const vec d = (element_load_whole(x + i + v * LANES) - shift) * scale;
        sums[v] += d;
        squares[v] += d * d;
      }
    }
    for (; i < end; i += LANES) {
      vec d = (element_load(x + i, end - i) - shift) * scale;
      d = vec_keep_first(d, end - i, 0);
      sums[0] += d;
      squares[0] += d * d;
    }
    total.sum += (double)vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    total.squares += (double)vec_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  }
  return total;
}

ALWAYS_INLINE deviations strips_deviations(const strips *from, real shift, real scale) {
  deviations total = {0, 0};
  for (int64_t i = 0; i < from->count; i++) {
    const deviations of = row_deviations(from->x + i * from->stride, from->length, shift, scale);
    total.sum += of.sum;
    total.squares += of.squares;
  }
  return total;
}

/* Returns the power of two that scales the largest distance from shift to near 1; 1 if there is
 * none. */
static __attribute__((noinline, cold, unused)) double strips_scale(const strips *from, real shift) {
  double largest = 0;
  for (int64_t i = 0; i < from->count; i++) {
    for (int64_t j = 0; j < from->length; j++) {
      const double d = fabs((double)widened(from->x[i * from->stride + j]) - (double)shift);
      largest = d <= largest ? largest : d; /* NaN stays */
    }
  }
  if (!(largest > 0) || largest > DBL_MAX) return 1;
  int exponent;
  frexp(largest, &exponent);
  const int smallest = REAL_MAX_EXPONENT - 2;
  /* the square of 2^power is finite in double */
  const int largest_power = smallest < 510 ? smallest : 510;
  return ldexp(1, exponent > smallest         ? -smallest
                  : exponent < -largest_power ? largest_power
                                              : -exponent);
}

static __attribute__((noinline, cold, unused)) deviations
strips_deviations_scaled(const strips *from, real shift, double scale) {
  return strips_deviations(from, shift, (real)scale);
}

/* Returns true if squares are finite, and not so small that they lost digits that matter in
 * comparison with epsilon. */
ALWAYS_INLINE bool squares_are_exact(double squares, double epsilon) {
  const double least = ldexp(1, 64 - REAL_MAX_EXPONENT);
  return squares < INFINITY && (squares > least || epsilon > least);
}

/* A number near the mean: the mean of a few elements of up to four strips. */
ALWAYS_INLINE real strips_guess(const strips *from) {
  if (from->count == 1 && from->length >= 4 * LANES) {
    const real part = (real)1 / (4 * LANES);
    vec sum = element_load_whole(from->x) * part;
    for (int v = 1; v < 4; v++)
      sum += element_load_whole(from->x + v * LANES) * part;
    return vec_sum(sum);
  }
  const int64_t pieces = lesser_of(from->count, 4);
  const int64_t length = lesser_of(from->length, 4 * LANES / pieces);
  double sum = 0;
  for (int64_t i = 0; i < pieces; i++)
    sum += row_sum(from->x + i * from->count / pieces * from->stride, length);
  return (real)(sum / (double)(pieces * length));
}

/* The moments around the mean, of at least one element. epsilon: what is added to the variance. */
ALWAYS_INLINE moments strips_moments(const strips *from, double epsilon) {
  const double share = 1 / (double)(from->count * from->length);
  real shift = strips_guess(from);
  deviations found = strips_deviations(from, shift, 1);
  double scale = 1, unit = 1; /* unit: 1 / scale */
  if (!squares_are_exact(found.squares, epsilon)) {
    scale = strips_scale(from, shift);
    unit = 1 / scale;
    found = strips_deviations_scaled(from, shift, scale);
  }
  /* Equal elements are at a distance of a few units in the last place: their sums are exact, the
   * variance at most that of rounding, so that they are summed again, around their value. */
  double mean = found.sum * share, variance = found.squares * share - mean * mean;
  if (!(mean * mean <= variance * 0.25)) { /* the guess was too far from the mean */
    shift = (real)((double)shift + mean * unit);
    found = strips_deviations_scaled(from, shift, scale);
    mean = found.sum * share;
    variance = found.squares * share - mean * mean;
  }
  return (moments){
      .mean = (double)shift + mean * unit, .variance = variance < 0 ? 0 : variance, .scale = scale};
}

/* Computes the same around 0: the mean is 0, and the variance that of the squares. */
static inline moments row_moments_of_zero(const stored *x, int64_t count, double epsilon) {
  const strips from = {.x = x, .count = 1, .length = count};
  double squares = row_deviations(x, count, 0, 1).squares, scale = 1;
  if (!squares_are_exact(squares, epsilon)) {
    scale = strips_scale(&from, 0);
    squares = strips_deviations_scaled(&from, 0, scale).squares;
  }
  return (moments){.mean = 0, .variance = squares / (double)count, .scale = scale};
}

/* Returns 1 / sqrt(variance + epsilon). */
static inline double moments_inverse(const moments *self, double epsilon) {
  const double scale = self->scale;
  return scale / sqrt(self->variance + epsilon * scale * scale);
}

#endif
