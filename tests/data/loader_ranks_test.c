/* Loaders of a job for the devices of a parallel region. Each rank reads only the items of its own
 * rows, and trains as with whole batches. */
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ITEMS = 26, BATCH = 12, STEPS = 6 };

/* Items of ids and targets, with counts of the requests for each field. */
typedef struct source {
  int64_t ids_read;
  int64_t targets_read;
} source;

static tdm_status read_item(void *user, int64_t index, void *const *out_fields) {
  source *from = user;
  if (out_fields[0]) {
    *(int64_t *)out_fields[0] = index * 7 % MODEL_ROWS;
    from->ids_read++;
  }
  if (out_fields[1]) {
    *(int64_t *)out_fields[1] = index % MODEL_WIDTH;
    from->targets_read++;
  }
  return TDM_OK;
}

static tdm_dataset *make_dataset(tdm_context *context, source *from) {
  const tdm_field fields[] = {{"ids", TDM_INT64, tdm_shape_scalar()},
                              {"targets", TDM_INT64, tdm_shape_scalar()}};
  const tdm_dataset_source made = {.struct_size = sizeof made,
                                   .user = from,
                                   .length = ITEMS,
                                   .fields = fields,
                                   .field_count = 2,
                                   .item = read_item,
                                   .skips_fields = true};
  return tdm_dataset_create(context, &made);
}

typedef struct variety {
  const char *devices; /* devices of the region */
  const double *weights;
  bool shares; /* the loader reads only the part for this process's devices of the region */
  int prefetch;
  int replicas;
} variety;

static tdm_session *make_session(job_rank *rank, const variety *of) {
  tdm_value loss;
  tdm_graph *graph = job_deep_graph(rank, 0, MODEL_WIDTH, NULL, &loss);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = of->devices, o.weights = of->weights);
  tdm_data_parallel(graph, "model", &options);
  const job_model model = {.optimizer = tdm_adam(0.01)};
  return job_session(graph, loss, &model);
}

static tdm_loader *make_loader(job_rank *rank, const variety *of, source *from) {
  tdm_dataset *dataset = make_dataset(rank->context, from);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = BATCH, o.shuffle = true, o.seed = 3,
              o.prefetch = of->prefetch, o.devices = of->shares ? of->devices : NULL,
              o.weights = of->shares ? of->weights : NULL, o.whole = of->shares ? "targets" : NULL,
              o.replicas = OR_ONE(of->replicas));
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  return loader;
}

static tdm_status step(job_rank *rank, tdm_session *session, tdm_loader *loader, uint64_t *epoch) {
  tdm_tensor *fields[2];
  int64_t rows;
  TDM_TRY(tdm_loader_next(loader, fields, 2, &rows));
  if (rows == 0) {
    TDM_TRY(tdm_loader_start(loader, ++*epoch));
    TDM_TRY(tdm_loader_next(loader, fields, 2, &rows));
  }
  const tdm_feed feeds[] = {{"ids", fields[0], false}, {"targets", fields[1], false}};
  const tdm_status status = tdm_train_step(session, feeds, 2, NULL, 0, &rank->loss);
  tdm_tensor_release(fields[0]);
  tdm_tensor_release(fields[1]);
  return status;
}

static tdm_status train(job_rank *rank) {
  const variety *of = rank->user;
  source from = {0};
  tdm_session *session = make_session(rank, of);
  tdm_loader *loader = session ? make_loader(rank, of, &from) : NULL;
  tdm_status status = loader ? TDM_OK : TDM_INTERNAL;
  uint64_t epoch = 0;
  for (int i = 0; i < STEPS && status == TDM_OK; i++)
    status = step(rank, session, loader, &epoch);
  tdm_loader_release(loader); /* no reads from here on */
  rank->number = (uint64_t)from.ids_read;
  if (of->shares && of->prefetch == 0 && from.targets_read < from.ids_read) status = TDM_INTERNAL;
  if (session) rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

/* Items that ranks read of an epoch and a half, which has batches of 12, 12 and 2 rows. */
static void trains_alike(int ranks, const variety *whole, const variety *shared) {
  job_rank a[JOB_MOST_RANKS], b[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = ranks, .user = whole}, train, a);
  job_must(&(job_options){.rank_count = ranks, .user = shared}, train, b);
  uint64_t read = 0;
  for (int r = 0; r < ranks; r++) {
    assert_true(a[r].loss == b[r].loss);
    assert_true(a[r].hash == b[r].hash);
    read += b[r].number;
    if (shared->prefetch == 0) assert_true(ranks == 1 || b[r].number < a[r].number);
  }
  /* Every row once, on some rank. */
  if (shared->prefetch == 0) assert_int_equal(read, a[0].number);
}

static void ranks_read_their_own_rows_and_train_as_on_whole_batches(void **state) {
  (void)state;
  static const char every[] = "host:*/cpu:0";
  static const char mixed[] = "host:1/cpu:0,cpu:0,host:1/cpu:0,host:2/cpu:0";
  static const double uneven[] = {3, 1, 2, 2};
  for (int ranks = 1; ranks <= 3; ranks++)
    trains_alike(ranks, &(variety){.devices = every}, &(variety){.devices = every, .shares = true});
  trains_alike(3, &(variety){.devices = mixed, .weights = uneven},
               &(variety){.devices = mixed, .weights = uneven, .shares = true});
  trains_alike(2, &(variety){.devices = every},
               &(variety){.devices = every, .shares = true, .prefetch = 2});
  trains_alike(3, &(variety){.devices = every, .replicas = 3},
               &(variety){.devices = every, .replicas = 3, .shares = true});
}

/* ---- Contents of other ranks' rows ----------------------------------------------------------- */

static tdm_status look(job_rank *rank) {
  source from = {0};
  tdm_loader *loader =
      make_loader(rank, &(variety){.devices = "host:*/cpu:0", .shares = true}, &from);
  if (!loader) return TDM_INTERNAL;
  tdm_tensor *fields[2];
  int64_t rows;
  tdm_status status = tdm_loader_next(loader, fields, 2, &rows);
  const int64_t own = BATCH / rank->rank_count;
  for (int64_t row = 0; status == TDM_OK && row < rows; row++) {
    const int64_t id = ((const int64_t *)tdm_tensor_data(fields[0]))[row];
    const int64_t target = ((const int64_t *)tdm_tensor_data(fields[1]))[row];
    const bool is_own = row / own == rank->rank;
    if ((id >= 0) != is_own || target < 0)
      status = tdm_fail(TDM_INTERNAL, "row %lld: id %lld, target %lld", (long long)row,
                        (long long)id, (long long)target);
  }
  tdm_tensor_release(fields[0]);
  tdm_tensor_release(fields[1]);
  tdm_loader_release(loader);
  return status;
}

static void rows_of_other_ranks_cannot_be_taken_for_items(void **state) {
  (void)state;
  job_rank ranks[3];
  job_must(&(job_options){.rank_count = 3}, look, ranks);
  job_must(&(job_options){.rank_count = 1}, look, ranks);
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* Log lines of loaders: only rank 0 writes them. */
static void keep_line(void *user, tdm_log_level level, const char *message) {
  (void)level;
  char *kept = user;
  if (strstr(message, "loader")) (void)snprintf(kept, TDM_MESSAGE_BYTES, "%s", message);
}

static tdm_status open_loader(job_rank *rank) {
  source from = {0};
  tdm_loader *loader = make_loader(rank, rank->user, &from);
  if (!loader) return TDM_INTERNAL;
  tdm_loader_release(loader);
  return TDM_OK;
}

static void rank_0_tells_what_an_epoch_repeats(void **state) {
  (void)state;
  char line[TDM_MESSAGE_BYTES] = "";
  job_rank ranks[3];
  const variety dealt = {.replicas = 3};
  const job_options job = {.user = &dealt, .log = keep_line, .log_user = line};
  job_options three = job;
  three.rank_count = 3;
  job_must(&three, open_loader, ranks);
  assert_string_equal(line, "rank 0: loader: an epoch of 26 items repeats 1 of them");
  job_options one = job;
  one.rank_count = 1;
  job_must(&one, open_loader, ranks);
  assert_string_equal(line, "loader: an epoch of 26 items repeats 1 of them");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_read_their_own_rows_and_train_as_on_whole_batches),
      cmocka_unit_test(rows_of_other_ranks_cannot_be_taken_for_items),
      cmocka_unit_test(rank_0_tells_what_an_epoch_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
