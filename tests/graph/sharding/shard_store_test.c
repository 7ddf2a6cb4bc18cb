/* Sharded tables in stores and files: one table each, for any number of shards; and errors. */
#include <stdlib.h>

#include "tests/graph/sharding/table_model.h"
#include "tests/options.h"

/* ---- Files ----------------------------------------------------------------------------------- */

/* A session of one sharding continues from the end of another. */
static void check_move(tdm_context *context, const table_case *from, bool from_sharded,
                       const table_case *to, bool to_sharded) {
  tdm_session *sessions[2] = {table_session(context, from, from_sharded, NULL),
                              table_session(context, to, to_sharded, NULL)};
  table_batch batch;
  tdm_tensor_list *list;
  table_batch_make(&batch, context, from, BATCH, 1);
  assert_ok(tdm_train_step(sessions[0], batch.feeds, batch.count, NULL, 0, NULL));
  table_batch_release(&batch);
  assert_ok(tdm_session_save(sessions[0], &list));
  assert_ok(tdm_session_load(sessions[1], list));
  tdm_tensor_list_release(list);
  step_both(sessions, context, table_is_exact(from) ? to : from, 2);
  assert_same_stores(sessions[0], sessions[1], table_is_exact(from) && table_is_exact(to));
  for (int s = 0; s < 2; s++)
    tdm_session_release(sessions[s]);
}

static void states_load_whatever_the_number_of_shards(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  table_case in_four = in_two;
  in_four.devices = "cpu:1,cpu:0," TEST_KIND ":0," TEST_KIND ":1";
  check_move(context, &in_two, true, &in_four, true);
  check_move(context, &in_four, true, &in_two, true);
  check_move(context, &in_two, true, &in_two, false);
  check_move(context, &in_two, false, &in_four, true);
  tdm_context_release(context);
}

/* Checks that each shard is a separate matrix with its own means of rows and of columns. One shard
 * has one row. */
static void states_of_rows_and_columns_are_each_shards(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  table_case uneven = in_two;
  uneven.factored = uneven.weighted = true;
  uneven.sparse = false;
  uneven.devices = "cpu:1,cpu:0," TEST_KIND ":0";
  uneven.weights[0] = 1, uneven.weights[1] = 7, uneven.weights[2] = 3;
  check_move(context, &uneven, true, &uneven, true);
  tdm_session *session = table_session(context, &uneven, true, NULL);
  table_batch batch;
  tdm_tensor_list *list;
  table_batch_make(&batch, context, &uneven, BATCH, 1);
  assert_ok(tdm_train_step(session, batch.feeds, batch.count, NULL, 0, NULL));
  table_batch_release(&batch);
  assert_ok(tdm_session_save(session, &list));
  const tdm_tensor *rows = tdm_tensor_list_find(list, "optimizer/model/table.weight/row_var");
  const tdm_tensor *columns = tdm_tensor_list_find(list, "optimizer/model/table.weight/col_var");
  assert_non_null(rows);
  assert_non_null(columns);
  assert_int_equal(tdm_tensor_shape(rows).dims[0], uneven.rows);
  assert_int_equal(tdm_tensor_shape(columns).dims[0], 3);
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- One store ------------------------------------------------------------------------------- */

static void sessions_share_a_store_whose_tables_they_shard_alike(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_session *one = table_session(context, &in_two, true, NULL);
  tdm_session *two = table_session(context, &in_two, true, tdm_session_store(one));
  tdm_session *sessions[2] = {one, two};
  table_batch batch;
  assert_non_null(two);
  table_batch_make(&batch, context, &in_two, BATCH, 1);
  for (int s = 0; s < 2; s++)
    assert_ok(tdm_train_step(sessions[s], batch.feeds, batch.count, NULL, 0, NULL));
  assert_same_stores(one, two, true);
  table_batch_release(&batch);
  assert_null(table_session(context, &in_two, false, tdm_session_store(one)));
  assert_non_null(strstr(tdm_last_message(), "shard its tables alike"));
  table_case in_four = in_two;
  in_four.devices = "cpu:0,cpu:1," TEST_KIND ":0," TEST_KIND ":1";
  assert_null(table_session(context, &in_four, true, tdm_session_store(one)));
  assert_non_null(strstr(tdm_last_message(), "shard its tables alike"));
  tdm_session_release(two);
  tdm_session_release(one);
  one = table_session(context, &in_two, false, NULL);
  assert_null(table_session(context, &in_two, true, tdm_session_store(one)));
  assert_non_null(strstr(tdm_last_message(), "shard its tables alike"));
  tdm_session_release(one);
  tdm_context_release(context);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The message that a run with an id outside the table ends with. */
static void stray_message(tdm_context *context, bool sharded, char *text) {
  tdm_session *session = table_session(context, &in_two, sharded, NULL);
  table_batch batch;
  table_batch_make(&batch, context, &in_two, BATCH, 1);
  int64_t ids[BATCH * LENGTH] = {0};
  ids[5] = in_two.rows;
  table_batch_set_ids(&batch, context, ids);
  assert_int_equal(tdm_train_step(session, batch.feeds, batch.count, NULL, 0, NULL),
                   TDM_INVALID_ARGUMENT);
  const char *says = strstr(tdm_last_message(), ": ids ");
  assert_non_null(says);
  (void)snprintf(text, TDM_MESSAGE_BYTES, "%s", says);
  table_batch_release(&batch);
  tdm_session_release(session);
}

static void ids_outside_fail_as_with_whole_tables(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  char whole[TDM_MESSAGE_BYTES], sharded[TDM_MESSAGE_BYTES];
  stray_message(context, false, whole);
  stray_message(context, true, sharded);
  assert_string_equal(whole, sharded);
  tdm_context_release(context);
}

static void check_refusal(tdm_context *context, const char *scopes,
                          const tdm_shard_options *options, bool twice, const char *says) {
  tdm_graph *graph = tdm_graph_create(context);
  (void)table_model_build(graph, &in_two, twice);
  tdm_shard(graph, scopes, options);
  assert_int_not_equal(tdm_graph_status(graph), TDM_OK);
  if (!strstr(tdm_last_message(), says))
    fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), says);
  tdm_graph_release(graph);
}

static void what_cannot_be_sharded_is_refused(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  const double none[] = {0, 0}, negative[] = {1, -1};
  const tdm_shard_options right = OPTIONS(tdm_shard_options, o.devices = "cpu:0,cpu:1");
  tdm_shard_options wrong = right;
  check_refusal(context, "model/linear", &right, false, "nothing that looks up a table");
  check_refusal(context, "model,", &right, false, "nothing that looks up a table");
  check_refusal(context, NULL, &right, false, "no scopes");
  check_refusal(context, "model", NULL, false, "no options");
  check_refusal(context, "", &right, true, "is sharded already");
  wrong.devices = "cpu:0,cpu:0";
  check_refusal(context, "", &wrong, false, "named twice");
  wrong = right;
  wrong.weights = none;
  check_refusal(context, "", &wrong, false, "all weights are 0");
  wrong.weights = negative;
  check_refusal(context, "", &wrong, false, "weight -1 of cpu:1");
  wrong = right;
  wrong.by = (tdm_shard_by)2;
  check_refusal(context, "", &wrong, false, "no way 2 of sharding");
  wrong = right;
  wrong.struct_size = 1;
  check_refusal(context, "", &wrong, false, "tdm_shard_options_default()");
  tdm_context_release(context);
}

/* A node that is no look-up reads the table. */
static void tables_that_others_read_are_refused(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  for (int delivers = 0; delivers < 2; delivers++) {
    tdm_graph *graph = tdm_graph_create(context);
    (void)table_model_build(graph, &in_two, true);
    const tdm_value table = tdm_parameter(graph, "model/table.weight", TDM_FLOAT32,
                                          tdm_shape_of(2, in_two.rows, in_two.dim), NULL);
    tdm_output(graph, "w", delivers ? table : tdm_relu(graph, "relu", table));
    assert_null(tdm_session_create(graph, NULL));
    assert_non_null(strstr(tdm_last_message(), "model/table.weight, which is sharded by rows, is"));
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* A parameter that is called as a shard would be has no memory of the shard's. */
static void names_of_shards_are_taken(void **state) {
  (void)state;
  enum { ROWS = 8, DIM = 2 };
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_output(graph, "rows", tdm_embedding(graph, "table", ids, ROWS, DIM));
  tdm_output(
      graph, "other",
      tdm_parameter(graph, "table.weight[0:4]", TDM_FLOAT32, tdm_shape_of(2, ROWS / 2, DIM), NULL));
  const tdm_shard_options options =
      OPTIONS(tdm_shard_options, o.devices = "cpu:0,cpu:1", o.by = TDM_SHARD_ROWS);
  tdm_shard(graph, "table", &options);
  assert_null(tdm_session_create(graph, NULL));
  assert_message("parameter table.weight[0:4]: rows of table.weight, which is in shards");
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_load_whatever_the_number_of_shards),
      cmocka_unit_test(states_of_rows_and_columns_are_each_shards),
      cmocka_unit_test(sessions_share_a_store_whose_tables_they_shard_alike),
      cmocka_unit_test(ids_outside_fail_as_with_whole_tables),
      cmocka_unit_test(what_cannot_be_sharded_is_refused),
      cmocka_unit_test(tables_that_others_read_are_refused),
      cmocka_unit_test(names_of_shards_are_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
