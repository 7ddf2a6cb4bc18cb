/* Products of float32 on an emulated GPU. Its cuBLAS rounds factors as tensor cores do if that is
 * permitted, which is only the case if the context allows TF32. */
#include <math.h>
#include <stdlib.h>

#include "tests/graph/support.h"
#include "tests/options.h"

/* One more bit than TF32 keeps: rounded there to 1 + 2^-10. */
static const float factor = 1 + 0x1p-11f;

static tdm_context *context_with(int tf32, const char *variable) {
  if (variable) assert_int_equal(setenv("TANDEM_TF32", variable, 1), 0);
  tdm_context *context = tdm_context_create(WITH(tdm_context_options, o.tf32 = tf32));
  if (variable) assert_int_equal(unsetenv("TANDEM_TF32"), 0);
  return context;
}

/* Computes factor times a weight that the seed and the name determine, on any device. */
static float product_on(tdm_context *context, const char *device, bool deterministic) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, 1));
  tdm_output(graph, "y", tdm_linear_without_bias(graph, "linear", x, 1));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.deterministic = deterministic);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("no session: %s", tdm_last_message());
  tdm_graph_release(graph);
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 1, 1), &factor);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  float y = 0;
  assert_ok(tdm_tensor_read(fetch.tensor, &y, sizeof y));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return y;
}

static bool rounds(int tf32, const char *variable, bool deterministic) {
  tdm_context *context = context_with(tf32, variable);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  const float exact = product_on(context, "cpu:0", false);
  const float product = product_on(context, "cuda:0", deterministic);
  tdm_context_release(context);
  const float error = fabsf(product / exact - 1);
  assert_true(error < 0x1p-9f);
  if (error > 0x1p-20f) assert_true(error > 0x1p-15f); /* rounded to TF32, or not at all */
  return error > 0x1p-20f;
}

static void products_round_only_where_they_may(void **state) {
  (void)state;
  assert_false(rounds(TDM_FROM_ENVIRONMENT, NULL, false));
  assert_true(rounds(1, NULL, false));
  assert_false(rounds(0, NULL, false));
}

static void the_environment_decides_where_no_option_does(void **state) {
  (void)state;
  assert_true(rounds(TDM_FROM_ENVIRONMENT, "1", false));
  assert_false(rounds(TDM_FROM_ENVIRONMENT, "0", false));
  assert_false(rounds(TDM_FROM_ENVIRONMENT, "", false));
  assert_false(rounds(0, "1", false));
  assert_true(rounds(1, "0", false));
}

static void deterministic_sessions_never_round(void **state) {
  (void)state;
  assert_false(rounds(1, NULL, true));
}

static void what_is_no_answer_is_refused(void **state) {
  (void)state;
  assert_null(context_with(2, NULL));
  assert_message("tf32");
  assert_null(context_with(TDM_FROM_ENVIRONMENT, "yes"));
  assert_message("TANDEM_TF32");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_round_only_where_they_may),
      cmocka_unit_test(the_environment_decides_where_no_option_does),
      cmocka_unit_test(deterministic_sessions_never_round),
      cmocka_unit_test(what_is_no_answer_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
