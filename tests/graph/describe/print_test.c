/* The printed form of a graph: scopes, shapes, devices, every parameter counted once. */
#include <stdlib.h>
#include <string.h>

#include "tests/graph/group.h"

static void assert_printed(tdm_graph *graph, const char *expected) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_ok(tdm_graph_print(graph, out));
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, expected);
  free(text);
}

static void layers_stand_below_their_scopes(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  assert_printed(graph, "  0 parameters\n");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "embedding", ids, 7, 4);
  tdm_scope_push(graph, "encoder");
  tdm_scope_push(graph, "block1");
  x = tdm_relu(graph, "act", tdm_linear(graph, "fc", x, 3));
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "block2");
  tdm_scope_dtype(graph, TDM_FLOAT64);
  x = tdm_linear_without_bias(graph, "fc", tdm_cast(graph, "wide", x, TDM_FLOAT64), 1);
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
  (void)tdm_tanh(graph, "out", x);
  assert_printed(graph, "  (embedding): embedding -> float32 [batch, 4], on cpu:0, 28 parameters\n"
                        "  (encoder):\n"
                        "    (block1):\n"
                        "      (fc): linear -> float32 [batch, 3], on cpu:0, 15 parameters\n"
                        "      (act): relu -> float32 [batch, 3], on cpu:0\n"
                        "    (block2):\n"
                        "      (wide): cast -> float64 [batch, 3], on cpu:0\n"
                        "      (fc): linear -> float64 [batch, 1], on cpu:0, 3 parameters\n"
                        "  (out): tanh -> float64 [batch, 1], on cpu:0\n"
                        "  46 parameters\n");
  tdm_graph_release(graph);
}

static void shared_parameters_are_counted_once(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 4));
  const tdm_value scale = tdm_parameter(graph, "scale", TDM_FLOAT32, tdm_shape_of(1, 1), NULL);
  (void)tdm_mul(graph, "twice", tdm_mul(graph, "once", x, scale), scale);
  assert_printed(graph, "  (once): mul -> float32 [4], 1 parameter\n"
                        "  (twice): mul -> float32 [4]\n"
                        "  1 parameter\n");
  tdm_graph_release(graph);
}

static void a_graph_that_failed_says_why_instead(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  (void)tdm_relu(graph, "act", (tdm_value){0, 0});
  assert_status(tdm_graph_print(graph, stdout), TDM_INVALID_ARGUMENT);
  assert_message("act");
  assert_status(tdm_graph_print(graph, NULL), TDM_INVALID_ARGUMENT);
  assert_status(tdm_graph_print(NULL, stdout), TDM_INVALID_ARGUMENT);
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_stand_below_their_scopes),
      cmocka_unit_test(shared_parameters_are_counted_once),
      cmocka_unit_test(a_graph_that_failed_says_why_instead),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
