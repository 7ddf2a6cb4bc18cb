/* Connectionist temporal classification with invalid inputs: labels outside the classes, lengths
 * outside the steps or the labels, targets without a path; and refused calls. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { SLOTS = 4, ROWS = 2, CLASSES = 3, LABELS = 2 };

static tdm_context *context; /* context of the test group */

static int begin_group(void **unused) {
  (void)unused;
  context = tdm_context_create(NULL);
  return context ? 0 : -1;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* x (4, 2, 3), targets (2, 2), lengths (2) -> "loss" (2). */
static tdm_graph *build(void) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, SLOTS, TDM_DIM("batch"), CLASSES));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("labels")));
  const tdm_value steps = tdm_input(graph, "steps", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value counts = tdm_input(graph, "counts", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_loss_options each = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_NONE);
  tdm_output(graph, "loss",
             tdm_ctc_with(graph, "ctc", tdm_log_softmax(graph, "log", x, -1), targets, steps,
                          counts, &each));
  return graph;
}

/* Runs with x = 0: in each step three classes are equally likely. */
static tdm_status run(tdm_session *session, const int64_t *targets, const int64_t *steps,
                      const int64_t *counts, float *out_losses) {
  tdm_feed feeds[] = {
      {.name = "x",
       .tensor =
           tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, SLOTS, ROWS, CLASSES))},
      {.name = "targets",
       .tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, ROWS, LABELS), targets)},
      {.name = "steps",
       .tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), steps)},
      {.name = "counts",
       .tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), counts)}};
  tdm_fetch fetch = {.name = "loss"};
  const tdm_status status = tdm_run(session, feeds, 4, &fetch, 1);
  if (status == TDM_OK) memcpy(out_losses, tdm_tensor_data(fetch.tensor), ROWS * sizeof(float));
  tdm_tensor_release(fetch.tensor);
  for (size_t i = 0; i < 4; i++)
    tdm_tensor_release(feeds[i].tensor);
  return status;
}

static tdm_session *session_of(tdm_graph *graph) {
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Two steps, label 1: "1 1", "- 1", "1 -" of nine. Labels 2 2 require a blank: three steps. */
static void paths_are_counted(void **unused) {
  (void)unused;
  tdm_session *session = session_of(build());
  float losses[ROWS];
  const int64_t targets[] = {1, -9, 2, 2}, steps[] = {2, 3}, counts[] = {1, 2};
  assert_int_equal(run(session, targets, steps, counts, losses), TDM_OK);
  assert_float_equal(losses[0], logf(9.0F / 3), 1e-5);
  assert_float_equal(losses[1], logf(27.0F), 1e-5);
  const int64_t too_few[] = {2, 2}, none[] = {0, 2};
  assert_int_equal(run(session, targets, too_few, none, losses), TDM_OK);
  assert_float_equal(losses[0], logf(9.0F), 1e-5); /* only blanks */
  assert_true(isinf(losses[1]) && losses[1] > 0);
  const int64_t stepless[] = {0, 0}, one[] = {0, 1};
  assert_int_equal(run(session, targets, stepless, one, losses), TDM_OK);
  assert_true(losses[0] == 0); /* the empty target has its one path, of no steps */
  assert_true(isinf(losses[1]) && losses[1] > 0);
  tdm_session_release(session);
}

static void what_does_not_fit_fails_the_run(void **unused) {
  (void)unused;
  static const struct {
    int64_t label, steps, count;
  } wrong[] = {{3, 4, 1}, {-1, 4, 1}, {1, 5, 1}, {1, -1, 1}, {1, 4, 3}, {1, 4, -1}};
  tdm_session *session = session_of(build());
  float losses[ROWS];
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    const int64_t targets[] = {1, 1, wrong[i].label, 1};
    const int64_t steps[] = {4, wrong[i].steps}, counts[] = {1, wrong[i].count};
    assert_int_equal(run(session, targets, steps, counts, losses), TDM_INVALID_ARGUMENT);
    assert_non_null(strstr(tdm_last_message(), "ctc"));
  }
  tdm_session_release(session);
}

static void shapes_and_blanks_are_refused(void **unused) {
  (void)unused;
  const tdm_shape shapes[] = {tdm_shape_of(4, 2, 3, 4, 5), tdm_shape_of(2, 4, CLASSES)};
  for (size_t i = 0; i < 3; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value rows = tdm_input(graph, "rows", TDM_INT64, tdm_shape_of(1, ROWS));
    const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(2, ROWS, LABELS));
    const tdm_loss_options options = OPTIONS(tdm_loss_options, o.blank = i < 2 ? 0 : CLASSES);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32,
                                  i < 2 ? shapes[i] : tdm_shape_of(3, SLOTS, ROWS, CLASSES));
    (void)tdm_ctc_with(graph, "it", x, targets, rows, rows, &options);
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    assert_non_null(strstr(tdm_last_message(), "ctc it"));
    assert_non_null(strstr(tdm_last_message(), i < 2 ? "(steps, n, classes)" : "blank is 3"));
    tdm_graph_release(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_are_counted),
      cmocka_unit_test(what_does_not_fit_fails_the_run),
      cmocka_unit_test(shapes_and_blanks_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
