/* Losses with weights, and losses composed of sums and means, for a batch in parts. In
 * micro-batches, after a wrapped layer and in a wrapped part they equal those of the whole batch,
 * in float64, and so do the parameters after steps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { ROWS = 11, IN = 4, OUT = 5 };

typedef tdm_value (*loss_builder)(tdm_graph *graph, tdm_value scores,
                                  const tdm_loss_options *options);

static tdm_value batch_input(tdm_graph *graph, const char *name, int64_t size) {
  return tdm_input(graph, name, TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), size));
}

static tdm_value weight_value; /* weights in the latest graph; invalid: it has none */

static tdm_value weight_input(tdm_graph *graph) {
  return weight_value = tdm_input(graph, "weight", TDM_FLOAT64, tdm_shape_of(1, OUT));
}

static tdm_value class_input(tdm_graph *graph) {
  return tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value weighted_nll(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.weight = weight_input(graph);
  chosen.ignore_index = 2;
  return tdm_nll_with(graph, "loss", tdm_log_softmax(graph, "log", scores, -1), class_input(graph),
                      &chosen);
}

static tdm_value smoothed(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.label_smoothing = 0.1;
  return tdm_cross_entropy_with(graph, "loss", scores, class_input(graph), &chosen);
}

static tdm_value binary(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.pos_weight = weight_input(graph);
  chosen.weight = batch_input(graph, "row_weight", OUT);
  return tdm_binary_cross_entropy_with(graph, "loss", scores, batch_input(graph, "target", OUT),
                                       &chosen);
}

static tdm_value smooth_l1(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  return tdm_smooth_l1_with(graph, "loss", scores, batch_input(graph, "target", OUT), options);
}

/* (batch, OUT, 1) and (batch, 1). */
static tdm_value columns(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  const tdm_dim batch = TDM_DIM("batch");
  return tdm_cross_entropy_with(
      graph, "loss", tdm_reshape(graph, "deep", scores, tdm_shape_of(3, batch, OUT, 1)),
      tdm_reshape(graph, "flat", class_input(graph), tdm_shape_of(2, batch, 1)), options);
}

static tdm_value probabilities(tdm_graph *graph, tdm_value scores,
                               const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.label_smoothing = 0.1;
  return tdm_cross_entropy_with(graph, "loss", scores, batch_input(graph, "target", OUT), &chosen);
}

static tdm_value divergence(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  return tdm_kl_div_with(graph, "loss", tdm_log_softmax(graph, "log", scores, -1),
                         batch_input(graph, "target", OUT), options);
}

static tdm_value divergence_of_batch(tdm_graph *graph, tdm_value scores,
                                     const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  if (chosen.reduction == TDM_LOSS_MEAN) chosen.reduction = TDM_LOSS_BATCH_MEAN;
  return divergence(graph, scores, &chosen);
}

/* Put together of operations. */
static tdm_value multi_margin(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.weight = weight_input(graph);
  return tdm_multi_margin_with(graph, "loss", scores, class_input(graph), &chosen);
}

static tdm_value triplet(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.swap = true;
  const tdm_value target = batch_input(graph, "target", OUT);
  return tdm_triplet_margin_with(graph, "loss", scores, target,
                                 tdm_affine(graph, "other", target, -0.5, 0.3), &chosen);
}

static tdm_value gaussian(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  const tdm_value target = batch_input(graph, "target", OUT);
  const tdm_value variance = tdm_add_scalar(graph, "var", tdm_square(graph, "sq", scores), 2.0);
  return tdm_gaussian_nll_with(graph, "loss", scores, target, variance, options);
}

/* Adds a loss per row, which public functions weight and reduce. */
static tdm_value put_together(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  const tdm_loss_options rows = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_NONE);
  const tdm_value each =
      tdm_huber_with(graph, "each", scores, batch_input(graph, "target", OUT), &rows);
  const tdm_value row = tdm_sum(graph, "row", each, &(int){1}, 1, false);
  return options->reduction == TDM_LOSS_MEAN ? tdm_mean(graph, "loss", row, NULL, 0, false)
                                             : tdm_sum(graph, "loss", row, NULL, 0, false);
}

/* Adds two losses and a penalty that no row goes into, the root of their sum. */
static tdm_value several(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  const tdm_value target = batch_input(graph, "target", OUT);
  const tdm_value first = tdm_mse_with(graph, "mse", scores, target, options);
  const tdm_value second = tdm_l1_with(graph, "l1", scores, target, options);
  const tdm_value weight =
      tdm_parameter(graph, "fc.weight", TDM_FLOAT64, tdm_shape_of(2, OUT, IN), NULL);
  const tdm_value squares = tdm_square(graph, "squares", weight);
  const tdm_value penalty = tdm_sum(graph, "penalty", squares, NULL, 0, false);
  const tdm_value sum = tdm_add(graph, "both", first, tdm_mul_scalar(graph, "half", second, 0.5));
  return tdm_sqrt(graph, "loss",
                  tdm_add(graph, "sum", sum, tdm_mul_scalar(graph, "p", penalty, 0.1)));
}

/* Adds two steps, whose rows are dimension 1, and one label each. */
static tdm_value sequences(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  const tdm_value steps[] = {scores, tdm_neg(graph, "neg", scores)};
  const tdm_value x = tdm_log_softmax(graph, "log", tdm_stack(graph, "steps", steps, 2, 0), -1);
  const tdm_value class = class_input(graph);
  const tdm_value two =
      tdm_masked_fill(graph, "two", class, tdm_compare(graph, "same", class, TDM_EQUAL, class), 2);
  const tdm_value one =
      tdm_masked_fill(graph, "one", class, tdm_compare(graph, "same", class, TDM_EQUAL, class), 1);
  return tdm_ctc_with(graph, "loss", x, tdm_unsqueeze(graph, "targets", class, 1), two, one,
                      options);
}

static const loss_builder builders[] = {
    weighted_nll,        smoothed,     binary,  smooth_l1, probabilities, divergence,   columns,
    divergence_of_batch, multi_margin, triplet, sequences, gaussian,      put_together, several};

/* ---- Training -------------------------------------------------------------------------------- */

/* Options of a model's computation. */
typedef struct way {
  int micro_batches;
  const char *wrapped; /* scope that is replicated; NULL: none */
  const char *devices;
  const double *weights;
  const char *inner; /* devices that fc is wrapped over before; NULL: it is not */
} way;

static void wrap(tdm_graph *graph, const char *scope, const char *devices, const double *weights) {
  const tdm_scatter whole = {weight_value, TDM_BROADCAST};
  const bool enters = *scope == 0 && tdm_value_is_valid(weight_value);
  const tdm_parallel_options parallel =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.weights = weights, o.scatter = &whole,
              o.scatter_count = enters);
  tdm_data_parallel(graph, scope, &parallel);
}

static tdm_session *make_session(tdm_context *context, loss_builder build,
                                 tdm_loss_reduction reduction, const way *how) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  weight_value = (tdm_value){0, 0};
  const tdm_value x = batch_input(graph, "x", IN);
  const tdm_value scores = tdm_linear(graph, "fc", x, OUT);
  const tdm_loss_options losses = OPTIONS(tdm_loss_options, o.reduction = reduction);
  const tdm_value loss = build(graph, scores, &losses);
  if (how->inner) wrap(graph, "fc", how->inner, NULL);
  if (how->wrapped) wrap(graph, how->wrapped, how->devices, how->weights);
  const tdm_optimizer optimizer = tdm_rmsprop(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer, o.seed = 5,
              o.micro_batches = OR_ONE(how->micro_batches), o.batch_dimension = "batch");
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Positive numbers that repeat in no period of a shape here. */
static tdm_tensor *numbers(tdm_context *context, tdm_shape shape, double scale) {
  double values[ROWS * OUT];
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    values[i] = scale * (0.1 + (double)(i * 37 % 53) / 53);
  return tdm_tensor_from(context, TDM_FLOAT64, shape, values);
}

static double train(tdm_context *context, tdm_session *session, loss_builder build) {
  int64_t classes[ROWS];
  for (int i = 0; i < ROWS; i++)
    classes[i] = i * 3 % OUT;
  const bool by_class = build == weighted_nll || build == smoothed || build == columns ||
                        build == multi_margin || build == sequences;
  const bool weighs = build == weighted_nll || build == binary || build == multi_margin;
  tdm_feed feeds[5] = {{"x", numbers(context, tdm_shape_of(2, ROWS, IN), 2), false}};
  size_t count = 1;
  feeds[count++] =
      by_class
          ? (tdm_feed){"class", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), classes),
                       false}
          : (tdm_feed){"target", numbers(context, tdm_shape_of(2, ROWS, OUT), 0.8), false};
  if (weighs)
    feeds[count++] = (tdm_feed){"weight", numbers(context, tdm_shape_of(1, OUT), 3), false};
  if (build == binary)
    feeds[count++] =
        (tdm_feed){"row_weight", numbers(context, tdm_shape_of(2, ROWS, OUT), 1), false};
  double loss = 0;
  for (int step = 0; step < 3; step++)
    if (tdm_train_step(session, feeds, count, NULL, 0, &loss) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  for (size_t i = 0; i < count; i++)
    tdm_tensor_release(feeds[i].tensor);
  return loss;
}

static void compare(tdm_session *a, tdm_session *b) {
  tdm_tensor_list *mine = tdm_store_save(tdm_session_store(a), false);
  tdm_tensor_list *other = tdm_store_save(tdm_session_store(b), false);
  for (size_t i = 0; i < tdm_tensor_list_count(mine); i++) {
    const tdm_tensor *left = tdm_tensor_list_tensor(mine, i);
    const tdm_tensor *right = tdm_tensor_list_find(other, tdm_tensor_list_name(mine, i));
    const double *x = tdm_tensor_data(left), *y = tdm_tensor_data(right);
    for (size_t k = 0; k < tdm_tensor_bytes(left) / sizeof *x; k++)
      if (!(fabs(x[k] - y[k]) <= 1e-12)) fail_msg("%g apart", fabs(x[k] - y[k]));
  }
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
}

static const double uneven[] = {3, 0, 1};
static const way ways[] = {
    {.micro_batches = 3},
    {.micro_batches = 1, .wrapped = "fc", .devices = "cpu:0,sim:0"},
    {.micro_batches = 1, .wrapped = "", .devices = "cpu:0,sim:0"},
    {.micro_batches = 1, .wrapped = "", .devices = "cpu:0,sim:0,cpu:0", .weights = uneven},
    {.micro_batches = 3, .wrapped = "", .devices = "sim:0,cpu:0"},
    {.micro_batches = 1, .wrapped = "", .devices = "sim:0,cpu:0", .inner = "cpu:0,sim:0"},
    {.micro_batches = 2, .wrapped = "", .devices = "sim:0,cpu:0", .inner = "cpu:0,sim:0"},
    {.micro_batches = 1,
     .wrapped = "",
     .devices = "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"},
};

static void expect_whole(tdm_context *context, size_t builder, tdm_loss_reduction reduction) {
  const way whole = {.micro_batches = 1};
  const loss_builder build = builders[builder];
  tdm_session *plain = make_session(context, build, reduction, &whole);
  const double wanted = train(context, plain, build);
  assert_true(isfinite(wanted) && wanted > 0);
  for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
    tdm_session *parts = make_session(context, build, reduction, &ways[k]);
    const double loss = train(context, parts, build);
    if (!(fabs(loss - wanted) <= 1e-12 * wanted))
      fail_msg("loss %zu, reduction %d, way %zu: %.17g, not %.17g", builder, (int)reduction, k,
               loss, wanted);
    compare(parts, plain);
    tdm_session_release(parts);
  }
  tdm_session_release(plain);
}

static void parts_have_the_whole_batch_s_loss(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++)
    for (int reduction = TDM_LOSS_MEAN; reduction <= TDM_LOSS_SUM; reduction++)
      expect_whole(context, i, (tdm_loss_reduction)reduction);
  tdm_context_release(context);
}

/* ---- Values without a gradient --------------------------------------------------------------- */

static void targets_that_are_trained_are_refused(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 3, IN));
  const tdm_value scores = tdm_linear(graph, "fc", x, OUT);
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options options = OPTIONS(
      tdm_session_options,
      o.loss = tdm_binary_cross_entropy(graph, "loss", scores, tdm_sigmoid(graph, "s", scores)),
      o.optimizer = &optimizer);
  assert_null(tdm_session_create(graph, &options));
  assert_non_null(strstr(tdm_last_message(), "no gradient flows into its targets"));
  assert_non_null(strstr(tdm_last_message(), "binary_cross_entropy loss"));
  assert_non_null(strstr(tdm_last_message(), "tdm_detach"));
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* Targets take their shape, which has a named dimension, from the scores. Neither training nor
 * tdm_gradient_of requests a gradient of them. */
static void an_operand_of_which_the_shape_is_read_is_not_differentiated(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), IN));
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, tdm_shape_of(2, 1, OUT));
  const tdm_value scores = tdm_linear(graph, "fc", x, OUT);
  const tdm_value targets = tdm_expand_as(graph, "targets", target, scores);
  const tdm_value loss = tdm_binary_cross_entropy(graph, "loss", scores, targets);
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *fed = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 3, IN));
  tdm_tensor *wanted = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 1, OUT));
  const tdm_feed feeds[] = {{"x", fed, false}, {"target", wanted, false}};
  assert_int_equal(tdm_train_step(session, feeds, 2, NULL, 0, NULL), TDM_OK);
  tdm_tensor_release(wanted);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);

  graph = tdm_graph_create(context);
  const tdm_value z = tdm_input(graph, "z", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), OUT));
  const tdm_value row = tdm_input(graph, "row", TDM_FLOAT32, tdm_shape_of(2, 1, OUT));
  const tdm_value sum = tdm_sum(graph, "sum", tdm_expand_as(graph, "rows", row, z), NULL, 0, false);
  tdm_output(graph, "slope", tdm_gradient_of(graph, "slope", sum, z));
  assert_int_not_equal(tdm_graph_status(graph), TDM_OK);
  assert_non_null(strstr(tdm_last_message(), "slope"));
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_have_the_whole_batch_s_loss),
      cmocka_unit_test(targets_that_are_trained_are_refused),
      cmocka_unit_test(an_operand_of_which_the_shape_is_read_is_not_differentiated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
