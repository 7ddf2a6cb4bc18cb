/* Medians over rounds, and what they are judged by. Invariant: see model_rounds.h. */
#include "bench/transfer/model_rounds.h"

#include <math.h>
#include <stdlib.h>

#include "core/status.h"

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Sorts them. */
static double median_of(double *values, size_t count) {
  qsort(values, count, sizeof *values, compare);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double number_of(json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

/* ---- Merging --------------------------------------------------------------------------------- */

static bool are_alike(json_t *rounds) {
  const size_t count = json_array_size(json_array_get(rounds, 0));
  for (size_t r = 1; r < json_array_size(rounds); r++)
    if (json_array_size(json_array_get(rounds, r)) != count) return false;
  return true;
}

static json_t *merge_object(json_t *rounds, size_t index, const char *const *keys,
                            double *scratch) {
  const size_t count = json_array_size(rounds);
  json_t *merged = json_copy(json_array_get(json_array_get(rounds, 0), index));
  for (; *keys; keys++) {
    for (size_t r = 0; r < count; r++)
      scratch[r] = number_of(json_array_get(json_array_get(rounds, r), index), *keys);
    json_object_set_new(merged, *keys, json_real(median_of(scratch, count)));
  }
  return merged;
}

tdm_status rounds_merge(json_t *rounds, const char *const *keys, json_t **out_merged) {
  *out_merged = NULL;
  if (!are_alike(rounds)) return tdm_fail(TDM_INTERNAL, "the rounds had different transfers");
  double *scratch = calloc(json_array_size(rounds) + 1, sizeof *scratch);
  json_t *merged = json_array();
  const size_t count = json_array_size(json_array_get(rounds, 0));
  for (size_t i = 0; scratch && i < count; i++)
    json_array_append_new(merged, merge_object(rounds, i, keys, scratch));
  free(scratch);
  if (json_array_size(merged) == count) {
    *out_merged = merged;
    return TDM_OK;
  }
  json_decref(merged);
  return tdm_fail(TDM_OUT_OF_MEMORY, "the medians of %zu figures", count);
}

/* ---- Judging --------------------------------------------------------------------------------- */

json_t *rounds_errors(json_t *transfers, double least_bytes) {
  double *errors = calloc(json_array_size(transfers) + 1, sizeof *errors);
  size_t count = 0;
  size_t index;
  json_t *transfer;
  json_array_foreach(transfers, index, transfer) {
    if (!errors || number_of(transfer, "bytes") < least_bytes) continue;
    errors[count++] = fabs(number_of(transfer, "ratio") - 1);
  }
  json_t *object = NULL;
  if (count > 0) {
    const double median = median_of(errors, count);
    object = json_pack("{s:I, s:f, s:f, s:f}", "transfers", (json_int_t)count, "least_bytes",
                       least_bytes, "median_error", median, "p90_error",
                       errors[(size_t)ceil(0.9 * (double)count) - 1]);
  }
  free(errors);
  return object;
}

double rounds_drift(json_t *rounds, json_t *merged, double least_bytes) {
  const size_t count = json_array_size(merged);
  double *changes = calloc(count * json_array_size(rounds) + 1, sizeof *changes);
  size_t change_count = 0;
  for (size_t r = 0; changes && r < json_array_size(rounds); r++) {
    for (size_t i = 0; i < count; i++) {
      json_t *whole = json_array_get(merged, i);
      if (number_of(whole, "bytes") < least_bytes) continue;
      json_t *one = json_array_get(json_array_get(rounds, r), i);
      changes[change_count++] =
          fabs(number_of(one, "predicted_ns") / number_of(whole, "predicted_ns") - 1);
    }
  }
  const double drift = change_count > 0 ? median_of(changes, change_count) : 0;
  free(changes);
  return drift;
}
