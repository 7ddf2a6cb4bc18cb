/* Mean and variance of what a block of threads goes through, and how it is normalized by them. Sums
 * are taken in float64, of distances from a number near the mean, so that a mean that is large
 * beside the deviation loses none of its digits, and equal elements have the variance 0. Invariant:
 * the order of a sum depends on the number of its terms only. */
#ifndef TANDEM_DEVICES_KERNELS_NORMALIZATION_CUDA_MOMENTS_H
#define TANDEM_DEVICES_KERNELS_NORMALIZATION_CUDA_MOMENTS_H

#include "devices/kernels/cuda/reduce.h"

struct moments {
  double mean;
  double variance; /* divided by the number of elements, times the square of scale */
  double scale;    /* a power of two: 1 unless squares would leave the range of double */
};

/* Sums of (x - shift) scale and of its square. */
struct deviations {
  double sum;
  double squares;
};

/* at(i): element i of count, for the same count in all threads. */
template <class real, class element>
static __device__ deviations block_deviations(int64_t count, real shift, double scale, element at) {
  deviations found = {0, 0};
  EACH_OF_BLOCK(i, count) {
    const double d = (double)(at(i) - shift) * scale;
    found.sum += d;
    found.squares += d * d;
  }
  const double sum = block_sum(found.sum);
  const double squares = block_sum(found.squares);
  return {sum, squares};
}

/* Returns the power of two that scales the largest distance from shift to near 1; 1 if there is
 * none. */
template <class real, class element>
static __device__ double block_scale(int64_t count, real shift, element at) {
  double largest = 0;
  EACH_OF_BLOCK(i, count) {
    const double d = fabs((double)(at(i) - shift));
    largest = d <= largest ? largest : d; /* NaN stays */
  }
  largest = block_reduce<larger_of_two>(largest);
  if (!(largest > 0) || largest - largest != 0) return 1;
  int exponent;
  frexp(largest, &exponent);
  return ldexp(1.0, exponent > 1022 ? -1022 : exponent < -510 ? 510 : -exponent);
}

/* Returns a number near the mean: the mean of the first elements. If all elements are equal, it is
 * their value. */
template <class real, class element> static __device__ real block_guess(int64_t count, element at) {
  const int64_t sampled = count < (int64_t)blockDim.x ? count : (int64_t)blockDim.x;
  const real first = at(0);
  double sum = 0;
  EACH_OF_BLOCK(i, sampled) {
    sum += (double)(at(i) - first);
  }
  return (real)((double)first + block_sum(sum) / (double)sampled);
}

/* Computes the moments around the mean, or around 0 if not centered; without elements, those of
 * zeros. epsilon is added to the variance. */
template <class real, class element>
static __device__ moments block_moments(int64_t count, bool centered, double epsilon, element at) {
  if (count == 0) return {0, 0, 1};
  /* the smallest square with full precision */
  const double elements = (double)count, least = 1e-290;
  real shift = centered ? block_guess<real>(count, at) : 0;
  double scale = 1;
  deviations found = block_deviations(count, shift, scale, at);
  if (!(found.squares < (double)INFINITY && (found.squares > least || epsilon > least))) {
    scale = block_scale(count, shift, at);
    found = block_deviations(count, shift, scale, at);
  }
  if (!centered) return {0, found.squares / elements, scale};
  double mean = found.sum / elements;
  double variance = found.squares / elements - mean * mean;
  if (!(mean * mean <= variance / 4)) { /* the guess was too far from the mean */
    shift = (real)((double)shift + mean / scale);
    found = block_deviations(count, shift, scale, at);
    mean = found.sum / elements;
    variance = found.squares / elements - mean * mean;
  }
  return {(double)shift + mean / scale, variance < 0 ? 0 : variance, scale};
}

/* Returns 1 / sqrt(variance + epsilon). */
static __device__ inline double moments_inverse(const moments &of, double epsilon) {
  return of.scale / sqrt(of.variance + epsilon * of.scale * of.scale);
}

/* n = (x - mean) inverse, where the mean may have more digits than `real`. */
template <class real> struct normal_rule {
  real mean;
  real inverse;
  real rest; /* the part of the mean that does not fit in `real` */

  __device__ normal_rule(double of_mean, real of_inverse)
      : mean((real)of_mean), inverse(of_inverse) {
    rest = (real)(((double)mean - of_mean) * (double)inverse);
  }
  __device__ real of(real x) const {
    return (x - mean) * inverse + rest;
  }
};

#endif
