/* The kinds of devices of the library with a driver that shows GPUs and with a separate kernel
 * library, built from the emulation. The kernel library is valid, missing, of another version, or
 * not a library. The wrapper script installs the driver and passes the folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

static char told[512]; /* the latest warning */

static void keep_warning(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level == TDM_LOG_WARNING) (void)snprintf(told, sizeof told, "%s", message);
}

static tdm_context *open_with(const char *folder) {
  (void)setenv("TANDEM_CUDA_PATH", folder, 1);
  told[0] = '\0';
  const tdm_context_options options = OPTIONS(tdm_context_options, o.log = keep_warning);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  return context;
}

/* Expects a context without a GPU. It reports the reason by itself and when a GPU is requested. */
static void expect_without(const char *folder, const char *reason) {
  tdm_context *context = open_with(folder);
  assert_non_null(strstr(told, "2 GPUs are not offered: no kernels: "));
  assert_non_null(strstr(told, reason));
  assert_string_equal(tdm_accelerator(context), "cpu:0");
  assert_int_equal(tdm_device_check(context, "cuda:0"), TDM_UNAVAILABLE);
  if (!strstr(tdm_last_message(), reason)) fail_msg("%s", tdm_last_message());
  tdm_context_release(context);
}

static void a_missing_library_is_told(void **state) {
  (void)state;
  expect_without("/nowhere", "libtandem_cuda.so is neither in TANDEM_CUDA_PATH nor next to");
}

static void a_library_of_another_version_is_refused(void **state) {
  (void)state;
  expect_without(getenv("FOREIGN_FOLDER"), "libtandem_cuda.so is of another version");
}

static void what_is_no_library_is_told(void **state) {
  (void)state;
  char path[1024];
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/libtandem_cuda.so", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("no shared object\n", file);
  (void)fclose(file);
  expect_without(folder, "cannot open ");
  assert_int_equal(unlink(path), 0);
}

static void expect_no_driver(const char *code, const char *reason) {
  (void)setenv("DRIVER_CODE", code, 1);
  tdm_context *context = open_with(getenv("PLUGIN_FOLDER"));
  assert_int_equal(tdm_device_check(context, "cuda:0"), TDM_UNAVAILABLE);
  (void)unsetenv("DRIVER_CODE");
  if (!strstr(tdm_last_message(), reason)) fail_msg("%s", tdm_last_message());
  tdm_context_release(context);
}

/* Checks the message for the driver's code on a machine whose service for joining GPUs does not
 * run. */
static void a_driver_that_does_not_start_says_why(void **state) {
  (void)state;
  expect_no_driver("802", "the driver does not start: system not yet initialized (code 802)");
  expect_no_driver("9999", "the driver does not start: it does not say why (code 9999)");
  expect_no_driver("100", "no device: ");
}

/* Trains a table and a layer for some steps with everything on one device; the last loss. */
static float train_on(tdm_context *context, const char *device) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 4));
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, 4));
  const tdm_value rows = tdm_tanh(graph, NULL, tdm_embedding(graph, "table", ids, 10, 6));
  const tdm_value loss =
      tdm_cross_entropy(graph, "loss", tdm_linear(graph, "layer", rows, 5), targets);
  tdm_output(graph, "loss", loss);
  const tdm_optimizer sgd = tdm_sgd(0.5f);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd, o.seed = 1);
  tdm_session *session = tdm_session_create(graph, &options);
  const int64_t given[2][4] = {{1, 9, 3, 1}, {0, 4, 2, 1}};
  tdm_tensor *fed[2];
  for (int i = 0; i < 2; i++)
    fed[i] = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 4), given[i]);
  const tdm_feed feeds[2] = {{"ids", fed[0], false}, {"targets", fed[1], false}};
  float value = -1;
  for (int step = 0; step < 3; step++) {
    tdm_fetch fetch = {"loss", NULL};
    if (!session || tdm_train_step(session, feeds, 2, &fetch, 1, NULL) != TDM_OK)
      fail_msg("%s: %s", device, tdm_last_message());
    value = *(const float *)tdm_tensor_data(fetch.tensor);
    tdm_tensor_release(fetch.tensor);
  }
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(fed[i]);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return value;
}

static void its_kernels_train(void **state) {
  (void)state;
  tdm_context *context = open_with(getenv("PLUGIN_FOLDER"));
  assert_string_equal(told, "");
  assert_string_equal(tdm_accelerator(context), "cuda:0");
  const float here = train_on(context, "cpu:0");
  const float there = train_on(context, "cuda:1");
  assert_true(here > 0 && here < 3);
  assert_float_equal(there, here, 1e-5);
  tdm_context_release(context);
}

/* An error that a kernel of the plug-in reports becomes this library's message. */
static void its_failures_are_told(void **state) {
  (void)state;
  tdm_context *context = open_with(getenv("PLUGIN_FOLDER"));
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cuda:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 2));
  tdm_output(graph, "rows", tdm_embedding(graph, "table", ids, 10, 6));
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_non_null(session);
  const int64_t wrong[2] = {1, 10};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), wrong);
  const tdm_feed feed = {"ids", fed, false};
  tdm_fetch fetch = {"rows", NULL};
  assert_int_equal(tdm_run(session, &feed, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  if (!strstr(tdm_last_message(), "ids 10 at position 1 is outside 0 to 9"))
    fail_msg("%s", tdm_last_message());
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_library_is_told),
      cmocka_unit_test(a_driver_that_does_not_start_says_why),
      cmocka_unit_test(a_library_of_another_version_is_refused),
      cmocka_unit_test(what_is_no_library_is_told),
      cmocka_unit_test(its_kernels_train),
      cmocka_unit_test(its_failures_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
