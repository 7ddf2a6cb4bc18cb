/* See table_model.h. */
#include "tests/graph/sharding/table_model.h"
#include "tests/options.h"

#include <math.h>

const table_case in_two = {.rows = 11,
                           .dim = 3,
                           .dtype = TDM_FLOAT32,
                           .ids = TDM_INT64,
                           .sparse = true,
                           .adaptive = true,
                           .reader = "cpu:0",
                           .devices = "cpu:0,cpu:1"};

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_value look_up(tdm_graph *graph, const table_case *self, tdm_value ids) {
  if (self->looks == ROWS_OF_IDS) {
    const tdm_embedding_options options =
        OPTIONS(tdm_embedding_options, o.sparse = self->sparse,
                o.padding_index = self->padded ? self->rows / 2 : TDM_NO_INDEX);
    const tdm_value rows = tdm_embedding_with(graph, "table", ids, self->rows, self->dim, &options);
    return tdm_reshape(graph, "flat", rows, tdm_shape_of(2, TDM_INFER, LENGTH * self->dim));
  }
  static const tdm_bag_mode modes[] = {TDM_BAG_SUM, TDM_BAG_SUM, TDM_BAG_MEAN, TDM_BAG_MAX};
  tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.mode = modes[self->looks], o.sparse = self->sparse,
              o.padding_index = self->padded ? self->rows / 2 : TDM_NO_INDEX);
  if (self->by_offsets)
    options.offsets = tdm_input(graph, "offsets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  if (self->scaled)
    options.scales = tdm_input(graph, "scales", self->dtype,
                               self->by_offsets ? tdm_shape_of(1, TDM_DIM("n"))
                                                : tdm_shape_of(2, TDM_DIM("batch"), LENGTH));
  return tdm_embedding_bag(graph, "table", ids, self->rows, self->dim, &options);
}

/* Adds the loss; the table is looked up by "ids" below "model". */
tdm_value table_model_build(tdm_graph *graph, const table_case *self, bool sharded) {
  tdm_scope_dtype(graph, self->dtype);
  const tdm_value ids = tdm_input(graph, "ids", self->ids,
                                  self->by_offsets ? tdm_shape_of(1, TDM_DIM("n"))
                                                   : tdm_shape_of(2, TDM_DIM("batch"), LENGTH));
  const tdm_value target =
      tdm_input(graph, "target", self->dtype, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_scope_push(graph, "model");
  tdm_place(graph, self->reader);
  const tdm_value looked = look_up(graph, self, ids);
  const tdm_value y = tdm_linear(graph, "linear", looked, 4);
  tdm_scope_pop(graph);
  tdm_output(graph, "y", y);
  if (self->wrapped) {
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1," TEST_KIND ":0");
    tdm_data_parallel(graph, "model", &options);
  }
  const tdm_shard_options options =
      OPTIONS(tdm_shard_options, o.devices = self->devices, o.by = self->by,
              o.weights = self->weighted ? self->weights : NULL);
  if (sharded) tdm_shard(graph, "model/table", &options);
  const tdm_value loss = tdm_mse(graph, "loss", y, target);
  tdm_output(graph, "loss", loss);
  return loss;
}

tdm_session *table_session(tdm_context *context, const table_case *self, bool sharded,
                           tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = table_model_build(graph, self, sharded);
  const tdm_optimizer of_table = self->factored    ? tdm_adafactor(0.1)
                                 : !self->adaptive ? tdm_sgd(0.5)
                                 : self->sparse    ? tdm_sparse_adam(0.1)
                                 : self->padded    ? tdm_adam(0.1)
                                                   : tdm_adagrad(0.1);
  const tdm_optimizer others = tdm_sgd(0.5);
  const tdm_parameter_group group = {.parameters = "model/table.weight", .optimizer = &of_table};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &others, o.groups = &group,
              o.group_count = 1, o.micro_batches = OR_ONE(self->micro_batches),
              o.batch_dimension = "batch", o.deterministic = true, o.store = store, o.seed = 5);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

/* ---- Feeds ----------------------------------------------------------------------------------- */

static void feed(table_batch *batch, const char *name, tdm_tensor *tensor) {
  if (!tensor) fail_msg("%s: %s", name, tdm_last_message());
  batch->feeds[batch->count++] = (tdm_feed){.name = name, .tensor = tensor};
}

static tdm_tensor *integers(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                            const int64_t *values) {
  int32_t narrow[BATCH * LENGTH];
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    narrow[i] = (int32_t)values[i];
  return tdm_tensor_from(context, dtype, shape,
                         dtype == TDM_INT32 ? (const void *)narrow : (const void *)values);
}

static tdm_tensor *reals(tdm_context *context, tdm_dtype dtype, tdm_shape shape, uint64_t seed) {
  double wide[BATCH * LENGTH * 4];
  float narrow[BATCH * LENGTH * 4];
  const tdm_random random = {seed, tdm_random_stream("reals"), 0};
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    narrow[i] = (float)(wide[i] = tdm_random_normal(&random, (uint64_t)i));
  return tdm_tensor_from(context, dtype, shape,
                         dtype == TDM_FLOAT32 ? (const void *)narrow : (const void *)wide);
}

/* rows of the batch, at most BATCH. */
void table_batch_make(table_batch *batch, tdm_context *context, const table_case *self,
                      int64_t rows, uint64_t seed) {
  int64_t ids[BATCH * LENGTH] = {0}, offsets[BATCH] = {0};
  const tdm_random random = {seed, tdm_random_stream("ids"), 0};
  batch->count = 0;
  for (int i = 0; i < BATCH * LENGTH; i++)
    ids[i] = tdm_random_uint32(&random, (uint64_t)i) % (uint32_t)self->rows;
  for (int i = 1; i < BATCH; i++)
    offsets[i] = offsets[i - 1] + tdm_random_uint32(&random, 100 + (uint64_t)i) % (LENGTH + 1);
  const tdm_shape shape =
      self->by_offsets ? tdm_shape_of(1, rows * LENGTH) : tdm_shape_of(2, rows, LENGTH);
  feed(batch, "ids", integers(context, self->ids, shape, ids));
  feed(batch, "target", reals(context, self->dtype, tdm_shape_of(2, rows, 4), seed));
  if (self->by_offsets)
    feed(batch, "model/offsets", integers(context, TDM_INT64, tdm_shape_of(1, rows), offsets));
  if (self->scaled) feed(batch, "model/scales", reals(context, self->dtype, shape, seed + 1));
}

void table_batch_release(table_batch *batch) {
  for (size_t i = 0; i < batch->count; i++)
    tdm_tensor_release(batch->feeds[i].tensor);
}

void table_batch_set_ids(table_batch *batch, tdm_context *context, const int64_t *ids) {
  tdm_tensor_release(batch->feeds[0].tensor);
  batch->feeds[0].tensor = integers(context, TDM_INT64, tdm_shape_of(2, BATCH, LENGTH), ids);
}

/* ---- The same bits --------------------------------------------------------------------------- */

/* Returns true if the reader and all shards have the same arithmetic. Simulated devices compute
 * like cpu devices; GPUs round differently. */
static bool is_of_one_kind(const table_case *self) {
  const bool is_gpu = strncmp(self->reader, "cuda", 4) == 0;
  for (const char *at = self->devices; at; at = strchr(at, ',')) {
    at += *at == ',';
    if ((strncmp(at, "cuda", 4) == 0) != is_gpu) return false;
  }
  return true;
}

/* Returns true if gradients have the same bits, too. If a row's adjoint is a product, kernels of
 * bags add it to others without rounding it first, but shards receive it rounded. */
bool table_is_exact(const table_case *self) {
  return self->looks != BAGS_OF_MEANS && !self->scaled && is_of_one_kind(self);
}

static double value_of(const tdm_tensor *tensor, int64_t i) {
  const void *data = tdm_tensor_data(tensor);
  return tdm_tensor_dtype(tensor) == TDM_FLOAT32 ? ((const float *)data)[i]
                                                 : ((const double *)data)[i];
}

static void assert_close(const char *name, const tdm_tensor *a, const tdm_tensor *b) {
  const tdm_shape shape = tdm_tensor_shape(a);
  const double tolerance = tdm_tensor_dtype(a) == TDM_FLOAT32 ? 1e-4 : 1e-11;
  assert_int_equal(tdm_tensor_bytes(a), tdm_tensor_bytes(b));
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    if (!(fabs(value_of(a, i) - value_of(b, i)) <= tolerance * (1 + fabs(value_of(a, i)))))
      fail_msg("%s[%lld] is %g and %g", name, (long long)i, value_of(a, i), value_of(b, i));
}

static void assert_close_state(const tdm_tensor_list *a, const tdm_tensor_list *b) {
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    assert_non_null(tdm_tensor_list_find(b, name));
    assert_close(name, tdm_tensor_list_tensor(a, i), tdm_tensor_list_find(b, name));
  }
}

void assert_same_stores(tdm_session *a, tdm_session *b, bool exact) {
  tdm_tensor_list *of_a = state_of(a), *of_b = state_of(b);
  if (exact)
    assert_same_state(of_a, of_b);
  else
    assert_close_state(of_a, of_b);
  tdm_tensor_list_release(of_a);
  tdm_tensor_list_release(of_b);
}

/* Executes one step of both, and compares their results. */
void step_both(tdm_session *const sessions[2], tdm_context *context, const table_case *self,
               uint64_t seed) {
  table_batch batch;
  double losses[2];
  tdm_fetch fetches[2] = {{.name = "y"}, {.name = "y"}};
  const bool exact = table_is_exact(self) || seed == 0;
  table_batch_make(&batch, context, self, BATCH, seed);
  for (int s = 0; s < 2; s++) {
    assert_ok(tdm_train_step(sessions[s], batch.feeds, batch.count, NULL, 0, &losses[s]));
    assert_ok(tdm_run(sessions[s], batch.feeds, batch.count, &fetches[s], 1));
  }
  assert_true(exact ? losses[0] == losses[1]
                    : fabs(losses[0] - losses[1]) < 1e-4 * (1 + fabs(losses[0])));
  if (table_is_exact(self))
    assert_same_tensor(fetches[0].tensor, fetches[1].tensor);
  else
    assert_close("y", fetches[0].tensor, fetches[1].tensor);
  for (int s = 0; s < 2; s++)
    tdm_tensor_release(fetches[s].tensor);
  table_batch_release(&batch);
}
