/* A model of elements in order, products by equations, even parts and spreads over a batch whose
 * size has a name. Computed in micro-batches or by replicas it equals the whole one. Errors name
 * the layer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/layers/parts.h"
#include "tests/options.h"

enum { ROWS = 11, LENGTH = 7, WIDTH = 6 };

/* Devices for parts of the model. */
static tdm_value weight(tdm_graph *graph, const char *name, int64_t rows, int64_t columns) {
  const tdm_initializer drawn = {TDM_INIT_NORMAL, 0.0, 0.5, -1};
  return tdm_parameter(graph, name, TDM_FLOAT64, tdm_shape_of(2, rows, columns), &drawn);
}

/* Describes x (batch, length, 6) -> (batch, length, 2). */
static tdm_value arrange(tdm_graph *graph, tdm_value x) {
  const tdm_value projections[] = {weight(graph, "heads", WIDTH, 12)};
  const tdm_value heads =
      tdm_reshape(graph, "by_heads", projections[0], tdm_shape_of(3, WIDTH, 3, 4));
  const tdm_value query[] = {x, heads};
  const tdm_value q = tdm_einsum(graph, "q", "bli,ihd->blhd", query, 2);
  const tdm_value both[] = {q, tdm_tanh(graph, "k", q)};
  const tdm_value scores = tdm_einsum(graph, "scores", "bqhd,bkhd->bhqk", both, 2);
  const tdm_value weighted[] = {tdm_softmax(graph, "weights", scores, -1), q};
  const tdm_value y = tdm_einsum(graph, "mixed", "bhqk,bkhd->bqhd", weighted, 2);
  tdm_value best = tdm_topk(graph, "best", y, 2, 3, true, NULL);
  best = tdm_sort(graph, "sorted", best, 2, false, NULL);
  return tdm_std(graph, "spread", best, (const int[]){2}, 1, 1, false);
}

static tdm_value build(tdm_graph *graph, const way *chosen) {
  const tdm_dim batch = TDM_DIM("batch"), length = TDM_DIM("length");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(3, batch, length, WIDTH));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  const tdm_value y = arrange(graph, x);
  const tdm_value variance = tdm_variance(graph, "variance", y, (const int[]){1}, 1, 1, false);
  tdm_value parts[2];
  tdm_split_evenly(graph, "halves", y, 1, 2, parts);
  const tdm_value sizes = tdm_norm(graph, "sizes", parts[1], 2, (const int[]){1}, 1, false);
  tdm_scope_pop(graph);
  if (chosen->devices) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = chosen->devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  const tdm_value first = tdm_mean(graph, "a", tdm_square(graph, "b", variance), NULL, 0, false);
  return tdm_add(graph, "loss", first, tdm_mean(graph, "c", sizes, NULL, 0, false));
}

static tdm_session *make_session(tdm_context *context, const way *chosen) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.02);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = build(graph, chosen), o.optimizer = &optimizer, o.seed = 4,
      o.batch_dimension = "batch", o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static void train(tdm_context *context, const way *chosen, double *out_losses) {
  tdm_session *session = make_session(context, chosen);
  double x[ROWS * LENGTH * WIDTH];
  for (int i = 0; i < ROWS * LENGTH * WIDTH; i++)
    x[i] = i * i % 23 / 9.0 - 1 + i % 7 * 0.01;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(3, ROWS, LENGTH, WIDTH), x);
  const tdm_feed feed = {"x", fed, false};
  for (int i = 0; i < STEPS; i++)
    if (tdm_train_step(session, &feed, 1, NULL, 0, &out_losses[i]) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

static void parts_are_the_whole(void **state) {
  (void)state;
  check_parts(train, ROWS);
}

/* ---- Sizes that are known when it runs ------------------------------------------------------- */

/* Variance over a dimension with a name: 1, 2, 3, 4, 5, 6 have 3.5. With fewer elements than the
 * correction it is infinite, as in PyTorch. */
static void a_name_is_counted_when_it_runs(void **state) {
  (void)state;
  static const double x[] = {1, 2, 3, 4, 5, 6};
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_value fed = tdm_input(graph, "x", TDM_FLOAT64, shape);
  tdm_output(graph, "all", tdm_variance(graph, "v", fed, NULL, 0, 1, false));
  tdm_output(graph, "rows", tdm_variance(graph, "w", fed, (const int[]){-1}, 1, 1, true));
  tdm_output(graph, "few", tdm_variance(graph, "f", fed, (const int[]){-1}, 1, 5, true));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *numbers = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, 2, 3), x);
  const tdm_feed feed = {"x", numbers, false};
  tdm_fetch fetches[] = {{"all", NULL}, {"rows", NULL}, {"few", NULL}};
  assert_int_equal(tdm_run(session, &feed, 1, fetches, 3), TDM_OK);
  const double *all = tdm_tensor_data(fetches[0].tensor),
               *rows = tdm_tensor_data(fetches[1].tensor);
  assert_true(fabs(all[0] - 3.5) < 1e-12);
  assert_true(fabs(rows[0] - 1) < 1e-12 && fabs(rows[1] - 1) < 1e-12);
  assert_true(tdm_tensor_item(fetches[2].tensor, 0) == INFINITY);
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(fetches[i].tensor);
  tdm_tensor_release(numbers);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* b exceeds a, which is zeros, by epsilon, so that the distance is 0. */
static void points_that_meet_have_no_slope(void **state) {
  (void)state;
  static const double powers[] = {1, 1.5, 2, 3, INFINITY};
  tdm_context *context = tdm_context_create(NULL);
  const tdm_shape shape = tdm_shape_of(2, 1, 2);
  for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value a = tdm_input(graph, "a", TDM_FLOAT64, shape);
    const tdm_value b = tdm_add_scalar(graph, "b", tdm_detach(graph, "at", a), 0.5);
    const tdm_value apart = tdm_pairwise_distance(graph, "d", a, b, powers[i], 0.5, false);
    const tdm_value loss = tdm_sum(graph, "loss", apart, NULL, 0, false);
    tdm_output(graph, "slope", tdm_gradient_of(graph, "g", loss, a));
    tdm_session *session = tdm_session_create(graph, NULL);
    if (!session) fail_msg("%s", tdm_last_message());
    const tdm_feed feed = {"a", tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT64, shape), false};
    tdm_tensor *slope = tdm_run_output(session, &feed, 1, "slope");
    if (!slope) fail_msg("%s", tdm_last_message());
    assert_true(tdm_tensor_item(slope, 0) == 0 && tdm_tensor_item(slope, 1) == 0);
    tdm_tensor_release(slope);
    tdm_tensor_release(feed.tensor);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

static void the_logarithm_of_no_sum_is_minus_infinity(void **state) {
  (void)state;
  static const float x[] = {-INFINITY, -INFINITY, 2, -INFINITY, 2};
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value fed = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 5));
  tdm_output(graph, "y", tdm_logcumsumexp(graph, "l", fed, 0));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *numbers = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 5), x);
  const tdm_feed feed = {"x", numbers, false};
  tdm_tensor *sums = tdm_run_output(session, &feed, 1, "y");
  if (!sums) fail_msg("%s", tdm_last_message());
  const float *y = tdm_tensor_data(sums);
  assert_true(y[0] == -INFINITY && y[1] == -INFINITY && y[2] == 2 && y[3] == 2);
  assert_true(fabsf(y[4] - 2.6931472f) < 1e-6f);
  tdm_tensor_release(sums);
  tdm_tensor_release(numbers);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* A dimension that has a name is not taken for the size that it is to have. */
static void what_is_expanded_has_the_size_that_was_said(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3};
  tdm_context *context = tdm_context_create(NULL);
  for (int of_like = 0; of_like < 2; of_like++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_shape named = tdm_shape_of(1, TDM_DIM("batch")), sizes = tdm_shape_of(2, 4, 3);
    const tdm_value fed = tdm_input(graph, "x", TDM_FLOAT32, named);
    const tdm_value like = tdm_input(graph, "like", TDM_FLOAT32, sizes);
    const tdm_value y =
        of_like ? tdm_expand_as(graph, "e", fed, like) : tdm_expand(graph, "e", fed, sizes);
    tdm_output(graph, "y", y);
    tdm_session *session = tdm_session_create(graph, NULL);
    if (!session) fail_msg("%s", tdm_last_message());
    for (int64_t batch = 1; batch <= 3; batch++) {
      tdm_tensor *numbers = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, batch), x);
      const tdm_feed feed = {"x", numbers, false};
      tdm_tensor *expanded = tdm_run_output(session, &feed, 1, "y");
      if (batch == 3) {
        if (!expanded) fail_msg("%s", tdm_last_message());
        assert_int_equal(tdm_tensor_shape(expanded).dims[0], 4);
        assert_int_equal(tdm_tensor_shape(expanded).dims[1], 3);
      } else {
        assert_null(expanded);
        assert_non_null(strstr(tdm_last_message(), "must have the size 3"));
      }
      tdm_tensor_release(expanded);
      tdm_tensor_release(numbers);
    }
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

static void a_median_with_a_nan_is_nan(void **state) {
  (void)state;
  static const float x[] = {3, NAN, 1, 5, 4, 2};
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value fed = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2, 3));
  tdm_output(graph, "y", tdm_median(graph, "m", fed, 1, false));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *numbers = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 3), x);
  const tdm_feed feed = {"x", numbers, false};
  tdm_fetch fetch = {"y", NULL};
  assert_int_equal(tdm_run(session, &feed, 1, &fetch, 1), TDM_OK);
  const float *y = tdm_tensor_data(fetch.tensor);
  assert_true(isnan(y[0]) && y[1] == 4);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(numbers);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* ---- Refused calls --------------------------------------------------------------------------- */

typedef struct bad_case {
  const char *says;
  tdm_value (*build)(tdm_graph *graph, tdm_value x);
} bad_case;

/* x is (batch, 4, 6). */
#define CASE(name, expression)                                                                     \
  static tdm_value name(tdm_graph *graph, tdm_value x) {                                           \
    return expression;                                                                             \
  }
#define EINSUM(equation, ...)                                                                      \
  tdm_einsum(graph, "it", equation, (const tdm_value[]){__VA_ARGS__},                              \
             sizeof((const tdm_value[]){__VA_ARGS__}) / sizeof(tdm_value))

static const tdm_value none = {0, 0};

CASE(sort_of_none, ((void)x, tdm_sort(graph, "it", none, 0, false, NULL)))
CASE(sort_beyond, tdm_sort(graph, "it", x, 3, false, NULL))
CASE(median_of_ids, tdm_median(graph, "it", tdm_cast(graph, "ids", x, TDM_INT64), 1, false))
CASE(topk_of_none, tdm_topk(graph, "it", x, 0, 1, true, NULL))
CASE(topk_of_five, tdm_topk(graph, "it", x, 5, 1, true, NULL))
CASE(median_of_name, tdm_median(graph, "it", x, 0, false))
CASE(diagonal_of_name, tdm_diagonal(graph, "it", x, 0, 0, 1))
CASE(trace_of_three, tdm_diagonal_sum(graph, "it", x))
CASE(outer_of_three, tdm_outer(graph, "it", x, x))
CASE(norm_of_none, tdm_norm(graph, "it", x, 0, NULL, 0, false))
CASE(norm_of_nan, tdm_norm(graph, "it", x, NAN, NULL, 0, false))
CASE(norm_of_truths, tdm_norm(graph, "it", tdm_compare_scalar(graph, "positive", x, TDM_GREATER, 0),
                              INFINITY, NULL, 0, false))
CASE(cumprod_beyond, tdm_cumprod(graph, "it", x, 3))
CASE(variance_of_one, tdm_std(graph, "it", x, (const int[]){1}, 1, 4, false))
CASE(variance_of_infinitely_more, tdm_std(graph, "it", x, (const int[]){1}, 1, -INFINITY, false))
CASE(no_equation, EINSUM(NULL, x))
CASE(fewer_letters, EINSUM("ij", x))
CASE(more_letters, EINSUM("...ijkl", x))
CASE(fewer_operands, EINSUM("ijk,ijk", x))
CASE(more_operands, EINSUM("ijk", x, x))
CASE(unknown_letter, EINSUM("ijk->il", x))
CASE(letter_twice, EINSUM("ijk->ii", x))
CASE(no_letter, EINSUM("ijk1", x))
CASE(no_arrow, EINSUM("ijk-ij", x))
CASE(two_arrows, EINSUM("ijk->ij->i", x))
CASE(other_diagonal, EINSUM("iji", x))
CASE(other_sizes, EINSUM("ijk,ikj->i", x, x))
CASE(dots_twice, EINSUM("......", x))

static tdm_value unbound(tdm_graph *graph, tdm_value x) {
  tdm_value parts[3];
  tdm_unbind(graph, "it", x, 1, 3, parts);
  return parts[0];
}

static tdm_value split_unevenly(tdm_graph *graph, tdm_value x) {
  tdm_value parts[4];
  tdm_split_evenly(graph, "it", tdm_slice(graph, "five", x, 2, 0, 5, 1), 2, 4, parts);
  return parts[0];
}

static tdm_value grid_of_three(tdm_graph *graph, tdm_value x) {
  tdm_value grids[1];
  tdm_meshgrid(graph, "it", &x, 1, grids);
  return grids[0];
}

static void what_is_refused_is_named(void **state) {
  (void)state;
  static const bad_case cases[] = {
      {"sort", sort_of_none},
      {"no dimension 3", sort_beyond},
      {"must be floating", median_of_ids},
      {"1 or more", topk_of_none},
      {"1 to 4 can be", topk_of_five},
      {"must be a size", median_of_name},
      {"two sizes", diagonal_of_name},
      {"two dimensions", trace_of_three},
      {"one dimension", outer_of_three},
      {"one dimension", grid_of_three},
      {"p is 0", norm_of_none},
      {"p is nan", norm_of_nan},
      {"x is bool", norm_of_truths},
      {"no dimension 3", cumprod_beyond},
      {"4 elements, expected more than the correction of 4", variance_of_one},
      {"correction is -inf", variance_of_infinitely_more},
      {"an equation", no_equation},
      {"has 2 letters", fewer_letters},
      {"has 4 letters besides", more_letters},
      {"more operands than are given", fewer_operands},
      {"fewer operands than are given", more_operands},
      {"a letter that no operand has", unknown_letter},
      {"a letter twice", letter_twice},
      {"there are letters", no_letter},
      {"no arrow", no_arrow},
      {"follow the result", two_arrows},
      {"must have the same size", other_diagonal},
      {"4 in an operand and 6", other_sizes},
      {"twice in one operand", dots_twice},
      {"must be as many", unbound},
      {"fewer parts of 2", split_unevenly},
  };
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, TDM_DIM("batch"), 4, 6));
    const tdm_value y = cases[i].build(graph, x);
    assert_false(tdm_value_is_valid(y));
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    if (!strstr(tdm_last_message(), cases[i].says) || !strstr(tdm_last_message(), "it"))
      fail_msg("case %zu, for \"%s\": \"%s\"", i, cases[i].says, tdm_last_message());
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_the_whole),
      cmocka_unit_test(a_name_is_counted_when_it_runs),
      cmocka_unit_test(points_that_meet_have_no_slope),
      cmocka_unit_test(the_logarithm_of_no_sum_is_minus_infinity),
      cmocka_unit_test(what_is_expanded_has_the_size_that_was_said),
      cmocka_unit_test(a_median_with_a_nan_is_nan),
      cmocka_unit_test(what_is_refused_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
