/* Every layer, function and loss against PyTorch: outputs, loss, and gradients of all operands, on
 * cpu and an accelerator, in both dtypes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_cases.h"

#ifndef TEST_KIND
#define TEST_KIND "sim"
#endif

static double tolerance_of(tdm_dtype dtype) {
  return dtype == TDM_FLOAT32 ? 1e-5 : 1e-12;
}

static void compare_gradients(const layer_test *test, double tolerance) {
  const tdm_tensor_list *golden = test->golden->list;
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(test->session), true);
  if (!saved) fail_msg("%s: %s", test->name, tdm_last_message());
  size_t compared = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(golden); i++) {
    const char *full = tdm_tensor_list_name(golden, i);
    const char *name = golden_suffix(full, test->name, "gradient");
    if (!name) continue;
    tdm_tensor *found = layer_test_gradient(test, saved, name);
    golden_compare(test->name, full, found, tdm_tensor_list_tensor(golden, i), tolerance);
    tdm_tensor_release(found);
    compared++;
  }
  assert_true(compared > 0);
  tdm_tensor_list_release(saved);
}

/* Compares states after the step, such as running statistics. */
static void compare_states(const layer_test *test, double tolerance) {
  const tdm_tensor_list *golden = test->golden->list;
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(test->session), true);
  if (!saved) fail_msg("%s: %s", test->name, tdm_last_message());
  for (size_t i = 0; i < tdm_tensor_list_count(golden); i++) {
    const char *name = golden_suffix(tdm_tensor_list_name(golden, i), test->name, "state");
    if (!name) continue;
    const tdm_tensor *found = tdm_tensor_list_find(saved, name);
    if (!found) fail_msg("%s: no state %s", test->name, name);
    golden_compare(test->name, name, found, tdm_tensor_list_tensor(golden, i), tolerance);
  }
  tdm_tensor_list_release(saved);
}

/* Outputs of a run that does not train, after the step. */
static void compare_evaluated(const layer_test *test, double tolerance) {
  const tdm_tensor_list *golden = test->golden->list;
  for (size_t i = 0; i < tdm_tensor_list_count(golden); i++) {
    const char *name = golden_suffix(tdm_tensor_list_name(golden, i), test->name, "evaluated");
    if (!name) continue;
    tdm_fetch fetch = {.name = name};
    if (tdm_run(test->session, test->feeds, test->feed_count, &fetch, 1) != TDM_OK)
      fail_msg("%s: %s", test->name, tdm_last_message());
    golden_compare(test->name, "evaluated", fetch.tensor, tdm_tensor_list_tensor(golden, i),
                   tolerance);
    tdm_tensor_release(fetch.tensor);
  }
}

static void check_case(const golden_file *golden, const layer_case *options,
                       const char *placement) {
  const double tolerance = tolerance_of(golden->dtype);
  layer_test test;
  layer_test_begin(&test, golden, options->name, placement);
  options->build(&test, options);
  layer_test_start(&test);
  const double loss = layer_test_step(&test);
  for (size_t i = 0; i < test.fetch_count; i++)
    golden_compare(test.name, test.fetches[i].name, test.fetches[i].tensor,
                   golden_tensor(golden, test.name, "output", test.fetches[i].name), tolerance);
  tdm_tensor *found = tdm_tensor_from(golden->context, TDM_FLOAT64, tdm_shape_scalar(), &loss);
  golden_compare(test.name, "loss", found, golden_tensor(golden, test.name, "loss", ""), tolerance);
  tdm_tensor_release(found);
  compare_gradients(&test, tolerance);
  compare_states(&test, tolerance);
  compare_evaluated(&test, tolerance);
  layer_test_end(&test);
}

static void test_float32_cpu(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT32, "*=cpu:0", check_case);
}

static void test_float64_cpu(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT64, "*=cpu:0", check_case);
}

static void test_float32_accelerator(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT32, "*=" TEST_KIND ":0", check_case);
}

static void test_float64_accelerator(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT64, "*=" TEST_KIND ":0", check_case);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float32_cpu),
      cmocka_unit_test(test_float64_cpu),
      cmocka_unit_test(test_float32_accelerator),
      cmocka_unit_test(test_float64_accelerator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
