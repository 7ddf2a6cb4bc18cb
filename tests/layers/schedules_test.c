/* Learning rates: against PyTorch's, step by step; refused ones; and in a session, where a new rate
 * makes no new plan. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"
#include "tests/options.h"

static double inverse(void *user, int64_t step) {
  (void)user;
  return 1.0 / (1.0 + (double)step);
}

static tdm_status make_chained(double rate, tdm_rate_schedule *schedule) {
  static tdm_rate_schedule parts[2];
  assert_int_equal(tdm_rate_schedule_constant(rate, 0.1, 4, &parts[0]), TDM_OK);
  assert_int_equal(tdm_rate_schedule_exponential(rate, 0.9, &parts[1]), TDM_OK);
  return tdm_rate_schedule_chained(parts, 2, schedule);
}

static tdm_status make_sequential(double rate, tdm_rate_schedule *schedule) {
  static tdm_rate_schedule parts[3];
  const int64_t milestones[] = {5, 13};
  assert_int_equal(tdm_rate_schedule_linear(rate, 0.25, 1.0, 4, &parts[0]), TDM_OK);
  assert_int_equal(tdm_rate_schedule_cosine(rate, 8, 0, &parts[1]), TDM_OK);
  assert_int_equal(tdm_rate_schedule_exponential(rate, 0.8, &parts[2]), TDM_OK);
  return tdm_rate_schedule_sequential(parts, 3, milestones, schedule);
}

static void assert_rate(const char *full, size_t step, double rate, const double *rates) {
  if (!(fabs(rate - rates[step]) <= 1e-12 * rates[0] + 1e-13))
    fail_msg("%s, step %zu: %.17g, not %.17g", full, step, rate, rates[step]);
}

/* numbers: rate, rising, factor, patience, threshold, absolute, cooldown, least */
static void check_plateau(const char *full, const double *numbers, const double *rates,
                          size_t count) {
  const tdm_plateau_options options =
      OPTIONS(tdm_plateau_options, o.rising = numbers[1] != 0, o.factor = numbers[2],
              o.patience = (int64_t)numbers[3], o.threshold = numbers[4],
              o.absolute = numbers[5] != 0, o.cooldown = (int64_t)numbers[6], o.least = numbers[7]);
  tdm_plateau plateau;
  assert_int_equal(tdm_rate_plateau_begin(numbers[0], &options, &plateau), TDM_OK);
  assert_true(plateau.rate == rates[0]);
  for (size_t epoch = 0; epoch + 1 < count; epoch++) {
    const double metric = (double)(epoch * 7 % 11) / 11 + 1.0 / (double)(1 + epoch / 4);
    assert_rate(full, epoch + 1, tdm_rate_plateau_next(&plateau, metric), rates);
  }
}

/* numbers: the rate, then the arguments in the order of tests/golden/schedule_cases.py. */
static tdm_status make_schedule(const char *name, const double *numbers, size_t count,
                                tdm_rate_schedule *schedule) {
  const double rate = numbers[0], *given = numbers + 1;
  if (strcmp(name, "step") == 0)
    return tdm_rate_schedule_step(rate, (int64_t)given[0], given[1], schedule);
  if (strcmp(name, "multi_step") == 0) {
    int64_t milestones[TDM_RATE_SCHEDULE_MAX_MILESTONES];
    for (size_t i = 2; i < count; i++)
      milestones[i - 2] = (int64_t)numbers[i];
    return tdm_rate_schedule_multi_step(rate, milestones, count - 2, given[0], schedule);
  }
  if (strcmp(name, "exponential") == 0)
    return tdm_rate_schedule_exponential(rate, given[0], schedule);
  if (strcmp(name, "cosine") == 0)
    return tdm_rate_schedule_cosine(rate, (int64_t)given[0], given[1], schedule);
  if (strcmp(name, "linear") == 0)
    return tdm_rate_schedule_linear(rate, given[0], given[1], (int64_t)given[2], schedule);
  if (strcmp(name, "constant") == 0)
    return tdm_rate_schedule_constant(rate, given[0], (int64_t)given[1], schedule);
  if (strcmp(name, "polynomial") == 0)
    return tdm_rate_schedule_polynomial(rate, (int64_t)given[0], given[1], schedule);
  if (strcmp(name, "chained") == 0) return make_chained(rate, schedule);
  if (strcmp(name, "sequential") == 0) return make_sequential(rate, schedule);
  if (strcmp(name, "lambda") == 0) return tdm_rate_schedule_lambda(rate, inverse, NULL, schedule);
  assert_string_equal(name, "one_cycle");
  const tdm_one_cycle_options options =
      OPTIONS(tdm_one_cycle_options, o.rising = given[1], o.first_divisor = given[2],
              o.last_divisor = given[3], o.linear = given[4] != 0, o.three_phases = given[5] != 0);
  return tdm_rate_schedule_one_cycle(rate, (int64_t)given[0], &options, schedule);
}

/* numbers: rate, steps, rising, linear, three phases, least, most */
static void check_momenta(const char *full, const double *numbers, const double *momenta,
                          size_t count) {
  const tdm_one_cycle_options options = OPTIONS(
      tdm_one_cycle_options, o.rising = numbers[2], o.linear = numbers[3] != 0,
      o.three_phases = numbers[4] != 0, o.base_momentum = numbers[5], o.max_momentum = numbers[6]);
  tdm_rate_schedule schedule;
  assert_int_equal(
      tdm_rate_schedule_one_cycle(numbers[0], (int64_t)numbers[1], &options, &schedule), TDM_OK);
  for (size_t step = 0; step < count; step++)
    assert_rate(full, step, tdm_rate_schedule_momentum_at(&schedule, (int64_t)step), momenta);
}

static void check_case(const golden_file *golden, const char *full, const tdm_tensor *told) {
  const char *option = strstr(full, "/option.");
  if (!option) return;
  char rates_name[64];
  (void)snprintf(rates_name, sizeof rates_name, "%.*s/rates", (int)(option - full), full);
  size_t count, number_count;
  double *numbers = tensor_values(told, &number_count);
  double *rates = tensor_values(tdm_tensor_list_find(golden->list, rates_name), &count);
  assert_true(count > 10);
  const bool momenta = strcmp(option + 8, "cycled_momentum") == 0;
  if (momenta || strcmp(option + 8, "plateau") == 0) {
    (momenta ? check_momenta : check_plateau)(full, numbers, rates, count);
    free(numbers);
    free(rates);
    return;
  }
  tdm_rate_schedule schedule;
  if (make_schedule(option + 8, numbers, number_count, &schedule) != TDM_OK)
    fail_msg("%s: %s", full, tdm_last_message());
  for (size_t step = 0; step < count; step++)
    assert_rate(full, step, tdm_rate_schedule_at(&schedule, (int64_t)step), rates);
  free(numbers);
  free(rates);
}

static void rates_are_pytorch_s(void **state) {
  (void)state;
  golden_file golden;
  golden_open(&golden, "schedules", TDM_FLOAT64);
  assert_true(tdm_tensor_list_count(golden.list) > 50);
  for (size_t i = 0; i < tdm_tensor_list_count(golden.list); i++)
    check_case(&golden, tdm_tensor_list_name(golden.list, i),
               tdm_tensor_list_tensor(golden.list, i));
  golden_close(&golden);
}

static void the_ends_are_kept(void **state) {
  (void)state;
  tdm_rate_schedule schedule;
  assert_int_equal(tdm_rate_schedule_one_cycle(1.0, 10, NULL, &schedule), TDM_OK);
  assert_true(tdm_rate_schedule_at(&schedule, 1000) == tdm_rate_schedule_at(&schedule, 9));
  assert_true(tdm_rate_schedule_at(&schedule, -3) == tdm_rate_schedule_at(&schedule, 0));
  assert_int_equal(tdm_rate_schedule_linear(2.0, 0.5, 1.0, 4, &schedule), TDM_OK);
  assert_true(tdm_rate_schedule_at(&schedule, 0) == 1.0);
  assert_true(tdm_rate_schedule_at(&schedule, 4) == 2.0);
  assert_true(tdm_rate_schedule_at(&schedule, 400) == 2.0);
}

static void expect_refused(tdm_status status, const char *word) {
  assert_int_equal(status, TDM_INVALID_ARGUMENT);
  if (!strstr(tdm_last_message(), word))
    fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), word);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  tdm_rate_schedule schedule;
  const int64_t falling[] = {5, 3};
  const tdm_one_cycle_options late =
      OPTIONS(tdm_one_cycle_options, o.rising = 0.6, o.three_phases = true);
  const tdm_one_cycle_options large =
      OPTIONS(tdm_one_cycle_options, o.struct_size = TDM_OPTIONS_INITIALIZED | 4096);
  expect_refused(tdm_rate_schedule_step(-1, 3, 0.1, &schedule), "rate -1");
  expect_refused(tdm_rate_schedule_step(1, 0, 0.1, &schedule), "size is 0");
  expect_refused(tdm_rate_schedule_multi_step(1, falling, 2, 0.1, &schedule), "milestone 3");
  expect_refused(tdm_rate_schedule_multi_step(1, falling, 17, 0.1, &schedule), "17 milestones");
  expect_refused(tdm_rate_schedule_cosine(1, -4, 0, &schedule), "half_period is -4");
  expect_refused(tdm_rate_schedule_linear(1, 0, 1, 5, &schedule), "factors 0 and 1");
  expect_refused(tdm_rate_schedule_one_cycle(1, 10, &late, &schedule), "rising is 0.6");
  expect_refused(tdm_rate_schedule_one_cycle(1, 10, &large, &schedule), "4096 bytes");
  expect_refused(tdm_rate_schedule_constant(1, 1.5, 5, &schedule), "factor 1.5");
  expect_refused(tdm_rate_schedule_polynomial(1, 0, 2, &schedule), "steps is 0");
  expect_refused(tdm_rate_schedule_chained(NULL, 2, &schedule), "0 parts");
  tdm_rate_schedule parts[2];
  assert_int_equal(tdm_rate_schedule_exponential(1, 0.9, &parts[0]), TDM_OK);
  assert_int_equal(tdm_rate_schedule_exponential(0, 0.9, &parts[1]), TDM_OK);
  expect_refused(tdm_rate_schedule_chained(parts, 2, &schedule), "part 1 is 0");
  parts[1] = parts[0];
  expect_refused(tdm_rate_schedule_sequential(parts, 2, (const int64_t[]){0}, &schedule),
                 "milestone 0 is 0");
  const tdm_one_cycle_options falling_momenta =
      OPTIONS(tdm_one_cycle_options, o.base_momentum = 0.96);
  expect_refused(tdm_rate_schedule_one_cycle(1, 10, &falling_momenta, &schedule),
                 "base_momentum is 0.96");
  assert_true(tdm_rate_schedule_momentum_at(&parts[0], 1) == -1);
  assert_true(tdm_rate_schedule_momentum_at(NULL, 1) == -1);
  tdm_plateau plateau;
  const tdm_plateau_options growing = OPTIONS(tdm_plateau_options, o.factor = 2);
  expect_refused(tdm_rate_plateau_begin(1, &growing, &plateau), "factor is 2");
  expect_refused(tdm_rate_schedule_lambda(1, NULL, NULL, &schedule), "function");
  expect_refused(tdm_rate_schedule_step(1, 3, 0.1, NULL), "no place");
}

/* A parameter whose gradient is 1 goes down by the rate of each step. */
static void a_session_takes_every_rate(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0, 0, -1};
  const tdm_value p = tdm_parameter(graph, "p", TDM_FLOAT64, tdm_shape_of(1, 1), &zeros);
  const tdm_optimizer optimizer = tdm_sgd(99);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_sum(graph, "loss", p, NULL, 0, false),
              o.optimizer = &optimizer);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_rate_schedule schedule;
  assert_int_equal(tdm_rate_schedule_step(0.5, 2, 0.5, &schedule), TDM_OK);
  for (int64_t step = 0; step < 5; step++) {
    const double rate = tdm_rate_schedule_at(&schedule, step);
    assert_int_equal(tdm_session_set_learning_rate(session, rate), TDM_OK);
    assert_int_equal(tdm_train_step(session, NULL, 0, NULL, 0, NULL), TDM_OK);
  }
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  size_t count;
  double *value = tensor_values(tdm_tensor_list_find(saved, "p"), &count);
  assert_true(value[0] == -(0.5 + 0.5 + 0.25 + 0.25 + 0.125));
  free(value);
  tdm_tensor_list_release(saved);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates_are_pytorch_s),
      cmocka_unit_test(the_ends_are_kept),
      cmocka_unit_test(what_makes_no_sense_is_refused),
      cmocka_unit_test(a_session_takes_every_rate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
