/* See support.h. */
#include "tests/parallel/support.h"

#include <math.h>
#include <stdlib.h>

tdm_context *context;

int begin_group(void **unused) {
  (void)unused;
  const tdm_context_options options = {.struct_size = sizeof options,
                                       .cpu_devices = 3,
                                       .sim_devices = 2,
                                       .sim = "latency_us=0,gigabytes_per_second=0"};
  context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return 0;
}

int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* ---- Tensors ---- */

tdm_tensor *draw_on(const char *device, tdm_shape shape, uint64_t seed) {
  tdm_tensor *tensor = tdm_tensor_uniform(context, device, TDM_FLOAT32, shape, seed, -1, 1);
  if (!tensor) fail_msg("no tensor: %s", tdm_last_message());
  return tensor;
}

tdm_tensor *draw(tdm_shape shape, uint64_t seed) {
  return draw_on("cpu:0", shape, seed);
}

tdm_tensor *count_on(const char *device, tdm_dtype dtype, tdm_shape shape) {
  tdm_tensor *numbers = tdm_tensor_create(context, "cpu:0", TDM_INT64, shape);
  assert_non_null(numbers);
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    ((int64_t *)tdm_tensor_data(numbers))[i] = i;
  tdm_tensor *there = tdm_tensor_to(numbers, device, dtype);
  if (!there) fail_msg("no tensor: %s", tdm_last_message());
  tdm_tensor_release(numbers);
  return there;
}

tdm_tensor *to_host(tdm_tensor *tensor) {
  tdm_tensor *here = tdm_tensor_to(tensor, "cpu:0", TDM_DTYPE_NONE);
  if (!here) fail_msg("not moved: %s", tdm_last_message());
  tdm_tensor_release(tensor);
  return here;
}

void release_tensors(tdm_tensor **tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    tdm_tensor_release(tensors[i]);
}

/* ---- Comparing ---- */

void assert_on(const tdm_tensor *tensor, const char *device) {
  assert_non_null(tensor);
  assert_string_equal(tdm_tensor_device(tensor), device);
}

void assert_equal_tensors(tdm_tensor *a, tdm_tensor *b) {
  tdm_tensor *x = to_host(tdm_tensor_retain(a));
  tdm_tensor *y = to_host(tdm_tensor_retain(b));
  assert_same_tensor(x, y);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
}

void assert_near_tensor(tdm_tensor *a, tdm_tensor *b, double tolerance) {
  const tdm_shape a_shape = tdm_tensor_shape(a);
  const tdm_shape b_shape = tdm_tensor_shape(b);
  assert_true(tdm_shape_equal(&a_shape, &b_shape));
  tdm_tensor *x = to_host(tdm_tensor_retain(a));
  tdm_tensor *y = to_host(tdm_tensor_retain(b));
  const float *x_data = tdm_tensor_data(x);
  const float *y_data = tdm_tensor_data(y);
  double most = 0;
  double error = 0;
  for (int64_t i = 0; i < tdm_shape_count(&a_shape); i++) {
    assert_true(isfinite(x_data[i]));
    most = fmax(most, fabs(y_data[i]));
    error = fmax(error, fabs((double)x_data[i] - y_data[i]));
  }
  if (error > tolerance * most) fail_msg("an error of %g, and the most is %g", error, most);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
}

void assert_near_state(const tdm_tensor_list *a, const tdm_tensor_list *b, double tolerance) {
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    if (strncmp(name, "optimizer/", 10) == 0) continue;
    assert_near_tensor(tdm_tensor_list_tensor(a, i), tdm_tensor_list_find(b, name), tolerance);
  }
}

void assert_planned(tdm_session *session, const char *a, const char *b, const char *c) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  char *copy = strdup(text);
  bool found = false;
  char *place = NULL;
  for (char *line = strtok_r(copy, "\n", &place); line; line = strtok_r(NULL, "\n", &place))
    found |= strstr(line, a) && (!b || strstr(line, b)) && (!c || strstr(line, c));
  if (!found) fail_msg("no \"%s\" with \"%s\", \"%s\" in:\n%s", a, b ? b : "", c ? c : "", text);
  free(copy);
  free(text);
}
