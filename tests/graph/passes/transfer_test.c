/* Transfers between devices: exactly which ones a plan has, and how many bytes each kind moves. */
#include <stdlib.h>

#include "graph/ir/rewriter.h"
#include "graph/report/explain.h"
#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { BATCH = 30, WORDS_BYTES = BATCH * MODEL_WIDTH * 4, IDS_BYTES = BATCH * 8 };

static void assert_traffic(tdm_session *session, tdm_traffic wanted) {
  tdm_traffic has;
  assert_ok(tdm_session_traffic(session, &has));
  assert_int_equal(has.edge_transfers, wanted.edge_transfers);
  assert_int_equal(has.edge_bytes, wanted.edge_bytes);
  assert_int_equal(has.boundary_transfers, wanted.boundary_transfers);
  assert_int_equal(has.boundary_bytes, wanted.boundary_bytes);
  assert_int_equal(has.refresh_transfers, wanted.refresh_transfers);
  assert_int_equal(has.refresh_bytes, wanted.refresh_bytes);
}

/* Returns the number of copies that the queues execute in one call. */
static uint64_t copies_made(tdm_context *context) {
  return atomic_load(&tdm_context_faults(context)->calls[TDM_FAULT_COPY]);
}

static void count_copies(tdm_context *context) {
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_COPY, UINT64_MAX, false);
}

/* Expects each of these parts in the text of explain. */
static void assert_told(tdm_session *session, const char *const *parts, size_t count) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  for (size_t i = 0; i < count; i++)
    if (!strstr(text, parts[i])) fail_msg("\"%s\" is not in\n%s", parts[i], text);
  free(text);
}

static void seed_program_crosses_once_each_way(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  count_copies(context);
  tdm_tensor_release(run_once(session, &batch, "scores"));
  assert_int_equal(copies_made(context), 2);
  assert_traffic(session, (tdm_traffic){.edge_transfers = 1,
                                        .edge_bytes = WORDS_BYTES,
                                        .boundary_transfers = 1,
                                        .boundary_bytes = WORDS_BYTES});
  count_copies(context);
  (void)train_once(session, &batch);
  assert_int_equal(copies_made(context), 4);
  assert_traffic(session, (tdm_traffic){.edge_transfers = 2,
                                        .edge_bytes = 2 * WORDS_BYTES,
                                        .boundary_transfers = 2, /* targets there, the loss back */
                                        .boundary_bytes = IDS_BYTES + 4});
  tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_train_step(session, batch.feeds, 2, &scores, 1, NULL));
  tdm_tensor_release(scores.tensor);
  assert_traffic(session, (tdm_traffic){.edge_transfers = 2,
                                        .edge_bytes = 2 * WORDS_BYTES,
                                        .boundary_transfers = 3,
                                        .boundary_bytes = IDS_BYTES + 4 + WORDS_BYTES});
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void nothing_crosses_within_one_device(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(context, "cpu:0", "cpu:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_once(session, &batch);
  assert_traffic(session, (tdm_traffic){0});
  tdm_session_release(session);

  graph = zigzag_graph(context, "sim:1", "sim:1", &loss);
  session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_once(session, &batch);
  assert_traffic(session, (tdm_traffic){.boundary_transfers = 3, /* ids, targets, the loss */
                                        .boundary_bytes = 2 * IDS_BYTES + 4});
  tdm_session_release(session);
  test_batch_release(&batch);
  tdm_context_release(context);
}

/* x (batch, 10) on cpu:0, read by three layers on sim:0, whose sum is the output "sum". */
static tdm_graph *fan_out(tdm_context *context, bool through_views, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_place(graph, "sim:0");
  tdm_value readers[3];
  static const char *const views[] = {"v0", "v1", "v2"};
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) {
    const tdm_shape same = tdm_shape_of(2, TDM_DIM("batch"), MODEL_WIDTH);
    readers[i] = through_views ? tdm_reshape(graph, views[i], x, same) : x;
    readers[i] = tdm_linear(graph, names[i], readers[i], MODEL_WIDTH);
  }
  const tdm_value two = tdm_add(graph, "two", readers[0], readers[1]);
  const tdm_value sum = tdm_add(graph, "three", two, readers[2]);
  tdm_output(graph, "sum", sum);
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  *out_loss = tdm_cross_entropy(graph, "loss", sum, targets);
  return graph;
}

static void three_readers_share_one_transfer(void **state) {
  (void)state;
  for (int through_views = 0; through_views < 2; through_views++) {
    tdm_context *context = graph_context();
    test_batch batch;
    test_batch_make(&batch, context, BATCH, 1);
    tdm_value loss;
    tdm_graph *graph = fan_out(context, through_views, &loss);
    tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
    count_copies(context);
    (void)train_once(session, &batch);
    assert_int_equal(copies_made(context), 4);
    /* The three adjoints are summed on the device where they are computed, and the sum is copied
     * back once. */
    assert_traffic(session, (tdm_traffic){.edge_transfers = 2,
                                          .edge_bytes = 2 * WORDS_BYTES,
                                          .boundary_transfers = 2,
                                          .boundary_bytes = IDS_BYTES + 4});
    test_batch_release(&batch);
    tdm_session_release(session);
    tdm_context_release(context);
  }
}

/* Each reading device gets its own copy, and only one. */
static void one_transfer_a_destination(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = fan_out(context, false, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.device_map = "b=sim:1,c=cpu:1,two=sim:0,three=sim:0");
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_tensor_release(run_once(session, &batch, "sum"));
  /* x to sim:0, sim:1 and cpu:1; b's and c's results to sim:0. */
  assert_traffic(session, (tdm_traffic){.edge_transfers = 5,
                                        .edge_bytes = 5 * WORDS_BYTES,
                                        .boundary_transfers = 1,
                                        .boundary_bytes = WORDS_BYTES});
  static const char *const causes[] = {"embedding -> a, cpu:0 to sim:0",
                                       "embedding -> b, cpu:0 to sim:1",
                                       "embedding -> c, cpu:0 to cpu:1"};
  assert_told(session, causes, TDM_COUNT_OF(causes));
  (void)train_once(session, &batch);
  /* Backward: d_sum to sim:1 and cpu:1, and three adjoints of x back to cpu:0. */
  assert_traffic(session, (tdm_traffic){.edge_transfers = 10,
                                        .edge_bytes = 10 * WORDS_BYTES,
                                        .boundary_transfers = 2,
                                        .boundary_bytes = IDS_BYTES + 4});
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A fetched value is copied to cpu:0 for the caller, even if another device reads it. */
static void the_callers_copy_is_for_the_caller(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "sim:0");
  const tdm_value left = tdm_linear(graph, "left", x, 4);
  tdm_place(graph, "sim:1");
  tdm_output(graph, "left", left);
  tdm_output(graph, "y", tdm_linear(graph, "right", left, 4));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 3, 4));
  const tdm_feed feed = {"x", fed, false};
  const tdm_fetch fetches[] = {{"left", NULL}, {"y", NULL}};
  assert_ok(tdm_session_prepare(session, &feed, 1, fetches, 2, false));
  static const char *const causes[] = {"left -> the caller, sim:0 to cpu:0",
                                       "left -> right, sim:0 to sim:1"};
  assert_told(session, causes, TDM_COUNT_OF(causes));
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Inputs and fetches ---------------------------------------------------------------------- */

static void inputs_on_their_device_do_not_cross(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "sim:0", "sim:0", &loss);
  tdm_session *session = run_session(graph, NULL);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_tensor *host_scores = run_once(session, &batch, "scores");
  assert_traffic(session,
                 (tdm_traffic){.boundary_transfers = 2, .boundary_bytes = IDS_BYTES + WORDS_BYTES});
  tdm_tensor *ids = tdm_tensor_to(batch.ids, "sim:0", TDM_DTYPE_NONE);
  assert_non_null(ids);
  const tdm_feed feed = {.name = "ids", .tensor = ids};
  tdm_fetch fetch = {.name = "scores"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  assert_traffic(session, (tdm_traffic){.boundary_transfers = 1, .boundary_bytes = WORDS_BYTES});
  assert_string_equal(tdm_tensor_device(fetch.tensor), "cpu:0");
  assert_same_tensor(fetch.tensor, host_scores);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(host_scores);
  tdm_tensor_release(ids);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* words: made on sim:0, fetched, and read on cpu:0 as well; ids and a parameter fetched too. */
static tdm_graph *fetched_graph(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "sim:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_place(graph, "cpu:0");
  const tdm_value weight =
      tdm_parameter(graph, "other.weight", TDM_FLOAT32, tdm_shape_of(1, 4), NULL);
  tdm_output(graph, "words", words);
  tdm_output(graph, "words again", words);
  tdm_output(graph, "view", tdm_reshape(graph, "view", words, tdm_shape_of(1, TDM_INFER)));
  tdm_output(graph, "positive", tdm_relu(graph, "positive", words));
  tdm_output(graph, "ids", ids);
  tdm_output(graph, "weight", weight);
  tdm_output(graph, "table",
             tdm_parameter(graph, "embedding.weight", TDM_FLOAT32,
                           tdm_shape_of(2, MODEL_ROWS, MODEL_WIDTH), NULL));
  return graph;
}

static void everything_can_be_fetched_at_once(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(fetched_graph(context), NULL);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_fetch fetches[] = {{.name = "words"}, {.name = "positive"}, {.name = "words again"},
                         {.name = "ids"},   {.name = "weight"},   {.name = "view"},
                         {.name = "table"}};
  const size_t count = TDM_COUNT_OF(fetches);
  assert_ok(tdm_run(session, batch.feeds, 1, fetches, count));
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.edge_transfers, 1); /* the fetched value */
  assert_int_equal(traffic.edge_bytes, WORDS_BYTES);
  assert_int_equal(traffic.boundary_transfers, 2); /* ids there, the table back */
  assert_int_equal(traffic.boundary_bytes, IDS_BYTES + MODEL_ROWS * MODEL_WIDTH * 4);
  assert_same_tensor(fetches[0].tensor, fetches[2].tensor);
  assert_same_tensor(fetches[3].tensor, batch.ids);
  const float *words = tdm_tensor_data(fetches[0].tensor);    /* (batch, 10) */
  const float *positive = tdm_tensor_data(fetches[1].tensor); /* (batch, 10) */
  const float *view = tdm_tensor_data(fetches[5].tensor);     /* (batch * 10) */
  const float *table = tdm_tensor_data(fetches[6].tensor);    /* (1000, 10) */
  const int64_t *ids = tdm_tensor_data(batch.ids);            /* (batch) */
  for (int i = 0; i < BATCH * MODEL_WIDTH; i++) {
    assert_true(words[i] == table[ids[i / MODEL_WIDTH] * MODEL_WIDTH + i % MODEL_WIDTH]);
    assert_true(view[i] == words[i]);
    assert_true(positive[i] == (words[i] > 0 ? words[i] : 0));
  }
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++) /* memory of their own: the caller may write into them */
      assert_ptr_not_equal(tdm_tensor_data(fetches[i].tensor), tdm_tensor_data(fetches[j].tensor));
  for (size_t i = 0; i < count; i++)
    tdm_tensor_release(fetches[i].tensor);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Checks that one request can fetch the same output twice. */
static void an_output_can_be_fetched_twice(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(fetched_graph(context), NULL);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_fetch fetches[] = {{.name = "words"}, {.name = "words"}};
  assert_ok(tdm_run(session, batch.feeds, 1, fetches, 2));
  assert_same_tensor(fetches[0].tensor, fetches[1].tensor);
  int copies = 0;
  TDM_EACH_NODE(&session->newest->graph, node) {
    if (node->operation) continue;
    assert_string_not_equal(tdm_explain_route(session->newest, node), "staged");
    copies++;
  }
  assert_int_equal(copies, 3); /* ids there, the words back, and once more */
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Views ----------------------------------------------------------------------------------- */

/* A view made where its source lies costs nothing; one made elsewhere moves the source once. */
static void views_move_no_bytes_of_their_own(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value flat = tdm_reshape(graph, "flat", words, tdm_shape_of(1, TDM_INFER));
  tdm_place(graph, "sim:0");
  const tdm_value square = tdm_reshape(graph, "square", flat, tdm_shape_of(2, TDM_INFER, 5));
  tdm_output(graph, "out", tdm_relu(graph, "out", square));
  tdm_session *session = run_session(graph, NULL);
  test_batch batch;
  test_batch_make(&batch, context, BATCH, 1);
  tdm_tensor *out = run_once(session, &batch, "out");
  const tdm_shape shape = tdm_tensor_shape(out);
  const tdm_shape wanted = tdm_shape_of(2, BATCH * 2, 5);
  assert_true(tdm_shape_equal(&shape, &wanted));
  assert_traffic(session, (tdm_traffic){.edge_transfers = 1,
                                        .edge_bytes = WORDS_BYTES,
                                        .boundary_transfers = 1,
                                        .boundary_bytes = WORDS_BYTES});
  tdm_tensor_release(out);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- When they begin ------------------------------------------------------------------------- */

/* Lists the names of a plan's operations, in its order. Copies have no names. */
static void list_nodes(const tdm_session *session, char *out, size_t capacity) {
  out[0] = '\0';
  TDM_EACH_NODE(&session->newest->graph, node) {
    const size_t used = strlen(out);
    (void)snprintf(out + used, capacity - used, "%s ",
                   node->operation ? node->operation->name : "copy");
  }
}

/* A copy comes directly after the producer of its value, not before its consumer. first is read by
 * the last node of sim:0; likely is read there after another node of cpu:0. */
static void copies_begin_as_soon_as_they_can(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, BATCH, MODEL_WIDTH);
  const tdm_value first = tdm_input(graph, "first", TDM_FLOAT32, shape);
  const tdm_value second = tdm_input(graph, "second", TDM_FLOAT32, shape);
  tdm_place(graph, "cpu:0");
  const tdm_value likely = tdm_softmax(graph, "likely", second, 1);
  tdm_output(graph, "logs", tdm_log_softmax(graph, "logs", likely, 1));
  tdm_place(graph, "sim:0");
  const tdm_value twice = tdm_softmax(graph, "twice", likely, 1);
  tdm_output(graph, "sum", tdm_add(graph, "sum", twice, first));
  tdm_session *session = run_session(graph, NULL);
  tdm_feed feeds[] = {{.name = "first"}, {.name = "second"}};
  for (size_t i = 0; i < TDM_COUNT_OF(feeds); i++)
    feeds[i].tensor = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, shape);
  tdm_fetch fetches[] = {{.name = "logs"}, {.name = "sum"}};
  assert_ok(tdm_run(session, feeds, 2, fetches, 2));
  char nodes[256];
  list_nodes(session, nodes, sizeof nodes);
  assert_string_equal(nodes, "copy softmax copy log_softmax softmax add copy ");
  for (size_t i = 0; i < TDM_COUNT_OF(feeds); i++) {
    tdm_tensor_release(feeds[i].tensor);
    tdm_tensor_release(fetches[i].tensor);
  }
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Who carries ----------------------------------------------------------------------------- */

/* Fetches "out" and, if `both`, "made". Expects `pushed` of the copies to cpu:0 on queues of the
 * device that makes the value, and the others on other queues. Releases the graph. */
static void assert_pushed(tdm_graph *graph, tdm_context *context, bool both, int pushed,
                          int others) {
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *x =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, BATCH, MODEL_WIDTH));
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetches[] = {{.name = "out"}, {.name = "made"}};
  assert_ok(tdm_run(session, &feed, 1, fetches, both ? 2 : 1));
  TDM_EACH_NODE(&session->newest->graph, node) {
    if (node->operation || node->device != TDM_HOST_DEVICE) continue;
    pushed -= node->transfer.pushed;
    others -= !node->transfer.pushed;
  }
  assert_int_equal(pushed, 0);
  assert_int_equal(others, 0);
  tdm_tensor_release(x);
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  tdm_session_release(session);
}

static tdm_graph *begin_on_cpu_1(tdm_context *context, tdm_value *out_made) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, BATCH, MODEL_WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_place(graph, "cpu:1");
  *out_made = tdm_softmax(graph, "made", x, 1);
  tdm_output(graph, "made", *out_made);
  return graph;
}

/* Also if its own device reads it. */
static void what_only_the_caller_reads_is_carried_by_its_maker(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value made;
  tdm_graph *graph = begin_on_cpu_1(context, &made);
  tdm_output(graph, "out", tdm_softmax(graph, "out", made, 1));
  assert_pushed(graph, context, true, 2, 0);
  tdm_context_release(context);
}

static void what_cpu_0_goes_on_with_is_fetched(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value made;
  tdm_graph *graph = begin_on_cpu_1(context, &made);
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "out", tdm_softmax(graph, "out", made, 1));
  assert_pushed(graph, context, true, 0, 1); /* which is fetched as well */
  tdm_context_release(context);
}

/* Only the caller waits for the concatenation. */
static void parts_of_what_the_caller_reads_are_carried_by_their_maker(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value made;
  tdm_graph *graph = begin_on_cpu_1(context, &made);
  const tdm_value parts[] = {made, tdm_softmax(graph, "other", made, 0)};
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "out", tdm_concat(graph, "out", parts, 2, 0));
  assert_pushed(graph, context, false, 2, 0);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seed_program_crosses_once_each_way),
      cmocka_unit_test(nothing_crosses_within_one_device),
      cmocka_unit_test(three_readers_share_one_transfer),
      cmocka_unit_test(one_transfer_a_destination),
      cmocka_unit_test(the_callers_copy_is_for_the_caller),
      cmocka_unit_test(inputs_on_their_device_do_not_cross),
      cmocka_unit_test(everything_can_be_fetched_at_once),
      cmocka_unit_test(an_output_can_be_fetched_twice),
      cmocka_unit_test(views_move_no_bytes_of_their_own),
      cmocka_unit_test(copies_begin_as_soon_as_they_can),
      cmocka_unit_test(what_only_the_caller_reads_is_carried_by_its_maker),
      cmocka_unit_test(what_cpu_0_goes_on_with_is_fetched),
      cmocka_unit_test(parts_of_what_the_caller_reads_are_carried_by_their_maker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
