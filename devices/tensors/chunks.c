/* Divides rows. Invariant: the sizes add up to the rows, whatever is rounded. */
#include "devices/tensors/chunks.h"

#include <math.h>

/* Returns the share of the rows rounded to the nearest whole number, at most all. */
static int64_t rows_of_share(int64_t rows, double share) {
  const double end = round((double)rows * share);
  return end < (double)rows ? (int64_t)end : rows;
}

size_t tdm_chunk_sizes(int64_t rows, size_t device_count, const double *weights,
                       int64_t *out_sizes) {
  const int64_t devices = (int64_t)device_count;
  const int64_t chunk = rows / devices + (rows % devices != 0);
  double sum = 0;
  for (size_t i = 0; weights && i < device_count; i++)
    sum += weights[i];
  double so_far = 0;
  int64_t given = 0;
  size_t used = 0;
  for (size_t i = 0; i < device_count; i++) {
    int64_t end = chunk < rows - given ? given + chunk : rows;
    if (weights) end = rows_of_share(rows, (so_far += weights[i]) / sum);
    if (weights && i + 1 == device_count) end = rows;
    out_sizes[i] = end - given;
    used += end > given;
    given = end;
  }
  return used ? used : 1;
}
