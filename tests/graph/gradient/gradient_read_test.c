/* Values computed from gradients: read by other layers, as constants in a loss, of models in
 * evaluation, summed over runs; and refused requests. For accelerators of TEST_KIND. */
#include <math.h>

#include "tests/graph/group.h"
#include "tests/options.h"

#define FIRST TEST_KIND ":0"

enum { ROWS = 7, WIDTH = 5, HIDDEN = 6, CLASSES = 3 };

static tdm_tensor *drawn(int64_t rows, int64_t width, uint64_t seed) {
  return tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, width), seed);
}

static void ask(tdm_graph *graph, const char *name, tdm_value loss, tdm_value value) {
  tdm_output(graph, name, tdm_gradient_of(graph, name, loss, value));
}

/* ---- Read on
 * ---------------------------------------------------------------------------------
 */

/* The loss, and the squares of d loss / d x summed on another device: added to the trained loss
 * with a weight, as constants, or only fetched. */
static tdm_graph *penalized(bool detached, double weight, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, ROWS, CLASSES));
  tdm_place(graph, FIRST);
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "hidden", x, HIDDEN));
  const tdm_value head = tdm_linear(graph, "head", hidden, CLASSES);
  const tdm_value loss = tdm_mse(graph, "mse", head, y);
  tdm_value d_x = tdm_gradient_of(graph, "d_x", loss, x);
  tdm_place(graph, "cpu:1");
  if (detached) d_x = tdm_detach(graph, "numbers", d_x);
  const tdm_value squares = tdm_mul(graph, "squares", d_x, d_x);
  const tdm_value penalty = tdm_sum(graph, "penalty", squares, NULL, 0, false);
  tdm_output(graph, "d_x", d_x);
  tdm_output(graph, "penalty", penalty);
  *out_loss = weight == 0 ? loss
                          : tdm_add(graph, "both", loss,
                                    tdm_mul_scalar(graph, "weighted", penalty, weight));
  return graph;
}

static void a_gradient_is_read_like_any_value(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = penalized(false, 0, &loss);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *x = drawn(ROWS, WIDTH, 1);
  tdm_tensor *y = drawn(ROWS, CLASSES, 2);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  tdm_fetch fetches[] = {{.name = "d_x"}, {.name = "penalty"}};
  assert_ok(tdm_run(session, feeds, 2, fetches, 2));
  const float *d_x = tdm_tensor_data(fetches[0].tensor);
  double wanted = 0;
  for (int i = 0; i < ROWS * WIDTH; i++)
    wanted += (double)d_x[i] * (double)d_x[i];
  assert_true(wanted > 0);
  const double found = (double)*(const float *)tdm_tensor_data(fetches[1].tensor);
  assert_true(fabs(found - wanted) < 1e-5 * wanted);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(fetches[i].tensor);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  tdm_session_release(session);
}

static tdm_tensor_list *trained_with(bool detached, double weight, double *out_loss) {
  tdm_value loss;
  tdm_graph *graph = penalized(detached, weight, &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), NULL);
  tdm_tensor *x = drawn(ROWS, WIDTH, 1);
  tdm_tensor *y = drawn(ROWS, CLASSES, 2);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  for (int i = 0; i < 3; i++)
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, out_loss));
  tdm_tensor_list *state = state_of(session);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  tdm_session_release(session);
  return state;
}

/* A gradient that is read as a constant adds to the loss, and nothing to the loss's gradient. */
static void a_detached_gradient_may_be_part_of_a_loss(void **unused) {
  (void)unused;
  double alone, both;
  tdm_tensor_list *plain = trained_with(false, 0, &alone);
  tdm_tensor_list *with = trained_with(true, 10, &both);
  assert_same_state(plain, with);
  assert_true(both > alone);
  tdm_tensor_list_release(plain);
  tdm_tensor_list_release(with);
}

static void assert_said(const char *text) {
  if (!strstr(tdm_last_message(), text)) fail_msg("\"%s\" lacks %s", tdm_last_message(), text);
}

static void a_gradient_is_not_differentiated_again(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = penalized(false, 10, &loss);
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd);
  assert_null(tdm_session_create(graph, &options));
  assert_said("d_x");
  assert_said("differentiated again");
  tdm_graph_release(graph);
  graph = penalized(false, 10, &loss);
  (void)tdm_gradient_of(graph, "again", loss, tdm_get_parameter(graph, "hidden.weight"));
  assert_int_equal(tdm_graph_status(graph), TDM_UNSUPPORTED);
  assert_said("again");
  assert_said("d_x");
  tdm_graph_release(graph);
}

/* ---- Refused
 * ---------------------------------------------------------------------------------
 */

typedef void (*mistake)(tdm_graph *graph, tdm_value x, tdm_value loss);

static void ask_of_ids(tdm_graph *graph, tdm_value x, tdm_value loss) {
  (void)x;
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 2));
  (void)tdm_gradient_of(graph, "d", loss, ids);
}

static void ask_of_another(tdm_graph *graph, tdm_value x, tdm_value loss) {
  (void)tdm_gradient_of(graph, "d", loss, tdm_relu(graph, "aside", x));
}

static void ask_through_numbers(tdm_graph *graph, tdm_value x, tdm_value loss) {
  const tdm_value apart = tdm_detach(graph, "apart", x);
  const tdm_value sum = tdm_sum(graph, "sum", apart, NULL, 0, false);
  (void)tdm_gradient_of(graph, "d", tdm_add(graph, "both", sum, tdm_detach(graph, "l", loss)), x);
}

static void ask_of_rows(tdm_graph *graph, tdm_value x, tdm_value loss) {
  (void)loss;
  (void)tdm_gradient_of(graph, "d", tdm_relu(graph, "relu", x), x);
}

static void ask_of_nothing(tdm_graph *graph, tdm_value x, tdm_value loss) {
  (void)x;
  (void)tdm_gradient_of(graph, "d", loss, (tdm_value){0, 0});
}

static void ask_for_no_parameter(tdm_graph *graph, tdm_value x, tdm_value loss) {
  (void)x;
  (void)tdm_gradient_of(graph, "d", loss, tdm_get_parameter(graph, "fc.wieght"));
}

static void what_has_no_gradient_is_refused_by_name(void **unused) {
  (void)unused;
  static const struct {
    mistake make;
    const char *says;
    const char *says_too;
  } mistakes[] = {
      {ask_of_ids, "int64", "gradient_of d"},
      {ask_of_another, "does not depend on aside", "mean"},
      {ask_through_numbers, "does not depend on x", "both"},
      {ask_of_rows, "must be a floating number", "gradient_of d"},
      {ask_of_nothing, "not a value", "d"},
      {ask_for_no_parameter, "fc.wieght", "did you mean 'fc.weight'"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(mistakes); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2, 3));
    const tdm_value y = tdm_linear(graph, "fc", x, 2);
    mistakes[i].make(graph, x, tdm_mean(graph, "mean", y, NULL, 0, false));
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    assert_said(mistakes[i].says);
    assert_said(mistakes[i].says_too);
    tdm_graph_release(graph);
  }
}

/* ---- Models as they are evaluated
 * ------------------------------------------------------------ */

/* x (4, 3, 5) -> batch normalization, dropout, LSTM, GRU -> the sum of squares;
 * in float64. */
static tdm_session *evaluated(void) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, FIRST);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(3, 4, 3, 5));
  const tdm_value normal = tdm_batch_norm(graph, "bn", x);
  const tdm_value kept = tdm_dropout(graph, "dropout", normal, 0.5);
  const tdm_value lstm = tdm_lstm(graph, "lstm", kept, 4, NULL, NULL, NULL);
  const tdm_value gru = tdm_gru(graph, "gru", lstm, 4, NULL, NULL);
  const tdm_value loss = tdm_sum(graph, "sum", tdm_mul(graph, "squares", gru, gru), NULL, 0, false);
  tdm_output(graph, "loss", loss);
  ask(graph, "d_x", loss, x);
  ask(graph, "d_weight", loss, tdm_get_parameter(graph, "bn.weight"));
  ask(graph, "d_bias", loss, tdm_get_parameter(graph, "bn.bias"));
  return run_session(graph, NULL);
}

static double loss_of(tdm_session *session, tdm_tensor *x) {
  tdm_fetch fetch = {.name = "loss"};
  const tdm_feed feed = {"x", x, false};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  const double loss = *(const double *)tdm_tensor_data(fetch.tensor);
  tdm_tensor_release(fetch.tensor);
  return loss;
}

/* Loads `shift` more of one element, or (NULL) of x; the difference that it
 * makes. */
static double loss_with(tdm_session *session, tdm_tensor *x, const char *name, size_t k,
                        double shift) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), false);
  double *numbers = tdm_tensor_data(name ? (tdm_tensor *)tdm_tensor_list_find(list, name) : x);
  numbers[k] += shift;
  if (name) assert_ok(tdm_store_load(tdm_session_store(session), list));
  const double loss = loss_of(session, x);
  numbers[k] -= shift;
  if (name) assert_ok(tdm_store_load(tdm_session_store(session), list));
  tdm_tensor_list_release(list);
  return loss;
}

static void models_are_differentiated_as_they_are_evaluated(void **unused) {
  (void)unused;
  static const char *const names[] = {NULL, "bn.weight", "bn.bias"};
  tdm_session *session = evaluated();
  tdm_tensor *x = tdm_tensor_randn(context, "cpu:0", TDM_FLOAT64, tdm_shape_of(3, 4, 3, 5), 3);
  tdm_fetch fetches[] = {{.name = "d_x"}, {.name = "d_weight"}, {.name = "d_bias"}};
  const tdm_feed feed = {"x", x, false};
  assert_ok(tdm_run(session, &feed, 1, fetches, 3));
  for (size_t n = 0; n < 3; n++) {
    const double *found = tdm_tensor_data(fetches[n].tensor);
    double most = 0;
    for (size_t k = 0; k < tdm_tensor_bytes(fetches[n].tensor) / sizeof(double); k++) {
      const double step = 1e-5;
      const double wanted =
          (loss_with(session, x, names[n], k, step) - loss_with(session, x, names[n], k, -step)) /
          (2 * step);
      most = fmax(most, fabs(wanted));
      if (!(fabs(found[k] - wanted) < 1e-7)) fail_msg("%zu[%zu]: %g, %g", n, k, found[k], wanted);
    }
    assert_true(most > 1e-4);
    tdm_tensor_release(fetches[n].tensor);
  }
  tdm_tensor_release(x);
  tdm_session_release(session);
}

/* ---- Over runs
 * -------------------------------------------------------------------------------
 */

/* Sums like those of backward() in .grad: a sequence keeps the sum on the parameter's device. */
static void gradients_are_summed_up_over_runs(void **unused) {
  (void)unused;
  enum { RUNS = 4 };
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  tdm_place(graph, FIRST);
  const tdm_value y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", x, HIDDEN));
  const tdm_value loss = tdm_sum(graph, "sum", tdm_mul(graph, "squares", y, y), NULL, 0, false);
  const tdm_value weight = tdm_get_parameter(graph, "fc.weight");
  const tdm_value d_weight = tdm_gradient_of(graph, "d_weight", loss, weight);
  const tdm_value kept = tdm_kept(graph, "grad", TDM_FLOAT32, tdm_shape_of(2, HIDDEN, WIDTH));
  const tdm_value total = tdm_add(graph, "add", kept, d_weight);
  tdm_keep(graph, "keep", kept, total);
  tdm_output(graph, "d_weight", d_weight);
  tdm_output(graph, "total", total);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  float wanted[HIDDEN * WIDTH] = {0};
  for (uint64_t i = 0; i < RUNS; i++) {
    tdm_tensor *fed = drawn(ROWS, WIDTH, i);
    const tdm_feed feed = {"x", fed, false};
    tdm_fetch fetches[] = {{.name = "d_weight"}, {.name = "total"}};
    assert_ok(tdm_sequence_run(sequence, &feed, 1, fetches, 2));
    for (int k = 0; k < HIDDEN * WIDTH; k++)
      wanted[k] += ((const float *)tdm_tensor_data(fetches[0].tensor))[k];
    assert_memory_equal(tdm_tensor_data(fetches[1].tensor), wanted, sizeof wanted);
    for (int k = 0; k < 2; k++)
      tdm_tensor_release(fetches[k].tensor);
    tdm_tensor_release(fed);
  }
  tdm_tensor *grad;
  assert_ok(tdm_sequence_get(sequence, "grad", &grad));
  assert_memory_equal(tdm_tensor_data(grad), wanted, sizeof wanted);
  tdm_tensor_release(grad);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
}

/* The node that keeps a value comes last, also after a gradient that is only fetched. */
static void a_gradient_that_nobody_reads_stands_beside_what_is_kept(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  tdm_place(graph, FIRST);
  const tdm_value loss = tdm_sum(graph, "sum", tdm_mul(graph, "squares", x, x), NULL, 0, false);
  tdm_output(graph, "d_x", tdm_gradient_of(graph, "d_x", loss, x));
  const tdm_value kept = tdm_kept(graph, "total", TDM_FLOAT32, tdm_shape_scalar());
  const tdm_value total = tdm_add(graph, "add", kept, loss);
  tdm_keep(graph, "keep", kept, total);
  tdm_output(graph, "total", total);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  tdm_tensor *fed = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 2);
  const tdm_feed feed = {"x", fed, false};
  for (int run = 1; run <= 2; run++) {
    tdm_fetch fetches[] = {{.name = "d_x"}, {.name = "total"}};
    assert_ok(tdm_sequence_run(sequence, &feed, 1, fetches, 2));
    assert_true(((const float *)tdm_tensor_data(fetches[0].tensor))[ROWS * WIDTH - 1] == 4);
    assert_true(*(const float *)tdm_tensor_data(fetches[1].tensor) ==
                (float)(run * 4 * ROWS * WIDTH));
    for (int k = 0; k < 2; k++)
      tdm_tensor_release(fetches[k].tensor);
  }
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
}

/* It also comes after a parallel region that it does not depend on. */
static void what_is_kept_comes_behind_parallel_regions(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  tdm_place(graph, FIRST);
  const tdm_value kept = tdm_kept(graph, "count", TDM_FLOAT32, tdm_shape_scalar());
  const tdm_value next = tdm_add_scalar(graph, "next", kept, 1);
  tdm_keep(graph, "keep", kept, next);
  tdm_output(graph, "sum", tdm_add(graph, "sum", next, tdm_relu(graph, "part", x)));
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1");
  tdm_data_parallel(graph, "part", &options);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  tdm_tensor *fed = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 2);
  const tdm_feed feed = {"x", fed, false};
  for (int run = 1; run <= 2; run++) {
    tdm_fetch fetch = {.name = "sum"};
    assert_ok(tdm_sequence_run(sequence, &feed, 1, &fetch, 1));
    assert_true(((const float *)tdm_tensor_data(fetch.tensor))[0] == (float)(2 + run));
    tdm_tensor_release(fetch.tensor);
  }
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
}

/* ---- An optimizer for sums
 * ------------------------------------------------------------------- */

enum { BATCHES = 3 };

/* Adds the same layer in all sessions; x (rows, WIDTH) -> fc -> tanh. */
static tdm_value summed_layer(tdm_graph *graph) {
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("n"), WIDTH));
  const tdm_value y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", x, HIDDEN));
  return tdm_sum(graph, "sum", tdm_mul(graph, "squares", y, y), NULL, 0, false);
}

/* Takes "grad" as the gradient of fc.weight: that of the sum of fc.weight x
 * grad. */
static tdm_session *updater(tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, FIRST);
  (void)summed_layer(graph);
  const tdm_value weight = tdm_get_parameter(graph, "fc.weight");
  const tdm_value grad = tdm_input(graph, "grad", TDM_FLOAT32, tdm_shape_of(2, HIDDEN, WIDTH));
  const tdm_value product = tdm_mul(graph, "product", weight, grad);
  const tdm_value loss = tdm_sum(graph, "taken", product, NULL, 0, false);
  return train_session(graph, loss, tdm_adam(0.1), WITH(tdm_session_options, o.store = store));
}

/* Equivalent to loss.backward() BATCHES times, then optimizer.step(). Sums remain on their device,
 * where the optimizer reads them. Compared with one step over all rows. */
static void an_optimizer_takes_what_runs_have_summed_up(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, FIRST);
  const tdm_value loss = summed_layer(graph);
  const tdm_value d_weight =
      tdm_gradient_of(graph, "d_weight", loss, tdm_get_parameter(graph, "fc.weight"));
  const tdm_value kept = tdm_kept(graph, "grad", TDM_FLOAT32, tdm_shape_of(2, HIDDEN, WIDTH));
  const tdm_value total = tdm_add(graph, "add", kept, d_weight);
  tdm_keep(graph, "keep", kept, total);
  tdm_output_on(graph, "total", total, NULL);
  tdm_session *backward = run_session(graph, WITH(tdm_session_options, o.seed = 8));
  tdm_session *update = updater(tdm_session_store(backward));
  graph = tdm_graph_create(context);
  tdm_place(graph, FIRST);
  const tdm_value at_once = summed_layer(graph);
  const tdm_parameter_group frozen = {.parameters = "fc.bias"};
  tdm_session *whole =
      train_session(graph, at_once, tdm_adam(0.1),
                    WITH(tdm_session_options, o.seed = 8, o.groups = &frozen, o.group_count = 1));
  float rows[BATCHES * ROWS * WIDTH];
  tdm_sequence *sequence = tdm_sequence_create(backward);
  for (int step = 0; step < 3; step++) {
    tdm_fetch grad;
    for (int i = 0; i < BATCHES; i++) {
      tdm_tensor *x = drawn(ROWS, WIDTH, (uint64_t)(10 * step + i));
      memcpy(&rows[i * ROWS * WIDTH], tdm_tensor_data(x), ROWS * WIDTH * sizeof(float));
      grad = (tdm_fetch){.name = "total"};
      assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", x, false}, 1, &grad, 1));
      if (i < BATCHES - 1) tdm_tensor_release(grad.tensor);
      tdm_tensor_release(x);
    }
    assert_string_equal(tdm_tensor_device(grad.tensor), FIRST);
    assert_ok(tdm_train_step(update, &(tdm_feed){"grad", grad.tensor, false}, 1, NULL, 0, NULL));
    assert_ok(tdm_sequence_reset(sequence)); /* zero_grad */
    tdm_tensor_release(grad.tensor);
    tdm_tensor *x =
        tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, BATCHES * ROWS, WIDTH), rows);
    assert_ok(tdm_train_step(whole, &(tdm_feed){"x", x, false}, 1, NULL, 0, NULL));
    tdm_tensor_release(x);
  }
  tdm_tensor_list *found = state_of(update);
  tdm_tensor_list *wanted = state_of(whole);
  const tdm_tensor *one = tdm_tensor_list_find(found, "fc.weight");
  const tdm_tensor *other = tdm_tensor_list_find(wanted, "fc.weight");
  for (int k = 0; k < HIDDEN * WIDTH; k++)
    assert_true(fabsf(((const float *)tdm_tensor_data(one))[k] -
                      ((const float *)tdm_tensor_data(other))[k]) < 1e-4F);
  tdm_tensor_list_release(found);
  tdm_tensor_list_release(wanted);
  tdm_sequence_release(sequence);
  tdm_session_release(whole);
  tdm_session_release(update);
  tdm_session_release(backward);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gradient_is_read_like_any_value),
      cmocka_unit_test(a_detached_gradient_may_be_part_of_a_loss),
      cmocka_unit_test(a_gradient_is_not_differentiated_again),
      cmocka_unit_test(what_has_no_gradient_is_refused_by_name),
      cmocka_unit_test(models_are_differentiated_as_they_are_evaluated),
      cmocka_unit_test(gradients_are_summed_up_over_runs),
      cmocka_unit_test(a_gradient_that_nobody_reads_stands_beside_what_is_kept),
      cmocka_unit_test(what_is_kept_comes_behind_parallel_regions),
      cmocka_unit_test(an_optimizer_takes_what_runs_have_summed_up),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
