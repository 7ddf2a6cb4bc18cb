/* Moving averages of parameters: sessions that read them while another one trains, with parameters
 * on any device; averages in files; and errors. */
#include "tests/graph/group.h"
#include "tests/options.h"

#include <math.h>

enum { IN = 6, OUT = 4, ROWS = 8, STEPS = 5 };
static const double decay = 0.75;

/* Builds "fc", replicated on the devices, or placed on the only one; output "y". */
static tdm_graph *build(const char *devices, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), IN);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value target =
      tdm_input(graph, "target", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), OUT));
  const bool wrapped = strchr(devices, ',') != NULL;
  if (!wrapped) tdm_place(graph, devices);
  const tdm_value y = tdm_linear(graph, "fc", x, OUT);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (wrapped) tdm_data_parallel(graph, "fc", &options);
  tdm_output(graph, "y", y);
  *out_loss = tdm_mse(graph, "loss", y, target);
  return graph;
}

static tdm_session *trainer(const char *devices, double average_decay, tdm_collective collective) {
  tdm_value loss;
  tdm_graph *graph = build(devices, &loss);
  tdm_optimizer optimizer = tdm_adam(0.05);
  optimizer.average_decay = average_decay;
  return train_session(graph, loss, optimizer,
                       WITH(tdm_session_options, o.seed = 3, o.collective = collective));
}

static tdm_session *reader(const char *devices, tdm_store *store) {
  tdm_value loss;
  return run_session(build(devices, &loss),
                     WITH(tdm_session_options, o.store = store, o.averages = true));
}

static tdm_tensor *drawn(int64_t columns, uint64_t seed) {
  return tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, columns), seed, -1,
                            1);
}

static void train(tdm_session *session, int first, int steps) {
  for (int i = first; i < first + steps; i++) {
    const tdm_feed feeds[] = {{.name = "x", .tensor = drawn(IN, (uint64_t)i + 1)},
                              {.name = "target", .tensor = drawn(OUT, (uint64_t)i + 100)}};
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
    tdm_tensor_release(feeds[0].tensor);
    tdm_tensor_release(feeds[1].tensor);
  }
}

static tdm_tensor *outputs_of(tdm_session *session) {
  const tdm_feed feed = {.name = "x", .tensor = drawn(IN, 999)};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(feed.tensor);
  return fetch.tensor;
}

static void copy_values(tdm_session *session, const char *name, float *out) {
  tdm_tensor_list *state = state_of(session);
  const tdm_tensor *tensor = tdm_tensor_list_find(state, name);
  if (!tensor) fail_msg("no %s", name);
  memcpy(out, tdm_tensor_data(tensor), tdm_tensor_bytes(tensor));
  tdm_tensor_list_release(state);
}

/* A session reads the average of the parameter after each step. */
static void averages_are_read(void **unused) {
  (void)unused;
  tdm_session *session = trainer("cpu:0", decay, TDM_COLLECTIVE_AUTO);
  float average[OUT * IN], now[OUT * IN], found[OUT * IN];
  for (int step = 0; step < STEPS; step++) {
    train(session, step, 1);
    copy_values(session, "fc.weight", now);
    for (int i = 0; i < OUT * IN; i++)
      average[i] = step == 0 ? now[i] : (float)(decay * average[i] + (1 - decay) * now[i]);
  }
  copy_values(session, "optimizer/fc.weight/average", found);
  for (int i = 0; i < OUT * IN; i++)
    assert_float_equal(found[i], average[i], 1e-6);
  tdm_session *evaluation = reader("cpu:0", tdm_session_store(session));
  tdm_tensor *of_averages = outputs_of(evaluation), *of_last = outputs_of(session);
  const float *a = tdm_tensor_data(of_averages), *b = tdm_tensor_data(of_last);
  float most = 0;
  for (int i = 0; i < ROWS * OUT; i++)
    most = a[i] - b[i] > most ? a[i] - b[i] : most;
  assert_true(most > 1e-3F);
  /* A store of only the averages gives the same outputs. */
  tdm_value loss;
  tdm_session *plain = run_session(build("cpu:0", &loss), NULL);
  tdm_tensor_list *averages = NULL;
  assert_ok(tdm_session_state_dict(evaluation, NULL, &averages));
  assert_ok(tdm_store_load(tdm_session_store(plain), averages));
  tdm_tensor *wanted = outputs_of(plain);
  assert_same_tensor(of_averages, wanted);
  float before[ROWS * OUT];
  memcpy(before, a, sizeof before);
  tdm_tensor_list_release(averages);
  tdm_tensor_release(wanted);
  tdm_tensor_release(of_averages);
  tdm_tensor_release(of_last);
  /* The session then reads the averages of later steps. */
  train(session, STEPS, 1);
  tdm_tensor *later = outputs_of(evaluation);
  assert_memory_not_equal(tdm_tensor_data(later), before, sizeof before);
  tdm_tensor_release(later);
  tdm_session_release(plain);
  tdm_session_release(evaluation);
  tdm_session_release(session);
}

/* Averages with own updates of devices, or updates at home. They are read there, elsewhere, and
 * from a file from which training continues. */
static void averages_are_kept_wherever_parameters_live(void **unused) {
  (void)unused;
  static const struct {
    const char *devices;
    tdm_collective collective;
  } placements[] = {{"sim:0", TDM_COLLECTIVE_AUTO},
                    {"sim:0,sim:1", TDM_COLLECTIVE_HOME},
                    {"sim:0,sim:1", TDM_COLLECTIVE_RING},
                    {"cpu:0,sim:1", TDM_COLLECTIVE_AUTO}};
  for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
    const char *devices = placements[i].devices;
    tdm_session *session = trainer(devices, decay, placements[i].collective);
    train(session, 0, STEPS);
    tdm_session *evaluation = reader(devices, tdm_session_store(session));
    tdm_session *elsewhere = reader("cpu:1", tdm_session_store(session));
    tdm_tensor *first = outputs_of(evaluation);
    tdm_tensor_release(first);
    train(session, STEPS, 1);
    tdm_tensor_list *saved = NULL;
    assert_ok(tdm_session_save(session, &saved));
    tdm_tensor *wanted = outputs_of(evaluation), *found = outputs_of(elsewhere);
    assert_same_tensor(found, wanted);
    tdm_tensor_release(found);

    /* A store with only the file. */
    tdm_store *fresh = tdm_store_create(context);
    assert_ok(tdm_store_load(fresh, saved));
    tdm_session *loaded = reader("cpu:1", fresh);
    found = outputs_of(loaded);
    assert_same_tensor(found, wanted);
    tdm_tensor_release(found);
    tdm_tensor_release(wanted);

    /* Training that continues from the file makes the same averages. */
    tdm_session *again = trainer(devices, decay, placements[i].collective);
    train(again, 0, 1);
    assert_ok(tdm_session_load(again, saved));
    train(again, STEPS + 1, 1);
    train(session, STEPS + 1, 1);
    tdm_tensor_list *mine = state_of(session), *theirs = state_of(again);
    assert_same_state(theirs, mine);
    tdm_tensor_list_release(mine);
    tdm_tensor_list_release(theirs);
    tdm_tensor_list_release(saved);
    tdm_session_release(again);
    tdm_session_release(loaded);
    tdm_store_release(fresh);
    tdm_session_release(elsewhere);
    tdm_session_release(evaluation);
    tdm_session_release(session);
  }
}

/* A frozen parameter has no average, and does not change. */
static void frozen_parameters_are_read_as_they_are(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = build("cpu:0", &loss);
  const tdm_parameter_group frozen = {"fc.bias", NULL};
  tdm_optimizer optimizer = tdm_adam(0.05);
  optimizer.average_decay = decay;
  tdm_session *session = train_session(
      graph, loss, optimizer, WITH(tdm_session_options, o.groups = &frozen, o.group_count = 1));
  train(session, 0, STEPS);
  float average[OUT * IN], bias[OUT], found[OUT * IN];
  copy_values(session, "optimizer/fc.weight/average", average);
  copy_values(session, "fc.bias", bias);
  tdm_session *evaluation = reader("sim:0", tdm_session_store(session));
  tdm_tensor_list *read;
  assert_ok(tdm_session_state_dict(evaluation, NULL, &read));
  const tdm_tensor *weight = tdm_tensor_list_find(read, "fc.weight");
  assert_memory_equal(tdm_tensor_data(weight), average, sizeof average);
  assert_memory_equal(tdm_tensor_data(tdm_tensor_list_find(read, "fc.bias")), bias, sizeof bias);
  copy_values(session, "fc.weight", found);
  assert_memory_not_equal(found, average, sizeof average);
  tdm_tensor_list_release(read);
  tdm_session_release(evaluation);
  tdm_session_release(session);
}

/* Builds a sharded "table", looked up and averaged; output "y". */
static tdm_graph *build_sharded(tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value y = tdm_embedding(graph, "table", ids, IN, OUT);
  tdm_shard(graph, "table", WITH(tdm_shard_options, o.devices = "cpu:0,sim:0"));
  tdm_output(graph, "y", y);
  *out_loss = tdm_mean(graph, "loss", tdm_mul(graph, "squares", y, y), NULL, 0, false);
  return graph;
}

static tdm_session *sharded_reader(tdm_store *store) {
  tdm_value loss;
  return run_session(build_sharded(&loss),
                     WITH(tdm_session_options, o.store = store, o.averages = true));
}

/* Sharded tables have sharded averages, which files store as one. */
static void averages_of_shards_are_read(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = build_sharded(&loss);
  tdm_optimizer optimizer = tdm_sgd(0.5);
  optimizer.average_decay = decay;
  tdm_session *session = train_session(graph, loss, optimizer, NULL);
  const int64_t all[IN] = {0, 1, 2, 3, 4, 5};
  const tdm_feed feed = {.name = "ids",
                         .tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, IN), all)};
  for (int step = 0; step < STEPS; step++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  float average[IN * OUT];
  copy_values(session, "optimizer/table.weight/average", average);
  tdm_tensor_list *saved;
  assert_ok(tdm_session_save(session, &saved));
  tdm_store *fresh = tdm_store_create(context);
  assert_ok(tdm_store_load(fresh, saved));
  tdm_session *readers[] = {sharded_reader(tdm_session_store(session)), sharded_reader(fresh)};
  for (int i = 0; i < 2; i++) {
    tdm_tensor *y = tdm_run_output(readers[i], &feed, 1, "y");
    if (!y) fail_msg("%s", tdm_last_message());
    assert_memory_equal(tdm_tensor_data(y), average, sizeof average);
    tdm_tensor_release(y);
    tdm_session_release(readers[i]);
  }
  tdm_store_release(fresh);
  tdm_tensor_list_release(saved);
  tdm_tensor_release(feed.tensor);
  tdm_session_release(session);
}

static void what_is_wrong_is_refused(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_session *session = trainer("cpu:0", TDM_AVERAGE_NONE, TDM_COLLECTIVE_AUTO);
  train(session, 0, 1);
  tdm_graph *graph = build("cpu:0", &loss);
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = tdm_session_store(session), o.averages = true);
  assert_null(tdm_session_create(graph, &options));
  assert_message("no average of fc.weight");
  assert_message("average_decay");
  tdm_optimizer optimizer = tdm_sgd(0.1);
  options.loss = loss;
  options.optimizer = &optimizer;
  assert_null(tdm_session_create(graph, &options));
  assert_message("averages");
  assert_message("optimizer");
  options.averages = false;
  static const double wrong[] = {1, 1.5, -0.5, NAN};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    optimizer.average_decay = wrong[i];
    assert_null(tdm_session_create(graph, &options));
    assert_message("average_decay");
  }
  tdm_graph_release(graph);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(averages_are_read),
      cmocka_unit_test(averages_are_kept_wherever_parameters_live),
      cmocka_unit_test(frozen_parameters_are_read_as_they_are),
      cmocka_unit_test(averages_of_shards_are_read),
      cmocka_unit_test(what_is_wrong_is_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
