/* Sharing rows out. Invariant: the sizes add up to the rows, whatever is rounded. */
#include "devices/chunks.h"

#include <math.h>

size_t tdm_chunk_sizes(int64_t rows, size_t device_count, const double *weights,
                       int64_t *out_sizes) {
  const int64_t chunk = (rows + (int64_t)device_count - 1) / (int64_t)device_count;
  double sum = 0;
  for (size_t i = 0; weights && i < device_count; i++)
    sum += weights[i];
  double so_far = 0;
  int64_t given = 0;
  size_t used = 0;
  for (size_t i = 0; i < device_count; i++) {
    int64_t end = given + chunk;
    if (weights) end = (int64_t)llround((double)rows * ((so_far += weights[i]) / sum));
    if (end > rows || (weights && i + 1 == device_count)) end = rows;
    out_sizes[i] = end - given;
    used += end > given;
    given = end;
  }
  return used ? used : 1;
}
