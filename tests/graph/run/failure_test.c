/* The Nth copy, kernel, wait or device allocation fails, once or from there on, for every N until
 * none does. Before the update phase nothing has changed; inside it the store is broken until
 * parameters are loaded, and then trains as a fresh one would. */
#include "tests/graph/support.h"
#include "tests/options.h"

static const char *const site_names[TDM_FAULT_SITES] = {"allocation", "copy", "kernel", "wait"};

typedef struct fault_sweep {
  tdm_context *context;
  const char *first;
  const char *second;
  tdm_tensor_list *parameters; /* parameters of a fresh session, without states */
  tdm_tensor_list *after_one;  /* the whole state after one step on it, and after two */
  tdm_tensor_list *after_two;
  test_batch batch;
  int unchanged; /* failures before the update phase, and inside it */
  int broken;
} fault_sweep;

static tdm_session *fresh_session(const fault_sweep *sweep) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(sweep->context, sweep->first, sweep->second, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.check_finite = true);
  tdm_optimizer optimizer = tdm_adam(0.01);
  optimizer.clip_norm = 0.5;
  return train_session(graph, loss, optimizer, &options);
}

static void sweep_begin(fault_sweep *sweep, const char *first, const char *second) {
  memset(sweep, 0, sizeof *sweep);
  sweep->context = graph_context();
  sweep->first = first;
  sweep->second = second;
  test_batch_make(&sweep->batch, sweep->context, 12, 5);
  tdm_session *session = fresh_session(sweep);
  sweep->parameters = tdm_store_save(tdm_session_store(session), false);
  assert_non_null(sweep->parameters);
  (void)train_once(session, &sweep->batch);
  sweep->after_one = state_of(session);
  (void)train_once(session, &sweep->batch);
  sweep->after_two = state_of(session);
  tdm_session_release(session);
}

static void sweep_end(fault_sweep *sweep) {
  tdm_tensor_list_release(sweep->parameters);
  tdm_tensor_list_release(sweep->after_one);
  tdm_tensor_list_release(sweep->after_two);
  test_batch_release(&sweep->batch);
  tdm_context_release(sweep->context);
}

static void assert_state(tdm_session *session, const tdm_tensor_list *wanted) {
  tdm_tensor_list *state = state_of(session);
  assert_same_state(state, wanted);
  tdm_tensor_list_release(state);
}

static void assert_cause(tdm_fault_site site) {
  char cause[64];
  assert_true(snprintf(cause, sizeof cause, "injected failure of %s", site_names[site]) > 0);
  assert_message(cause);
}

/* Checks that nothing has changed, and that the next step gives the same result as without the
 * failure. */
static void check_unchanged(fault_sweep *sweep, tdm_session *session, const tdm_tensor_list *before,
                            const tdm_tensor_list *next, uint64_t version) {
  sweep->unchanged++;
  assert_int_equal(tdm_store_version(tdm_session_store(session)), version);
  if (before) assert_state(session, before);
  (void)train_once(session, &sweep->batch);
  assert_state(session, next);
}

/* Refused with the cause for every kind of run, until parameters are loaded. */
static void check_broken(fault_sweep *sweep, tdm_session *session, tdm_fault_site site) {
  sweep->broken++;
  tdm_store *store = tdm_session_store(session);
  assert_true(tdm_train_step(session, sweep->batch.feeds, 2, NULL, 0, NULL) != TDM_OK);
  assert_message("broken");
  assert_cause(site);
  tdm_fetch scores = {.name = "scores"};
  assert_true(tdm_run(session, sweep->batch.feeds, 1, &scores, 1) != TDM_OK);
  assert_cause(site);
  assert_null(scores.tensor);
  assert_null(tdm_store_save(store, true));
  assert_ok(tdm_store_load(store, sweep->parameters));
  assert_ok(tdm_store_status(store));
  (void)train_once(session, &sweep->batch);
  assert_state(session, sweep->after_one);
  (void)train_once(session, &sweep->batch);
  assert_state(session, sweep->after_two);
}

/* One training step with the Nth call of site failing; false: it did not fail. */
static bool strike(fault_sweep *sweep, tdm_fault_site site, uint64_t n, bool from_on,
                   bool planned) {
  tdm_faults *faults = tdm_context_faults(sweep->context);
  tdm_session *session = fresh_session(sweep);
  if (planned) (void)train_once(session, &sweep->batch);
  tdm_store *store = tdm_session_store(session);
  const uint64_t version = tdm_store_version(store);
  tdm_fetch scores = {.name = "scores"};
  tdm_faults_arm(faults, site, n, from_on);
  const tdm_status status = tdm_train_step(session, sweep->batch.feeds, 2, &scores, 1, NULL);
  const bool struck = atomic_load(&faults->calls[site]) >= n;
  tdm_faults_arm(faults, site, 0, false);
  if (!struck) {
    assert_ok(status);
    assert_state(session, planned ? sweep->after_two : sweep->after_one);
    tdm_tensor_release(scores.tensor);
    tdm_session_release(session);
    return false;
  }
  assert_true(status != TDM_OK);
  assert_null(scores.tensor);
  assert_cause(site);
  if (tdm_store_status(store) == TDM_OK)
    check_unchanged(sweep, session, planned ? sweep->after_one : NULL,
                    planned ? sweep->after_two : sweep->after_one, version);
  else
    check_broken(sweep, session, site);
  tdm_session_release(session);
  return true;
}

static void sweep_site(fault_sweep *sweep, tdm_fault_site site, bool planned) {
  for (int from_on = 0; from_on < 2; from_on++) {
    uint64_t n = 1;
    while (strike(sweep, site, n, from_on, planned)) {
      n++;
      assert_true(n < 1000);
    }
  }
}

static void sweep_all(const char *first, const char *second, bool waits) {
  fault_sweep sweep;
  sweep_begin(&sweep, first, second);
  sweep_site(&sweep, TDM_FAULT_KERNEL, true);
  /* Five parameters are updated, each by a separate node. */
  assert_true(sweep.broken >= 10);
  assert_true(sweep.unchanged >= 20);
  sweep_site(&sweep, TDM_FAULT_COPY, true);
  sweep.unchanged = sweep.broken = 0;
  sweep_site(&sweep, TDM_FAULT_WAIT, true);
  assert_true(waits == (sweep.unchanged > 0));
  sweep_end(&sweep);
}

static void every_command_of_a_mixed_step(void **unused) {
  (void)unused;
  sweep_all("cpu:0", "sim:0", true);
}

static void every_command_of_two_accelerators(void **unused) {
  (void)unused;
  sweep_all("sim:1", "sim:0", true);
}

static void every_command_of_one_queue(void **unused) {
  (void)unused;
  sweep_all("cpu:0", "cpu:0", false);
}

/* The first step also plans, binds states of the optimizer and takes memory. */
static void every_step_towards_the_first_run(void **unused) {
  (void)unused;
  fault_sweep sweep;
  sweep_begin(&sweep, "cpu:0", "sim:0");
  sweep_site(&sweep, TDM_FAULT_ALLOCATION, false);
  assert_true(sweep.unchanged >= 10);
  assert_int_equal(sweep.broken, 0); /* the update phase takes no memory */
  sweep_site(&sweep, TDM_FAULT_COPY, false);
  sweep_end(&sweep);
}

/* ---- What other sessions see ----------------------------------------------------------------- */

/* A failure inside one session's update phase is reported by all sessions of the store. */
static void a_broken_store_is_broken_for_all(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_store *store = tdm_store_create(context);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *trainer = train_session(graph, loss, tdm_sgd(0.1), &options);
  tdm_session *reader = run_session(seed_graph(context, "sim:1", "sim:1", NULL), &options);
  test_batch batch;
  test_batch_make(&batch, context, 8, 1);
  tdm_tensor_list *parameters = tdm_store_save(store, false);
  tdm_tensor *wanted = run_once(reader, &batch, "scores");
  (void)train_once(trainer, &batch);
  tdm_faults *faults = tdm_context_faults(context);
  uint64_t n = 1;
  while (tdm_store_status(store) == TDM_OK) {
    tdm_faults_arm(faults, TDM_FAULT_KERNEL, n++, false);
    assert_true(tdm_train_step(trainer, batch.feeds, 2, NULL, 0, NULL) != TDM_OK);
    assert_true(n < 100);
  }
  tdm_faults_arm(faults, TDM_FAULT_KERNEL, 0, false);
  tdm_fetch scores = {.name = "scores"};
  assert_true(tdm_run(reader, batch.feeds, 1, &scores, 1) != TDM_OK);
  assert_message("broken");
  assert_ok(tdm_store_load(store, parameters));
  assert_ok(tdm_run(reader, batch.feeds, 1, &scores, 1));
  assert_same_tensor(scores.tensor, wanted);
  tdm_tensor_release(scores.tensor);
  tdm_tensor_release(wanted);
  tdm_tensor_list_release(parameters);
  test_batch_release(&batch);
  tdm_session_release(trainer);
  tdm_session_release(reader);
  tdm_store_release(store);
  tdm_context_release(context);
}

/* A failure in one run's nodes names the node, and the next run is not touched by it. */
static void an_id_outside_the_table_is_named(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "sim:0", NULL), NULL);
  test_batch batch;
  test_batch_make(&batch, context, 8, 1);
  int64_t *ids = tdm_tensor_data(batch.ids);
  const int64_t kept = ids[3];
  ids[3] = MODEL_ROWS + 5;
  tdm_fetch scores = {.name = "scores"};
  assert_status(tdm_run(session, batch.feeds, 1, &scores, 1), TDM_INVALID_ARGUMENT);
  assert_message("embedding");
  assert_message("1005");
  ids[3] = kept;
  tdm_tensor_release(run_once(session, &batch, "scores"));
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_command_of_a_mixed_step),
      cmocka_unit_test(every_command_of_two_accelerators),
      cmocka_unit_test(every_command_of_one_queue),
      cmocka_unit_test(every_step_towards_the_first_run),
      cmocka_unit_test(a_broken_store_is_broken_for_all),
      cmocka_unit_test(an_id_outside_the_table_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
