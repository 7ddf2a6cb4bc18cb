/* Reading golden files and comparing with them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"

/* Returns a float64 tensor rounded to float32. */
static tdm_tensor *rounded(tdm_context *context, const tdm_tensor *tensor) {
  size_t count;
  double *values = tensor_values(tensor, &count);
  float *narrow = malloc((count + 1) * sizeof *narrow);
  assert_non_null(narrow);
  for (size_t i = 0; i < count; i++)
    narrow[i] = (float)values[i];
  tdm_tensor *out = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_tensor_shape(tensor));
  if (!out || tdm_tensor_write(out, narrow, count * sizeof *narrow) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  free(narrow);
  free(values);
  return out;
}

/* Returns the list with its float64 tensors rounded to float32, except options. Releases list. */
static tdm_tensor_list *round_all(tdm_context *context, tdm_tensor_list *list) {
  tdm_tensor_list *out = tdm_tensor_list_create(context);
  assert_non_null(out);
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    const bool is_rounded = tdm_tensor_dtype(tensor) == TDM_FLOAT64 && !strstr(name, "/option.");
    tdm_tensor *added = is_rounded ? rounded(context, tensor) : tensor;
    assert_int_equal(tdm_tensor_list_add(out, name, added), TDM_OK);
    if (is_rounded) tdm_tensor_release(added);
  }
  tdm_tensor_list_release(list);
  return out;
}

void golden_open(golden_file *golden, const char *family, tdm_dtype dtype) {
  char path[256];
  (void)snprintf(path, sizeof path, "tests/golden/data/%s.safetensors", family);
  golden->dtype = dtype;
  golden->context = tdm_context_create(NULL);
  assert_non_null(golden->context);
  golden->list = tdm_safetensors_load(golden->context, path);
  if (!golden->list) fail_msg("%s", tdm_last_message());
  if (dtype == TDM_FLOAT32) golden->list = round_all(golden->context, golden->list);
}

void golden_close(golden_file *golden) {
  tdm_tensor_list_release(golden->list);
  tdm_context_release(golden->context);
}

tdm_tensor *golden_tensor(const golden_file *golden, const char *case_name, const char *kind,
                          const char *name) {
  char text[256];
  (void)snprintf(text, sizeof text, "%s/%s%s%s", case_name, kind, *name ? "." : "", name);
  tdm_tensor *tensor = tdm_tensor_list_find(golden->list, text);
  if (!tensor) fail_msg("no golden tensor %s", text);
  return tensor;
}

const char *golden_suffix(const char *name, const char *case_name, const char *kind) {
  const size_t case_length = strlen(case_name);
  const size_t kind_length = strlen(kind);
  if (strncmp(name, case_name, case_length) != 0 || name[case_length] != '/') return NULL;
  name += case_length + 1;
  if (strncmp(name, kind, kind_length) != 0 || name[kind_length] != '.') return NULL;
  return name + kind_length + 1;
}

size_t golden_case_count(const golden_file *golden) {
  size_t count = 0;
  const char *last = "";
  for (size_t i = 0; i < tdm_tensor_list_count(golden->list); i++) {
    const char *name = tdm_tensor_list_name(golden->list, i);
    const size_t length = strcspn(name, "/") + 1;
    count += strncmp(last, name, length) != 0; /* tensors of a case are adjacent */
    last = name;
  }
  return count;
}

tdm_tensor_list *golden_parameters(const golden_file *golden, const char *case_name) {
  return golden_list(golden, case_name, "parameter");
}

tdm_tensor_list *golden_list(const golden_file *golden, const char *case_name, const char *kind) {
  tdm_tensor_list *list = tdm_tensor_list_create(golden->context);
  assert_non_null(list);
  for (size_t i = 0; i < tdm_tensor_list_count(golden->list); i++) {
    const char *name = golden_suffix(tdm_tensor_list_name(golden->list, i), case_name, kind);
    if (!name) continue;
    assert_int_equal(tdm_tensor_list_add(list, name, tdm_tensor_list_tensor(golden->list, i)),
                     TDM_OK);
  }
  return list;
}

static double value_at(const void *data, tdm_dtype dtype, size_t index) {
  switch (dtype) {
  case TDM_FLOAT32:
    return (double)((const float *)data)[index];
  case TDM_FLOAT64:
    return ((const double *)data)[index];
  case TDM_INT32:
    return (double)((const int32_t *)data)[index];
  case TDM_INT64:
    return (double)((const int64_t *)data)[index];
  default:
    fail_msg("no values of dtype %s", tdm_dtype_name(dtype));
    return 0.0;
  }
}

double *tensor_values(const tdm_tensor *tensor, size_t *out_count) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  const size_t count = (size_t)tdm_shape_count(&shape);
  const size_t bytes = tdm_tensor_bytes(tensor);
  void *data = malloc(bytes + 1);
  double *values = malloc((count + 1) * sizeof *values);
  assert_non_null(data);
  assert_non_null(values);
  if (tdm_tensor_read(tensor, data, bytes) != TDM_OK) fail_msg("%s", tdm_last_message());
  for (size_t i = 0; i < count; i++)
    values[i] = value_at(data, tdm_tensor_dtype(tensor), i);
  free(data);
  *out_count = count;
  return values;
}

void golden_compare(const char *case_name, const char *name, const tdm_tensor *found,
                    const tdm_tensor *wanted, double tolerance) {
  const tdm_shape found_shape = tdm_tensor_shape(found);
  const tdm_shape wanted_shape = tdm_tensor_shape(wanted);
  char found_text[TDM_SHAPE_TEXT];
  char wanted_text[TDM_SHAPE_TEXT];
  if (!tdm_shape_equal(&found_shape, &wanted_shape))
    fail_msg("%s %s is %s, must be %s", case_name, name,
             tdm_shape_text(&found_shape, found_text, sizeof found_text),
             tdm_shape_text(&wanted_shape, wanted_text, sizeof wanted_text));
  size_t count;
  double *a = tensor_values(found, &count);
  double *b = tensor_values(wanted, &count);
  double difference = 0.0;
  double largest = 0.0;
  for (size_t i = 0; i < count; i++) {
    const double apart = fabs(a[i] - b[i]);
    if (!(apart <= difference) && !isnan(difference)) difference = apart; /* a NaN stays */
    largest = fmax(largest, fabs(b[i]));
  }
  free(a);
  free(b);
  if (!(difference <= tolerance * largest))
    fail_msg("%s %s: differs by %g, largest element %g, tolerance %g", case_name, name, difference,
             largest, tolerance);
}
