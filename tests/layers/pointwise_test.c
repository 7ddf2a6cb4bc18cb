/* Elementwise mathematics: illegal arguments, with messages that name the operation and the
 * argument; shapes of operands with unknown sizes; a model with its own loss, in micro-batches and
 * replicas, compared with the whole; slopes where others are infinite. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

static tdm_value floats(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

/* ---- Refused --------------------------------------------------------------------------------- */

typedef struct error_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *says[3]; /* all expected in the message */
} error_case;

static tdm_value sub_of_two_names(tdm_graph *graph) {
  return tdm_sub(graph, "f", floats(graph, "a", tdm_shape_of(2, TDM_DIM("batch"), 3)),
                 floats(graph, "b", tdm_shape_of(2, TDM_DIM("length"), 1)));
}

static tdm_value div_of_other_size(tdm_graph *graph) {
  return tdm_div(graph, "f", floats(graph, "a", tdm_shape_of(2, 4, 3)),
                 floats(graph, "b", tdm_shape_of(1, 4)));
}

static tdm_value mul_of_two_dtypes(tdm_graph *graph) {
  return tdm_mul(graph, "f", floats(graph, "a", tdm_shape_of(1, 3)),
                 tdm_input(graph, "b", TDM_FLOAT64, tdm_shape_of(1, 3)));
}

static tdm_value maximum_of_bools(tdm_graph *graph) {
  const tdm_value a = tdm_input(graph, "a", TDM_BOOL, tdm_shape_of(1, 3));
  return tdm_maximum(graph, "f", a, a);
}

static tdm_value div_of_integers(tdm_graph *graph) {
  const tdm_value a = tdm_input(graph, "a", TDM_INT64, tdm_shape_of(1, 3));
  return tdm_div(graph, "f", a, a);
}

static tdm_value exp_of_integers(tdm_graph *graph) {
  return tdm_exp(graph, "f", tdm_input(graph, "a", TDM_INT64, tdm_shape_of(1, 3)));
}

static tdm_value hardtanh_that_descends(tdm_graph *graph) {
  return tdm_hardtanh(graph, "f", floats(graph, "a", tdm_shape_of(1, 3)), 1, -1);
}

static tdm_value clamp_without_end(tdm_graph *graph) {
  return tdm_clamp(graph, "f", floats(graph, "a", tdm_shape_of(1, 3)), 0, 0.0 / 0.0);
}

static tdm_value softplus_of_no_beta(tdm_graph *graph) {
  return tdm_softplus(graph, "f", floats(graph, "a", tdm_shape_of(1, 3)), 0, 20);
}

static tdm_value where_by_floats(tdm_graph *graph) {
  const tdm_value a = floats(graph, "a", tdm_shape_of(1, 3));
  return tdm_where(graph, "f", a, a, a);
}

static tdm_value where_of_other_shape(tdm_graph *graph) {
  const tdm_value a = floats(graph, "a", tdm_shape_of(2, 2, 3));
  const tdm_value condition = tdm_compare_scalar(graph, "c", a, TDM_LESS, 0);
  return tdm_where(graph, "f", condition, a, floats(graph, "b", tdm_shape_of(1, 4)));
}

static tdm_value no_relation(tdm_graph *graph) {
  const tdm_value a = floats(graph, "a", tdm_shape_of(1, 3));
  return tdm_compare(graph, "f", a, (tdm_relation)6, a);
}

static tdm_value compare_with_nothing(tdm_graph *graph) {
  return tdm_compare(graph, "f", floats(graph, "a", tdm_shape_of(1, 3)), TDM_LESS,
                     (tdm_value){0, 0});
}

static tdm_value max_of_no_dimension(tdm_graph *graph) {
  return tdm_max(graph, "f", floats(graph, "a", tdm_shape_of(2, 2, 3)), 2, false, NULL);
}

static tdm_value max_of_nothing(tdm_graph *graph) {
  return tdm_argmax(graph, "f", floats(graph, "a", tdm_shape_of(2, 2, 0)), -1, false);
}

static tdm_value variance_of_one(tdm_graph *graph) {
  return tdm_variance(graph, "f", floats(graph, "a", tdm_shape_of(2, 2, 1)), (int[]){1}, 1, 1,
                      false);
}

static const error_case error_cases[] = {
    {sub_of_two_names, {"sub f", "[batch, 3]", "[length, 1]"}},
    {div_of_other_size, {"div f", "a is [4, 3], b is [4]", "cannot be broadcast"}},
    {mul_of_two_dtypes, {"mul f", "float32", "float64"}},
    {maximum_of_bools, {"maximum f", "is bool", "int32 or int64"}},
    {div_of_integers, {"div f", "a is int64", "floating"}},
    {exp_of_integers, {"exp f", "x is int64", "floating"}},
    {hardtanh_that_descends, {"hardtanh f", "1 and -1", "ascend"}},
    {clamp_without_end, {"clamp f", "no number"}},
    {softplus_of_no_beta, {"softplus f", "beta is 0"}},
    {where_by_floats, {"where f", "condition is float32", "bool"}},
    {where_of_other_shape, {"where f", "[2, 3]", "b is [4]"}},
    {no_relation, {"compare f", "relation 6"}},
    {compare_with_nothing, {"compare f", "not a value"}},
    {max_of_no_dimension, {"max f", "dimension 2", "[2, 3]"}},
    {max_of_nothing, {"extreme f", "dimension 1 of [2, 0]"}},
    {variance_of_one, {"variance f", "1 elements", "correction of 1"}},
};

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value y = error_cases[i].build(graph);
    if (tdm_value_is_valid(y)) fail_msg("case %zu was accepted", i);
    tdm_output(graph, "y", y);
    assert_null(tdm_session_create(graph, NULL));
    for (int k = 0; k < 3 && error_cases[i].says[k]; k++)
      if (!strstr(tdm_last_message(), error_cases[i].says[k]))
        fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), error_cases[i].says[k]);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void names_stand_against_themselves_and_one(void **state) {
  (void)state;
  const tdm_dim batch = TDM_DIM("batch"), length = TDM_DIM("length");
  const struct {
    tdm_shape a;
    tdm_shape b;
    const char *shape;
  } cases[] = {
      {tdm_shape_of(2, batch, 5), tdm_shape_of(2, batch, 1), "[batch, 5]"},
      {tdm_shape_of(2, 1, 5), tdm_shape_of(2, batch, 1), "[batch, 5]"},
      {tdm_shape_of(3, batch, 1, 5), tdm_shape_of(2, length, 5), "[batch, length, 5]"},
      {tdm_shape_scalar(), tdm_shape_of(1, batch), "[batch]"},
      {tdm_shape_of(2, TDM_DIM_UNKNOWN, 1), tdm_shape_of(2, 1, 4), "[?, 4]"},
      {tdm_shape_of(2, TDM_DIM_UNKNOWN, 4), tdm_shape_of(2, 6, 1), "[6, 4]"},
  };
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value a = floats(graph, "a", cases[i].a), b = floats(graph, "b", cases[i].b);
    const tdm_shape shape = tdm_value_shape(graph, tdm_mul(graph, "f", a, b));
    char text[TDM_SHAPE_TEXT];
    if (tdm_graph_status(graph) != TDM_OK) fail_msg("%s", tdm_last_message());
    assert_string_equal(tdm_shape_text(&shape, text, sizeof text), cases[i].shape);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- In parts -------------------------------------------------------------------------------- */

enum { ROWS = 11, WIDTH = 6, STEPS = 3 };

/* Devices for parts of the model. */
typedef struct way {
  int micro_batches;
  const char *devices;
} way;

static tdm_value parameter(tdm_graph *graph, const char *name, tdm_shape shape) {
  const tdm_initializer one = {TDM_INIT_CONSTANT, 1.0, 0.0, -1};
  return tdm_parameter(graph, name, TDM_FLOAT64, shape, &one);
}

/* Adds a softmax by hand, standardized over the batch, whose losses are weighted by a row of the
 * batch: the mean squared distance, without distant elements. */
static tdm_value build(tdm_graph *graph, const way *chosen) {
  const tdm_dim batch = TDM_DIM("batch");
  const int rows[] = {0}, columns[] = {1};
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, batch, WIDTH));
  const tdm_value weight = tdm_input(graph, "weight", TDM_FLOAT64, tdm_shape_of(2, batch, 1));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  tdm_value y = tdm_linear(graph, "in", x, WIDTH);
  y = tdm_add(graph, "bent", tdm_elu(graph, "elu", y, 1), tdm_softplus(graph, "soft", y, 1, 20));
  y = tdm_exp(graph, "exp", tdm_sub(graph, "below", y, tdm_max(graph, "most", y, 1, true, NULL)));
  y = tdm_div(graph, "shares", y, tdm_sum(graph, "sums", y, columns, 1, true));
  y = tdm_mul(graph, "scaled", y, parameter(graph, "scale", tdm_shape_of(1, WIDTH)));
  y = tdm_add(graph, "shifted", y, parameter(graph, "shift", tdm_shape_scalar()));
  tdm_scope_pop(graph);
  if (chosen->devices) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = chosen->devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  const tdm_value variance = tdm_variance(graph, "variance", y, rows, 1, 0, true);
  y = tdm_mul(graph, "standard",
              tdm_sub(graph, "centered", y, tdm_mean(graph, "m", y, rows, 1, true)),
              tdm_rsqrt(graph, "inverse", tdm_add_scalar(graph, "safe", variance, 1e-3)));
  y = tdm_square(graph, "squares", tdm_sub(graph, "distance", tdm_cumsum(graph, "run", y, 1), x));
  const tdm_value far = tdm_compare_scalar(graph, "far", y, TDM_GREATER, 6);
  y = tdm_mul(graph, "weighed", tdm_masked_fill(graph, "near", y, far, 0), weight);
  return tdm_mean(graph, "loss", y, NULL, 0, false);
}

static tdm_session *make_session(tdm_context *context, const way *chosen) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.05);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = build(graph, chosen), o.optimizer = &optimizer,
              o.seed = 4, o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Returns the last loss; the first is left in *out_first. */
static double train(tdm_context *context, const way *chosen, double *out_first,
                    double out_shift[1]) {
  tdm_session *session = make_session(context, chosen);
  double x[ROWS * WIDTH], weight[ROWS], loss = 0;
  for (int i = 0; i < ROWS * WIDTH; i++)
    x[i] = i * i % 23 / 9.0 - 1;
  for (int i = 0; i < ROWS; i++)
    weight[i] = 0.5 + i % 3;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, ROWS, WIDTH), x);
  tdm_tensor *weights = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, ROWS, 1), weight);
  const tdm_feed feeds[] = {{"x", fed, false}, {"weight", weights, false}};
  for (int i = 0; i < STEPS; i++) {
    if (tdm_train_step(session, feeds, 2, NULL, 0, &loss) != TDM_OK)
      fail_msg("%s", tdm_last_message());
    if (i == 0) *out_first = loss;
  }
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  assert_int_equal(
      tdm_tensor_read(tdm_tensor_list_find(saved, "block/shift"), out_shift, sizeof *out_shift),
      TDM_OK);
  tdm_tensor_list_release(saved);
  tdm_tensor_release(fed);
  tdm_tensor_release(weights);
  tdm_session_release(session);
  return loss;
}

static bool near(double a, double b) {
  return a - b < 1e-12 && b - a < 1e-12;
}

static void parts_are_the_whole(void **state) {
  (void)state;
  static const way whole = {0, NULL};
  static const way ways[] = {{3, NULL}, {11, NULL}, {0, "cpu:0,sim:0"}, {2, "cpu:0,sim:0,cpu:0"}};
  tdm_context *context = tdm_context_create(NULL);
  double first, shift[1], found_first, found_shift[1];
  const double last = train(context, &whole, &first, shift);
  assert_true(last < first && first > 0.1);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    const double found = train(context, &ways[i], &found_first, found_shift);
    if (!near(found, last) || !near(found_first, first) || !near(found_shift[0], shift[0]))
      fail_msg("way %zu: losses %.17g, %.17g and not %.17g, %.17g", i, found_first, found, first,
               last);
  }
  tdm_context_release(context);
}

/* Operands in which the batch lies in different dimensions cannot be cut. */
static void pairs_of_rows_are_refused(void **state) {
  (void)state;
  static const char *const wanted[] = {"in different dimensions", "is not cut"};
  tdm_context *context = tdm_context_create(NULL);
  for (int k = 0; k < 2; k++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        floats(graph, "x", tdm_shape_of(2, k == 0 ? TDM_DIM("batch") : TDM_DIM_UNKNOWN, 1));
    const tdm_value y = floats(graph, "y", tdm_shape_of(2, TDM_DIM("batch"), 1));
    const tdm_value other = k == 0 ? tdm_swap_first_dimensions(graph, "turned", y) : y;
    tdm_output(graph, "z", tdm_sub(graph, "pairs", x, other));
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
    tdm_session *session = tdm_session_create(graph, &options);
    if (session) { /* found when the sizes are known */
      tdm_tensor *rows = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, 1));
      const tdm_feed feeds[] = {{"x", rows, false}, {"y", rows, false}};
      tdm_fetch fetch = {.name = "z"};
      assert_int_equal(tdm_run(session, feeds, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
      tdm_tensor_release(rows);
    }
    if (!strstr(tdm_last_message(), wanted[k]) || !strstr(tdm_last_message(), "pairs"))
      fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), wanted[k]);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- Gradients at the ends ------------------------------------------------------------------- */

/* The slopes of PyTorch 2.15 for adjoints of 2, with a divisor of 0 and infinite ones. */
static void remainders_have_pytorchs_slopes(void **state) {
  (void)state;
  enum { COUNT = 9 };
  static const float a_values[COUNT] = {3, -3, 0, INFINITY, 5, -5, 5, 3, 7};
  static const float b_values[COUNT] = {0, 0, 0, 0, INFINITY, INFINITY, -INFINITY, -0.0f, 2};
  static const float wanted[COUNT] = {-INFINITY, INFINITY, NAN, -INFINITY, 0, 2, 2, INFINITY, -6};
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(1, COUNT);
  const tdm_value a = floats(graph, "a", shape), b = floats(graph, "b", shape);
  const tdm_value doubled = tdm_mul_scalar(graph, "twice", tdm_remainder(graph, "f", a, b), 2);
  const tdm_value loss = tdm_sum(graph, "loss", doubled, NULL, 0, false);
  tdm_output(graph, "d_a", tdm_gradient_of(graph, "d_a", loss, a));
  tdm_output(graph, "d_b", tdm_gradient_of(graph, "d_b", loss, b));
  tdm_session *session = tdm_session_create(graph, NULL);
  tdm_tensor *tensors[] = {tdm_tensor_from(context, TDM_FLOAT32, shape, a_values),
                           tdm_tensor_from(context, TDM_FLOAT32, shape, b_values)};
  const tdm_feed feeds[] = {{"a", tensors[0], false}, {"b", tensors[1], false}};
  tdm_fetch fetches[] = {{.name = "d_a"}, {.name = "d_b"}};
  if (!session || tdm_run(session, feeds, 2, fetches, 2) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  const float *d_a = tdm_tensor_data(fetches[0].tensor), *d_b = tdm_tensor_data(fetches[1].tensor);
  for (int i = 0; i < COUNT; i++) {
    assert_true(d_a[i] == 2);
    if (isnan(wanted[i]) ? !isnan(d_b[i]) : d_b[i] != wanted[i])
      fail_msg("the slope of %g %% %g is %g, not %g", (double)a_values[i], (double)b_values[i],
               (double)d_b[i], (double)wanted[i]);
  }
  for (int i = 0; i < 2; i++) {
    tdm_tensor_release(tensors[i]);
    tdm_tensor_release(fetches[i].tensor);
  }
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(names_stand_against_themselves_and_one),
      cmocka_unit_test(parts_are_the_whole),
      cmocka_unit_test(pairs_of_rows_are_refused),
      cmocka_unit_test(remainders_have_pytorchs_slopes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
