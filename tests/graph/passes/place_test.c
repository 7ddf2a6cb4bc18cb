/* Placement of nodes: the environment, the session's map, the call for a value, the scope, the
 * rules for unplaced nodes, and refused placements. */
#include <stdlib.h>

#include <jansson.h>

#include "tests/graph/support.h"
#include "tests/options.h"

static tdm_context *context; /* context of the test group */

static int begin_group(void **unused) {
  (void)unused;
  assert_int_equal(unsetenv("TANDEM_PLACE"), 0);
  context = graph_context();
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* Builds x -> block1/fc -> block1/act -> block2/fc -> block2/act -> output "out". */
static tdm_graph *blocks(const char *first, const char *second) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_scope_push(graph, "block1");
  if (first) tdm_place(graph, first);
  const tdm_value a = tdm_tanh(graph, "act", tdm_linear(graph, "fc", x, 4));
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "block2");
  if (second) tdm_place(graph, second);
  const tdm_value b = tdm_tanh(graph, "act", tdm_linear(graph, "fc", a, 4));
  tdm_scope_pop(graph);
  tdm_output(graph, "out", b);
  return graph;
}

/* Returns the device of the node of that path and action in the latest plan; NULL when there is
 * none. */
static const char *device_of(json_t *plan, const char *name, const char *action) {
  size_t index;
  json_t *node;
  json_array_foreach(json_object_get(plan, "commands"), index, node) {
    if (strcmp(json_string_value(json_object_get(node, "name")), name) == 0 &&
        strcmp(json_string_value(json_object_get(node, "action")), action) == 0)
      return json_string_value(json_object_get(node, "device"));
  }
  return NULL;
}

static json_t *plan_of(tdm_session *session) {
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 3, 4));
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "out"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  free(text);
  return plan;
}

/* Checks the devices of block1/fc, block1/act, block2/fc, block2/act. */
static void assert_placed(tdm_graph *graph, const char *map, const char *const wanted[4]) {
  const tdm_session_options options = OPTIONS(tdm_session_options, o.device_map = map);
  tdm_session *session = run_session(graph, &options);
  json_t *plan = plan_of(session);
  assert_string_equal(device_of(plan, "block1/fc", "linear"), wanted[0]);
  assert_string_equal(device_of(plan, "block1/act", "tanh"), wanted[1]);
  assert_string_equal(device_of(plan, "block2/fc", "linear"), wanted[2]);
  assert_string_equal(device_of(plan, "block2/act", "tanh"), wanted[3]);
  json_decref(plan);
  tdm_session_release(session);
}

static void assert_map_refused(const char *map, const char *word, const char *other) {
  tdm_graph *graph = blocks(NULL, NULL);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.device_map = map);
  assert_null(tdm_session_create(graph, &options));
  assert_message(word);
  assert_message(other);
  tdm_graph_release(graph);
}

/* ---- Strengths ------------------------------------------------------------------------------- */

static void scopes_place_what_is_made_inside(void **unused) {
  (void)unused;
  assert_placed(blocks("cpu:1", "sim:0"), NULL,
                (const char *const[]){"cpu:1", "cpu:1", "sim:0", "sim:0"});
  assert_placed(blocks("sim:1", NULL), NULL,
                /* placed after its input */
                (const char *const[]){"sim:1", "sim:1", "sim:1", "sim:1"});
  assert_placed(blocks(NULL, NULL), NULL,
                (const char *const[]){"cpu:0", "cpu:0", "cpu:0", "cpu:0"});
}

static void a_kind_places_on_its_first_device(void **unused) {
  (void)unused;
  assert_placed(blocks("sim", "sim:1"), "block2/act=cpu",
                (const char *const[]){"sim:0", "sim:0", "sim:1", "cpu:0"});
}

static void a_placement_ends_with_its_scope(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "sim:0");
  tdm_scope_push(graph, "block1");
  const tdm_value a = tdm_linear(graph, "fc", x, 4); /* inherits the device of the outer scope */
  tdm_place(graph, "cpu:1");
  const tdm_value b = tdm_tanh(graph, "act", a);
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "block2");
  const tdm_value c = tdm_tanh(graph, "act", tdm_linear(graph, "fc", b, 4));
  tdm_scope_pop(graph);
  tdm_output(graph, "out", c);
  assert_placed(graph, NULL, (const char *const[]){"sim:0", "cpu:1", "sim:0", "sim:0"});
}

static void a_values_own_call_is_stronger_than_its_scope(void **unused) {
  (void)unused;
  tdm_graph *graph = blocks("cpu:1", "cpu:1");
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "cpu:1");
  tdm_scope_push(graph, "block1");
  const tdm_value fc = tdm_linear(graph, "fc", x, 4);
  tdm_place_value(graph, fc, "sim:1");
  const tdm_value a = tdm_tanh(graph, "act", fc);
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "block2");
  tdm_output(graph, "out", tdm_tanh(graph, "act", tdm_linear(graph, "fc", a, 4)));
  tdm_scope_pop(graph);
  assert_placed(graph, NULL, (const char *const[]){"sim:1", "cpu:1", "cpu:1", "cpu:1"});
}

static void the_map_is_stronger_and_its_first_match_counts(void **unused) {
  (void)unused;
  assert_placed(blocks("cpu:1", "cpu:1"), "*=sim:0",
                (const char *const[]){"sim:0", "sim:0", "sim:0", "sim:0"});
  assert_placed(blocks("cpu:1", NULL), "block2=sim:0", /* a prefix that ends before '/' */
                (const char *const[]){"cpu:1", "cpu:1", "sim:0", "sim:0"});
  assert_placed(blocks(NULL, NULL), "block2/fc=sim:1,block2=sim:0,*=cpu:1",
                (const char *const[]){"cpu:1", "cpu:1", "sim:1", "sim:0"});
  assert_placed(blocks(NULL, NULL), "*/act=sim:0,block?/fc=cpu:1",
                (const char *const[]){"cpu:1", "sim:0", "cpu:1", "sim:0"});
}

static void names_and_patterns_are_one_order(void **unused) {
  (void)unused;
  assert_placed(blocks(NULL, NULL), "*/fc=sim:1,block1=sim:0,block1/fc=cpu:1,block2/act=cpu:1",
                (const char *const[]){"sim:1", "sim:0", "sim:1", "cpu:1"});
  assert_placed(blocks(NULL, NULL), "block1=sim:0,block1/fc=cpu:1,block1=cpu:1,*/fc=sim:1",
                (const char *const[]){"sim:0", "sim:0", "sim:1", "sim:1"});
  assert_map_refused("block1=sim:0,block=cpu:0,block1=cpu:1", "nothing is named", "'block'");
  assert_map_refused("block3=sim:0,block3=cpu:0", "nothing is named", "'block3'");
}

static void the_environment_is_the_strongest(void **unused) {
  (void)unused;
  assert_int_equal(setenv("TANDEM_PLACE", "block1=sim:1", 1), 0);
  assert_placed(blocks("cpu:1", "cpu:1"), "*=sim:0",
                (const char *const[]){"sim:1", "sim:1", "sim:0", "sim:0"});
  assert_placed(blocks("cpu:1", "cpu:1"), NULL,
                (const char *const[]){"sim:1", "sim:1", "cpu:1", "cpu:1"});
  assert_int_equal(setenv("TANDEM_PLACE", "blok1=sim:1", 1), 0);
  assert_map_refused("*=cpu:0", "nothing is named", "blok1");
  assert_int_equal(unsetenv("TANDEM_PLACE"), 0);
}

/* ---- Refused placements ---------------------------------------------------------------------- */

/* Parameters and inputs go to their first consumer, backward nodes with their forward node, updates
 * with their parameter. */
static void the_rest_follows(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:1", "sim:1", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  (void)train_steps(session, 4, 1);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  assert_string_equal(device_of(plan, "embedding", "embedding"), "cpu:1");
  assert_string_equal(device_of(plan, "embedding", "embedding_gradient"), "cpu:1");
  assert_string_equal(device_of(plan, "embedding.weight", "sgd"), "cpu:1");
  assert_string_equal(device_of(plan, "rnn", "linear_parameter_gradient"), "sim:1");
  assert_string_equal(device_of(plan, "rnn.weight", "sgd"), "sim:1");
  assert_string_equal(device_of(plan, "loss", "cross_entropy"), "sim:1");
  assert_string_equal(device_of(plan, "ids", "boundary transfer"), "cpu:1");
  assert_string_equal(device_of(plan, "targets", "boundary transfer"), "sim:1");
  json_decref(plan);
  free(text);
  tdm_session_release(session);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void entries_that_mean_nothing_are_errors(void **unused) {
  (void)unused;
  assert_map_refused("block3=cpu:0,*=cpu:0", "nothing is named", "block3");
  assert_map_refused("block=cpu:0", "nothing is named", "block");
  assert_map_refused("block1", "NAME=DEVICE", "block1");
  assert_map_refused("=cpu:0", "NAME=DEVICE", "=cpu:0");
  assert_map_refused("block1=", "NAME=DEVICE", "block1");
}

static void devices_that_are_not_there_are_told_with_the_reason(void **unused) {
  (void)unused;
  assert_map_refused("block1=cuda:77", "there is no cuda:77", ": "); /* and why */
  assert_map_refused("block1=sim:9", "sim:9", "2 devices");
  assert_map_refused("block1=gpu:0", "gpu", "no kind");
  assert_map_refused("block1=cpu:", "cpu:", "kind:index");
  tdm_graph *graph = blocks("cuda:77", NULL); /* reported by the layer that requires the device */
  assert_null(tdm_session_create(graph, NULL));
  assert_message("block1/fc: there is no cuda:77");
  tdm_graph_release(graph);
}

static void inputs_cannot_be_placed(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 4));
  tdm_place_value(graph, x, "sim:0");
  tdm_output(graph, "out", x);
  assert_null(tdm_session_create(graph, NULL));
  assert_message("x: inputs and parameters follow their consumer");
  tdm_graph_release(graph);
}

static tdm_status infer_same(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static void a_missing_kernel_names_the_node(void **unused) {
  (void)unused;
  static const tdm_operation operation = {.struct_size = sizeof(tdm_operation),
                                          .name = "frobnicate",
                                          .min_inputs = 1,
                                          .max_inputs = 1,
                                          .output_count = 1,
                                          .infer = infer_same};
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 4));
  tdm_scope_push(graph, "deep");
  tdm_place(graph, "sim:1");
  tdm_output(graph, "out", tdm_append(graph, &operation, "odd", NULL, &x, 1, NULL));
  assert_null(tdm_session_create(graph, NULL));
  assert_message("deep/odd");
  assert_message("sim:1");
  assert_message("frobnicate");
  assert_message("float32");
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scopes_place_what_is_made_inside),
      cmocka_unit_test(a_kind_places_on_its_first_device),
      cmocka_unit_test(a_placement_ends_with_its_scope),
      cmocka_unit_test(a_values_own_call_is_stronger_than_its_scope),
      cmocka_unit_test(the_map_is_stronger_and_its_first_match_counts),
      cmocka_unit_test(names_and_patterns_are_one_order),
      cmocka_unit_test(the_environment_is_the_strongest),
      cmocka_unit_test(the_rest_follows),
      cmocka_unit_test(entries_that_mean_nothing_are_errors),
      cmocka_unit_test(devices_that_are_not_there_are_told_with_the_reason),
      cmocka_unit_test(inputs_cannot_be_placed),
      cmocka_unit_test(a_missing_kernel_names_the_node),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
