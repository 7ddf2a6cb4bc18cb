/* Optimizers and the main model over several steps against PyTorch: the loss of every step, the
 * parameters and the optimizer's states at the end. Shapes are symbolic and differ from step to
 * step, so a plan is made for each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/layers/cases/training.h"

/* ---- Training -------------------------------------------------------------------------------- */

static void go_through_cycle(const training_case *training, tdm_session *session, int64_t step,
                             int64_t steps) {
  tdm_rate_schedule cycle;
  const double highest = training->optimizer.learning_rate;
  assert_int_equal(tdm_rate_schedule_one_cycle(highest, steps, NULL, &cycle), TDM_OK);
  assert_int_equal(tdm_session_set_learning_rate(session, tdm_rate_schedule_at(&cycle, step)),
                   TDM_OK);
  assert_int_equal(tdm_session_set_momentum(session, tdm_rate_schedule_momentum_at(&cycle, step)),
                   TDM_OK);
}

/* Returns the losses of all steps, as a tensor like the golden one. */
static tdm_tensor *train(const golden_file *golden, const training_case *training,
                         tdm_session *session) {
  const tdm_tensor *wanted = golden_tensor(golden, training->name, "losses", "");
  const int64_t steps = tdm_tensor_shape(wanted).dims[0];
  double losses[64];
  assert_true(steps > 0 && steps <= 64);
  for (int64_t step = 0; step < steps; step++) {
    if (training->cycles) go_through_cycle(training, session, step, steps);
    tdm_feed feeds[TRAINING_FEEDS];
    for (size_t i = 0; i < TRAINING_FEEDS; i++) {
      char text[64];
      (void)snprintf(text, sizeof text, "%s.%lld", training->model->feeds[i], (long long)step);
      feeds[i] = (tdm_feed){.name = training->model->feeds[i],
                            .tensor = golden_tensor(golden, training->name, "input", text)};
    }
    if (tdm_train_step(session, feeds, TRAINING_FEEDS, NULL, 0, &losses[step]) != TDM_OK)
      fail_msg("%s, step %lld: %s", training->name, (long long)step, tdm_last_message());
  }
  return tdm_tensor_from(golden->context, TDM_FLOAT64, tdm_shape_of(1, steps), losses);
}

static void compare_trained(const golden_file *golden, const training_case *training,
                            tdm_session *session, double tolerance) {
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), true);
  if (!saved) fail_msg("%s: %s", training->name, tdm_last_message());
  size_t compared = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(golden->list); i++) {
    const char *full = tdm_tensor_list_name(golden->list, i);
    const char *name = golden_suffix(full, training->name, "trained");
    if (!name) continue;
    const tdm_tensor *found = tdm_tensor_list_find(saved, name);
    if (!found) fail_msg("%s: the store has no %s", training->name, name);
    golden_compare(training->name, name, found, tdm_tensor_list_tensor(golden->list, i), tolerance);
    compared++;
  }
  assert_true(compared > 0);
  tdm_tensor_list_release(saved);
}

static void check_case(const golden_file *golden, const training_case *training,
                       const char *placement) {
  const double tolerance = training->tolerance[golden->dtype == TDM_FLOAT64];
  tdm_session *session = training_session(golden, training, placement);
  tdm_tensor_list *parameters = golden_parameters(golden, training->name);
  assert_int_equal(tdm_store_load(tdm_session_store(session), parameters), TDM_OK);
  tdm_tensor_list_release(parameters);
  tdm_tensor *losses = train(golden, training, session);
  golden_compare(training->name, "losses", losses,
                 golden_tensor(golden, training->name, "losses", ""), tolerance);
  tdm_tensor_release(losses);
  compare_trained(golden, training, session, tolerance);
  tdm_session_release(session);
}

static void check_all(tdm_dtype dtype) {
  golden_file golden;
  golden_open(&golden, "training", dtype);
  static training_case cases[TRAINING_CASES_MAX];
  const size_t count = training_cases_all(&golden, cases);
  assert_int_equal(count, golden_case_count(&golden));
  for (size_t i = 0; i < count; i++) {
    check_case(&golden, &cases[i], "*=cpu:0");
    check_case(&golden, &cases[i], "*=sim:0");
    if (cases[i].placement) check_case(&golden, &cases[i], cases[i].placement);
  }
  golden_close(&golden);
}

static void test_float32(void **state) {
  (void)state;
  check_all(TDM_FLOAT32);
}

static void test_float64(void **state) {
  (void)state;
  check_all(TDM_FLOAT64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float32),
      cmocka_unit_test(test_float64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
