/* Modules, replicas and parallel_apply as PyTorch's tutorials use them: data parallelism by hand,
 * of scatter, replicate, parallel_apply, gather, and models whose parts lie on several devices. */
#include "tests/options.h"
#include "tests/parallel/support.h"

#define BOTH FIRST "," SECOND

enum { ROWS = 8, WIDTH = 6, OUT = 4 };

static tdm_value build_net(tdm_graph *graph, void *user, tdm_value input) {
  (void)user;
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "fc1", input, 10));
  return tdm_linear(graph, "fc2", hidden, OUT);
}

/* The first of its nodes has statistics, and so has the last. */
static tdm_value build_normalized(tdm_graph *graph, void *user, tdm_value input) {
  (void)user;
  const tdm_value first = tdm_batch_norm(graph, "first", input);
  return tdm_batch_norm(graph, "bn", tdm_linear(graph, "fc", first, OUT));
}

/* The tutorial's function:
 *
 *   def data_parallel(module, input, device_ids, output_device=None):
 *       replicas = nn.parallel.replicate(module, device_ids)
 *       inputs = nn.parallel.scatter(input, device_ids)
 *       replicas = replicas[:len(inputs)]
 *       outputs = nn.parallel.parallel_apply(replicas, inputs)
 *       return nn.parallel.gather(outputs, output_device)
 */
static tdm_value data_parallel(tdm_graph *graph, const tdm_module *module, tdm_value input,
                               const char *devices, const char *output_device) {
  tdm_module replicas[4];
  tdm_value inputs[4], outputs[4];
  const tdm_dim sizes[] = {ROWS / 2, ROWS / 2};
  const size_t count = tdm_replicate(graph, module, devices, replicas, 4);
  tdm_split(graph, "scatter", input, 0, sizes, count, inputs);
  tdm_parallel_apply(graph, replicas, inputs, count, outputs);
  tdm_place(graph, output_device);
  return tdm_concat(graph, "gather", outputs, count, 0);
}

/* y = net(x), trained to y - t. devices NULL: without replicas. */
static tdm_session *session_of(const tdm_module *module, const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_value t = tdm_input(graph, "t", TDM_FLOAT32, tdm_shape_of(2, ROWS, OUT));
  tdm_value y;
  if (devices)
    y = data_parallel(graph, module, x, devices, SECOND);
  else
    tdm_parallel_apply(graph, module, &x, 1, &y);
  tdm_output_on(graph, "y", y, NULL);
  return train_session(graph, tdm_mse(graph, "mse", y, t), tdm_sgd(0.2),
                       WITH(tdm_session_options, o.seed = 9));
}

static tdm_tensor *train(tdm_session *session, uint64_t seed) {
  tdm_tensor *fed[] = {draw(tdm_shape_of(2, ROWS, WIDTH), seed),
                       draw(tdm_shape_of(2, ROWS, OUT), seed + 50)};
  const tdm_feed feeds[] = {{"x", fed[0], false}, {"t", fed[1], false}};
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_train_step(session, feeds, 2, &y, 1, NULL));
  release_tensors(fed, 2);
  return y.tensor;
}

static void data_parallelism_by_hand_is_the_module(void **unused) {
  (void)unused;
  const tdm_module module = {.name = "net", .build = build_net};
  tdm_session *plain = session_of(&module, NULL);
  tdm_session *parallel = session_of(&module, BOTH);
  for (uint64_t seed = 1; seed <= 4; seed++) {
    tdm_tensor *wanted = train(plain, seed);
    tdm_tensor *found = train(parallel, seed);
    assert_on(found, SECOND);
    found = to_host(found);
    assert_near_tensor(found, wanted, 1e-5);
    tdm_tensor_release(found);
    tdm_tensor_release(wanted);
  }
  assert_planned(parallel, "net/fc1", FIRST, NULL);
  assert_planned(parallel, "net/fc1", SECOND, NULL);
  tdm_tensor_list *wanted = state_of(plain);
  tdm_tensor_list *found = state_of(parallel);
  assert_near_state(found, wanted, 1e-5); /* equal names: replicas share parameters */
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(found);
  tdm_session_release(plain);
  tdm_session_release(parallel);
}

/* Running statistics follow the rows of the first replica, as in the library's parallel regions. */
static void statistics_are_those_of_the_first_replica(void **unused) {
  (void)unused;
  const tdm_module module = {.name = "net", .build = build_normalized};
  tdm_session *by_hand = session_of(&module, BOTH);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_value t = tdm_input(graph, "t", TDM_FLOAT32, tdm_shape_of(2, ROWS, OUT));
  tdm_value y;
  tdm_parallel_apply(graph, &module, &x, 1, &y);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = BOTH, o.output_device = SECOND);
  tdm_data_parallel(graph, "net", &options);
  tdm_output_on(graph, "y", y, NULL);
  tdm_session *wrapped = train_session(graph, tdm_mse(graph, "mse", y, t), tdm_sgd(0.2),
                                       WITH(tdm_session_options, o.seed = 9));
  for (uint64_t seed = 1; seed <= 3; seed++) {
    tdm_tensor_release(train(by_hand, seed));
    tdm_tensor_release(train(wrapped, seed));
  }
  tdm_tensor_list *wanted = state_of(wrapped);
  tdm_tensor_list *found = state_of(by_hand);
  assert_near_state(found, wanted, 1e-5);
  static const char *const counts[] = {"net/first.num_batches_tracked",
                                       "net/bn.num_batches_tracked"};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i++) {
    const tdm_tensor *batches = tdm_tensor_list_find(found, counts[i]);
    assert_non_null(batches);
    assert_true(*(const int64_t *)tdm_tensor_data(batches) == 3);
  }
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(found);
  tdm_session_release(by_hand);
  tdm_session_release(wrapped);
}

/* ---- Separate modules, each on its device ---------------------------------------------------- */

static tdm_value build_scaled(tdm_graph *graph, void *user, tdm_value input) {
  return tdm_mul_scalar(graph, "scaled", input, *(const double *)user);
}

static void modules_run_side_by_side_and_their_results_stay(void **unused) {
  (void)unused;
  static const char *const names[] = {"l0", "l1", "l2"};
  static const char *const devices[] = {FIRST, SECOND, "cpu:1"};
  double scales[] = {2, -3, 0.5};
  tdm_graph *graph = tdm_graph_create(context);
  tdm_module modules[3];
  tdm_value inputs[3], outputs[3];
  for (int i = 0; i < 3; i++) {
    modules[i] = (tdm_module){
        .name = names[i], .build = build_scaled, .user = &scales[i], .device = devices[i]};
    inputs[i] = tdm_input(graph, names[i], TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  }
  tdm_parallel_apply(graph, modules, inputs, 3, outputs);
  for (int i = 0; i < 3; i++)
    tdm_output_on(graph, names[i], outputs[i], NULL);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed[3];
  tdm_feed feeds[3];
  tdm_fetch fetches[3];
  for (int i = 0; i < 3; i++) {
    fed[i] = draw_on(devices[i], tdm_shape_of(2, ROWS, WIDTH), (uint64_t)i);
    feeds[i] = (tdm_feed){names[i], fed[i], false};
    fetches[i] = (tdm_fetch){.name = names[i]};
  }
  assert_ok(tdm_run(session, feeds, 3, fetches, 3));
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.boundary_transfers, 0);
  for (int i = 0; i < 3; i++) {
    assert_on(fetches[i].tensor, devices[i]);
    tdm_tensor *x = to_host(fed[i]);
    tdm_tensor *y = to_host(fetches[i].tensor);
    for (int k = 0; k < ROWS * WIDTH; k++)
      assert_true(((const float *)tdm_tensor_data(y))[k] ==
                  ((const float *)tdm_tensor_data(x))[k] * (float)scales[i]);
    tdm_tensor_release(x);
    tdm_tensor_release(y);
  }
  tdm_session_release(session);
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void what_cannot_be_built_is_named(void **unused) {
  (void)unused;
  const tdm_module module = {.name = "net", .build = build_net};
  const tdm_module unnamed = {.build = build_net};
  const tdm_module unbuilt = {.name = "net"};
  tdm_module replicas[2];
  static const char *const says[] = {"room for 2", "no name", "no function", "no module",
                                     TEST_KIND ":55"};
  for (size_t i = 0; i < TDM_COUNT_OF(says); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    size_t count = 1;
    if (i == 0) count = tdm_replicate(graph, &module, BOTH ",cpu:0", replicas, 2);
    if (i == 1) count = tdm_replicate(graph, &unnamed, BOTH, replicas, 2);
    if (i == 2) count = tdm_replicate(graph, &unbuilt, BOTH, replicas, 2);
    if (i == 3) count = tdm_replicate(graph, NULL, BOTH, replicas, 2);
    if (i == 4) count = tdm_replicate(graph, &module, FIRST "," TEST_KIND ":55", replicas, 2);
    assert_int_equal(count, 0);
    assert_int_not_equal(tdm_graph_status(graph), TDM_OK);
    assert_message(says[i]);
    tdm_graph_release(graph);
  }
}

static int built; /* modules, since a test set it to 0 */

static tdm_value build_counted(tdm_graph *graph, void *user, tdm_value input) {
  (void)graph;
  built++;
  return user ? (tdm_value){input.graph + 1, input.index} : input;
}

/* Nothing is built from it or after it; values that were built before stay valid. */
static void what_cannot_be_applied_is_named(void **unused) {
  (void)unused;
  static const struct {
    tdm_module module;
    bool foreign, inputs, outputs; /* input of another graph; lists are not NULL */
    int built;                     /* with the one before it */
    const char *message;
  } cases[] = {
      {{.build = build_counted}, false, true, true, 1, "tdm_parallel_apply: no name of the module"},
      {{.name = "net"},
       false,
       true,
       true,
       1,
       "tdm_parallel_apply: no function that builds the module"},
      {{.name = "net", .build = build_counted},
       true,
       true,
       true,
       1,
       "tdm_parallel_apply: module net: its input is no value of this graph"},
      {{.name = "net", .build = build_counted, .user = &built},
       false,
       true,
       true,
       2,
       "tdm_parallel_apply: module net: what it answers is no value of this graph"},
      {{.name = "net", .build = build_counted},
       false,
       false,
       true,
       0,
       "tdm_parallel_apply: 3 modules, and a list of them is NULL"},
      {{.name = "net", .build = build_counted},
       false,
       true,
       false,
       0,
       "tdm_parallel_apply: 3 modules, and a list of them is NULL"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
    const tdm_module good = {.name = "good", .build = build_counted};
    const tdm_module modules[] = {good, cases[i].module, good};
    tdm_value inputs[] = {x, x, x}, outputs[] = {x, x, x};
    if (cases[i].foreign) inputs[1].graph++;
    built = 0;
    tdm_parallel_apply(graph, modules, cases[i].inputs ? inputs : NULL, 3,
                       cases[i].outputs ? outputs : NULL);
    assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    assert_string_equal(tdm_last_message(), cases[i].message);
    assert_int_equal(built, cases[i].built);
    assert_int_equal(tdm_value_is_valid(outputs[0]), built > 0 || !cases[i].outputs);
    assert_int_equal(tdm_value_is_valid(outputs[1]), !cases[i].outputs);
    assert_int_equal(tdm_value_is_valid(outputs[2]), !cases[i].outputs);
    tdm_graph_release(graph);
  }
  tdm_graph *graph = tdm_graph_create(context);
  tdm_parallel_apply(graph, NULL, NULL, 0, NULL); /* no results are requested */
  assert_ok(tdm_graph_status(graph));
  const tdm_module idle = {.name = "idle", .build = build_counted}; /* no inputs, no outputs */
  tdm_value none = {0, 0}, nothing = {7, 7};
  tdm_parallel_apply(graph, &idle, &none, 1, &nothing);
  assert_ok(tdm_graph_status(graph));
  assert_false(tdm_value_is_valid(nothing));
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH)), y = x;
  tdm_parallel_apply(graph, NULL, &x, 1, &y);
  assert_false(tdm_value_is_valid(y));
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(),
                      "tdm_parallel_apply: 1 modules, and a list of them is NULL");
  tdm_graph_release(graph);
}

/* The maximum number of replicas; each reports its device and number. */
static void replicas_are_told_apart(void **unused) {
  (void)unused;
  const tdm_module module = {.name = "net", .build = build_net, .user = &built};
  tdm_module replicas[3];
  memset(replicas, 0, sizeof replicas);
  tdm_graph *graph = tdm_graph_create(context);
  assert_int_equal(tdm_replicate(graph, &module, BOTH, replicas, 2), 2);
  for (int i = 0; i < 2; i++) {
    assert_string_equal(replicas[i].name, "net");
    assert_ptr_equal(replicas[i].build, build_net);
    assert_ptr_equal(replicas[i].user, &built);
    assert_string_equal(replicas[i].device, i == 0 ? FIRST : SECOND);
    assert_int_equal(replicas[i].replica, i);
  }
  assert_null(replicas[2].name);
  assert_ok(tdm_graph_status(graph));
  assert_int_equal(tdm_replicate(graph, &module, BOTH, NULL, 2), 0);
  assert_string_equal(tdm_last_message(), "tdm_replicate: net: 2 devices, and room for 0 replicas");
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  assert_int_equal(tdm_replicate(graph, &module, NULL, replicas, 3), 0);
  assert_string_equal(tdm_last_message(), "tdm_replicate: net: no devices are given");
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_parallelism_by_hand_is_the_module),
      cmocka_unit_test(statistics_are_those_of_the_first_replica),
      cmocka_unit_test(modules_run_side_by_side_and_their_results_stay),
      cmocka_unit_test(what_cannot_be_built_is_named),
      cmocka_unit_test(what_cannot_be_applied_is_named),
      cmocka_unit_test(replicas_are_told_apart),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
