/* Sharded tables compared with the same tables as wholes. Random models train to the same bits, for
 * every consumer of the table and every device of its shards, in micro-batches and in replicas. The
 * transferred bytes are checked. */
#include <math.h>
#include <stdlib.h>

#include "graph/report/picture.h"
#include "graph/run/session.h"
#include "tests/graph/sharding/table_model.h"
#include "tests/options.h"

enum { STEPS = 3, CASES = 60 };

/* ---- Cases ----------------------------------------------------------------------------------- */

static uint32_t draw(const tdm_random *random, uint64_t *at, uint32_t below) {
  return tdm_random_uint32(random, (*at)++) % below;
}

static table_case draw_case(uint64_t seed) {
  static const char *const lists[] = {"cpu:0,cpu:1", "cpu:1", TEST_KIND ":0,cpu:0",
                                      TEST_KIND ":0," TEST_KIND ":1,cpu:1,cpu:0"};
  static const char *const readers[] = {"cpu:0", "cpu:1", TEST_KIND ":1"};
  const tdm_random random = {seed, tdm_random_stream("case"), 0};
  uint64_t at = 0;
  table_case drawn = {.looks = (looker)draw(&random, &at, LOOKERS),
                      .rows = 1 + draw(&random, &at, seed % 3 == 0 ? 4 : 50),
                      .dim = 1 + draw(&random, &at, 9),
                      .dtype = draw(&random, &at, 2) ? TDM_FLOAT32 : TDM_FLOAT64,
                      .ids = draw(&random, &at, 2) ? TDM_INT32 : TDM_INT64,
                      .padded = draw(&random, &at, 2),
                      .sparse = draw(&random, &at, 2),
                      .by_offsets = draw(&random, &at, 3) == 0,
                      .scaled = draw(&random, &at, 2),
                      .micro_batches = (int)draw(&random, &at, 4),
                      .wrapped = draw(&random, &at, 3) == 0,
                      .adaptive = draw(&random, &at, 2),
                      .reader = readers[draw(&random, &at, 3)],
                      .devices = lists[draw(&random, &at, 4)],
                      .weighted = draw(&random, &at, 3) == 0,
                      .by = draw(&random, &at, 4) == 0 ? TDM_SHARD_TABLES : TDM_SHARD_ROWS};
  for (int i = 0; i < 4; i++)
    drawn.weights[i] = i == 0 ? 1 : draw(&random, &at, 4);
  if (drawn.looks == ROWS_OF_IDS) drawn.by_offsets = false;
  if (drawn.looks == BAGS_OF_MAXIMA) drawn.sparse = false;
  if (drawn.looks != BAGS_OF_SUMS) drawn.scaled = false;
  if (drawn.by_offsets) drawn.wrapped = false, drawn.micro_batches = 0;
  return drawn;
}

static void describe(const table_case *self, uint64_t seed) {
  print_error("case %llu: looks %d, %lld x %lld, %s, ids %s, padded %d, sparse %d, offsets %d, "
              "scaled %d, micro %d, wrapped %d, adaptive %d, at %s, over %s, weighted %d, by %d\n",
              (unsigned long long)seed, (int)self->looks, (long long)self->rows,
              (long long)self->dim, tdm_dtype_name(self->dtype), tdm_dtype_name(self->ids),
              self->padded, self->sparse, self->by_offsets, self->scaled, self->micro_batches,
              self->wrapped, self->adaptive, self->reader, self->devices, self->weighted,
              (int)self->by);
}

/* ---- The same bits ----------------------------------------------------------------------------
 */

static void check_case(tdm_context *context, const table_case *self) {
  tdm_session *sessions[2];
  for (int s = 0; s < 2; s++) {
    sessions[s] = table_session(context, self, s > 0, NULL);
    if (!sessions[s]) fail_msg("%s", tdm_last_message());
  }
  assert_same_stores(sessions[0], sessions[1], true);
  for (uint64_t step = 0; step < STEPS; step++)
    step_both(sessions, context, self, step);
  assert_same_stores(sessions[0], sessions[1], table_is_exact(self));
  for (int s = 0; s < 2; s++)
    tdm_session_release(sessions[s]);
}

static void drawn_models_train_as_with_whole_tables(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  for (uint64_t seed = 0; seed < CASES; seed++) {
    const table_case drawn = draw_case(seed);
    if (getenv("SHARD_CASES")) describe(&drawn, seed);
    check_case(context, &drawn);
  }
  tdm_context_release(context);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

enum { ELEMENTS = 11 * 3 };
static const char table_name[] = "model/table.weight";

static void read_table(tdm_session *session, double *values) {
  tdm_tensor_list *list = state_of(session);
  const tdm_tensor *table = tdm_tensor_list_find(list, table_name);
  assert_non_null(table);
  assert_ok(tdm_tensor_read(table, values, ELEMENTS * sizeof *values));
  tdm_tensor_list_release(list);
}

static double loss_with(tdm_session *session, const table_batch *batch, const double *values) {
  tdm_context *context = tdm_session_context(session);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  tdm_tensor *table =
      tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, ELEMENTS / 3, 3), values);
  assert_ok(tdm_tensor_list_add(list, table_name, table));
  assert_ok(tdm_store_load(tdm_session_store(session), list));
  tdm_tensor_release(table);
  tdm_tensor_list_release(list);
  tdm_fetch fetch = {.name = "loss"};
  double loss;
  assert_ok(tdm_run(session, batch->feeds, batch->count, &fetch, 1));
  assert_ok(tdm_tensor_read(fetch.tensor, &loss, sizeof loss));
  tdm_tensor_release(fetch.tensor);
  return loss;
}

static void check_differences(tdm_context *context, looker looks, bool sparse) {
  const double step = 1e-5;
  const table_case self = {.looks = looks,
                           .rows = ELEMENTS / 3,
                           .dim = 3,
                           .dtype = TDM_FLOAT64,
                           .ids = TDM_INT64,
                           .sparse = sparse,
                           .reader = TEST_KIND ":0",
                           .devices = "cpu:0,cpu:1," TEST_KIND ":1"};
  tdm_session *session = table_session(context, &self, true, NULL);
  table_batch batch;
  double before[ELEMENTS], after[ELEMENTS];
  table_batch_make(&batch, context, &self, BATCH, 3);
  read_table(session, before);
  tdm_tensor_list *list = state_of(session);
  assert_ok(tdm_train_step(session, batch.feeds, batch.count, NULL, 0, NULL));
  read_table(session, after);
  assert_ok(tdm_store_load(tdm_session_store(session), list));
  tdm_tensor_list_release(list);
  for (int i = 0; i < ELEMENTS; i++) {
    const double value = before[i], slope = (before[i] - after[i]) / 0.5; /* the learning rate */
    before[i] = value + step;
    const double above = loss_with(session, &batch, before);
    before[i] = value - step;
    const double below = loss_with(session, &batch, before);
    before[i] = value;
    assert_true(fabs((above - below) / (2 * step) - slope) < 1e-8);
  }
  table_batch_release(&batch);
  tdm_session_release(session);
}

static void gradients_are_those_of_differences(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  for (int sparse = 0; sparse < 2; sparse++) {
    check_differences(context, ROWS_OF_IDS, sparse);
    check_differences(context, BAGS_OF_MEANS, sparse);
  }
  tdm_context_release(context);
}

/* ---- What crosses ---------------------------------------------------------------------------- */

static void explain_tells_what_crosses_and_what_is_padded(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_session *session = table_session(context, &in_two, true, NULL);
  table_batch batch;
  table_batch_make(&batch, context, &in_two, BATCH, 1);
  assert_ok(tdm_train_step(session, batch.feeds, batch.count, NULL, 0, NULL));
  const tdm_shard_traffic *shards = &session->last_asked->shards;
  assert_int_equal(shards->look_ups, 1);
  assert_int_equal(shards->id_bytes, BATCH * LENGTH * sizeof(int64_t)); /* cpu:1's */
  assert_int_equal(shards->row_bytes, BATCH * LENGTH * 3 * sizeof(float));
  assert_int_equal(shards->padded_bytes, BATCH * LENGTH * 3 * sizeof(float));
  char ids[TDM_BYTES_TEXT], rows[TDM_BYTES_TEXT], padded[TDM_BYTES_TEXT], wanted[256];
  (void)snprintf(
      wanted, sizeof wanted,
      "shards    1 look-up of tables by rows: ids of %s read elsewhere, %s answered from "
      "there; padded %s of all answers, dropped nothing\n",
      tdm_bytes_text(shards->id_bytes, ids), tdm_bytes_text(shards->row_bytes, rows),
      tdm_bytes_text(shards->padded_bytes, padded));
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(text, wanted)) fail_msg("\"%s\" is not in %s", wanted, text);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  assert_non_null(strstr(text, "\"padded_bytes\""));
  free(text);
  table_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Ids are uploaded to every shard under the run ahead, as the targets are to where they are read.
 */
static void ids_of_the_next_step_go_ahead(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  table_case self = in_two;
  self.reader = TEST_KIND ":0";
  self.devices = TEST_KIND ":0," TEST_KIND ":1";
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = table_model_build(graph, &self, true);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = 2);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), &options);
  table_batch batch;
  table_batch_make(&batch, context, &self, BATCH, 1);
  assert_ok(tdm_train_step(session, batch.feeds, batch.count, NULL, 0, NULL));
  const tdm_plan *plan = session->last_asked;
  uint32_t early = 0;
  for (uint32_t p = 0; p < plan->early_program_count; p++)
    early += plan->programs[p].count;
  assert_int_equal(early, 3); /* ids to both, targets to one */
  table_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drawn_models_train_as_with_whole_tables),
      cmocka_unit_test(gradients_are_those_of_differences),
      cmocka_unit_test(explain_tells_what_crosses_and_what_is_padded),
      cmocka_unit_test(ids_of_the_next_step_go_ahead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
