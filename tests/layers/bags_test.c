/* Illegal bags of tables: creating the session fails with a message that names the layer and the
 * argument. Bags can be divided: wrapped and in micro-batches they have the results of the whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

typedef struct error_case {
  tdm_embedding_bag_options options; /* rows 7, dim 5 */
  int id_rank;
  bool with_offsets;
  bool with_scales;
  const char *says;
} error_case;

static void test_what_does_not_fit(void **state) {
  (void)state;
  const error_case error_cases[] = {
      {OPTIONS(tdm_embedding_bag_options, o.mode = (tdm_bag_mode)3), 2, false, false,
       "embedding_bag bag: mode is 3, expected 0 to 2"},
      {OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_SUM), 1, false, false,
       "ids without offsets is [n], expected 2 dimensions"},
      {OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_SUM), 2, true, false,
       "ids with offsets is [n, 4], expected 1 dimensions"},
      {OPTIONS(tdm_embedding_bag_options, o.include_last_offset = true), 2, false, false,
       "there are no offsets to include one"},
      {OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_MEAN), 2, false, true,
       "scales are for sums only"},
      {OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_SUM), 1, true, true,
       "scales is [n, 4], expected [n]"},
      {OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_MAX, o.sparse = true), 2, false, false,
       "maxima cannot be sparse"},
      {OPTIONS(tdm_embedding_bag_options, o.padding_index = 7), 2, false, false,
       "padding_index is 7"},
  };
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_shape ids = error_cases[i].id_rank == 1 ? tdm_shape_of(1, TDM_DIM("n"))
                                                      : tdm_shape_of(2, TDM_DIM("n"), 4);
    tdm_embedding_bag_options options = error_cases[i].options;
    if (error_cases[i].with_offsets)
      options.offsets = tdm_input(graph, "offsets", TDM_INT64, tdm_shape_of(1, TDM_DIM("bags")));
    if (error_cases[i].with_scales)
      options.scales = tdm_input(graph, "scales", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("n"), 4));
    const tdm_value y =
        tdm_embedding_bag(graph, "bag", tdm_input(graph, "ids", TDM_INT64, ids), 7, 5, &options);
    assert_false(tdm_value_is_valid(y));
    tdm_output(graph, "y", y);
    assert_null(tdm_session_create(graph, NULL));
    if (!strstr(tdm_last_message(), error_cases[i].says))
      fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), error_cases[i].says);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- In parts -------------------------------------------------------------------------------- */

enum { ROWS = 40, MANY_ROWS = 400, DIM = 6, BAGS = 12, LENGTH = 5, STEPS = 3 };

typedef struct parts_case {
  tdm_bag_mode mode;
  bool sparse;
  int micro_batches;
  const char *devices; /* wrapped over; NULL: not */
  int64_t rows;        /* number of rows of the table; 0: ROWS */
  int added;           /* micro-batches whose rows are added to the gradient of the first */
} parts_case;

static int64_t rows_of(const parts_case *parts) {
  return parts->rows ? parts->rows : ROWS;
}

static tdm_value build(tdm_graph *graph, const parts_case *parts) {
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.mode = parts->mode, o.sparse = parts->sparse);
  const tdm_value ids =
      tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), LENGTH));
  const tdm_value target =
      tdm_input(graph, "target", TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), DIM));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_value y = tdm_embedding_bag(graph, "bag", ids, rows_of(parts), DIM, &options);
  if (parts->devices) {
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = parts->devices);
    tdm_data_parallel(graph, "bag", &parallel);
  }
  return tdm_mse(graph, "loss", y, target);
}

/* Returns how many times the latest plan adds rows to a table. */
static int count_added(tdm_session *session) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_int_equal(tdm_session_print_pass(session, "gradient", TDM_PLAN_TEXT, out), TDM_OK);
  (void)fclose(out);
  int count = 0;
  for (const char *at = text; (at = strstr(at, " add_rows")) != NULL; at++)
    count++;
  free(text);
  return count;
}

/* Trains STEPS steps and reads the table. */
static void train(tdm_context *context, const parts_case *parts, double *table) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(5.0);
  const tdm_value loss = build(graph, parts);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer, o.seed = 3,
              o.micro_batches = OR_ONE(parts->micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  int64_t ids[BAGS * LENGTH];
  double target[BAGS * DIM];
  for (int i = 0; i < BAGS * LENGTH; i++)
    ids[i] = i * i % 37;
  for (int i = 0; i < BAGS * DIM; i++)
    target[i] = i % 11 / 5.0;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, BAGS, LENGTH), ids);
  tdm_tensor *wanted = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, BAGS, DIM), target);
  const tdm_feed feeds[] = {{"ids", fed, false}, {"target", wanted, false}};
  for (int i = 0; i < STEPS; i++)
    if (tdm_train_step(session, feeds, 2, NULL, 0, NULL) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  assert_int_equal(count_added(session), parts->added);
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  const size_t bytes = (size_t)(rows_of(parts) * DIM) * sizeof *table;
  assert_int_equal(tdm_tensor_read(tdm_tensor_list_find(saved, "bag.weight"), table, bytes),
                   TDM_OK);
  tdm_tensor_list_release(saved);
  tdm_tensor_release(fed);
  tdm_tensor_release(wanted);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void test_parts_are_the_whole(void **state) {
  (void)state;
  static const parts_case cases[] = {
      {TDM_BAG_MEAN, false, 3, NULL, 0, 0},
      {TDM_BAG_SUM, true, 4, NULL, 0, 0},
      {TDM_BAG_MAX, false, 3, NULL, 0, 0},
      {TDM_BAG_SUM, false, 0, "cpu:0,sim:0", 0, 0},
      {TDM_BAG_MEAN, true, 0, "cpu:0,sim:0", 0, 0},
      {TDM_BAG_MAX, false, 2, "cpu:0,sim:0", 0, 0},
      {TDM_BAG_MEAN, false, 3, NULL, MANY_ROWS, 2},
      {TDM_BAG_SUM, false, 4, NULL, MANY_ROWS, 3},
      {TDM_BAG_SUM, false, 2, "cpu:0,sim:0", MANY_ROWS, 2},
      {TDM_BAG_MAX, false, 3, NULL, MANY_ROWS, 0},
  };
  static double wanted[MANY_ROWS * DIM], found[MANY_ROWS * DIM];
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const parts_case whole = {cases[i].mode, false, 0, NULL, cases[i].rows, 0};
    train(context, &whole, wanted);
    train(context, &cases[i], found);
    for (int k = 0; k < rows_of(&whole) * DIM; k++)
      if (!(found[k] - wanted[k] < 1e-12 && wanted[k] - found[k] < 1e-12))
        fail_msg("case %zu: element %d is %.17g, of the whole %.17g", i, k, found[k], wanted[k]);
  }
  tdm_context_release(context);
}

static void test_offsets_cannot_be_cut(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.offsets = tdm_input(graph, "offsets", TDM_INT64,
                                                               tdm_shape_of(1, TDM_DIM("batch"))));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("n")));
  tdm_output(graph, "y", tdm_embedding_bag(graph, "bag", ids, 7, 5, &options));
  const tdm_session_options in_parts =
      OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
  assert_null(tdm_session_create(graph, &in_parts));
  if (!strstr(tdm_last_message(), "bags given by offsets cannot be cut"))
    fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_parts_are_the_whole),
      cmocka_unit_test(test_offsets_cannot_be_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
