/* Parts wrapped by the values at their boundary: the same as wrapping by scope where both can say
 * it, and what only this can say; sets of nodes that are no part are refused by name. */

#define GROUP_CONTEXT graph_context_of(3, 3)
#include "graph/ir/ir.h"
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 6 };

/* ---- A model: x -> a -> b -> c, plus a; -> d -> y, against x --------------------------------- */

typedef struct skip_model {
  tdm_graph *graph;
  tdm_value x, a, b, c, sum, d; /* (batch, WIDTH) */
} skip_model;

static tdm_value layer(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_tanh(graph, name, tdm_linear(graph, name, x, WIDTH));
}

/* The part will be part/b, part/c and part/sum. */
static skip_model build(void) {
  skip_model model = {.graph = tdm_graph_create(context)};
  tdm_graph *graph = model.graph;
  tdm_place(graph, "cpu:0");
  model.x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  model.a = layer(graph, "a", model.x);
  tdm_scope_push(graph, "part");
  model.b = layer(graph, "b", model.a);
  model.c = layer(graph, "c", model.b);
  model.sum = tdm_add(graph, "sum", model.c, model.a); /* a enters twice */
  tdm_scope_pop(graph);
  model.d = layer(graph, "d", model.sum);
  tdm_output(graph, "y", model.d);
  return model;
}

static void wrap_scope(tdm_graph *graph, const char *scope, const char *devices) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, scope, &options);
}

static void wrap_between(tdm_graph *graph, tdm_value from, tdm_value to, const char *devices) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel_between(graph, &from, 1, &to, 1, &options);
}

/* Trains three steps on `rows` rows, then fetches y; takes the graph. */
static tdm_tensor_list *train(skip_model model, int64_t rows, tdm_tensor **out_y) {
  const tdm_value loss = tdm_mse(model.graph, "loss", model.d, model.x);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 9, o.deterministic = true);
  tdm_session *session = train_session(model.graph, loss, tdm_adam(0.02), &options);
  tdm_tensor *fed = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH),
                                       (uint64_t)rows, -1, 1);
  const tdm_feed feed = {"x", fed, false};
  for (int i = 0; i < 3; i++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  *out_y = y.tensor;
  tdm_tensor_list *state = state_of(session);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return state;
}

static void expect_same(skip_model one, skip_model other, int64_t rows) {
  tdm_tensor *one_y;
  tdm_tensor *other_y;
  tdm_tensor_list *one_state = train(one, rows, &one_y);
  tdm_tensor_list *other_state = train(other, rows, &other_y);
  assert_same_tensor(one_y, other_y);
  assert_same_state(one_state, other_state);
  tdm_tensor_release(one_y);
  tdm_tensor_release(other_y);
  tdm_tensor_list_release(one_state);
  tdm_tensor_list_release(other_state);
}

/* ---- Accepted boundaries --------------------------------------------------------------------- */

static void it_is_what_the_scope_would_be(void **unused) {
  (void)unused;
  static const char *const lists[] = {"cpu:0,sim:0,cpu:1", "sim:2,sim:1", "cpu:1"};
  for (size_t k = 0; k < TDM_COUNT_OF(lists); k++)
    for (int64_t rows = 1; rows <= 9; rows += 4) {
      skip_model scope = build();
      wrap_scope(scope.graph, "part", lists[k]);
      skip_model between = build();
      wrap_between(between.graph, between.a, between.sum, lists[k]);
      expect_same(between, scope, rows);
    }
}

/* A part that no scope is: from inside one scope to outside of it; two values enter. */
static void it_may_cross_scopes(void **unused) {
  (void)unused;
  for (int64_t rows = 2; rows <= 10; rows += 4) {
    skip_model parts[2];
    for (int i = 0; i < 2; i++) {
      parts[i] = build();
      const tdm_value inputs[] = {parts[i].b, parts[i].a};
      const tdm_scatter scatter = {parts[i].a, -2};
      const tdm_parallel_options options =
          OPTIONS(tdm_parallel_options, o.devices = i ? "cpu:0,cpu:0,cpu:0" : "sim:0,cpu:2,sim:1",
                  o.output_device = i ? NULL : "sim:2", o.scatter = &scatter, o.scatter_count = 1);
      tdm_data_parallel_between(parts[i].graph, inputs, 2, &parts[i].d, 1, &options);
    }
    expect_same(parts[0], parts[1], rows);
  }
}

/* A value that leaves in the middle, and is read outside of the region, is gathered too if it is
 * named. */
static void several_values_may_leave(void **unused) {
  (void)unused;
  skip_model parts[2];
  for (int i = 0; i < 2; i++) {
    parts[i] = build();
    const tdm_value outputs[] = {parts[i].c, parts[i].b};
    tdm_output(parts[i].graph, "b", parts[i].b);
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = i ? "cpu:0,cpu:0" : "sim:0,cpu:2");
    tdm_data_parallel_between(parts[i].graph, &parts[i].a, 1, outputs, 2, &options);
  }
  expect_same(parts[0], parts[1], 5);
}

/* Between within a scope that is wrapped, around one, and around a part with the same nodes. */
static void it_nests_with_scopes(void **unused) {
  (void)unused;
  static const char *const spread[] = {"cpu:0,sim:1", "sim:0,cpu:1,sim:2"};
  static const char *const together[] = {"cpu:0,cpu:0", "cpu:0,cpu:0,cpu:0"};
  for (int order = 0; order < 3; order++) {
    skip_model parts[2];
    for (int i = 0; i < 2; i++) {
      parts[i] = build();
      const char *const *lists = i ? spread : together;
      tdm_graph *graph = parts[i].graph;
      if (order == 0) wrap_scope(graph, "part", lists[0]);
      if (order == 1) wrap_scope(graph, "part/c", lists[1]);
      if (order == 2) wrap_between(graph, parts[i].x, parts[i].d, lists[0]);
      wrap_between(graph, order == 1 ? parts[i].x : parts[i].a,
                   order == 1 ? parts[i].d : parts[i].b, lists[order != 1]);
      /* around "part/b" only, inside the outer region */
      if (order == 2) wrap_scope(graph, "part", lists[0]);
      assert_ok(tdm_graph_status(graph));
    }
    expect_same(parts[0], parts[1], 11);
  }
}

/* ---- Refused boundaries ---------------------------------------------------------------------- */

/* Expects that a region between the values is refused with all of these words. Takes the graph. */
static void expect_refused(skip_model model, const tdm_value *inputs, size_t input_count,
                           const tdm_value *outputs, size_t output_count, const char *a,
                           const char *b) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1");
  tdm_data_parallel_between(model.graph, inputs, input_count, outputs, output_count, &options);
  assert_status(tdm_graph_status(model.graph), TDM_INVALID_ARGUMENT);
  assert_message("data parallel over ");
  assert_message(a);
  assert_message(b);
  assert_null(tdm_session_create(model.graph, NULL)); /* it sticks */
  assert_message(a);
  tdm_graph_release(model.graph);
}

/* A skip connection that bypasses the inputs, or leaves without being an output. */
static void what_crosses_unnamed_is_refused(void **unused) {
  (void)unused;
  skip_model model = build();
  expect_refused(model, &model.b, 1, &model.sum, 1, "part/sum reads a,", "enters it");
  model = build();
  const tdm_value more =
      tdm_input(model.graph, "more", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value shifted = tdm_add(model.graph, "shifted", model.b, more);
  expect_refused(model, &model.b, 1, &shifted, 1, "shifted reads more,", "enters it");
  model = build();
  (void)layer(model.graph, "beside", model.b);
  expect_refused(model, &model.a, 1, &model.sum, 1, "beside reads part/b,", "leaves it");
  model = build();
  tdm_output(model.graph, "c", model.c);
  expect_refused(model, &model.a, 1, &model.sum, 1, "output of the graph reads part/c,", "leaves");
}

static void sets_that_are_not_convex_are_refused(void **unused) {
  (void)unused;
  skip_model model = build(); /* d needs sum, which is after b and before e */
  const tdm_value e = layer(model.graph, "e", model.sum);
  const tdm_value f = tdm_add(model.graph, "f", tdm_add(model.graph, "g", e, model.sum), model.b);
  const tdm_value inputs[] = {model.b, e};
  expect_refused(model, inputs, 2, &f, 1, "not convex: part/sum", "g reads it");
  model = build();
  const tdm_value ends[] = {model.a, model.c};
  expect_refused(model, ends, 2, &model.b, 1, "not convex: part/b", "needed for a value");
}

static void boundaries_that_are_none_are_refused(void **unused) {
  (void)unused;
  skip_model model = build();
  expect_refused(model, &model.sum, 1, &model.a, 1, "a is named as leaving it", "before it");
  model = build();
  expect_refused(model, NULL, 0, &model.x, 1, "x is named as leaving it", "no node makes it");
  model = build();
  const tdm_value inputs[] = {model.a, model.x};
  expect_refused(model, inputs, 2, &model.sum, 1, "x is named as entering it", "nothing in it");
  model = build();
  const tdm_value turned[] = {model.x, model.a};
  expect_refused(model, turned, 2, &model.sum, 1, "x is named as entering it", "nothing in it");
  model = build();
  expect_refused(model, &model.a, 1, NULL, 0, "no output", "..");
  model = build();
  const tdm_value strange = {0, 0};
  expect_refused(model, &strange, 1, &model.sum, 1, "input 0 is no value", "part/sum");
  model = build();
  const tdm_value beyond = {model.x.graph, 100000};
  expect_refused(model, &model.a, 1, &beyond, 1, "output 0 is no value", "a..");
}

static void scattering_what_does_not_enter_is_refused(void **unused) {
  (void)unused;
  skip_model model = build();
  const tdm_scatter scatter = {model.x, 0};
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1",
                                               o.scatter = &scatter, o.scatter_count = 1);
  tdm_data_parallel_between(model.graph, &model.a, 1, &model.sum, 1, &options);
  assert_status(tdm_graph_status(model.graph), TDM_INVALID_ARGUMENT);
  assert_message("scatter 0");
  tdm_graph_release(model.graph);
}

static void parts_that_overlap_are_refused(void **unused) {
  (void)unused;
  skip_model model = build();
  wrap_scope(model.graph, "a,part/b", "cpu:0,cpu:1");
  expect_refused(model, &model.a, 1, &model.sum, 1,
                 "a part of a,part/b, which is a parallel region", "");
  model = build();
  wrap_between(model.graph, model.a, model.sum, "cpu:0,cpu:1");
  const tdm_value inputs[] = {model.b, model.a};
  expect_refused(model, inputs, 2, &model.d, 1, "a part of a..part/sum", "not all of it");
}

/* One node of two is shared: that is no nesting either. */
static void parts_that_share_one_node_are_refused(void **unused) {
  (void)unused;
  skip_model model = {.graph = tdm_graph_create(context)};
  model.x = tdm_input(model.graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  model.a = tdm_linear(model.graph, "a", model.x, WIDTH);
  model.b = tdm_tanh(model.graph, "b", model.a);
  model.c = tdm_linear(model.graph, "c", model.b, WIDTH);
  wrap_between(model.graph, model.x, model.b, "cpu:0,cpu:1");
  expect_refused(model, &model.a, 1, &model.c, 1, "a part of x..b", "not all of it");
}

/* The same part twice: the first region lies in the second, on whose devices it is cut again. */
static void a_part_may_be_wrapped_twice(void **unused) {
  (void)unused;
  skip_model model = build();
  wrap_between(model.graph, model.a, model.sum, "cpu:0,cpu:1");
  wrap_between(model.graph, model.a, model.sum, "sim:0,sim:1");
  assert_ok(tdm_graph_status(model.graph));
  assert_int_equal(model.graph->parallel_regions.count, 3);
  assert_int_equal(model.graph->parallel_regions.items[1].parent, 2);
  assert_int_equal(model.graph->parallel_regions.items[2].parent, 0);
  tdm_graph_release(model.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_what_the_scope_would_be),
      cmocka_unit_test(it_may_cross_scopes),
      cmocka_unit_test(several_values_may_leave),
      cmocka_unit_test(it_nests_with_scopes),
      cmocka_unit_test(what_crosses_unnamed_is_refused),
      cmocka_unit_test(sets_that_are_not_convex_are_refused),
      cmocka_unit_test(boundaries_that_are_none_are_refused),
      cmocka_unit_test(scattering_what_does_not_enter_is_refused),
      cmocka_unit_test(parts_that_overlap_are_refused),
      cmocka_unit_test(parts_that_share_one_node_are_refused),
      cmocka_unit_test(a_part_may_be_wrapped_twice),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
