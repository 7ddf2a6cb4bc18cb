/* The gradients of the capsules' operations against central differences, in float64, through a
 * whole network of them, on the CPU, mixed, wrapped and in micro-batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "examples/capsule/capsules.h"
#include "examples/capsule/network.h"
#include "tandem/tandem.h"
#include "tests/options.h"

#define STEP 1e-5
#define TOLERANCE 1e-8 /* STEP squared, and rounding, 1e-16 / STEP */

enum { ROWS = 3, IMAGE = 9, CLASSES = 3, CHECKED = 24 }; /* elements of each parameter */

typedef struct fixture {
  tdm_context *context;
  tdm_graph *graph;
  tdm_session *session;
  tdm_feed feeds[2];
} fixture;

static void open_network(fixture *self, const char *accelerator, const char *parallel,
                         int micro_batches) {
  const tdm_context_options two = OPTIONS(tdm_context_options, o.cpu_devices = 2);
  *self = (fixture){.context = tdm_context_create(&two)};
  assert_int_equal(capsules_register(self->context), TDM_OK);
  self->graph = tdm_graph_create(self->context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value images =
      tdm_input(self->graph, "images", TDM_FLOAT64, tdm_shape_of(4, batch, 1, IMAGE, IMAGE));
  const tdm_value classes = tdm_input(self->graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  const capsule_network_sizes sizes = {.kernel = 3, .channels = 3, .types = 2, .classes = CLASSES};
  tdm_value scores;
  tdm_scope_dtype(self->graph, TDM_FLOAT64);
  const tdm_value loss = capsule_network_describe(self->graph, &sizes, images, classes, accelerator,
                                                  parallel, &scores);
  tdm_output(self->graph, "loss", loss);
  const tdm_optimizer sgd = tdm_sgd(1.0); /* a step subtracts the gradient itself */
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd, o.seed = 3,
              o.micro_batches = OR_ONE(micro_batches));
  self->session = tdm_session_create(self->graph, &options);
  if (!self->session) fail_msg("%s", tdm_last_message());
  const int64_t right[ROWS] = {2, 0, 1};
  self->feeds[0] =
      (tdm_feed){"images",
                 tdm_tensor_uniform(self->context, "cpu:0", TDM_FLOAT64,
                                    tdm_shape_of(4, ROWS, 1, IMAGE, IMAGE), 7, -2.0, 2.0),
                 false};
  self->feeds[1] = (tdm_feed){
      "classes", tdm_tensor_from(self->context, TDM_INT64, tdm_shape_of(1, ROWS), right), false};
}

static void close_network(fixture *self) {
  tdm_tensor_release(self->feeds[0].tensor);
  tdm_tensor_release(self->feeds[1].tensor);
  tdm_session_release(self->session);
  tdm_graph_release(self->graph);
  tdm_context_release(self->context);
}

static tdm_tensor_list *parameters_of(fixture *self) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(self->session), false);
  assert_non_null(list);
  return list;
}

static double loss_now(fixture *self) {
  tdm_fetch fetch = {"loss", NULL};
  if (tdm_run(self->session, self->feeds, 2, &fetch, 1) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  const double loss = *(const double *)tdm_tensor_data(fetch.tensor);
  tdm_tensor_release(fetch.tensor);
  return loss;
}

/* Returns the loss with element `index` of a parameter moved by `by`. list has the parameters. */
static double loss_with(fixture *self, tdm_tensor_list *list, size_t parameter, int64_t index,
                        double by) {
  double *values = tdm_tensor_data(tdm_tensor_list_tensor(list, parameter));
  const double value = values[index];
  values[index] = value + by;
  assert_int_equal(tdm_store_load(tdm_session_store(self->session), list), TDM_OK);
  values[index] = value;
  return loss_now(self);
}

/* Some elements of each parameter. `after` is the result of a step from `before`. */
static void check_gradients(fixture *self, tdm_tensor_list *before, const tdm_tensor_list *after) {
  for (size_t i = 0; i < tdm_tensor_list_count(before); i++) {
    const tdm_shape shape = tdm_tensor_shape(tdm_tensor_list_tensor(before, i));
    const double *was = tdm_tensor_data(tdm_tensor_list_tensor(before, i));
    const double *is = tdm_tensor_data(tdm_tensor_list_tensor(after, i));
    const int64_t count = tdm_shape_count(&shape);
    const int64_t stride = count / CHECKED + 1;
    double largest = 0;
    for (int64_t at = 0; at < count; at += stride) {
      const double slope =
          (loss_with(self, before, i, at, STEP) - loss_with(self, before, i, at, -STEP)) /
          (2 * STEP);
      largest = fmax(largest, fabs(slope));
      if (!(fabs(slope - (was[at] - is[at])) <= TOLERANCE))
        fail_msg("%s[%lld]: the gradient is %.10g, differences say %.10g",
                 tdm_tensor_list_name(before, i), (long long)at, was[at] - is[at], slope);
    }
    if (largest < 100 * TOLERANCE)
      fail_msg("%s: gradients of %g prove nothing", tdm_tensor_list_name(before, i), largest);
  }
}

static void gradients_are_slopes(void **state) {
  (void)state;
  static const struct {
    bool accelerated;
    const char *parallel;
    int micro_batches;
  } ways[] = {{false, NULL, 0}, {true, NULL, 2}, {false, "cpu:0,cpu:1", 0}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    fixture self;
    open_network(&self, ways[i].accelerated ? "sim:0" : NULL, ways[i].parallel,
                 ways[i].micro_batches);
    tdm_tensor_list *before = parameters_of(&self);
    double loss = 0;
    if (tdm_train_step(self.session, self.feeds, 2, NULL, 0, &loss) != TDM_OK)
      fail_msg("%s", tdm_last_message());
    tdm_tensor_list *after = parameters_of(&self);
    check_gradients(&self, before, after);
    tdm_tensor_list_release(after);
    tdm_tensor_list_release(before);
    close_network(&self);
  }
}

/* ---- Loss in parts of parts ------------------------------------------------------------------ */

static double margin_loss(const char *devices, int micro_batches) {
  enum { LENGTHS_OF = 8 };
  const tdm_context_options two = OPTIONS(tdm_context_options, o.cpu_devices = 2);
  tdm_context *context = tdm_context_create(&two);
  assert_int_equal(capsules_register(context), TDM_OK);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value lengths =
      tdm_input(graph, "lengths", TDM_FLOAT64, tdm_shape_of(2, batch, CLASSES));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  tdm_output(graph, "loss", capsule_margin(graph, "margin", lengths, classes));
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (devices) tdm_data_parallel(graph, "margin", &wrapped);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = OR_ONE(micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  const int64_t right[LENGTHS_OF] = {2, 0, 1, 1, 0, 2, 2, 1};
  const tdm_feed feeds[] = {
      {"lengths",
       tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT64, tdm_shape_of(2, LENGTHS_OF, CLASSES), 5,
                          0.0, 1.0),
       false},
      {"classes", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, LENGTHS_OF), right), false}};
  tdm_fetch fetch = {"loss", NULL};
  if (tdm_run(session, feeds, 2, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  const double loss = tdm_tensor_item(fetch.tensor, 0);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(feeds[0].tensor);
  tdm_tensor_release(feeds[1].tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return loss;
}

static void a_loss_in_parts_is_that_of_the_whole_batch(void **state) {
  (void)state;
  const double whole = margin_loss(NULL, 0);
  static const struct {
    const char *devices;
    int micro_batches;
  } ways[] = {{NULL, 4}, {"cpu:0,cpu:1", 0}, {"cpu:0,cpu:1", 2}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const double loss = margin_loss(ways[i].devices, ways[i].micro_batches);
    if (!(fabs(loss - whole) <= 1e-12)) fail_msg("way %zu: %.15g, not %.15g", i, loss, whole);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_slopes),
                                     cmocka_unit_test(a_loss_in_parts_is_that_of_the_whole_batch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
