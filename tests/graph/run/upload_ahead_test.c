/* Early uploads: the inputs of the next training step are uploaded directly from the loader's
 * memory, while the step before is still in a kernel. Checked by counts, not by times. */
#include <stdlib.h>
#include <unistd.h>

#include "devices/staging/pool.h"
#include "devices/staging/staged_memory.h"
#include "graph/run/session.h"
#include "tests/graph/clogged.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"

typedef struct fixture {
  clog clog;
  tdm_context *context;
  tdm_session *session;
  run_tally tally;
} fixture;

static void begin_on(fixture *mine, int depth, const char *first, const char *second) {
  memset(mine, 0, sizeof *mine);
  mine->context = graph_context();
  clog_register(mine->context);
  tdm_value loss;
  tdm_graph *graph = clogged_graph(mine->context, first, second, &mine->clog, &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = depth);
  mine->session = train_session(graph, loss, tdm_adam(0.01), &options);
  run_tally_init(&mine->tally);
}

static void begin(fixture *mine, int depth) {
  begin_on(mine, depth, "sim:0", "sim:1");
}

static void end(fixture *mine) {
  run_tally_deinit(&mine->tally);
  tdm_session_release(mine->session);
  tdm_context_close(mine->context, NULL, NULL);
  tdm_context_release(mine->context);
}

static uint64_t copies_of(fixture *mine) {
  return atomic_load(&tdm_context_faults(mine->context)->calls[TDM_FAULT_COPY]);
}

/* Copies made while the first of two steps is in its kernel, which keeps sim:0 busy altogether. */
static uint64_t copies_under_a_kernel(int depth, uint64_t expected) {
  fixture mine;
  begin(&mine, depth);
  test_batch batch;
  test_batch_make(&batch, mine.context, ROWS, 1);
  (void)train_once(mine.session, &batch); /* the plan is made */
  atomic_store(&mine.clog.entered, 0);
  atomic_store(&mine.clog.shut, true);
  tdm_faults_arm(tdm_context_faults(mine.context), TDM_FAULT_COPY, UINT64_MAX, false);
  submit_step(mine.session, &batch, &mine.tally);
  submit_step(mine.session, &batch, &mine.tally);
  clog_await(&mine.clog, 1);
  for (int i = 0; i < 100000 && copies_of(&mine) < expected; i++)
    usleep(100);
  usleep(20000); /* time for an event that must not occur */
  const uint64_t copies = copies_of(&mine);
  assert_int_equal(mine.tally.done, 0);
  assert_int_equal(atomic_load(&mine.clog.entered), 1);
  atomic_store(&mine.clog.shut, false);
  run_tally_await(&mine.tally, 2);
  assert_int_equal(mine.tally.failed, 0);
  tdm_faults_arm(tdm_context_faults(mine.context), TDM_FAULT_COPY, 0, false);
  test_batch_release(&batch);
  end(&mine);
  return copies;
}

static void the_next_steps_targets_are_uploaded_under_this_ones_kernel(void **unused) {
  (void)unused;
  assert_int_equal(copies_under_a_kernel(1, 2), 2); /* ids and targets of the next step */
  assert_int_equal(copies_under_a_kernel(2, 3), 3); /* and the upload of the next batch, to sim:1 */
}

static void await_copies(fixture *mine, uint64_t copies) {
  for (int i = 0; i < 600000 && copies_of(mine) < copies; i++)
    usleep(100);
  assert_int_equal(copies_of(mine), copies);
}

/* The first of three steps has ended and the second is held on cpu:0, so the rows that it makes for
 * sim:0 cannot be uploaded yet. The upload of the third step's targets does not wait for them. */
static void uploads_pass_the_step_between(void **unused) {
  (void)unused;
  fixture mine;
  begin_on(&mine, 3, "cpu:0", "sim:0");
  test_batch batch;
  test_batch_make(&batch, mine.context, ROWS, 1);
  (void)train_once(mine.session, &batch);
  tdm_faults_arm(tdm_context_faults(mine.context), TDM_FAULT_COPY, UINT64_MAX, false);
  (void)train_once(mine.session, &batch);
  const uint64_t of_a_step = copies_of(&mine);
  assert_true(of_a_step >= 2); /* targets, rows, gradients of rows */
  atomic_store(&mine.clog.entered, 0);
  atomic_store(&mine.clog.shut, true);
  for (int i = 0; i < 3; i++)
    submit_step(mine.session, &batch, &mine.tally);
  clog_await(&mine.clog, 1);
  atomic_store(&mine.clog.passing, 1);
  run_tally_await(&mine.tally, 1);
  clog_await(&mine.clog, 2);
  await_copies(&mine, of_a_step + of_a_step + 2);
  atomic_store(&mine.clog.shut, false);
  run_tally_await(&mine.tally, 3);
  assert_int_equal(mine.tally.failed, 0);
  tdm_faults_arm(tdm_context_faults(mine.context), TDM_FAULT_COPY, 0, false);
  test_batch_release(&batch);
  end(&mine);
}

/* Fields "ids" and "targets", as the model is fed. */
static tdm_loader *make_loader(fixture *mine, const char *near) {
  test_batch all;
  test_batch_make(&all, mine->context, 4 * ROWS, 1);
  static const char *const names[] = {"ids", "targets"};
  tdm_tensor *const tensors[] = {all.ids, all.targets};
  tdm_dataset *dataset = tdm_dataset_from_tensors(mine->context, names, tensors, 2);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = ROWS, o.prefetch = 2, o.near = near);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  if (!loader) fail_msg("no loader: %s", tdm_last_message());
  tdm_dataset_release(dataset);
  test_batch_release(&all);
  return loader;
}

/* An epoch whose batches are fed. Returns the number of batches that were made in pinned memory. */
static int train_epoch(fixture *mine, const char *near) {
  tdm_loader *loader = make_loader(mine, near);
  int pinned = 0;
  int batches = 0;
  for (;;) {
    tdm_tensor *fields[2];
    int64_t rows = 0;
    assert_ok(tdm_loader_next(loader, fields, 2, &rows));
    if (rows == 0) break;
    pinned += tdm_memory_is_pinned(&fields[1]->storage->memory);
    const tdm_feed feeds[] = {{"ids", fields[0], true}, {"targets", fields[1], true}};
    assert_ok(tdm_submit(mine->session, true, feeds, 2, NULL, 0, run_tally_note, &mine->tally));
    tdm_tensor_release(fields[0]);
    tdm_tensor_release(fields[1]);
    batches++;
  }
  run_tally_await(&mine->tally, batches);
  assert_int_equal(mine->tally.failed, 0);
  assert_int_equal(batches, 4);
  tdm_loader_release(loader);
  return pinned;
}

static void batches_near_a_device_train_as_others_do(void **unused) {
  (void)unused;
  fixture plain;
  fixture near;
  begin(&plain, 1);
  begin(&near, 2);
  assert_int_equal(train_epoch(&plain, NULL), 0);
  assert_int_equal(train_epoch(&near, "sim:1"), 4);
  tdm_tensor_list *mine = state_of(plain.session);
  tdm_tensor_list *theirs = state_of(near.session);
  assert_same_state(mine, theirs);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(theirs);
  char *text = printed(near.session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_non_null(strstr(text, "pinned"));
  assert_null(strstr(text, "pageable"));
  free(text);
  end(&plain);
  end(&near);
}

static void near_an_unknown_device_there_is_no_loader(void **unused) {
  (void)unused;
  fixture mine;
  begin(&mine, 1);
  tdm_loader *plain = make_loader(&mine, "cpu:0"); /* plain memory */
  tdm_loader_release(plain);
  static const char *const names[] = {"ids"};
  test_batch all;
  test_batch_make(&all, mine.context, ROWS, 1);
  tdm_dataset *dataset = tdm_dataset_from_tensors(mine.context, names, &all.ids, 1);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.near = "npu:0");
  assert_null(tdm_loader_create(dataset, &options));
  assert_message("npu");
  tdm_dataset_release(dataset);
  test_batch_release(&all);
  end(&mine);
}

/* ---- Copies of inputs ------------------------------------------------------------------------ */

static uint64_t buffers_taken(tdm_context *context) {
  tdm_pool_counters counters;
  tdm_pool_counters_read(tdm_context_pool(context), &counters);
  return counters.taken;
}

/* A plan for pinned inputs receives pinned ones, also if a submitted run copies an input that the
 * caller kept. */
static void the_copy_of_a_pinned_input_is_pinned(void **unused) {
  (void)unused;
  fixture mine;
  begin(&mine, 1);
  const tdm_session_options strict = OPTIONS(tdm_session_options, o.strict = true);
  tdm_session *session = run_session(seed_graph(mine.context, "sim:0", "sim:0", NULL), &strict);
  test_batch batch;
  test_batch_make(&batch, mine.context, ROWS, 1);
  tdm_tensor *staged = tdm_tensor_staging(mine.context, "sim:0", TDM_INT64, tdm_shape_of(1, ROWS));
  memcpy(tdm_tensor_data(staged), tdm_tensor_data(batch.ids), tdm_tensor_bytes(staged));
  const tdm_feed feed = {"ids", staged, false};
  const tdm_fetch scores = {.name = "scores"};
  uint64_t taken = 0;
  for (int i = 0; i < 2; i++) {
    taken = buffers_taken(mine.context); /* the output reuses the first run's memory */
    assert_ok(tdm_submit(session, false, &feed, 1, &scores, 1, run_tally_note, &mine.tally));
    run_tally_await(&mine.tally, i + 1);
    tdm_tensor_release(mine.tally.tensors[i]);
    mine.tally.tensors[i] = NULL;
  }
  assert_int_equal(mine.tally.failed, 0);
  assert_int_equal(buffers_taken(mine.context) - taken, 1);
  tdm_tensor_release(staged);
  test_batch_release(&batch);
  tdm_session_release(session);
  end(&mine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_next_steps_targets_are_uploaded_under_this_ones_kernel),
      cmocka_unit_test(uploads_pass_the_step_between),
      cmocka_unit_test(batches_near_a_device_train_as_others_do),
      cmocka_unit_test(near_an_unknown_device_there_is_no_loader),
      cmocka_unit_test(the_copy_of_a_pinned_input_is_pinned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
