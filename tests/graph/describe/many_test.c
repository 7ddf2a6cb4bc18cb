/* Thousands of each named thing in a graph: declarations, inputs, fetches, ties, kept values and
 * parallel regions are found among all others. Nothing is timed; if searches were linear, kept
 * values and regions would take a minute each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/graph/support.h"
#include "tests/options.h"

static tdm_context *context;

static int open_context(void **unused) {
  (void)unused;
  context = graph_context();
  return context ? 0 : -1;
}

static int close_context(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

enum { MANY = 12000, REGIONS = 3000, NAME_BYTES = 24 };

typedef struct names {
  char text[MANY][NAME_BYTES];
} names;

static names *numbered(const char *format) {
  names *made = malloc(sizeof *made);
  assert_non_null(made);
  for (int i = 0; i < MANY; i++)
    (void)snprintf(made->text[i], NAME_BYTES, format, i);
  return made;
}

static tdm_value pairs(tdm_graph *graph, const char *name) {
  return tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(1, 2));
}

/* Output i is input i + input 0; fed and fetched from the last to the first, and half of them
 * twice, so that some are copied for their caller. */
static void inputs_and_outputs_come_in_any_order(void **unused) {
  (void)unused;
  names *in = numbered("in%d");
  names *out = numbered("out%d");
  names *again = numbered("again%d");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value first = pairs(graph, in->text[0]);
  for (int i = 1; i < MANY; i++) {
    const tdm_value sum = tdm_add(graph, NULL, pairs(graph, in->text[i]), first);
    tdm_output(graph, out->text[i], sum);
    if (i % 2) tdm_output(graph, again->text[i], sum);
  }
  tdm_session *session = run_session(graph, NULL);
  tdm_feed *feeds = calloc(MANY, sizeof *feeds);
  tdm_fetch *fetches = calloc(2 * MANY, sizeof *fetches);
  assert_true(feeds && fetches);
  size_t count = 0;
  for (int i = 0; i < MANY; i++) {
    const float values[2] = {(float)i, 1};
    feeds[MANY - 1 - i] = (tdm_feed){
        in->text[i], tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 2), values), false};
  }
  for (int i = MANY - 1; i > 0; i--) {
    fetches[count++].name = out->text[i];
    if (i % 2) fetches[count++].name = again->text[i];
  }
  assert_int_equal(tdm_run(session, feeds, MANY, fetches, count), TDM_OK);
  for (size_t k = 0; k < count; k++) {
    const int number = atoi(fetches[k].name + (fetches[k].name[0] == 'a' ? 5 : 3));
    const float *values = tdm_tensor_data(fetches[k].tensor);
    assert_true(values[0] == (float)number && values[1] == 2);
    tdm_tensor_release(fetches[k].tensor);
  }
  for (int i = 0; i < MANY; i++)
    tdm_tensor_release(feeds[i].tensor);
  free(feeds);
  free(fetches);
  tdm_session_release(session);
  free(in);
  free(out);
  free(again);
}

static void a_name_is_declared_once_among_many(void **unused) {
  (void)unused;
  names *in = numbered("in%d");
  tdm_graph *graph = tdm_graph_create(context);
  for (int i = 0; i < MANY; i++)
    tdm_output(graph, in->text[i], pairs(graph, in->text[i]));
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  (void)pairs(graph, "in7");
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "input in7 is declared twice");
  tdm_graph_release(graph);
  free(in);
}

/* The latest tie counts, of a layer or of a scope above it. A tied layer has the other's value. */
static void layers_are_tied(void **unused) {
  (void)unused;
  names *layers = numbered("block/layer%d");
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, 2));
  x = tdm_linear(graph, "older", x, 2);
  x = tdm_linear(graph, "base", x, 2);
  x = tdm_linear(graph, "other", x, 2);
  tdm_tie(graph, "block/layer5", "older");
  for (int i = 0; i < MANY; i++)
    tdm_tie(graph, layers->text[i], "base");
  tdm_tie(graph, "block/layer9.bias", "other.bias");
  for (int i = 0; i < MANY; i++)
    x = tdm_linear(graph, layers->text[i], x, 2);
  x = tdm_linear(graph, "block/layer", x, 2); /* its name is a prefix of all others */
  tdm_output(graph, "y", x);
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_list *dict;
  assert_int_equal(tdm_session_state_dict(session, NULL, &dict), TDM_OK);
  assert_int_equal(tdm_tensor_list_count(dict), 8); /* each parameter by one of its names */
  tdm_tensor_list_release(dict);
  const tdm_state_dict_options all = OPTIONS(tdm_state_dict_options, o.every_tied_name = true);
  assert_int_equal(tdm_session_state_dict(session, &all, &dict), TDM_OK);
  assert_int_equal(tdm_tensor_list_count(dict), 8 + 2 * MANY);
  assert_same_tensor(tdm_tensor_list_find(dict, "block.layer5.weight"),
                     tdm_tensor_list_find(dict, "base.weight"));
  assert_same_tensor(tdm_tensor_list_find(dict, "block.layer9.weight"),
                     tdm_tensor_list_find(dict, "base.weight"));
  assert_same_tensor(tdm_tensor_list_find(dict, "block.layer9.bias"),
                     tdm_tensor_list_find(dict, "other.bias"));
  tdm_tensor_list_release(dict);
  tdm_session_release(session);
  free(layers);
}

static void values_are_kept(void **unused) {
  (void)unused;
  names *kepts = numbered("kept%d");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = pairs(graph, "x");
  for (int i = 0; i < MANY; i++) {
    const tdm_value kept = tdm_kept(graph, kepts->text[i], TDM_FLOAT32, tdm_shape_of(1, 2));
    const tdm_value sum = tdm_add(graph, NULL, kept, x);
    tdm_keep(graph, "next", kept, sum);
    if (i == MANY - 1) tdm_output(graph, "last", sum);
  }
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  const float one[2] = {1, 2};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 2), one);
  const tdm_feed feed = {"x", fed, false};
  for (int run = 0; run < 3; run++) {
    tdm_fetch fetch = {"last", NULL};
    assert_int_equal(tdm_sequence_run(sequence, &feed, 1, &fetch, 1), TDM_OK);
    assert_true(tdm_tensor_item(fetch.tensor, 1) == 2 * (run + 1));
    tdm_tensor_release(fetch.tensor);
  }
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  free(kepts);
}

/* Wraps each layer in a region, and then all of these in one region. */
static void parallel_regions_are_made(void **unused) {
  (void)unused;
  names *layers = numbered("layer%d");
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1");
  for (int i = 0; i < REGIONS; i++) {
    x = tdm_relu(graph, layers->text[i], x);
    tdm_data_parallel(graph, layers->text[i], &options);
  }
  tdm_data_parallel(graph, "", &options);
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  tdm_data_parallel(graph, "layer3,layer4,no such layer", &options);
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  tdm_graph_release(graph);
  free(layers);
}

/* ---- Views of views -------------------------------------------------------------------------- */

enum { VIEWS = 60000, STACK_BYTES = 1 << 20 };

/* Plans views: x (1), seen as (1, 1) and as (1) repeatedly. */
static void *plan_views(void *session) {
  const float one = 1;
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 1), &one);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetch = {.name = "y"};
  const tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
  const bool is_right = status == TDM_OK && *(const float *)tdm_tensor_data(fetch.tensor) == 2;
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  return is_right ? session : NULL;
}

/* However long a chain of them is, a small stack is enough. */
static void views_show_views(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value seen = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 1));
  for (int i = 0; i < VIEWS; i++)
    seen = tdm_reshape(graph, NULL, seen, i % 2 ? tdm_shape_of(1, 1) : tdm_shape_of(2, 1, 1));
  tdm_output(graph, "y", tdm_add(graph, "twice", seen, seen));
  tdm_session *session = run_session(graph, NULL);
  pthread_attr_t small;
  pthread_t thread;
  void *right = NULL;
  assert_int_equal(pthread_attr_init(&small), 0);
  assert_int_equal(pthread_attr_setstacksize(&small, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &small, plan_views, session), 0);
  assert_int_equal(pthread_join(thread, &right), 0);
  assert_non_null(right);
  (void)pthread_attr_destroy(&small);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inputs_and_outputs_come_in_any_order),
      cmocka_unit_test(a_name_is_declared_once_among_many),
      cmocka_unit_test(layers_are_tied),
      cmocka_unit_test(values_are_kept),
      cmocka_unit_test(parallel_regions_are_made),
      cmocka_unit_test(views_show_views),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
