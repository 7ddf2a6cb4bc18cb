/* Learning rates that are not finite, or negative, are refused with a name at each place where one
 * is given. The previous rate is kept. */
#include "tests/graph/group.h"

#include <math.h>
#include <pthread.h>

#include "graph/run/run.h"
#include "tests/options.h"

static const double wrong[] = {NAN, INFINITY, -INFINITY, -1};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

/* The loss is the sum of two numbers "a" and "b", from 0 on: each step takes its rate off them. */
static tdm_session *session_of(const tdm_optimizer *optimizer, const tdm_optimizer *of_b) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_value a = tdm_parameter(graph, "a", TDM_FLOAT64, tdm_shape_scalar(), NULL);
  const tdm_value b = tdm_parameter(graph, "b", TDM_FLOAT64, tdm_shape_scalar(), NULL);
  const tdm_parameter_group group = {"b", of_b};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_add(graph, "loss", a, b), o.optimizer = optimizer,
              o.groups = &group, o.group_count = of_b != NULL);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static void assert_step(tdm_session *session, double a, double b) {
  assert_ok(tdm_train_step(session, NULL, 0, NULL, 0, NULL));
  tdm_tensor_list *state = state_of(session);
  assert_true(*(const double *)tdm_tensor_data(tdm_tensor_list_find(state, "a")) == a);
  assert_true(*(const double *)tdm_tensor_data(tdm_tensor_list_find(state, "b")) == b);
  tdm_tensor_list_release(state);
}

static void options_are_refused(void **unused) {
  (void)unused;
  const tdm_optimizer right = tdm_sgd(1);
  for (int i = 0; i < WRONG; i++) {
    const tdm_optimizer optimizers[] = {
        tdm_sgd(wrong[i]),      tdm_adam(wrong[i]),     tdm_adamw(wrong[i]), tdm_adagrad(wrong[i]),
        tdm_rmsprop(wrong[i]),  tdm_nadam(wrong[i]),    tdm_radam(wrong[i]), tdm_adamax(wrong[i]),
        tdm_adadelta(wrong[i]), tdm_adafactor(wrong[i])};
    for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
      assert_null(session_of(&optimizers[o], NULL));
      assert_message("learning rate");
      assert_message(optimizers[o].rule->name);
      assert_null(session_of(&right, &optimizers[o]));
      assert_message("finite");
    }
  }
}

static void settings_are_refused(void **unused) {
  (void)unused;
  for (int i = 0; i < WRONG; i++) {
    const tdm_sgd_options sgd[] = {
        OPTIONS(tdm_sgd_options, o.learning_rate = 1, o.momentum = wrong[i]),
        OPTIONS(tdm_sgd_options, o.learning_rate = 1, o.weight_decay = wrong[i])};
    const tdm_adam_options adam[] = {OPTIONS(tdm_adam_options, o.epsilon = wrong[i]),
                                     OPTIONS(tdm_adam_options, o.weight_decay = wrong[i])};
    for (size_t k = 0; k < 2; k++) {
      const tdm_optimizer optimizers[] = {tdm_sgd_with(&sgd[k]), tdm_adam_with(&adam[k])};
      for (size_t o = 0; o < 2; o++) {
        assert_null(session_of(&optimizers[o], NULL));
        assert_message("finite");
      }
    }
  }
}

static void rates_that_are_set_are_refused(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(0.5), of_b = tdm_sgd(0.25);
  tdm_session *session = session_of(&optimizer, &of_b);
  assert_non_null(session);
  assert_step(session, -0.5, -0.25);
  for (int i = 0; i < WRONG; i++) {
    assert_status(tdm_session_set_learning_rate(session, wrong[i]), TDM_INVALID_ARGUMENT);
    assert_message("tdm_session_set_learning_rate");
    assert_status(tdm_session_set_group_learning_rate(session, 0, wrong[i]), TDM_INVALID_ARGUMENT);
    assert_message("tdm_session_set_group_learning_rate");
  }
  assert_status(tdm_session_set_learning_rate(NULL, 1), TDM_INVALID_ARGUMENT);
  assert_step(session, -1, -0.5);
  assert_ok(tdm_session_set_learning_rate(session, 1));
  assert_step(session, -2, -1);
  tdm_session_release(session);
}

typedef struct setter {
  tdm_session *session;
  _Atomic int sets;
  bool failed;
} setter;

enum { SETS = 300000 };

static void *set_again_and_again(void *user) {
  setter *self = user;
  for (int i = 0; i < SETS; i++) {
    self->failed |= tdm_session_set_learning_rate(self->session, i % 2 + 1) != TDM_OK;
    atomic_store_explicit(&self->sets, i + 1, memory_order_relaxed);
  }
  return NULL;
}

/* A step that begins while another thread sets them has all of the old ones or all of the new. */
static void rates_stay_in_proportion(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(1), of_b = tdm_sgd(0.5);
  setter self = {.session = session_of(&optimizer, &of_b)};
  const tdm_run_request step = {.training = true};
  pthread_t thread;
  int apart = 0;
  assert_int_equal(pthread_create(&thread, NULL, set_again_and_again, &self), 0);
  while (atomic_load(&self.sets) < SETS) {
    tdm_run_state *run;
    assert_ok(tdm_run_open(self.session, &step, &run));
    apart += run->scalars[1].learning_rate != run->scalars[0].learning_rate / 2;
    run->status = TDM_CANCELLED; /* it does not run */
    tdm_run_close(run);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_false(self.failed);
  assert_int_equal(apart, 0);
  tdm_session_release(self.session);
}

/* The resulting rate of a group is checked too. */
static void proportions_are_refused(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(1e-200), of_b = tdm_sgd(1);
  tdm_session *session = session_of(&optimizer, &of_b);
  assert_non_null(session);
  assert_status(tdm_session_set_learning_rate(session, 1e200), TDM_INVALID_ARGUMENT);
  assert_step(session, -1e-200, -1);
  tdm_session_release(session);
}

static void rates_of_checkpoints_are_refused(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(0.5), of_b = tdm_sgd(0.25);
  const char *const names[] = {"checkpoint/learning_rate", "checkpoint/group_learning_rates"};
  for (int i = 0; i < WRONG; i++)
    for (int n = 0; n < 2; n++) {
      tdm_session *session = session_of(&optimizer, &of_b);
      tdm_tensor_list *saved;
      assert_ok(tdm_session_save(session, &saved));
      tdm_tensor *rate = tdm_tensor_list_tensor(saved, 0);
      for (size_t k = 0; k < tdm_tensor_list_count(saved); k++)
        if (strcmp(tdm_tensor_list_name(saved, k), names[n]) == 0)
          rate = tdm_tensor_list_tensor(saved, k);
      assert_ok(tdm_tensor_write(rate, &wrong[i], sizeof wrong[i]));
      assert_status(tdm_session_load(session, saved), TDM_INVALID_ARGUMENT);
      assert_message(names[n]);
      assert_step(session, -0.5, -0.25);
      tdm_tensor_list_release(saved);
      tdm_session_release(session);
    }
}

static void schedules_are_refused(void **unused) {
  (void)unused;
  tdm_rate_schedule schedule;
  for (int i = 0; i < WRONG; i++) {
    const double rate = wrong[i];
    assert_status(tdm_rate_schedule_step(rate, 2, 0.5, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_multi_step(rate, NULL, 0, 0.5, &schedule),
                  TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_exponential(rate, 0.5, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_cosine(rate, 2, 0, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_linear(rate, 1, 1, 2, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_one_cycle(rate, 2, NULL, &schedule), TDM_INVALID_ARGUMENT);
    if (isfinite(rate)) continue; /* a factor may be negative */
    assert_status(tdm_rate_schedule_step(1, 2, rate, &schedule), TDM_INVALID_ARGUMENT);
    assert_message("gamma");
    assert_status(tdm_rate_schedule_multi_step(1, NULL, 0, rate, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_exponential(1, rate, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_cosine(1, 2, rate, &schedule), TDM_INVALID_ARGUMENT);
    const tdm_one_cycle_options first = OPTIONS(tdm_one_cycle_options, o.first_divisor = rate);
    const tdm_one_cycle_options last = OPTIONS(tdm_one_cycle_options, o.last_divisor = rate);
    assert_status(tdm_rate_schedule_one_cycle(1, 2, &first, &schedule), TDM_INVALID_ARGUMENT);
    assert_status(tdm_rate_schedule_one_cycle(1, 2, &last, &schedule), TDM_INVALID_ARGUMENT);
  }
  const tdm_one_cycle_options tiny = OPTIONS(tdm_one_cycle_options, o.first_divisor = 1e-300);
  assert_status(tdm_rate_schedule_one_cycle(1e300, 2, &tiny, &schedule), TDM_INVALID_ARGUMENT);
}

/* The momentum of step 2 decides how much of step 1's gradient, which is 1, is added to 1. */
static void momenta_are_set(void **unused) {
  (void)unused;
  const tdm_sgd_options with = OPTIONS(tdm_sgd_options, o.learning_rate = 1, o.momentum = 0.5);
  const tdm_optimizer plain = tdm_sgd(1), momentum = tdm_sgd_with(&with);
  tdm_session *session = session_of(&plain, &momentum);
  assert_non_null(session);
  assert_step(session, -1, -1);
  assert_ok(tdm_session_set_momentum(session, 0.25)); /* only of the group */
  assert_step(session, -2, -2.25);
  assert_ok(tdm_session_set_group_momentum(session, 0, 0));
  assert_step(session, -3, -3.25);
  const double bad[] = {NAN, -0.5, 1, INFINITY};
  for (int i = 0; i < 4; i++) {
    assert_status(tdm_session_set_momentum(session, bad[i]), TDM_INVALID_ARGUMENT);
    assert_message("[0, 1)");
    assert_status(tdm_session_set_group_momentum(session, 0, bad[i]), TDM_INVALID_ARGUMENT);
  }
  assert_status(tdm_session_set_group_momentum(session, 1, 0.5), TDM_INVALID_ARGUMENT);
  assert_message("no group 1 of 1");
  assert_status(tdm_session_set_momentum(NULL, 0.5), TDM_INVALID_ARGUMENT);
  tdm_session_release(session);
  session = session_of(&plain, &plain);
  assert_status(tdm_session_set_momentum(session, 0.5), TDM_INVALID_ARGUMENT);
  assert_message("sgd has no momentum");
  tdm_session_release(session);
  const tdm_optimizer without = tdm_rmsprop(1); /* it could have one */
  session = session_of(&without, &momentum);
  assert_ok(tdm_session_set_momentum(session, 0.25));
  assert_ok(tdm_session_set_group_momentum(session, 0, 0.25));
  tdm_session_release(session);
  session = session_of(&plain, &without);
  assert_status(tdm_session_set_momentum(session, 0.25), TDM_INVALID_ARGUMENT);
  assert_status(tdm_session_set_group_momentum(session, 0, 0.25), TDM_INVALID_ARGUMENT);
  assert_message("rmsprop has no momentum");
  tdm_session_release(session);
}

/* Momenta of checkpoints must be legal, and of groups that have a momentum. */
static void momenta_of_checkpoints_are_refused(void **unused) {
  (void)unused;
  const tdm_sgd_options with = OPTIONS(tdm_sgd_options, o.learning_rate = 1, o.momentum = 0.5);
  const tdm_optimizer plain = tdm_sgd(1), momentum = tdm_sgd_with(&with);
  tdm_session *session = session_of(&plain, &momentum);
  tdm_tensor_list *saved, *before;
  assert_ok(tdm_session_save(session, &before));
  assert_null(tdm_tensor_list_find(before, "checkpoint/momenta"));
  assert_ok(tdm_session_set_momentum(session, 0.25));
  assert_ok(tdm_session_save(session, &saved));
  for (size_t i = 0; i < tdm_tensor_list_count(saved); i++) {
    if (strcmp(tdm_tensor_list_name(saved, i), "checkpoint/momenta") != 0) continue;
    tdm_tensor *momenta = tdm_tensor_list_tensor(saved, i);
    const double bad[][2] = {{-1, 2}, {0.5, 0.5}, {-1, NAN}};
    for (int k = 0; k < 3; k++) {
      assert_ok(tdm_tensor_write(momenta, bad[k], sizeof bad[k]));
      assert_status(tdm_session_load(session, saved), TDM_INVALID_ARGUMENT);
      assert_message("checkpoint/momenta");
    }
  }
  assert_ok(tdm_session_load(session, before)); /* the optimizer's own again */
  assert_step(session, -1, -1);
  assert_step(session, -2, -2.5);
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(saved);
  tdm_session_release(session);
}

/* Phases without a step divide by nothing. */
static void short_cycles_have_finite_rates(void **unused) {
  (void)unused;
  for (int64_t steps = 1; steps <= 6; steps++)
    for (int kind = 0; kind < 8; kind++) {
      const tdm_one_cycle_options options =
          OPTIONS(tdm_one_cycle_options, o.rising = kind & 4 ? 0.5 : 0, o.linear = kind & 1,
                  o.three_phases = kind & 2);
      tdm_rate_schedule schedule;
      assert_ok(tdm_rate_schedule_one_cycle(1, steps, &options, &schedule));
      for (int64_t step = 0; step <= steps; step++) {
        const double rate = tdm_rate_schedule_at(&schedule, step);
        assert_true(rate >= 0 && rate <= 1);
      }
    }
  const tdm_one_cycle_options all = OPTIONS(tdm_one_cycle_options, o.rising = 1);
  tdm_rate_schedule schedule;
  assert_ok(tdm_rate_schedule_one_cycle(1, 1, &all, &schedule));
  assert_true(tdm_rate_schedule_at(&schedule, 0) == 1);
}

/* A rate that grows beyond all numbers is refused when it is set. */
static void schedules_that_grow_are_refused_in_time(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(0.5);
  tdm_session *session = session_of(&optimizer, NULL);
  tdm_rate_schedule schedule;
  assert_ok(tdm_rate_schedule_exponential(1, 1e10, &schedule));
  assert_ok(tdm_session_set_learning_rate(session, tdm_rate_schedule_at(&schedule, 30)));
  assert_status(tdm_session_set_learning_rate(session, tdm_rate_schedule_at(&schedule, 31)),
                TDM_INVALID_ARGUMENT);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_refused),
      cmocka_unit_test(settings_are_refused),
      cmocka_unit_test(rates_that_are_set_are_refused),
      cmocka_unit_test(rates_stay_in_proportion),
      cmocka_unit_test(proportions_are_refused),
      cmocka_unit_test(rates_of_checkpoints_are_refused),
      cmocka_unit_test(schedules_are_refused),
      cmocka_unit_test(momenta_are_set),
      cmocka_unit_test(momenta_of_checkpoints_are_refused),
      cmocka_unit_test(short_cycles_have_finite_rates),
      cmocka_unit_test(schedules_that_grow_are_refused_in_time),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
