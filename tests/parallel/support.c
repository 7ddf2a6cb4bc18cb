/* See support.h. */
#include "tests/parallel/support.h"
#include "tests/options.h"

#include <math.h>
#include <stdlib.h>

tdm_context *context;

int begin_group(void **unused) {
  (void)unused;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 3, o.sim_devices = 2,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return 0;
}

int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

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

/* ---- Comparing ------------------------------------------------------------------------------- */

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
    most = fmax(most, fabs((double)y_data[i]));
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

void assert_unplanned(tdm_session *session, const char *unwanted) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  const char *steps = strstr(text, "\n  edges"); /* names of passes come before */
  assert_non_null(steps);
  if (strstr(steps, unwanted)) fail_msg("\"%s\" is in:\n%s", unwanted, text);
  free(text);
}

/* ---- The model with a part to wrap ----------------------------------------------------------- */

tdm_session *model_session(const test_model *model, const char *devices, const char *output_device,
                           tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, model->x);
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, model->y);
  const tdm_value before = tdm_linear(graph, "before", x, model->x.dims[model->x.rank - 1]);
  tdm_scope_push(graph, "module");
  const tdm_value y = model->build(graph, before);
  tdm_scope_pop(graph);
  const tdm_scatter scatter = {before, model->dimension};
  const tdm_parallel_options wrapped =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.output_device = output_device,
              o.scatter = &scatter, o.scatter_count = 1);
  if (devices) tdm_data_parallel(graph, "module", &wrapped);
  tdm_output(graph, "y", y);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 7, o.store = store);
  return train_session(graph, tdm_mse(graph, "loss", y, target), tdm_sgd(0.1), &options);
}

static tdm_tensor *draw_rows(const test_model *model, tdm_shape shape, int64_t rows,
                             uint64_t seed) {
  shape.dims[model->dimension] = rows;
  return draw(shape, seed);
}

tdm_tensor *model_run(tdm_session *session, const test_model *model, int64_t rows, uint64_t seed) {
  tdm_tensor *x = draw_rows(model, model->x, rows, seed);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  tdm_tensor_release(x);
  return y.tensor;
}

double model_train(tdm_session *session, const test_model *model, int64_t rows, uint64_t seed) {
  tdm_tensor *x = draw_rows(model, model->x, rows, seed);
  tdm_tensor *target = draw_rows(model, model->y, rows, seed + 1000);
  const tdm_feed feeds[] = {{"x", x, false}, {"target", target, false}};
  double loss = 0;
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
  tdm_tensor_release(x);
  tdm_tensor_release(target);
  return loss;
}

void assert_like_plain(const test_model *model, const char *devices, const char *output_device) {
  static const int64_t rows[] = {20, 7, 1, 3, 20};
  tdm_session *plain = model_session(model, NULL, NULL, NULL);
  tdm_session *wrapped = model_session(model, devices, output_device, NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
    tdm_tensor *wanted = model_run(plain, model, rows[i], i);
    tdm_tensor *got = model_run(wrapped, model, rows[i], i);
    assert_near_tensor(got, wanted, i == 0 ? 1e-5 : 1e-4);
    tdm_tensor_release(wanted);
    tdm_tensor_release(got);
    const double loss = model_train(plain, model, rows[i], i);
    assert_true(fabs(model_train(wrapped, model, rows[i], i) - loss) <= 1e-4 * loss);
  }
  tdm_tensor_list *wanted = state_of(plain);
  tdm_tensor_list *got = state_of(wrapped);
  assert_near_state(got, wanted, 1e-4);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(got);
  tdm_session_release(plain);
  tdm_session_release(wrapped);
}

static tdm_status infer_product(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].shape.dims[infer->inputs[0].shape.rank - 1] = infer->inputs[1].shape.dims[0];
  return TDM_OK;
}

tdm_value append_product(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight) {
  static const tdm_operation product = {.struct_size = sizeof(tdm_operation),
                                        .name = "linear",
                                        .min_inputs = 2, /* the third is an optional bias */
                                        .max_inputs = 3,
                                        .output_count = 1,
                                        .infer = infer_product};
  const tdm_value operands[] = {x, weight, {0, 0}};
  return tdm_append(graph, &product, name, NULL, operands, 3, NULL);
}
