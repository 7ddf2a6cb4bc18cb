/* Reductions along one contiguous row: maximum, sums, sum of exponentials, softmax. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_ROWS_H
#define TANDEM_DEVICES_KERNELS_CPU_ROWS_H

#include <math.h>

#include "devices/kernels/cpu/vector_math.h"

ALWAYS_INLINE real real_log(real x) {
#if TDM_REAL_BITS == 64
  return log(x);
#else
  return logf(x);
#endif
}

static inline real row_max(const stored *x, int64_t count) {
  vec most = vec_set((real)-INFINITY);
  for (int64_t i = 0; i < count; i += LANES) {
    const vec value = vec_keep_first(element_load(x + i, count - i), count - i, (real)-INFINITY);
    most = vec_select(value > most, value, most);
  }
  return vec_max(most);
}

#define ROW_BLOCK 8192 /* elements that are summed in vectors, before sums are added in double */

/* Returns the sum of (x - shift) (y - other); y NULL: of x - shift. */
static inline double row_sum_of_products(const stored *x, real shift, const stored *y, real other,
                                         int64_t count) {
  double total = 0;
  for (int64_t first = 0; first < count; first += ROW_BLOCK) {
    const int64_t end = lesser_of(count, first + ROW_BLOCK);
    vec sums[4] = {{0}, {0}, {0}, {0}};
    int64_t i = first;
    for (; i + 4 * LANES <= end; i += 4 * LANES) {
      for (int v = 0; v < 4; v++) {
        const vec d = element_load_whole(x + i + v * LANES) - shift;
        sums[v] += y ? d * (element_load_whole(y + i + v * LANES) - other) : d;
      }
    }
    for (; i < end; i += LANES) {
      vec d = element_load(x + i, end - i) - shift;
      if (y) d *= element_load(y + i, end - i) - other;
      sums[0] += vec_keep_first(d, end - i, 0);
    }
    total += (double)vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  return total;
}

static inline double row_sum(const stored *x, int64_t count) {
  return row_sum_of_products(x, 0, NULL, 0, count);
}

/* Returns the sum of exp(x - shift), which are also stored in out if it is not NULL. */
static inline real row_sum_of_exp(const stored *x, real shift, stored *out, int64_t count) {
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < count; i += LANES) {
    const vec e = vec_exp(element_load(x + i, count - i) - shift);
    vec_sums_add(&sums, i / LANES, vec_keep_first(e, count - i, 0));
    if (out) element_store(out + i, e, count - i);
  }
  return vec_sum(vec_sums_total(&sums));
}

static inline void row_log_softmax(const stored *x, stored *out, int64_t count) {
  const real most = row_max(x, count);
  const real log_sum = real_log(row_sum_of_exp(x, most, NULL, count));
  for (int64_t i = 0; i < count; i += LANES)
    element_store(out + i, (element_load(x + i, count - i) - most) - log_sum, count - i);
}

/* Computes the same for up to LANES rows of up to LANES elements, each row in a lane: nothing is
 * summed across lanes. */
static inline void lanes_log_softmax(const stored *x, stored *out, int64_t rows, int64_t count) {
  vec values[LANES];
  for (int i = 0; i < LANES; i++)
    values[i] = i < rows ? element_load(x + i * count, count) : (vec){0};
  vec_transpose(values);
  vec most = vec_set((real)-INFINITY), sum = {0};
  for (int64_t j = 0; j < count; j++)
    most = vec_select(values[j] > most, values[j], most);
  for (int64_t j = 0; j < count; j++)
    sum += vec_exp(values[j] - most);
  const vec log_sum = vec_log(sum);
  for (int64_t j = 0; j < count; j++)
    values[j] = (values[j] - most) - log_sum;
  vec_transpose(values);
  for (int64_t i = 0; i < rows; i++)
    element_store(out + i * count, values[i], count);
}

/* Computes every row of x (rows, count). A row's result does not depend on the other rows. */
static inline void rows_log_softmax(const stored *x, stored *out, int64_t rows, int64_t count) {
  const bool few = count > 1 && count <= LANES;
  const int64_t step = few ? LANES : 1;
  for (int64_t i = 0; i < rows; i += step) {
    if (few)
      lanes_log_softmax(x + i * count, out + i * count, lesser_of(rows - i, LANES), count);
    else
      row_log_softmax(x + i * count, out + i * count, count);
  }
}

static inline void row_softmax(const stored *x, stored *out, int64_t count) {
  const real sum = row_sum_of_exp(x, row_max(x, count), out, count);
  for (int64_t i = 0; i < count; i += LANES)
    element_store(out + i, element_load(out + i, count - i) / sum, count - i);
}

#endif
