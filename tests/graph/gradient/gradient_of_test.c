/* Gradients as values: of parameters, inputs and activations, with an update and without one,
 * placed, in parallel regions and in micro-batches. For accelerators of TEST_KIND. Invariant:
 * with a rate of 1 and no momentum a step subtracts exactly its gradient from a parameter, bit
 * for bit. */
#include <math.h>
#include <stdlib.h>

#include "tests/graph/group.h"
#include "tests/options.h"

#define FIRST TEST_KIND ":0"
#define SECOND TEST_KIND ":1"

enum { ROWS = 7, WIDTH = 5, HIDDEN = 6, CLASSES = 3 };

/* ---- A model, and its requested gradients ---------------------------------------------------- */

/* Placement of the model: "net/hidden" on first, "net/head" on second (NULL: none), or "net", or
 * with `all` also the loss, wrapped over devices. */
typedef struct layout {
  const char *first;
  const char *second;
  const char *devices;
  bool all;
  tdm_session_options options;
} layout;

static const char *const outputs[] = {"d_x",    "d_hidden", "d_tanh", "d_scale",
                                      "d_bias", "d_head",   "d_loss", "loss"};
enum { D_X, D_HIDDEN, D_TANH, D_SCALE, D_BIAS, D_HEAD, D_LOSS, LOSS };

static void ask(tdm_graph *graph, const char *name, tdm_value loss, tdm_value value) {
  tdm_output(graph, name, tdm_gradient_of(graph, name, loss, value));
}

/* x (batch, WIDTH) -> hidden -> tanh, times exp of a parameter, which no rows reach -> head -> mse
 * with y. */
static tdm_session *model(const layout *how, bool trains) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = tdm_dim_named("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, CLASSES));
  tdm_scope_push(graph, "net");
  if (how->first) tdm_place(graph, how->first);
  const tdm_value linear = tdm_linear(graph, "hidden", x, HIDDEN);
  const tdm_value tanh = tdm_tanh(graph, "tanh", linear);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -1, 1, -1};
  const tdm_value log_scale =
      tdm_parameter(graph, "log_scale", TDM_FLOAT32, tdm_shape_of(1, HIDDEN), &uniform);
  const tdm_value scale = tdm_exp(graph, "scale", log_scale);
  if (how->second) tdm_place(graph, how->second);
  const tdm_value head = tdm_linear(graph, "head", tdm_mul(graph, "scaled", tanh, scale), CLASSES);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "mse", head, y);
  ask(graph, "d_x", loss, x);
  ask(graph, "d_hidden", loss, tdm_get_parameter(graph, "net/hidden.weight"));
  ask(graph, "d_tanh", loss, tanh);
  ask(graph, "d_scale", loss, scale);
  if (how->devices) {
    const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = how->devices);
    tdm_data_parallel(graph, how->all ? "" : "net", &options);
  }
  ask(graph, "d_bias", loss, tdm_get_parameter(graph, "net/hidden.bias"));
  ask(graph, "d_head", loss, head);
  ask(graph, "d_loss", loss, loss);
  tdm_output(graph, "loss", loss);
  tdm_session_options options = how->options;
  if (options.struct_size == 0) { /* a row that sets none */
    options = tdm_session_options_default();
    options.store = how->options.store;
  }
  options.seed = 4;
  return trains ? train_session(graph, loss, tdm_sgd(1.0), &options) : run_session(graph, &options);
}

static tdm_tensor *drawn(int64_t rows, int64_t width, uint64_t seed) {
  return tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, width), seed);
}

typedef struct gradients {
  tdm_fetch fetches[TDM_COUNT_OF(outputs)];
} gradients;

static gradients take(tdm_session *session, bool trains, uint64_t seed) {
  tdm_tensor *x = drawn(ROWS, WIDTH, seed);
  tdm_tensor *y = drawn(ROWS, CLASSES, seed + 100);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  gradients found;
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++)
    found.fetches[i] = (tdm_fetch){.name = outputs[i]};
  const size_t count = TDM_COUNT_OF(outputs);
  const tdm_status status = trains ? tdm_train_step(session, feeds, 2, found.fetches, count, NULL)
                                   : tdm_run(session, feeds, 2, found.fetches, count);
  assert_ok(status);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  return found;
}

static const float *numbers_of(const gradients *of, int which) {
  return tdm_tensor_data(of->fetches[which].tensor);
}

static void let_go(gradients *of) {
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++)
    tdm_tensor_release(of->fetches[i].tensor);
}

static void assert_near(const char *name, const tdm_tensor *one, const tdm_tensor *other,
                        double tolerance) {
  assert_int_equal(tdm_tensor_bytes(one), tdm_tensor_bytes(other));
  const float *p = tdm_tensor_data(one);
  const float *q = tdm_tensor_data(other);
  double most = 0, apart = 0;
  for (size_t k = 0; k < tdm_tensor_bytes(one) / sizeof(float); k++) {
    most = fmax(most, fabs((double)q[k]));
    apart = fmax(apart, fabs((double)p[k] - (double)q[k]));
  }
  if (!(apart <= tolerance * most)) fail_msg("%s: %g of %g", name, apart, most);
  assert_true(most > 0);
}

static void assert_alike(const gradients *a, const gradients *b, double tolerance) {
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++)
    assert_near(outputs[i], a->fetches[i].tensor, b->fetches[i].tensor, tolerance);
}

/* The difference that the step made in the parameter is exactly the gradient. */
static void assert_applied(const tdm_tensor_list *before, const tdm_tensor_list *after,
                           const char *name, const float *gradient) {
  const tdm_tensor *old = tdm_tensor_list_find(before, name);
  const float *had = tdm_tensor_data(old);
  const float *has = tdm_tensor_data(tdm_tensor_list_find(after, name));
  for (size_t k = 0; k < tdm_tensor_bytes(old) / sizeof(float); k++) {
    const float wanted = had[k] - gradient[k];
    if (memcmp(&has[k], &wanted, sizeof wanted) != 0)
      fail_msg("%s[%zu]: %.9g, and %.9g less %.9g", name, k, (double)has[k], (double)had[k],
               (double)gradient[k]);
  }
}

/* Trains three steps. Each has the gradients of a separate run, close to those of `plain`. */
static void check_layout(const layout *how, const layout *plain) {
  tdm_session *trained = model(how, true);
  layout beside = *how;
  beside.options.store = tdm_session_store(trained);
  tdm_session *asked = model(&beside, false);
  layout shared = *plain;
  shared.options.store = beside.options.store;
  tdm_session *wanted = model(&shared, false);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    gradients want = take(wanted, false, seed);
    gradients without = take(asked, false, seed);
    gradients evaluated = take(trained, false, seed);
    tdm_tensor_list *before = state_of(trained);
    gradients found = take(trained, true, seed);
    tdm_tensor_list *after = state_of(trained);
    assert_applied(before, after, "net/hidden.weight", numbers_of(&found, D_HIDDEN));
    assert_applied(before, after, "net/hidden.bias", numbers_of(&found, D_BIAS));
    assert_alike(&found, &want, 1e-4);
    assert_alike(&without, &found, how->options.collective >= TDM_COLLECTIVE_RING ? 1e-5 : 0);
    assert_alike(&evaluated, &without, 0);
    assert_true(numbers_of(&found, D_LOSS)[0] == 1.0F);
    tdm_tensor_list_release(before);
    tdm_tensor_list_release(after);
    let_go(&want);
    let_go(&without);
    let_go(&evaluated);
    let_go(&found);
  }
  tdm_session_release(trained);
  tdm_session_release(asked);
  tdm_session_release(wanted);
}

static void gradients_are_what_training_applies(void **unused) {
  (void)unused;
  const layout plain = {0};
  const layout layouts[] = {
      plain,
      {.first = FIRST, .second = "cpu:1"},
      {.first = FIRST,
       .second = SECOND,
       .options = OPTIONS(tdm_session_options, o.unfused = true, o.unmerged = true)},
      {.devices = FIRST "," SECOND},
      {.devices = "cpu:0," FIRST "," SECOND,
       .options = OPTIONS(tdm_session_options, o.deterministic = true)},
      {.devices = FIRST "," SECOND,
       .options = OPTIONS(tdm_session_options, o.collective = TDM_COLLECTIVE_CHAIN)},
      {.devices = FIRST "," SECOND,
       .options = OPTIONS(tdm_session_options, o.collective = TDM_COLLECTIVE_RING)},
      {.devices = "cpu:0,cpu:1",
       .options = OPTIONS(tdm_session_options, o.collective = TDM_COLLECTIVE_TREE)},
      {.first = FIRST,
       .second = "cpu:1",
       .options = OPTIONS(tdm_session_options, o.micro_batches = 3)},
      {.devices = FIRST "," SECOND, .options = OPTIONS(tdm_session_options, o.micro_batches = 2)},
      {.devices = FIRST, .options = OPTIONS(tdm_session_options, o.micro_batches = 3, o.depth = 3)},
      {.devices = FIRST "," SECOND, .all = true},
      {.devices = "cpu:1,cpu:0," SECOND,
       .all = true,
       .options = OPTIONS(tdm_session_options, o.deterministic = true)},
      {.devices = FIRST "," SECOND,
       .all = true,
       .options = OPTIONS(tdm_session_options, o.micro_batches = 2)},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(layouts); i++)
    check_layout(&layouts[i], &plain);
}

/* A gradient that is fetched together with an update does not change the update. */
static void a_fetched_gradient_changes_no_bit_of_training(void **unused) {
  (void)unused;
  const layout layouts[] = {{.first = FIRST, .second = "cpu:1"}, {.devices = FIRST "," SECOND}};
  for (size_t i = 0; i < TDM_COUNT_OF(layouts); i++) {
    tdm_session *with = model(&layouts[i], true);
    tdm_session *plain = model(&layouts[i], true);
    for (uint64_t seed = 1; seed <= 3; seed++) {
      gradients found = take(with, true, seed);
      let_go(&found);
      tdm_tensor *x = drawn(ROWS, WIDTH, seed);
      tdm_tensor *y = drawn(ROWS, CLASSES, seed + 100);
      const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
      assert_ok(tdm_train_step(plain, feeds, 2, NULL, 0, NULL));
      tdm_tensor_release(x);
      tdm_tensor_release(y);
    }
    tdm_tensor_list *a = state_of(with);
    tdm_tensor_list *b = state_of(plain);
    assert_same_state(a, b);
    tdm_tensor_list_release(a);
    tdm_tensor_list_release(b);
    tdm_session_release(with);
    tdm_session_release(plain);
  }
}

/* ---- Gradients that are not requested cost nothing ------------------------------------------- */

static size_t backward_nodes(tdm_session *session, const char *name) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  size_t count = 0;
  for (char *line = text, *rest = text; (line = strtok_r(rest, "\n", &rest));)
    count += strstr(line, "(backward)") && strstr(line, name);
  free(text);
  return count;
}

static void prepare(tdm_session *session, const char *output) {
  tdm_tensor *x = drawn(ROWS, WIDTH, 1);
  tdm_tensor *y = drawn(ROWS, CLASSES, 2);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  const tdm_fetch fetch = {.name = output};
  assert_ok(tdm_session_prepare(session, feeds, 2, &fetch, 1, false));
  tdm_tensor_release(x);
  tdm_tensor_release(y);
}

static void what_nobody_asks_for_is_not_computed(void **unused) {
  (void)unused;
  const layout plain = {.options = OPTIONS(tdm_session_options, o.unfused = true)};
  tdm_session *session = model(&plain, true);
  prepare(session, "loss");
  assert_int_equal(backward_nodes(session, ""), 0);
  prepare(session, "d_head");
  assert_int_equal(backward_nodes(session, "net/"), 0);
  assert_true(backward_nodes(session, "mse") > 0);
  prepare(session, "d_tanh");
  assert_true(backward_nodes(session, "net/scaled") > 0);
  assert_int_equal(backward_nodes(session, "net/hidden"), 0);
  assert_int_equal(backward_nodes(session, "net/tanh"), 0);
  prepare(session, "d_x");
  assert_true(backward_nodes(session, "net/hidden") > 0);
  tdm_session_release(session);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The gradient of a table is dense, and equals the one that a sparse update applies. */
static void a_table_has_a_dense_gradient(void **unused) {
  (void)unused;
  enum { TABLE = 9, DIM = 4, IDS = 6 };
  static const char *const wraps[] = {NULL, FIRST "," SECOND};
  for (size_t w = 0; w < TDM_COUNT_OF(wraps); w++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
    const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
    const tdm_value rows = tdm_embedding_with(graph, "table", ids, TABLE, DIM, &sparse);
    const tdm_value out = tdm_tanh(graph, "tanh", rows);
    const tdm_value loss =
        tdm_sum(graph, "sum", tdm_mul(graph, "squares", out, out), NULL, 0, false);
    ask(graph, "d_table", loss, tdm_get_parameter(graph, "table.weight"));
    ask(graph, "d_rows", loss, rows);
    if (wraps[w]) {
      const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = wraps[w]);
      tdm_data_parallel(graph, "table,tanh", &options);
    }
    tdm_session *session = train_session(graph, loss, tdm_sgd(1.0), NULL);
    const int64_t at[IDS] = {3, 0, 3, 8, 1, 3};
    tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, IDS), at);
    const tdm_feed feed = {"ids", fed, false};
    tdm_fetch fetches[] = {{.name = "d_table"}, {.name = "d_rows"}};
    tdm_tensor_list *before = state_of(session);
    assert_ok(tdm_train_step(session, &feed, 1, fetches, 2, NULL));
    tdm_tensor_list *after = state_of(session);
    const float *d_table = tdm_tensor_data(fetches[0].tensor);
    const float *d_rows = tdm_tensor_data(fetches[1].tensor);
    assert_applied(before, after, "table.weight", d_table);
    for (int64_t r = 0; r < TABLE; r++)
      for (int64_t d = 0; d < DIM; d++) {
        double sum = 0;
        for (int i = 0; i < IDS; i++)
          sum += at[i] == r ? (double)d_rows[i * DIM + d] : 0;
        assert_true(fabs(sum - (double)d_table[r * DIM + d]) <= 1e-6 + 1e-5 * fabs(sum));
      }
    tdm_tensor_list_release(before);
    tdm_tensor_list_release(after);
    for (int i = 0; i < 2; i++)
      tdm_tensor_release(fetches[i].tensor);
    tdm_tensor_release(fed);
    tdm_session_release(session);
  }
}

/* A table that is tied to a layer's weight: of rows that are picked, and of a product. */
static tdm_session *tied(bool sparse, const char *devices, int micro_batches) {
  enum { TABLE = 9, DIM = 4 };
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = sparse);
  tdm_scope_push(graph, "net");
  const tdm_value rows = tdm_embedding_with(graph, "table", ids, TABLE, DIM, &options);
  tdm_tie(graph, "head", "table");
  const tdm_value out =
      tdm_linear_without_bias(graph, "head", tdm_tanh(graph, "tanh", rows), TABLE);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", out, ids);
  ask(graph, "d_table", loss, tdm_get_parameter(graph, "net/table.weight"));
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (devices) tdm_data_parallel(graph, "net", &wrap);
  tdm_session_options training =
      OPTIONS(tdm_session_options, o.micro_batches = OR_ONE(micro_batches));
  return train_session(graph, loss, tdm_adam(0.1), &training);
}

static void a_table_that_is_also_a_weight_has_a_dense_gradient(void **unused) {
  (void)unused;
  static const char *const wraps[] = {NULL, FIRST "," SECOND};
  const int64_t at[] = {3, 0, 3, 8, 1, 3};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 6), at);
  const tdm_feed feed = {"ids", fed, false};
  for (int i = 0; i < 4; i++) {
    tdm_tensor_list *states[2];
    tdm_tensor *found[2];
    for (int sparse = 0; sparse < 2; sparse++) {
      tdm_session *session = tied(sparse != 0, wraps[i / 2], i % 2 ? 3 : 1);
      tdm_fetch fetch = {.name = "d_table"};
      for (int step = 0; step < 3; step++) {
        tdm_tensor_release(fetch.tensor);
        assert_ok(tdm_train_step(session, &feed, 1, &fetch, 1, NULL));
      }
      found[sparse] = fetch.tensor;
      states[sparse] = state_of(session);
      tdm_session_release(session);
    }
    assert_near("d_table", found[1], found[0], 1e-5);
    const tdm_tensor *table = tdm_tensor_list_find(states[0], "net/table.weight");
    assert_near("table", tdm_tensor_list_find(states[1], "net/table.weight"), table, 1e-5);
    for (int sparse = 0; sparse < 2; sparse++) {
      tdm_tensor_list_release(states[sparse]);
      tdm_tensor_release(found[sparse]);
    }
  }
  tdm_tensor_release(fed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_what_training_applies),
      cmocka_unit_test(a_fetched_gradient_changes_no_bit_of_training),
      cmocka_unit_test(what_nobody_asks_for_is_not_computed),
      cmocka_unit_test(a_table_has_a_dense_gradient),
      cmocka_unit_test(a_table_that_is_also_a_weight_has_a_dense_gradient),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
