/* Gradients as values (tdm_gradient_of) of all layers with golden gradients, against PyTorch's and
 * against those that a training step applies. Invariant: the bits are the same for each kind of
 * request: with the update, and, if training computes no other model, without an optimizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_cases.h"
#include "tests/options.h"

#ifndef TEST_KIND
#define TEST_KIND "sim"
#endif

enum { MOST_GRADIENTS = 64, NAME_BYTES = 96 };

/* The requested gradients of a case, by the names of their parameters. */
typedef struct asked_gradients {
  const char *parameters[MOST_GRADIENTS];
  char names[MOST_GRADIENTS][NAME_BYTES];
  tdm_fetch fetches[MOST_GRADIENTS];
  size_t count;
} asked_gradients;

static asked_gradients asked;

static void ask(const layer_test *test) {
  const tdm_tensor_list *golden = test->golden->list;
  asked.count = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(golden); i++) {
    const char *name = golden_suffix(tdm_tensor_list_name(golden, i), test->name, "gradient");
    if (!name) continue;
    assert_true(asked.count < MOST_GRADIENTS);
    char *called = asked.names[asked.count];
    (void)snprintf(called, NAME_BYTES, "d_%s", name);
    const tdm_value value = tdm_get_parameter(test->graph, name);
    tdm_output(test->graph, called, tdm_gradient_of(test->graph, called, test->loss, value));
    asked.parameters[asked.count] = name;
    asked.fetches[asked.count++] = (tdm_fetch){.name = called};
  }
  assert_true(asked.count > 0);
}

static void let_go(void) {
  for (size_t i = 0; i < asked.count; i++)
    tdm_tensor_release(asked.fetches[i].tensor);
}

static void compare_with_golden(const layer_test *test) {
  const double tolerance = test->golden->dtype == TDM_FLOAT32 ? 1e-5 : 1e-12;
  for (size_t i = 0; i < asked.count; i++)
    golden_compare(test->name, asked.names[i], asked.fetches[i].tensor,
                   golden_tensor(test->golden, test->name, "gradient", asked.parameters[i]),
                   tolerance);
}

/* The step's optimizer has kept each gradient as it got it. */
static void compare_with_applied(const layer_test *test) {
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(test->session), true);
  assert_non_null(saved);
  for (size_t i = 0; i < asked.count; i++) {
    tdm_tensor *applied = layer_test_gradient(test, saved, asked.parameters[i]);
    golden_compare(test->name, asked.names[i], asked.fetches[i].tensor, applied, 0);
    tdm_tensor_release(applied);
  }
  tdm_tensor_list_release(saved);
}

static void check_case(const golden_file *golden, const layer_case *options,
                       const char *placement) {
  layer_test test;
  layer_test_begin(&test, golden, options->name, placement);
  options->build(&test, options);
  ask(&test);
  layer_test_start(&test);
  if (tdm_train_step(test.session, test.feeds, test.feed_count, asked.fetches, asked.count, NULL) !=
      TDM_OK)
    fail_msg("%s on %s: %s", test.name, placement, tdm_last_message());
  compare_with_golden(&test);
  compare_with_applied(&test);
  let_go();
  const tdm_session_options without = OPTIONS(
      tdm_session_options, o.store = tdm_session_store(test.session), o.device_map = placement);
  tdm_session *session = tdm_session_create(test.graph, &without);
  if (!session ||
      tdm_run(session, test.feeds, test.feed_count, asked.fetches, asked.count) != TDM_OK)
    fail_msg("%s on %s, without an optimizer: %s", test.name, placement, tdm_last_message());
  if (!options->in_training) compare_with_golden(&test);
  if (!options->in_training) compare_with_applied(&test);
  let_go();
  tdm_session_release(session);
  layer_test_end(&test);
}

static void float32_on_cpu(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT32, "*=cpu:0", check_case);
}

static void float64_on_cpu(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT64, "*=cpu:0", check_case);
}

static void float32_on_an_accelerator(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT32, "*=" TEST_KIND ":0", check_case);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float32_on_cpu),
      cmocka_unit_test(float64_on_cpu),
      cmocka_unit_test(float32_on_an_accelerator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
