/* A linear layer on rows gathered from a small table is applied to the table instead. Scores have
 * the same bits, and training differs only by rounding. If another node reads the rows, this is not
 * done. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { TABLE_ROWS = 6, WIDTH = 5, CLASSES = 3, IDS = 40, WEIGHTS = 4 };
static const char *const weight_names[WEIGHTS] = {"table.weight", "first.weight", "first.bias",
                                                  "second.weight"};

typedef struct fixture {
  tdm_context *context;
  tdm_session *session;
  tdm_feed feeds[2];
} fixture;

/* relu(table(ids) first) second; outputs are the rows picked, and the scores. */
static void set_up_with(tdm_context *context, bool padded, bool deterministic, fixture *made) {
  made->context = context;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, batch);
  const tdm_embedding_options padding = OPTIONS(tdm_embedding_options, o.padding_index = 2);
  const tdm_value rows =
      tdm_embedding_with(graph, "table", ids, TABLE_ROWS, WIDTH, padded ? &padding : NULL);
  tdm_output(graph, "rows", rows);
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "first", rows, WIDTH));
  const tdm_value scores = tdm_linear_without_bias(graph, "second", hidden, CLASSES);
  tdm_output(graph, "scores", scores);
  const tdm_optimizer sgd = tdm_sgd(0.5);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = tdm_cross_entropy(graph, "loss", scores, classes),
      o.optimizer = &sgd, o.device_map = "*=cpu:0", o.deterministic = deterministic, o.seed = 3);
  made->session = tdm_session_create(graph, &options);
  if (!made->session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  int64_t values[2][IDS];
  for (int i = 0; i < IDS; i++) {
    values[0][i] = i * 7 % TABLE_ROWS;
    values[1][i] = i % CLASSES;
  }
  const tdm_shape shape = tdm_shape_of(1, IDS);
  made->feeds[0] = (tdm_feed){"ids", tdm_tensor_from(context, TDM_INT64, shape, values[0]), false};
  made->feeds[1] =
      (tdm_feed){"classes", tdm_tensor_from(context, TDM_INT64, shape, values[1]), false};
}

static void set_up(tdm_context *context, bool padded, fixture *made) {
  set_up_with(context, padded, false, made);
}

static void tear_down(fixture *made) {
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(made->feeds[i].tensor);
  tdm_session_release(made->session);
}

/* Returns true if the first linear layer precedes the embedding in the latest plan. */
static bool works_on_table(fixture *of) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  assert_int_equal(tdm_session_explain(of->session, TDM_PLAN_TEXT, stream), TDM_OK);
  (void)fclose(stream);
  const char *table = strstr(text, "embedding "), *first = strstr(text, "linear ");
  assert_true(table && first);
  const bool before = first < table;
  free(text);
  return before;
}

/* Fetches scores (IDS, CLASSES), and optionally the rows. */
static void run(fixture *of, bool with_rows, float *scores) {
  tdm_fetch fetches[] = {{"scores", NULL}, {"rows", NULL}};
  if (tdm_run(of->session, of->feeds, 1, fetches, with_rows ? 2 : 1) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  const size_t bytes = IDS * CLASSES * sizeof *scores;
  assert_int_equal(tdm_tensor_read(fetches[0].tensor, scores, bytes), TDM_OK);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(fetches[i].tensor);
}

static tdm_tensor_list *trained(fixture *of, tdm_tensor_list *from, bool with_rows) {
  assert_int_equal(tdm_store_load(tdm_session_store(of->session), from), TDM_OK);
  tdm_fetch fetch = {"rows", NULL};
  if (tdm_train_step(of->session, of->feeds, 2, &fetch, with_rows ? 1 : 0, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_release(fetch.tensor);
  return tdm_store_save(tdm_session_store(of->session), false);
}

static double largest_difference(const tdm_tensor_list *a, const tdm_tensor_list *b,
                                 const char *name) {
  const tdm_tensor *left = tdm_tensor_list_find(a, name), *right = tdm_tensor_list_find(b, name);
  assert_true(left && right);
  float values[2][TABLE_ROWS * WIDTH];
  const size_t bytes = tdm_tensor_bytes(left);
  assert_true(bytes <= sizeof values[0]);
  assert_int_equal(tdm_tensor_read(left, values[0], bytes), TDM_OK);
  assert_int_equal(tdm_tensor_read(right, values[1], bytes), TDM_OK);
  double largest = 0;
  for (size_t i = 0; i < bytes / sizeof(float); i++)
    largest = fmax(largest, fabs((double)values[0][i] - (double)values[1][i]));
  return largest;
}

static void scores_are_the_same_to_the_bit(void **state) {
  for (int padded = 0; padded < 2; padded++) {
    fixture of;
    set_up(*state, padded != 0, &of);
    float scores[2][IDS * CLASSES];
    run(&of, false, scores[0]);
    assert_int_equal(works_on_table(&of), padded == 0);
    run(&of, true, scores[1]);
    assert_false(works_on_table(&of));
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    tear_down(&of);
  }
}

static void training_is_the_same_to_rounding(void **state) {
  for (int padded = 0; padded < 2; padded++) {
    fixture of;
    set_up(*state, padded != 0, &of);
    tdm_tensor_list *begin = tdm_store_save(tdm_session_store(of.session), false);
    tdm_tensor_list *on_table = trained(&of, begin, false);
    assert_int_equal(works_on_table(&of), padded == 0);
    tdm_tensor_list *on_rows = trained(&of, begin, true);
    assert_false(works_on_table(&of));
    for (int i = 0; i < WEIGHTS; i++) {
      assert_true(largest_difference(on_table, on_rows, weight_names[i]) < 1e-6);
      assert_true(largest_difference(begin, on_rows, weight_names[i]) > 1e-3);
    }
    tdm_tensor_list_release(begin);
    tdm_tensor_list_release(on_table);
    tdm_tensor_list_release(on_rows);
    tear_down(&of);
  }
}

/* Checks that gradients are then summed over ids, whatever values are fetched or placed on another
 * device. */
static void deterministic_training_has_the_bits_of_work_on_rows(void **state) {
  fixture of;
  set_up_with(*state, false, true, &of);
  tdm_tensor_list *begin = tdm_store_save(tdm_session_store(of.session), false);
  tdm_tensor_list *alone = trained(&of, begin, false);
  assert_false(works_on_table(&of));
  tdm_tensor_list *with_rows = trained(&of, begin, true);
  for (int i = 0; i < WEIGHTS; i++)
    assert_true(largest_difference(alone, with_rows, weight_names[i]) == 0);
  float scores[IDS * CLASSES];
  run(&of, false, scores);
  assert_true(works_on_table(&of)); /* a forward run has the same bits either way */
  tdm_tensor_list_release(begin);
  tdm_tensor_list_release(alone);
  tdm_tensor_list_release(with_rows);
  tear_down(&of);
}

/* Runs with this many ids, none of them new. Returns true if the work is done on the table. */
static bool works_on_table_for(fixture *of, int64_t ids) {
  tdm_tensor *some = tdm_tensor_from(of->context, TDM_INT64, tdm_shape_of(1, ids),
                                     tdm_tensor_data(of->feeds[0].tensor));
  const tdm_feed feed = {"ids", some, false};
  tdm_fetch fetch = {"scores", NULL};
  assert_int_equal(tdm_run(of->session, &feed, 1, &fetch, 1), TDM_OK);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(some);
  return works_on_table(of);
}

/* Fewer than four ids per row, for any width of rows. */
static void few_ids_are_not_worth_it(void **state) {
  fixture of;
  set_up(*state, false, &of);
  assert_true(works_on_table_for(&of, 4 * TABLE_ROWS));
  assert_false(works_on_table_for(&of, 4 * TABLE_ROWS - 1));
  tear_down(&of);
}

/* Checks that the result for the table, which is wider than the rows of all ids, has separate
 * memory of its size. */
static void wide_rows_have_room(void **state) {
  enum { WIDE = 700 };
  tdm_context *context = *state;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value rows = tdm_embedding(graph, "table", ids, TABLE_ROWS, 1);
  tdm_output(graph, "scores", tdm_linear(graph, "first", rows, WIDE));
  tdm_output(graph, "rows", rows);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 3);
  fixture of = {.context = context, .session = tdm_session_create(graph, &options)};
  if (!of.session) fail_msg("%s", tdm_last_message());
  int64_t values[IDS];
  for (int i = 0; i < IDS; i++)
    values[i] = i * 7 % TABLE_ROWS;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, IDS), values);
  const tdm_feed feed = {"ids", fed, false};
  tdm_fetch alone = {"scores", NULL}, both[] = {{"scores", NULL}, {"rows", NULL}};
  tdm_memory_use memory;
  assert_int_equal(tdm_session_prepare(of.session, &feed, 1, &alone, 1, false), TDM_OK);
  assert_true(works_on_table(&of));
  assert_int_equal(tdm_session_memory(of.session, "cpu:0", &memory), TDM_OK);
  assert_true(memory.activations_bytes >= TABLE_ROWS * WIDE * sizeof(float));
  assert_int_equal(tdm_run(of.session, &feed, 1, &alone, 1), TDM_OK);
  assert_int_equal(tdm_run(of.session, &feed, 1, both, 2), TDM_OK);
  assert_memory_equal(tdm_tensor_data(alone.tensor), tdm_tensor_data(both[0].tensor),
                      IDS * WIDE * sizeof(float));
  tdm_tensor_release(alone.tensor);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(both[i].tensor);
  tdm_tensor_release(fed);
  tdm_session_release(of.session);
  tdm_graph_release(graph);
}

static int create_context(void **state) {
  const tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = 1);
  *state = tdm_context_create(&options);
  return *state ? 0 : -1;
}

static int release_context(void **state) {
  tdm_context_release(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scores_are_the_same_to_the_bit),
      cmocka_unit_test(training_is_the_same_to_rounding),
      cmocka_unit_test(deterministic_training_has_the_bits_of_work_on_rows),
      cmocka_unit_test(few_ids_are_not_worth_it),
      cmocka_unit_test(wide_rows_have_room),
  };
  return cmocka_run_group_tests(tests, create_context, release_context);
}
