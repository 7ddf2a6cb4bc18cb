/* Every gradient rule against central differences of the loss, in float64, element by element, on
 * cpu and sim. The graphs and values are those of the golden cases; no number of PyTorch's is used.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_cases.h"

#define STEP 1e-5
/* For the third derivative (STEP squared) and rounding (a loss of 1e3 x 1e-16 / STEP). */
#define TOLERANCE 2e-7

/* Returns the loss with parameter `name` being values. */
static double loss_with(layer_test *test, bool in_training, const char *name, tdm_shape shape,
                        const double *values) {
  tdm_context *context = test->golden->context;
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_FLOAT64, shape, values);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_int_equal(tdm_tensor_list_add(list, name, tensor), TDM_OK);
  assert_int_equal(tdm_store_load(tdm_session_store(test->session), list), TDM_OK);
  tdm_tensor_list_release(list);
  tdm_tensor_release(tensor);
  if (in_training) {
    double of_step;
    if (tdm_train_step(test->session, test->feeds, test->feed_count, NULL, 0, &of_step) != TDM_OK)
      fail_msg("%s: %s", test->name, tdm_last_message());
    return of_step;
  }
  tdm_fetch fetch = {.name = "loss"};
  if (tdm_run(test->session, test->feeds, test->feed_count, &fetch, 1) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  double loss;
  assert_int_equal(tdm_tensor_read(fetch.tensor, &loss, sizeof loss), TDM_OK);
  tdm_tensor_release(fetch.tensor);
  return loss;
}

static void check_parameter(layer_test *test, bool in_training, const char *name,
                            const tdm_tensor *parameter, const tdm_tensor *gradient) {
  size_t count;
  double *values = tensor_values(parameter, &count);
  double *slopes = tensor_values(gradient, &count);
  double largest = 1.0; /* losses are of the order of 1 or more */
  for (size_t i = 0; i < count; i++)
    largest = fmax(largest, fabs(slopes[i]));
  const tdm_shape shape = tdm_tensor_shape(parameter);
  for (size_t i = 0; i < count; i++) {
    const double value = values[i];
    values[i] = value + STEP;
    const double above = loss_with(test, in_training, name, shape, values);
    values[i] = value - STEP;
    const double below = loss_with(test, in_training, name, shape, values);
    values[i] = value;
    const double slope = (above - below) / (2.0 * STEP);
    if (!(fabs(slope - slopes[i]) <= TOLERANCE * largest))
      fail_msg("%s on %s: d %s[%zu] is %.10g, differences say %.10g", test->name, test->placement,
               name, i, slopes[i], slope);
  }
  /* restores the value for the next parameter */
  (void)loss_with(test, in_training, name, shape, values);
  free(values);
  free(slopes);
}

static void check_case(const golden_file *golden, const layer_case *options,
                       const char *placement) {
  layer_test test;
  layer_test_begin(&test, golden, options->name, placement);
  options->build(&test, options);
  layer_test_start(&test);
  (void)layer_test_step(&test);
  tdm_tensor_list *parameters = golden_parameters(golden, options->name);
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(test.session), true);
  assert_non_null(saved);
  for (size_t i = 0; i < tdm_tensor_list_count(parameters); i++) {
    const char *name = tdm_tensor_list_name(parameters, i);
    tdm_tensor *gradient = layer_test_gradient(&test, saved, name);
    check_parameter(&test, options->in_training, name, tdm_tensor_list_tensor(parameters, i),
                    gradient);
    tdm_tensor_release(gradient);
  }
  tdm_tensor_list_release(saved);
  tdm_tensor_list_release(parameters);
  layer_test_end(&test);
}

static void check_all(const char *placement) {
  golden_file golden;
  golden_open(&golden, LAYER_FAMILY, TDM_FLOAT64);
  static layer_case cases[LAYER_CASES_MAX];
  const size_t count = layer_cases_of(&golden, cases, LAYER_CASES_MAX);
  assert_true(count > 0);
  for (size_t i = 0; i < count; i++) {
    if (cases[i].not_smooth)
      print_message("%s left out: %s\n", cases[i].name, cases[i].not_smooth);
    else
      check_case(&golden, &cases[i], placement);
  }
  golden_close(&golden);
}

static void test_cpu(void **state) {
  (void)state;
  check_all("*=cpu:0");
}

#ifdef LAYER_FAMILY_IN_C /* the others are many, of the same rules and kernels */
static void test_sim(void **state) {
  (void)state;
  check_all("*=sim:0");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
#ifdef LAYER_FAMILY_IN_C
      cmocka_unit_test(test_sim),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
