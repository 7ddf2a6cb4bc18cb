/* Values that runs of a sequence keep, as a whole and in rows, at any placement. Several sequences
 * run concurrently. Failures lose no kept value. For accelerators of TEST_KIND. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/graph/run_tally.h"
#include "tests/options.h"

enum { ROWS_KEPT = 6, DIM = 3 };

/* ---- Models ---------------------------------------------------------------------------------- */

/* total = kept + x, kept for the next run, on `kept_on`; computed on `on`. */
static tdm_session *total_session(tdm_context *context, const char *kept_on, const char *on,
                                  const tdm_session_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, DIM));
  if (kept_on) tdm_place(graph, kept_on);
  const tdm_value kept = tdm_kept(graph, "total", TDM_FLOAT32, tdm_shape_of(1, DIM));
  if (on) tdm_place(graph, on);
  const tdm_value total = tdm_add(graph, "add", kept, x);
  tdm_keep(graph, "keep", kept, total);
  tdm_output(graph, "before", tdm_mul_scalar(graph, "same", kept, 1));
  tdm_output(graph, "total", total);
  return run_session(graph, options);
}

/* cache (6, 3) gets the rows x at the indices `at`; "sums" are of its rows, on `on`. */
static tdm_session *cache_session(tdm_context *context, const char *kept_on, const char *on,
                                  const tdm_session_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim n = tdm_dim_named("n");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, n, DIM));
  const tdm_value at = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, n));
  if (kept_on) tdm_place(graph, kept_on);
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, ROWS_KEPT, DIM));
  if (on) tdm_place(graph, on);
  tdm_output(graph, "old", tdm_sum(graph, "old", kept, (const int[]){1}, 1, false));
  const tdm_value cache = tdm_keep_rows(graph, "put", kept, x, at);
  tdm_output(graph, "sums", tdm_sum(graph, "sums", cache, (const int[]){1}, 1, false));
  tdm_output(graph, "cache", cache);
  return run_session(graph, options);
}

static tdm_tensor *of_number(tdm_context *context, float number) {
  return tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, DIM), number);
}

/* The first element of an output of a run that is fed `number` everywhere. */
static float total_of(tdm_sequence *sequence, tdm_context *context, float number,
                      const char *output) {
  tdm_tensor *x = of_number(context, number);
  tdm_fetch fetch = {output, NULL};
  assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", x, false}, 1, &fetch, 1));
  const float found = *(const float *)tdm_tensor_data(fetch.tensor);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  return found;
}

/* Writes two rows of `number` at the indices; the output of six numbers. */
static tdm_status put_rows(tdm_sequence *sequence, tdm_context *context, float number,
                           int64_t first, int64_t second, const char *output, float *out_sums) {
  const int64_t at[] = {first, second};
  tdm_tensor *feeds[] = {
      tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 2, DIM), number),
      tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), at)};
  tdm_fetch fetch = {output, NULL};
  const tdm_status status = tdm_sequence_run(
      sequence, (const tdm_feed[]){{"x", feeds[0], false}, {"at", feeds[1], false}}, 2, &fetch, 1);
  if (status == TDM_OK) memcpy(out_sums, tdm_tensor_data(fetch.tensor), ROWS_KEPT * sizeof(float));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(feeds[0]);
  tdm_tensor_release(feeds[1]);
  return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *const places[] = {NULL, "cpu:0", "cpu:1", TEST_KIND ":0", TEST_KIND ":1"};

static void a_whole_value_goes_from_run_to_run_at_any_placement(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t k = 0; k < TDM_COUNT_OF(places); k++)
    for (size_t d = 0; d < TDM_COUNT_OF(places); d++) {
      tdm_session *session = total_session(context, places[k], places[d], NULL);
      tdm_sequence *sequence = tdm_sequence_create(session);
      assert_non_null(sequence);
      assert_true(total_of(sequence, context, 1, "total") == 1);
      assert_true(total_of(sequence, context, 2, "before") == 1);
      assert_true(total_of(sequence, context, 4, "total") == 7);
      tdm_sequence_release(sequence);
      tdm_session_release(session);
    }
  tdm_context_release(context);
}

static void rows_are_kept_at_any_placement(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  float sums[ROWS_KEPT];
  for (size_t k = 0; k < TDM_COUNT_OF(places); k++)
    for (size_t d = 0; d < TDM_COUNT_OF(places); d++) {
      tdm_session *session = cache_session(context, places[k], places[d], NULL);
      tdm_sequence *sequence = tdm_sequence_create(session);
      assert_ok(put_rows(sequence, context, 1, 0, 3, "sums", sums));
      assert_memory_equal(sums, ((float[]){3, 0, 0, 3, 0, 0}), sizeof sums);
      assert_ok(put_rows(sequence, context, 2, 5, 0, "old", sums));
      assert_memory_equal(sums, ((float[]){3, 0, 0, 3, 0, 0}), sizeof sums);
      assert_ok(put_rows(sequence, context, 3, 1, 2, "sums", sums));
      assert_memory_equal(sums, ((float[]){6, 9, 9, 3, 0, 6}), sizeof sums);
      tdm_sequence_release(sequence);
      tdm_session_release(session);
    }
  tdm_context_release(context);
}

static void sequences_know_nothing_of_each_other(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = total_session(context, TEST_KIND ":0", "cpu:1", NULL);
  tdm_sequence *one = tdm_sequence_create(session), *two = tdm_sequence_create(session);
  (void)total_of(one, context, 1, "total");
  (void)total_of(two, context, 10, "total");
  tdm_sequence *three = tdm_sequence_copy(one);
  assert_true(total_of(one, context, 1, "total") == 2);
  assert_true(total_of(two, context, 10, "total") == 20);
  assert_true(total_of(three, context, 5, "total") == 6);
  assert_ok(tdm_sequence_reset(one));
  assert_true(total_of(one, context, 3, "total") == 3);
  tdm_tensor *is = NULL, *wanted = of_number(context, 100);
  assert_ok(tdm_sequence_set(one, "total", wanted));
  assert_true(total_of(one, context, 1, "total") == 101);
  assert_ok(tdm_sequence_get(one, "total", &is));
  assert_true(*(const float *)tdm_tensor_data(is) == 101);
  tdm_tensor_release(is);
  tdm_tensor_release(wanted);
  tdm_sequence_release(one);
  tdm_sequence_release(two);
  tdm_sequence_release(three);
  tdm_session_release(session);
  tdm_context_release(context);
}

typedef struct stream {
  tdm_session *session;
  tdm_context *context;
  int number;
} stream;

static void *go_on(void *user) {
  const stream *self = user;
  tdm_sequence *sequence = tdm_sequence_create(self->session);
  float total = 0;
  for (int i = 0; i < 50; i++)
    total = total_of(sequence, self->context, (float)self->number, "total");
  tdm_sequence_release(sequence);
  assert_true(total == 50 * (float)self->number);
  return NULL;
}

static void many_sequences_go_on_at_once(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session =
      total_session(context, TEST_KIND ":0", "cpu:1", WITH(tdm_session_options, o.depth = 3));
  pthread_t threads[6];
  stream streams[6];
  for (int i = 0; i < 6; i++) {
    streams[i] = (stream){session, context, i + 1};
    assert_int_equal(pthread_create(&threads[i], NULL, go_on, &streams[i]), 0);
  }
  for (int i = 0; i < 6; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

enum { SUBMITTED = 20 };

typedef struct writer {
  tdm_session *session;
  tdm_sequence *sequence;
  tdm_tensor *x;
  int left;
  float total;
  tdm_status refused; /* status of a second run at the same time */
  run_tally tally;
} writer;

static void submit_next(writer *self);

static void note_run(void *user, tdm_run_result *result) {
  writer *self = user;
  assert_ok(result->status);
  self->total = *(const float *)tdm_tensor_data(result->fetches[0].tensor);
  tdm_tensor_release(result->fetches[0].tensor);
  if (--self->left > 0)
    submit_next(self);
  else
    run_tally_note(&self->tally, &(tdm_run_result){.message = ""});
}

static void submit_next(writer *self) {
  const tdm_submit_options options = OPTIONS(tdm_submit_options, o.callback = note_run,
                                             o.user = self, o.sequence = self->sequence);
  const tdm_feed feed = {"x", self->x, false};
  const tdm_fetch fetch = {"total", NULL};
  assert_ok(tdm_submit_with(self->session, &options, &feed, 1, &fetch, 1, NULL));
}

static void a_callback_submits_the_next_run(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t i = 1; i < TDM_COUNT_OF(places); i++) {
    writer self = {.session = total_session(context, places[i], NULL, NULL), .left = SUBMITTED};
    run_tally_init(&self.tally);
    self.sequence = tdm_sequence_create(self.session);
    self.x = of_number(context, 2);
    submit_next(&self);
    run_tally_await(&self.tally, 1);
    assert_true(self.total == 2 * SUBMITTED);
    run_tally_deinit(&self.tally);
    tdm_tensor_release(self.x);
    tdm_sequence_release(self.sequence);
    tdm_session_release(self.session);
  }
  tdm_context_release(context);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void assert_refused(tdm_status status, tdm_status wanted, const char *part) {
  assert_int_equal(status, wanted);
  if (!strstr(tdm_last_message(), part))
    fail_msg("\"%s\" without \"%s\"", tdm_last_message(), part);
}

static void an_index_outside_fails_and_writes_no_other_row(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t k = 1; k < TDM_COUNT_OF(places); k++) {
    tdm_session *session = cache_session(context, places[k], NULL, NULL);
    tdm_sequence *sequence = tdm_sequence_create(session);
    float sums[ROWS_KEPT];
    assert_ok(put_rows(sequence, context, 1, 2, 1, "sums", sums));
    assert_refused(put_rows(sequence, context, 9, 0, ROWS_KEPT, "sums", sums), TDM_INVALID_ARGUMENT,
                   "put");
    assert_non_null(strstr(tdm_last_message(), "6"));
    assert_refused(put_rows(sequence, context, 9, -1, 0, "sums", sums), TDM_INVALID_ARGUMENT, "-1");
    assert_ok(put_rows(sequence, context, 2, 0, 5, "sums", sums));
    assert_memory_equal(sums, ((float[]){6, 3, 3, 0, 0, 6}), sizeof sums);
    tdm_sequence_release(sequence);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

/* Makes a second run whose Nth call of site fails. The kept value is unchanged, or the sequence
 * reports that it is broken until it is reset. Returns false if nothing failed. */
static bool strike(tdm_session *session, tdm_context *context, tdm_fault_site site, uint64_t n,
                   int *broken) {
  tdm_faults *faults = tdm_context_faults(context);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_true(total_of(sequence, context, 1, "total") == 1);
  tdm_tensor *x = of_number(context, 2);
  tdm_fetch fetch = {"total", NULL};
  const tdm_feed feed = {"x", x, false};
  tdm_faults_arm(faults, site, n, false);
  const tdm_status status = tdm_sequence_run(sequence, &feed, 1, &fetch, 1);
  const bool struck = atomic_load(&faults->calls[site]) >= n;
  tdm_faults_arm(faults, site, 0, false);
  assert_int_equal(status != TDM_OK, struck);
  if (struck) {
    assert_null(fetch.tensor);
    const bool refused = tdm_sequence_run(sequence, &feed, 1, &fetch, 1) != TDM_OK;
    if (refused) {
      ++*broken;
      assert_message("has failed while it kept its values");
      assert_ok(tdm_sequence_reset(sequence));
      assert_true(total_of(sequence, context, 3, "total") == 3);
    } else {
      assert_true(*(const float *)tdm_tensor_data(fetch.tensor) == 3);
    }
  }
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_sequence_release(sequence);
  return struck;
}

static void failures_lose_nothing_or_are_told(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  int broken = 0;
  for (size_t k = 1; k < TDM_COUNT_OF(places); k++)
    for (size_t d = 1; d < TDM_COUNT_OF(places); d++) {
      tdm_session *session = total_session(context, places[k], places[d], NULL);
      for (int site = TDM_FAULT_COPY; site <= TDM_FAULT_KERNEL; site++)
        for (uint64_t n = 1; strike(session, context, (tdm_fault_site)site, n, &broken); n++)
          assert_true(n < 100);
      tdm_session_release(session);
    }
  assert_true(broken > 0);
  tdm_context_release(context);
}

static void runs_need_their_sequence(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = total_session(context, "cpu:1", NULL, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  tdm_tensor *x = of_number(context, 1);
  const tdm_feed feeds[] = {{"x", x, false}, {"total", x, false}};
  tdm_fetch fetch = {"total", NULL};
  assert_refused(tdm_run(session, feeds, 1, &fetch, 1), TDM_INVALID_ARGUMENT, "total");
  assert_non_null(strstr(tdm_last_message(), "tdm_sequence_run"));
  assert_refused(tdm_sequence_run(sequence, feeds, 2, &fetch, 1), TDM_INVALID_ARGUMENT, "kept");
  assert_refused(tdm_sequence_run(NULL, feeds, 1, &fetch, 1), TDM_INVALID_ARGUMENT, "sequence");
  assert_refused(tdm_sequence_set(sequence, "totl", x), TDM_INVALID_ARGUMENT, "totl");
  assert_refused(tdm_sequence_set(sequence, "total", NULL), TDM_INVALID_ARGUMENT, "total");
  assert_refused(tdm_sequence_get(sequence, "total", NULL), TDM_INVALID_ARGUMENT, "answer");
  tdm_tensor *other = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT64, tdm_shape_of(1, DIM));
  assert_refused(tdm_sequence_set(sequence, "total", other), TDM_INVALID_ARGUMENT, "float64");
  assert_true(total_of(sequence, context, 1, "total") == 1);
  tdm_tensor_release(other);
  tdm_tensor_release(x);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

static tdm_value kept_rows(tdm_graph *graph) {
  return tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, ROWS_KEPT, DIM));
}

static void describe_stale_reader(tdm_graph *graph, tdm_value x, tdm_value at) {
  const tdm_value kept = kept_rows(graph);
  (void)tdm_keep_rows(graph, "put", kept, x, at);
  (void)tdm_relu(graph, "reader", kept);
}

static void describe_stale_view(tdm_graph *graph, tdm_value x, tdm_value at) {
  const tdm_value kept = kept_rows(graph);
  const tdm_value view = tdm_reshape(graph, "view", kept, tdm_shape_of(1, ROWS_KEPT * DIM));
  (void)tdm_keep_rows(graph, "put", kept, x, at);
  (void)tdm_relu(graph, "reader", view);
}

static void describe_stale_output(tdm_graph *graph, tdm_value x, tdm_value at) {
  const tdm_value kept = kept_rows(graph);
  tdm_output(graph, "was", kept);
  (void)tdm_keep_rows(graph, "put", kept, x, at);
}

static void describe_two_keeps(tdm_graph *graph, tdm_value x, tdm_value at) {
  (void)at;
  const tdm_value kept = tdm_kept(graph, "state", TDM_FLOAT32, tdm_shape_of(2, 2, DIM));
  tdm_keep(graph, "first", kept, x);
  tdm_keep(graph, "second", kept, x);
}

static void describe_other_shape(tdm_graph *graph, tdm_value x, tdm_value at) {
  (void)at;
  tdm_keep(graph, "keep", tdm_kept(graph, "state", TDM_FLOAT32, tdm_shape_of(2, 3, DIM)), x);
}

static void describe_named_size(tdm_graph *graph, tdm_value x, tdm_value at) {
  (void)x;
  (void)at;
  (void)tdm_kept(graph, "state", TDM_FLOAT32, tdm_shape_of(1, tdm_dim_named("n")));
}

static void describe_no_kept(tdm_graph *graph, tdm_value x, tdm_value at) {
  (void)tdm_keep_rows(graph, "put", x, x, at);
}

static void describe_other_rows(tdm_graph *graph, tdm_value x, tdm_value at) {
  (void)tdm_keep_rows(graph, "put",
                      tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, ROWS_KEPT, 7)), x, at);
}

static void descriptions_are_refused(void **unused) {
  (void)unused;
  static const struct {
    void (*describe)(tdm_graph *graph, tdm_value x, tdm_value at);
    const char *says;
  } cases[] = {
      {describe_stale_reader, "reader: cache was written since"},
      {describe_stale_view, "reader: cache was written since"},
      {describe_stale_output, "output was shows cache"},
      {describe_two_keeps, "first keeps state already"},
      {describe_other_shape, "must be float32 [3, 3]"},
      {describe_named_size, "kept state"},
      {describe_no_kept, "tdm_kept"},
      {describe_other_rows, "rows is float32 [2, 3]"},
  };
  tdm_context *context = graph_context();
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2, DIM));
    const tdm_value at = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, 2));
    cases[i].describe(graph, x, at);
    assert_refused(tdm_graph_status(graph), TDM_INVALID_ARGUMENT, cases[i].says);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

static void a_device_map_says_where_a_value_is_kept(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = total_session(
      context, "cpu:0", "cpu:1", WITH(tdm_session_options, o.device_map = "total=" TEST_KIND ":1"));
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_true(total_of(sequence, context, 2, "total") == 2);
  assert_true(total_of(sequence, context, 2, "total") == 4);
  char *explained = printed(session, print_explain, "", TDM_PLAN_TEXT);
  if (!strstr(explained, TEST_KIND ":1")) fail_msg("%s", explained);
  free(explained);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Builds x (batch, 3) -> "y", with rows kept by the layers below "part", and a loss. */
static tdm_graph *batch_graph(tdm_context *context, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = tdm_dim_named("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, DIM));
  const tdm_value at = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, ROWS_KEPT, DIM));
  tdm_scope_push(graph, "part");
  const tdm_value rows = tdm_linear(graph, "fc", x, DIM);
  const tdm_value cache = tdm_keep_rows(graph, "put", kept, rows, at);
  tdm_scope_pop(graph);
  const tdm_value y = tdm_mean(graph, "mean", cache, NULL, 0, false);
  tdm_output(graph, "y", y);
  *out_loss = tdm_add(graph, "loss", y, tdm_mean(graph, "rows", rows, NULL, 0, false));
  return graph;
}

static void replicas_micro_batches_and_training_keep_nothing(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = batch_graph(context, &loss);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1");
  tdm_data_parallel(graph, "part", &wrapped);
  assert_null(tdm_session_create(graph, NULL));
  assert_message("part/put: what is kept between runs cannot be written in replicas");
  tdm_graph_release(graph);

  graph = batch_graph(context, &loss);
  assert_null(tdm_session_create(
      graph, WITH(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch")));
  assert_message("micro-batches: part/put");
  tdm_graph_release(graph);

  graph = batch_graph(context, &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 2, DIM));
  tdm_tensor *at = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), (const int64_t[]){0, 1});
  const tdm_feed feeds[] = {{"x", x, false}, {"at", at, false}};
  assert_refused(tdm_train_step(session, feeds, 2, NULL, 0, NULL), TDM_UNSUPPORTED,
                 "cache is kept between runs of a sequence, which do not train");
  tdm_tensor_release(x);
  tdm_tensor_release(at);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_whole_value_goes_from_run_to_run_at_any_placement),
      cmocka_unit_test(rows_are_kept_at_any_placement),
      cmocka_unit_test(sequences_know_nothing_of_each_other),
      cmocka_unit_test(many_sequences_go_on_at_once),
      cmocka_unit_test(a_callback_submits_the_next_run),
      cmocka_unit_test(an_index_outside_fails_and_writes_no_other_row),
      cmocka_unit_test(failures_lose_nothing_or_are_told),
      cmocka_unit_test(runs_need_their_sequence),
      cmocka_unit_test(descriptions_are_refused),
      cmocka_unit_test(a_device_map_says_where_a_value_is_kept),
      cmocka_unit_test(replicas_micro_batches_and_training_keep_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
