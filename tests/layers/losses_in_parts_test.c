/* Losses with weights where the batch is computed in parts: in micro-batches and behind a wrapped
 * layer they are those of the whole batch, in float64, and so are the parameters after steps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"

enum { ROWS = 11, IN = 4, OUT = 5 };

typedef tdm_value (*loss_builder)(tdm_graph *graph, tdm_value scores,
                                  const tdm_loss_options *options);

static tdm_value batch_input(tdm_graph *graph, const char *name, int64_t size) {
  return tdm_input(graph, name, TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), size));
}

static tdm_value weight_input(tdm_graph *graph) {
  return tdm_input(graph, "weight", TDM_FLOAT64, tdm_shape_of(1, OUT));
}

static tdm_value class_input(tdm_graph *graph) {
  return tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value weighted_nll(tdm_graph *graph, tdm_value scores, const tdm_loss_options *options) {
  tdm_loss_options chosen = *options;
  chosen.weight = weight_input(graph);
  chosen.has_ignore_index = true;
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

static const loss_builder builders[] = {weighted_nll,  smoothed,   binary,  smooth_l1,
                                        probabilities, divergence, columns, divergence_of_batch};

/* ---- Training -------------------------------------------------------------------------------- */

static tdm_session *make_session(tdm_context *context, loss_builder build,
                                 tdm_loss_reduction reduction, int micro_batches,
                                 const char *wrapped_over) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_value x = batch_input(graph, "x", IN);
  const tdm_value scores = tdm_linear(graph, "fc", x, OUT);
  if (wrapped_over) {
    const tdm_parallel_options parallel = {.struct_size = sizeof parallel, .devices = wrapped_over};
    tdm_data_parallel(graph, "fc", &parallel);
  }
  const tdm_loss_options losses = {.struct_size = sizeof losses, .reduction = reduction};
  const tdm_optimizer optimizer = tdm_rmsprop(0.01);
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .loss = build(graph, scores, &losses),
                                       .optimizer = &optimizer,
                                       .seed = 5,
                                       .micro_batches = micro_batches,
                                       .batch_dimension = "batch"};
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
  const bool by_class = build == weighted_nll || build == smoothed || build == columns;
  const bool weighs = build == weighted_nll || build == binary;
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

static void parts_have_the_whole_batch_s_loss(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++)
    for (int reduction = TDM_LOSS_MEAN; reduction <= TDM_LOSS_SUM; reduction++) {
      const tdm_loss_reduction chosen = (tdm_loss_reduction)reduction;
      tdm_session *plain = make_session(context, builders[i], chosen, 1, NULL);
      const double wanted = train(context, plain, builders[i]);
      assert_true(isfinite(wanted) && wanted > 0);
      for (int k = 0; k < 2; k++) {
        tdm_session *parts = make_session(context, builders[i], chosen, k == 0 ? 3 : 1,
                                          k == 0 ? NULL : "cpu:0,sim:0");
        const double loss = train(context, parts, builders[i]);
        if (!(fabs(loss - wanted) <= 1e-12 * wanted))
          fail_msg("loss %zu, reduction %d, way %d: %.17g, not %.17g", i, reduction, k, loss,
                   wanted);
        compare(parts, plain);
        tdm_session_release(parts);
      }
      tdm_session_release(plain);
    }
  tdm_context_release(context);
}

/* ---- What has no gradient -------------------------------------------------------------------- */

static void targets_that_are_trained_are_refused(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 3, IN));
  const tdm_value scores = tdm_linear(graph, "fc", x, OUT);
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options options = {
      .struct_size = sizeof options,
      .loss = tdm_binary_cross_entropy(graph, "loss", scores, tdm_sigmoid(graph, "s", scores)),
      .optimizer = &optimizer};
  assert_null(tdm_session_create(graph, &options));
  assert_non_null(strstr(tdm_last_message(), "no gradient flows into its targets"));
  assert_non_null(strstr(tdm_last_message(), "binary_cross_entropy loss"));
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_have_the_whole_batch_s_loss),
      cmocka_unit_test(targets_that_are_trained_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
