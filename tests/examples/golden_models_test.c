/* The examples' models against PyTorch's: its weights load by name and give its outputs. The model
 * then saves PyTorch's names, shapes and values, before and after a step of training.
 * tests/golden/example_models.py makes the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/capsule/capsules.h"
#include "examples/capsule/network.h"
#include "examples/char_lm/model.h"
#include "examples/fashion_cnn/network.h"
#include "examples/recommender/model.h"
#include "tandem/tandem.h"
#include "tests/options.h"

#define LEARNING_RATE 0.1 /* learning rate in example_models.py */
#define TOLERANCE 2e-5    /* limit relative to the largest element, for float32 sums */

enum { MOST_FEEDS = 4, MOST_OUTPUTS = 4, NAME_BYTES = 128 };

/* One model under test: a file, a graph, where its layers live. */
typedef struct golden_model {
  const char *name;
  const char *const *inputs; /* the last is only fed when training; ended by NULL */
  const char *const *outputs;
  tdm_status (*prepare)(tdm_context *context);
  /* Declares the outputs; returns the loss. */
  tdm_value (*describe)(tdm_graph *graph, const tdm_value *inputs, const char *accelerator,
                        const char *parallel, tdm_value *out_outputs);
} golden_model;

typedef struct open_model {
  const golden_model *model;
  tdm_context *context;
  tdm_tensor_list *golden;
  tdm_graph *graph;
  tdm_session *session;
} open_model;

static tdm_tensor *golden_tensor(const open_model *opened, const char *kind, const char *name) {
  char full[NAME_BYTES];
  (void)snprintf(full, sizeof full, "%s%s", kind, name);
  tdm_tensor *tensor = tdm_tensor_list_find(opened->golden, full);
  if (!tensor) fail_msg("%s has no %s", opened->model->name, full);
  return tensor;
}

static void compare(const open_model *opened, const char *name, const tdm_tensor *found,
                    const tdm_tensor *wanted) {
  const tdm_shape shapes[] = {tdm_tensor_shape(found), tdm_tensor_shape(wanted)};
  if (!tdm_shape_equal(&shapes[0], &shapes[1]) ||
      tdm_tensor_dtype(found) != tdm_tensor_dtype(wanted))
    fail_msg("%s: %s is of another shape or dtype than PyTorch's", opened->model->name, name);
  if (tdm_tensor_dtype(found) != TDM_FLOAT32) {
    assert_memory_equal(tdm_tensor_data(found), tdm_tensor_data(wanted), tdm_tensor_bytes(found));
    return;
  }
  const float *a = tdm_tensor_data(found);
  const float *b = tdm_tensor_data(wanted);
  float largest = 0;
  float difference = 0;
  for (int64_t i = 0; i < tdm_shape_count(&shapes[0]); i++) {
    largest = fmaxf(largest, fabsf(b[i]));
    difference = isnan(a[i]) ? INFINITY : fmaxf(difference, fabsf(a[i] - b[i]));
  }
  if (difference > TOLERANCE * largest)
    fail_msg("%s: %s differs from PyTorch's by %g of %g", opened->model->name, name,
             (double)difference, (double)largest);
}

static bool is_parameter(const char *name) {
  static const char *const others[] = {"input.", "output.", "stepped.", "loss"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strncmp(name, others[i], strlen(others[i])) == 0) return false;
  return true;
}

/* Everything that the model saves, against the file's tensors of that kind; none is missing. */
static void compare_state(const open_model *opened, const char *kind) {
  tdm_tensor_list *saved;
  assert_int_equal(tdm_session_state_dict(opened->session, NULL, &saved), TDM_OK);
  size_t parameter_count = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(opened->golden); i++)
    parameter_count += is_parameter(tdm_tensor_list_name(opened->golden, i));
  assert_int_equal(tdm_tensor_list_count(saved), parameter_count);
  for (size_t i = 0; i < tdm_tensor_list_count(saved); i++) {
    const char *name = tdm_tensor_list_name(saved, i);
    compare(opened, name, tdm_tensor_list_tensor(saved, i), golden_tensor(opened, kind, name));
  }
  tdm_tensor_list_release(saved);
}

static size_t fill_feeds(const open_model *opened, tdm_feed *feeds) {
  size_t count = 0;
  for (const char *const *name = opened->model->inputs; *name; name++)
    feeds[count++] = (tdm_feed){*name, golden_tensor(opened, "input.", *name), false};
  return count;
}

static void open_golden(open_model *opened, const golden_model *model, bool accelerated,
                        const char *parallel) {
  const tdm_context_options two = OPTIONS(tdm_context_options, o.cpu_devices = 2);
  *opened = (open_model){.model = model, .context = tdm_context_create(&two)};
  assert_non_null(opened->context);
  if (model->prepare) assert_int_equal(model->prepare(opened->context), TDM_OK);
  char path[NAME_BYTES];
  (void)snprintf(path, sizeof path, "tests/golden/models/example_%s_float32.safetensors",
                 model->name);
  opened->golden = tdm_safetensors_load(opened->context, path);
  if (!opened->golden) fail_msg("%s", tdm_last_message());
  opened->graph = tdm_graph_create(opened->context);
  tdm_value inputs[MOST_FEEDS];
  tdm_value outputs[MOST_OUTPUTS];
  for (size_t i = 0; model->inputs[i]; i++) {
    const tdm_tensor *given = golden_tensor(opened, "input.", model->inputs[i]);
    inputs[i] = tdm_input(opened->graph, model->inputs[i], tdm_tensor_dtype(given),
                          tdm_tensor_shape(given));
  }
  const tdm_optimizer sgd = tdm_sgd(LEARNING_RATE);
  const char *accelerator = !accelerated ? NULL
                            : tdm_is_available(opened->context, "cuda")
                                ? tdm_accelerator(opened->context)
                                : tdm_simulator(opened->context);
  const tdm_session_options options =
      OPTIONS(tdm_session_options,
              o.loss = model->describe(opened->graph, inputs, accelerator, parallel, outputs),
              o.optimizer = &sgd);
  for (size_t i = 0; model->outputs[i]; i++)
    tdm_output(opened->graph, model->outputs[i], outputs[i]);
  opened->session = tdm_session_create(opened->graph, &options);
  if (!opened->session) fail_msg("%s: %s", model->name, tdm_last_message());
  static const tdm_name_rule others[] = {
      {NULL, "input."}, {NULL, "output."}, {NULL, "stepped."}, {NULL, "loss"}};
  const tdm_state_dict_options parameters =
      OPTIONS(tdm_state_dict_options, o.rules = others, o.rule_count = 4);
  if (tdm_session_load_state_dict(opened->session, opened->golden, &parameters) != TDM_OK)
    fail_msg("%s", tdm_last_message());
}

static void close_golden(open_model *opened) {
  tdm_session_release(opened->session);
  tdm_graph_release(opened->graph);
  tdm_tensor_list_release(opened->golden);
  tdm_context_release(opened->context);
}

static void check_outputs(const open_model *opened) {
  tdm_feed feeds[MOST_FEEDS];
  tdm_fetch fetches[MOST_OUTPUTS];
  const size_t feed_count = fill_feeds(opened, feeds);
  size_t count = 0;
  for (const char *const *name = opened->model->outputs; *name; name++)
    fetches[count++] = (tdm_fetch){*name, NULL};
  if (tdm_run(opened->session, feeds, feed_count - 1, fetches, count) != TDM_OK)
    fail_msg("%s: %s", opened->model->name, tdm_last_message());
  for (size_t i = 0; i < count; i++) {
    compare(opened, fetches[i].name, fetches[i].tensor,
            golden_tensor(opened, "output.", fetches[i].name));
    tdm_tensor_release(fetches[i].tensor);
  }
}

/* If PyTorch's file has the result of a step: compares the loss and every parameter after it. */
static void check_step(const open_model *opened) {
  tdm_feed feeds[MOST_FEEDS];
  const size_t feed_count = fill_feeds(opened, feeds);
  double loss = 0;
  if (tdm_train_step(opened->session, feeds, feed_count, NULL, 0, &loss) != TDM_OK)
    fail_msg("%s: %s", opened->model->name, tdm_last_message());
  const float wanted = *(const float *)tdm_tensor_data(golden_tensor(opened, "loss", ""));
  assert_true(fabs(loss - (double)wanted) <= TOLERANCE * fabs((double)wanted));
  compare_state(opened, "stepped.");
}

static void check_model(const golden_model *model, bool steps) {
  static const struct {
    bool accelerated;
    const char *parallel;
  } placements[] = {{false, NULL}, {true, NULL}, {false, "cpu:0,cpu:1"}};
  for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
    open_model opened;
    open_golden(&opened, model, placements[i].accelerated, placements[i].parallel);
    compare_state(&opened, "");
    check_outputs(&opened);
    if (steps) check_step(&opened);
    close_golden(&opened);
  }
}

/* ---- The models ------------------------------------------------------------------------------ */

static const char *const image_inputs[] = {"images", "classes", NULL};
static const char *const image_outputs[] = {"scores", NULL};

static tdm_value describe_fashion(tdm_graph *graph, const tdm_value *inputs,
                                  const char *accelerator, const char *parallel,
                                  tdm_value *out_outputs) {
  const fashion_network_sizes sizes = {.image = 8, .channels = {2, 3}, .hidden = 5, .classes = 4};
  return fashion_network_describe(graph, &sizes, inputs[0], inputs[1], accelerator, parallel,
                                  out_outputs);
}

static void fashion_cnn_is_pytorchs(void **state) {
  (void)state;
  const golden_model model = {"fashion_cnn", image_inputs, image_outputs, NULL, describe_fashion};
  check_model(&model, false);
}

static tdm_value describe_capsule(tdm_graph *graph, const tdm_value *inputs,
                                  const char *accelerator, const char *parallel,
                                  tdm_value *out_outputs) {
  const capsule_network_sizes sizes = {.kernel = 3, .channels = 3, .types = 2, .classes = 3};
  return capsule_network_describe(graph, &sizes, inputs[0], inputs[1], accelerator, parallel,
                                  out_outputs);
}

static void capsule_is_pytorchs(void **state) {
  (void)state;
  const golden_model model = {"capsule", image_inputs, image_outputs, capsules_register,
                              describe_capsule};
  check_model(&model, true);
}

static tdm_value describe_characters(tdm_graph *graph, const tdm_value *inputs,
                                     const char *accelerator, const char *parallel,
                                     tdm_value *out_outputs) {
  const char_model_sizes sizes = {.characters = 7, .embedding = 3, .hidden = 4, .layers = 2};
  const char_model_values made = char_model_describe(graph, &sizes, inputs[0], inputs[3], inputs[1],
                                                     inputs[2], accelerator, parallel);
  out_outputs[0] = made.scores;
  out_outputs[1] = made.h_n;
  out_outputs[2] = made.c_n;
  return made.loss;
}

static void char_lm_is_pytorchs(void **state) {
  (void)state;
  static const char *const inputs[] = {"characters", "h0", "c0", "targets", NULL};
  static const char *const outputs[] = {"scores", "h_n", "c_n", NULL};
  const golden_model model = {"char_lm", inputs, outputs, NULL, describe_characters};
  check_model(&model, true);
}

static recommender_sizes recommender = {
    .tables = 3, .rows = 5, .lookups = 2, .dim = 4, .hidden = 6};

static tdm_value describe_recommender(tdm_graph *graph, const tdm_value *inputs,
                                      const char *accelerator, const char *parallel,
                                      tdm_value *out_outputs) {
  return recommender_describe(graph, &recommender, inputs[0], inputs[1], inputs[2], accelerator,
                              parallel, out_outputs);
}

static void check_recommender(const char *shards, bool whole_tables) {
  static const char *const inputs[] = {"dense", "ids", "click", NULL};
  static const char *const outputs[] = {"logits", NULL};
  const golden_model model = {"recommender", inputs, outputs, NULL, describe_recommender};
  recommender.shards = shards;
  recommender.whole_tables = whole_tables;
  check_model(&model, true);
}

static void recommender_is_pytorchs(void **state) {
  (void)state;
  check_recommender(NULL, false);
}

static void recommender_with_sharded_tables_is_pytorchs(void **state) {
  (void)state;
  check_recommender("cpu:0,sim:0", false);
  check_recommender("sim:0,cpu:0", true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fashion_cnn_is_pytorchs),
      cmocka_unit_test(capsule_is_pytorchs),
      cmocka_unit_test(char_lm_is_pytorchs),
      cmocka_unit_test(recommender_is_pytorchs),
      cmocka_unit_test(recommender_with_sharded_tables_is_pytorchs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
