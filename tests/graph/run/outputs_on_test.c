/* Outputs that stay on a device: of blocking, training and submitted runs and of sequences, in
 * parallel regions and in micro-batches, fed to another session; their memory and transfers. For
 * accelerators of TEST_KIND. Invariant: the bits are those of the output that comes to cpu:0. */
#include <time.h>

#include "tests/graph/group.h"
#include "tests/options.h"

#define FIRST TEST_KIND ":0"
#define SECOND TEST_KIND ":1"

enum { ROWS = 6, WIDTH = 4, OUT = 3 };

/* Creates a session of x (batch, WIDTH) -> linear, tanh on FIRST: "host", on cpu:0, and "kept", on
 * device; wraps NULL: not replicated. */
static tdm_session *model(const char *device, const char *wraps,
                          const tdm_session_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  if (!wraps) tdm_place(graph, FIRST);
  const tdm_value y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", x, OUT));
  if (wraps) {
    const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = wraps);
    tdm_data_parallel(graph, "fc,tanh", &wrapped);
  }
  tdm_output(graph, "host", y);
  tdm_output_on(graph, "kept", y, device);
  const tdm_value loss = tdm_sum(graph, "sum", y, NULL, 0, false);
  tdm_session_options mine = *options;
  mine.seed = 3;
  return train_session(graph, loss, tdm_sgd(0.1), &mine);
}

static tdm_tensor *drawn(uint64_t seed) {
  return tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), seed);
}

static void assert_kept(tdm_fetch *fetches, const char *device) {
  assert_string_equal(tdm_tensor_device(fetches[0].tensor), "cpu:0");
  assert_string_equal(tdm_tensor_device(fetches[1].tensor), device);
  tdm_tensor *copy = tdm_tensor_to(fetches[1].tensor, "cpu:0", TDM_FLOAT32);
  assert_non_null(copy);
  assert_same_tensor(fetches[0].tensor, copy);
  tdm_tensor_release(copy);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(fetches[i].tensor);
}

static void run_and_train(tdm_session *session, const char *device) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    tdm_tensor *x = drawn(seed);
    const tdm_feed feed = {"x", x, false};
    tdm_fetch fetches[] = {{.name = "host"}, {.name = "kept"}};
    assert_ok(tdm_run(session, &feed, 1, fetches, 2));
    assert_kept(fetches, device);
    assert_ok(tdm_train_step(session, &feed, 1, fetches, 2, NULL));
    assert_kept(fetches, device);
    tdm_tensor_release(x);
  }
}

static void an_output_lies_where_it_was_asked_for(void **unused) {
  (void)unused;
  const tdm_session_options none = tdm_session_options_default();
  static const char *const devices[] = {FIRST, SECOND, "cpu:0", "cpu:1"};
  for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
    tdm_session *session = model(devices[i], NULL, &none);
    run_and_train(session, devices[i]);
    tdm_session_release(session);
  }
  tdm_session *session = model(NULL, NULL, &none);
  run_and_train(session, FIRST);
  tdm_session_release(session);
  session = model(TEST_KIND, NULL, &none);
  run_and_train(session, FIRST);
  tdm_session_release(session);
}

static void wrapped_and_in_micro_batches_it_does_as_well(void **unused) {
  (void)unused;
  const tdm_session_options none = tdm_session_options_default();
  const tdm_session_options parts = OPTIONS(tdm_session_options, o.micro_batches = 3, o.depth = 2);
  static const char *const wraps[] = {SECOND "," FIRST, "cpu:1," FIRST, NULL};
  for (size_t w = 0; w < TDM_COUNT_OF(wraps); w++)
    for (int cut = 0; cut < 2; cut++) {
      tdm_session *session = model(SECOND, wraps[w], cut ? &parts : &none);
      run_and_train(session, SECOND);
      tdm_session_release(session);
      session = model(NULL, wraps[w], cut ? &parts : &none);
      run_and_train(session, w == 0 ? SECOND : w == 1 ? "cpu:1" : FIRST);
      tdm_session_release(session);
    }
}

/* ---- Transfers and memory -------------------------------------------------------------------- */

static void what_stays_is_not_moved(void **unused) {
  (void)unused;
  tdm_session *session = model(NULL, NULL, WITH(tdm_session_options, (void)0));
  tdm_tensor *x = drawn(1);
  tdm_tensor *there = tdm_tensor_to(x, FIRST, TDM_FLOAT32);
  const tdm_feed feed = {"x", there, false};
  tdm_traffic traffic;
  tdm_memory_use host, device;
  const tdm_fetch kept = {.name = "kept"}, brought = {.name = "host"};
  const uint64_t bytes = ROWS * OUT * sizeof(float);
  assert_ok(tdm_session_prepare(session, &feed, 1, &kept, 1, false));
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.boundary_transfers, 0);
  assert_ok(tdm_session_memory(session, "cpu:0", &host));
  assert_ok(tdm_session_memory(session, FIRST, &device));
  assert_int_equal(host.outputs_bytes, 0);
  assert_int_equal(device.outputs_bytes, bytes);
  assert_ok(tdm_session_prepare(session, &feed, 1, &brought, 1, false));
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.boundary_transfers, 1);
  assert_int_equal(traffic.boundary_bytes, bytes);
  assert_ok(tdm_session_memory(session, "cpu:0", &host));
  assert_ok(tdm_session_memory(session, FIRST, &device));
  assert_int_equal(host.outputs_bytes, bytes);
  assert_int_equal(device.outputs_bytes, 0);
  tdm_tensor_release(x);
  tdm_tensor_release(there);
  tdm_session_release(session);
}

/* A run writes only into memory of released outputs. */
static void memory_is_used_again_once_it_is_let_go_of(void **unused) {
  (void)unused;
  tdm_session *session = model(NULL, NULL, WITH(tdm_session_options, (void)0));
  tdm_tensor *x = drawn(1);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetches[3];
  const tdm_storage *storages[3];
  for (int i = 0; i < 3; i++) {
    fetches[i] = (tdm_fetch){.name = "kept"};
    assert_ok(tdm_run(session, &feed, 1, &fetches[i], 1));
    storages[i] = fetches[i].tensor->storage;
    if (i == 1) tdm_tensor_release(fetches[1].tensor);
  }
  assert_ptr_not_equal(storages[0], storages[1]);
  assert_ptr_equal(storages[1], storages[2]);
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[2].tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
}

/* ---- Passed on ------------------------------------------------------------------------------- */

/* Checks y = tanh(y) on SECOND, composed from two sessions. */
static void a_device_s_tensor_is_fed_to_another_session(void **unused) {
  (void)unused;
  tdm_session *first = model(NULL, NULL, WITH(tdm_session_options, (void)0));
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, ROWS, OUT));
  tdm_place(graph, FIRST);
  tdm_output(graph, "z", tdm_tanh(graph, "tanh", y));
  tdm_session *second = run_session(graph, NULL);
  tdm_tensor *x = drawn(5);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetches[] = {{.name = "host"}, {.name = "kept"}};
  assert_ok(tdm_run(first, &feed, 1, fetches, 2));
  tdm_fetch by_host = {.name = "z"}, by_device = {.name = "z"};
  assert_ok(tdm_run(second, &(tdm_feed){"y", fetches[0].tensor, false}, 1, &by_host, 1));
  assert_ok(tdm_run(second, &(tdm_feed){"y", fetches[1].tensor, false}, 1, &by_device, 1));
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(second, &traffic));
  assert_int_equal(traffic.boundary_transfers, 1); /* the transfer of z */
  assert_same_tensor(by_host.tensor, by_device.tensor);
  tdm_tensor_release(by_host.tensor);
  tdm_tensor_release(by_device.tensor);
  assert_kept(fetches, FIRST);
  tdm_tensor_release(x);
  tdm_session_release(first);
  tdm_session_release(second);
}

/* Feeds, parameters and repeated values are copied for delivery. */
static void what_no_node_has_made_is_copied(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  tdm_place(graph, SECOND);
  const tdm_value y = tdm_linear(graph, "fc", x, OUT);
  static const char *const names[] = {"x", "weight", "y", "again", "elsewhere"};
  tdm_output_on(graph, names[0], x, SECOND);
  tdm_output_on(graph, names[1], tdm_get_parameter(graph, "fc.weight"), NULL);
  tdm_output_on(graph, names[2], y, SECOND);
  tdm_output_on(graph, names[3], y, NULL);
  tdm_output_on(graph, names[4], y, FIRST);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = drawn(2);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetches[5];
  tdm_tensor *copies[5];
  for (int i = 0; i < 5; i++)
    fetches[i] = (tdm_fetch){.name = names[i]};
  assert_ok(tdm_run(session, &feed, 1, fetches, 5));
  for (int i = 0; i < 5; i++) {
    assert_string_equal(tdm_tensor_device(fetches[i].tensor), i == 4 ? FIRST : SECOND);
    copies[i] = tdm_tensor_to(fetches[i].tensor, "cpu:0", TDM_FLOAT32);
    for (int k = 0; k < i; k++)
      assert_ptr_not_equal(fetches[i].tensor->storage, fetches[k].tensor->storage);
  }
  tdm_tensor_list *state = state_of(session);
  assert_same_tensor(copies[0], fed);
  assert_same_tensor(copies[1], tdm_tensor_list_find(state, "fc.weight"));
  assert_same_tensor(copies[2], copies[3]);
  assert_same_tensor(copies[2], copies[4]);
  for (int i = 0; i < 5; i++) {
    tdm_tensor_release(copies[i]);
    tdm_tensor_release(fetches[i].tensor);
  }
  tdm_tensor_list_release(state);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- Submitted, and in sequences ------------------------------------------------------------- */

enum { SUBMITTED = 12 };

typedef struct tally {
  _Atomic int done;
  tdm_fetch fetches[SUBMITTED][2];
} tally;

typedef struct ticket {
  tally *of;
  int number;
} ticket;

static void note(void *user, tdm_run_result *result) {
  const ticket *mine = user;
  for (size_t i = 0; i < result->fetch_count; i++)
    mine->of->fetches[mine->number][i] = result->fetches[i];
  atomic_fetch_add(&mine->of->done, 1);
}

static void submitted_runs_hand_them_to_the_callback(void **unused) {
  (void)unused;
  tdm_session *session = model(NULL, NULL, WITH(tdm_session_options, o.depth = 3));
  tally all = {.done = 0};
  ticket tickets[SUBMITTED];
  const tdm_fetch fetches[] = {{.name = "host"}, {.name = "kept"}};
  for (int i = 0; i < SUBMITTED; i++) {
    tickets[i] = (ticket){&all, i};
    tdm_tensor *x = drawn((uint64_t)i);
    const tdm_feed feed = {"x", x, false};
    assert_ok(tdm_submit(session, i % 3 == 0, &feed, 1, fetches, 2, note, &tickets[i]));
    tdm_tensor_release(x);
  }
  while (atomic_load(&all.done) < SUBMITTED)
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  for (int i = 0; i < SUBMITTED; i++)
    assert_kept(all.fetches[i], FIRST);
  tdm_session_release(session);
}

static void runs_of_a_sequence_keep_them_too(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, WIDTH));
  tdm_place(graph, FIRST);
  const tdm_value kept = tdm_kept(graph, "total", TDM_FLOAT32, tdm_shape_of(1, WIDTH));
  const tdm_value total = tdm_add(graph, "add", kept, x);
  tdm_keep(graph, "keep", kept, total);
  tdm_output(graph, "host", total);
  tdm_output_on(graph, "kept", total, NULL);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  const float ones[WIDTH] = {1, 1, 1, 1};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, WIDTH), ones);
  tdm_fetch fetches[3][2];
  for (int i = 0; i < 3; i++) {
    fetches[i][0] = (tdm_fetch){.name = "host"};
    fetches[i][1] = (tdm_fetch){.name = "kept"};
    assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, fetches[i], 2));
  }
  for (int i = 0; i < 3; i++) { /* later runs have not changed them */
    assert_true(*(const float *)tdm_tensor_data(fetches[i][0].tensor) == (float)(i + 1));
    assert_kept(fetches[i], FIRST);
  }
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void a_device_that_is_not_there_is_named(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, WIDTH));
  tdm_output_on(graph, "y", tdm_tanh(graph, "tanh", x), TEST_KIND ":77");
  assert_int_equal(tdm_graph_status(graph), TDM_UNAVAILABLE);
  assert_non_null(strstr(tdm_last_message(), "output y"));
  assert_non_null(strstr(tdm_last_message(), TEST_KIND ":77"));
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  tdm_output_on(graph, "y", tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, WIDTH)), "");
  assert_int_not_equal(tdm_graph_status(graph), TDM_OK);
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_output_lies_where_it_was_asked_for),
      cmocka_unit_test(wrapped_and_in_micro_batches_it_does_as_well),
      cmocka_unit_test(what_stays_is_not_moved),
      cmocka_unit_test(memory_is_used_again_once_it_is_let_go_of),
      cmocka_unit_test(a_device_s_tensor_is_fed_to_another_session),
      cmocka_unit_test(what_no_node_has_made_is_copied),
      cmocka_unit_test(submitted_runs_hand_them_to_the_callback),
      cmocka_unit_test(runs_of_a_sequence_keep_them_too),
      cmocka_unit_test(a_device_that_is_not_there_is_named),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
