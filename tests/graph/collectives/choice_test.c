/* Sums over devices that may go around, and their predicted durations, by links whose figures the
 * test sets. */
#include <math.h>

#include "devices/links/table.h"
#include "graph/run/session.h"
#include "tests/graph/halve.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { WIDTH = 64, ROWS = 8, DEVICES = 4 };

static tdm_context *linked_context(void) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.sim_devices = DEVICES,
              o.sim = "latency_us=1,gigabytes_per_second=0.5,peer_gigabytes_per_second=1");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

/* Executes a training step, which fetches the output of that name, unless it is NULL. */
static void train(tdm_context *context, tdm_session *session, const char *output) {
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = output};
  assert_ok(tdm_train_step(session, &feed, 1, &fetch, output ? 1 : 0, NULL));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
}

/* Their outputs "z" have the same bits. */
static void assert_same_output(tdm_context *context, tdm_session *one, tdm_session *other) {
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetches[2] = {{.name = "z"}, {.name = "z"}};
  assert_ok(tdm_run(one, &feed, 1, &fetches[0], 1));
  assert_ok(tdm_run(other, &feed, 1, &fetches[1], 1));
  assert_same_tensor(fetches[0].tensor, fetches[1].tensor);
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  tdm_tensor_release(x);
}

static tdm_value input(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
}

/* Creates a session with a linear layer over all four devices. The output "slope" is the gradient
 * of its weight, and "bent" is the result of a layer that reads it. */
static tdm_session *wrapped_session(tdm_context *context, tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = input(graph);
  const tdm_value y = tdm_linear(graph, "linear", x, WIDTH);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1,sim:2,sim:3");
  tdm_data_parallel(graph, "linear", &wrap);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  const tdm_value weight = tdm_get_parameter(graph, "linear.weight");
  const tdm_value slope = tdm_gradient_of(graph, "slope", loss, weight);
  tdm_output(graph, "slope", slope);
  tdm_output(graph, "bent", tdm_relu(graph, "bent", slope));
  return train_session(graph, loss, tdm_sgd(0.1),
                       WITH(tdm_session_options, o.collective = collective));
}

/* ---- Updates that read two sums, or are made in two nodes ------------------------------------ */

static tdm_status execute_joint(const tdm_kernel_call *call) {
  float *parameter = call->outputs[0];
  const float *own = call->inputs[1]; /* has the shape of the parameter, as the next */
  const float *other = call->inputs[2];
  const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
  for (int64_t i = 0; i < count; i++)
    parameter[i] -= own[i] + 3 * other[i];
  return TDM_OK;
}

static const tdm_kernel joint_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "test_joint",
                                        .executes = "cpu",
                                        .dtype = TDM_FLOAT32,
                                        .execute = execute_joint};

static tdm_status infer_joint(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static const tdm_operation joint_operation = {.struct_size = sizeof(tdm_operation),
                                              .name = "test_joint",
                                              .min_inputs = 3,
                                              .max_inputs = 3,
                                              .output_count = 1,
                                              .overwrites = {1},
                                              .infer = infer_joint};

/* Updates each of two parameters with its own gradient and with that of the other. */
static tdm_status append_joint(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < 2; i++) {
    const tdm_value operands[] = {tdm_update_parameter(update, i), tdm_update_gradient(update, i),
                                  tdm_update_gradient(update, 1 - i)};
    tdm_append(graph, &joint_operation, tdm_update_name(update, i), NULL, operands, 3, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule joint_rule = {.name = "joint", .append = append_joint};

/* Updates each parameter with its gradient, then by a node that reads no gradient. */
static tdm_status append_twice(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < 2; i++) {
    const tdm_value gradient = tdm_update_gradient(update, i);
    const tdm_value operands[] = {tdm_update_parameter(update, i), gradient, gradient};
    const char *name = tdm_update_name(update, i);
    const tdm_value updated = tdm_append(graph, &joint_operation, name, NULL, operands, 3, NULL);
    tdm_append(graph, &halve, name, NULL, &updated, 1, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule twice_rule = {.name = "twice", .append = append_twice};

/* Creates a session with two layers over two devices. Any order of sums gives the same bits. */
static tdm_session *session_by(tdm_context *context, const tdm_optimizer_rule *rule,
                               tdm_parallel_sharding sharding, tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = input(graph);
  tdm_scope_push(graph, "model");
  const tdm_value y = tdm_linear_without_bias(graph, "first", x, WIDTH);
  const tdm_value z = tdm_linear_without_bias(graph, "second", tdm_tanh(graph, "bend", y), WIDTH);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1", o.sharding = sharding);
  tdm_data_parallel(graph, "model", &wrap);
  const tdm_optimizer optimizer = OPTIONS(tdm_optimizer, o.rule = rule, o.learning_rate = 1);
  return train_session(graph, tdm_mse(graph, "loss", z, x), optimizer,
                       WITH(tdm_session_options, o.seed = 7, o.collective = collective));
}

/* With every algorithm for the sums the home updates, and sends the parameter. */
static void assert_made_at_home(const tdm_optimizer_rule *rule, tdm_parallel_sharding sharding) {
  tdm_context *context = linked_context();
  assert_ok(tdm_kernel_register(context, &joint_kernel));
  assert_ok(tdm_kernel_register(context, &halve_kernel));
  tdm_session *home = session_by(context, rule, sharding, TDM_COLLECTIVE_HOME);
  tdm_session *ring = session_by(context, rule, sharding, TDM_COLLECTIVE_RING);
  for (int step = 0; step < 3; step++) {
    train(context, home, NULL);
    train(context, ring, NULL);
  }
  assert_int_equal(ring->newest->sums.sums, 2);
  tdm_tensor_list *one = state_of(home);
  tdm_tensor_list *other = state_of(ring);
  assert_same_state(one, other);
  assert_int_equal(ring->newest->sums.own_updates, 0);
  tdm_tensor_list_release(one);
  tdm_tensor_list_release(other);
  tdm_session_release(home);
  tdm_session_release(ring);
  tdm_context_release(context);
}

/* Devices have no sum but the one whose parameter they would update. */
static void an_update_of_two_sums_is_made_at_home(void **state) {
  (void)state;
  assert_made_at_home(&joint_rule, TDM_SHARDING_NONE);
}

/* They would perform the update that reads the sum, and not the one after it. */
static void an_update_in_two_nodes_is_made_at_home(void **state) {
  (void)state;
  assert_made_at_home(&twice_rule, TDM_SHARDING_NONE);
}

/* Updates each of two parameters by the other's gradient. */
static tdm_status append_crossed(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < 2; i++) {
    const tdm_value gradient = tdm_update_gradient(update, 1 - i);
    const tdm_value operands[] = {tdm_update_parameter(update, i), gradient, gradient};
    tdm_append(graph, &joint_operation, tdm_update_name(update, i), NULL, operands, 3, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule crossed_rule = {.name = "crossed", .append = append_crossed};

/* With sharded states, another device is the home of the sum. */
static void an_update_by_the_sum_of_another_home_is_made_at_its_own(void **state) {
  (void)state;
  assert_made_at_home(&crossed_rule, TDM_SHARDING_OPTIMIZER_STATES);
}

/* Updates each parameter twice by its gradient, the second time from the result of the first. */
static tdm_status append_again(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value gradient = tdm_update_gradient(update, i);
    tdm_value operands[] = {tdm_update_parameter(update, i), gradient, gradient};
    const char *name = tdm_update_name(update, i);
    operands[0] = tdm_append(graph, &joint_operation, name, NULL, operands, 3, NULL);
    tdm_append(graph, &joint_operation, name, NULL, operands, 3, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule again_rule = {.name = "again", .append = append_again};

/* Creates a session with a layer over two devices, whose bias is one number. */
static tdm_session *narrow_session(tdm_context *context, tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value y = tdm_linear(graph, "narrow", input(graph), 1);
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1");
  tdm_data_parallel(graph, "narrow", &wrap);
  tdm_output(graph, "z", y);
  const tdm_optimizer optimizer = OPTIONS(tdm_optimizer, o.rule = &again_rule, o.learning_rate = 1);
  return train_session(graph, tdm_sum(graph, "loss", y, NULL, 0, false), optimizer,
                       WITH(tdm_session_options, o.seed = 7, o.collective = collective));
}

/* The result of an update stays where it is, even if it is one number. */
static void an_update_that_goes_on_with_one_number_is_made_at_home(void **state) {
  (void)state;
  tdm_context *context = linked_context();
  assert_ok(tdm_kernel_register(context, &joint_kernel));
  tdm_session *home = narrow_session(context, TDM_COLLECTIVE_HOME);
  tdm_session *ring = narrow_session(context, TDM_COLLECTIVE_RING);
  for (int step = 0; step < 3; step++) {
    train(context, home, NULL);
    train(context, ring, NULL);
  }
  assert_same_output(context, home, ring);
  tdm_session_release(home);
  tdm_session_release(ring);
  tdm_context_release(context);
}

/* Creates a session with a layer over these devices, and optionally a second one after it. */
static tdm_session *layers_over(tdm_context *context, const int devices[2],
                                tdm_collective collective) {
  static const char *const lists[] = {NULL, NULL, "sim:0,sim:1", "sim:0,sim:1,sim:2",
                                      "sim:0,sim:1,sim:2,sim:3"};
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value y = input(graph);
  for (int i = 0; i < 2 && devices[i]; i++) {
    const char *name = i == 0 ? "first" : "second";
    y = tdm_linear_without_bias(graph, name, y, WIDTH);
    const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = lists[devices[i]]);
    tdm_data_parallel(graph, name, &wrap);
  }
  tdm_output(graph, "z", y);
  return train_session(
      graph, tdm_sum(graph, "loss", tdm_mul(graph, "square", y, y), NULL, 0, false), tdm_sgd(0.01),
      WITH(tdm_session_options, o.seed = 7, o.collective = collective));
}

/* For any first sum, and any that has most devices, nothing is sent to its devices again. */
static void every_device_of_every_sum_updates(void **state) {
  (void)state;
  static const int cases[][2] = {{2, 0}, {4, 0}, {3, 2}, {2, 3}, {2, 4}, {4, 2}};
  tdm_context *context = linked_context();
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    const uint32_t sums = cases[i][1] ? 2 : 1;
    tdm_session *session = layers_over(context, cases[i], TDM_COLLECTIVE_RING);
    for (int step = 0; step < 3; step++)
      train(context, session, NULL);
    assert_int_equal(session->newest->sums.sums, sums);
    assert_int_equal(session->newest->sums.own_updates, sums);
    uint64_t transfers, bytes;
    assert_ok(tdm_session_refreshed(session, &transfers, &bytes));
    if (transfers != 0) fail_msg("over %d and %d: %d", cases[i][0], cases[i][1], (int)transfers);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

/* ---- Updates that share a state -------------------------------------------------------------- */

/* Computes parameter, its gradient, shared () -> =parameter, =shared. */
static tdm_status execute_shared(const tdm_kernel_call *call) {
  float *parameter = call->outputs[0], *shared = call->outputs[1];
  const float *gradient = call->inputs[1];
  const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
  *shared = *shared / 2 + gradient[0];
  for (int64_t i = 0; i < count; i++)
    parameter[i] -= *shared;
  return TDM_OK;
}

static const tdm_kernel shared_kernel = {.struct_size = sizeof(tdm_kernel),
                                         .operation = "test_shared",
                                         .executes = "cpu",
                                         .dtype = TDM_FLOAT32,
                                         .execute = execute_shared};

static tdm_status infer_shared(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[1] = infer->inputs[2];
  return TDM_OK;
}

static const tdm_operation shared_operation = {.struct_size = sizeof(tdm_operation),
                                               .name = "test_shared",
                                               .min_inputs = 3,
                                               .max_inputs = 3,
                                               .output_count = 2,
                                               .overwrites = {1, 3},
                                               .infer = infer_shared};

static tdm_status append_shared(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  const tdm_value shared = tdm_state(graph, "optimizer/shared", TDM_FLOAT32, tdm_shape_scalar(),
                                     NULL, tdm_update_parameter(update, 0));
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value operands[] = {tdm_update_parameter(update, i), tdm_update_gradient(update, i),
                                  shared};
    tdm_append(graph, &shared_operation, tdm_update_name(update, i), NULL, operands, 3, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule shared_rule = {.name = "shared", .append = append_shared};

/* Creates a session with two layers over two devices. One sum is made at home, since its value is
 * read. */
static tdm_session *sharing_session(tdm_context *context, tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = input(graph);
  tdm_scope_push(graph, "model");
  const tdm_value y = tdm_linear_without_bias(graph, "first", x, WIDTH);
  const tdm_value z = tdm_linear_without_bias(graph, "second", y, WIDTH);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1");
  tdm_data_parallel(graph, "model", &wrap);
  const tdm_value loss = tdm_sum(graph, "loss", z, NULL, 0, false);
  const tdm_value weight = tdm_get_parameter(graph, "model/first.weight");
  tdm_output(graph, "bent", tdm_relu(graph, "bent", tdm_gradient_of(graph, "slope", loss, weight)));
  tdm_output(graph, "z", z);
  const tdm_optimizer optimizer =
      OPTIONS(tdm_optimizer, o.rule = &shared_rule, o.learning_rate = 1);
  return train_session(graph, loss, optimizer,
                       WITH(tdm_session_options, o.seed = 7, o.collective = collective));
}

/* An update reads the state that the previous one wrote, so all of them are made at home. */
static void updates_that_share_a_state_are_made_at_home(void **state) {
  (void)state;
  tdm_context *context = linked_context();
  assert_ok(tdm_kernel_register(context, &shared_kernel));
  tdm_session *home = sharing_session(context, TDM_COLLECTIVE_HOME);
  tdm_session *ring = sharing_session(context, TDM_COLLECTIVE_RING);
  for (int step = 0; step < 3; step++) {
    train(context, home, "bent");
    train(context, ring, "bent");
  }
  assert_same_output(context, home, ring);
  tdm_session_release(home);
  tdm_session_release(ring);
  tdm_context_release(context);
}

/* ---- Predicted durations --------------------------------------------------------------------- */

/* Returns the predicted duration of a ring in which one hop to the next device carries 1 MB/s. */
static double ring_ns_with_slow_hop(int hop) {
  tdm_context *context = linked_context();
  const tdm_device *ends[2];
  for (int i = 0; i < 2; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "sim:%d", (hop + i) % DEVICES);
    ends[i] = tdm_context_find_device(context, name);
  }
  *tdm_links_at(tdm_context_links(context), ends[0], ends[1], false) =
      (tdm_link_estimate){.link = {.bytes_per_ns = 1e-3}, .origin = TDM_LINK_CALIBRATED};
  tdm_session *session = wrapped_session(context, TDM_COLLECTIVE_AUTO);
  train(context, session, NULL);
  const double ns = session->newest->sums.predicted_ns[TDM_COLLECTIVE_RING];
  tdm_session_release(session);
  tdm_context_release(context);
  return ns;
}

/* Checks the forecast of a ring with one slow hop, for each hop. Each of its 2 * 3 rounds carries a
 * quarter of a sum and takes the time of the slowest hop. Half of the rounds of the longest sum,
 * the weight's, are waited for in addition. */
static void a_ring_is_as_slow_as_its_slowest_hop(void **state) {
  (void)state;
  const double weight = 4.0 * WIDTH * WIDTH;
  const double bias = 4.0 * WIDTH;
  const double wanted = 2 * (DEVICES - 1) * (1.5 * weight + bias) / DEVICES * 1000;
  for (int hop = 0; hop < DEVICES; hop++) {
    const double ns = ring_ns_with_slow_hop(hop);
    if (fabs(ns - wanted) > 1) fail_msg("hop %d: %.0f ns, not %.0f", hop, ns, wanted);
  }
}

/* Checks that sums that the backward pass reads do not wait for its end. The gradient of a value
 * that three devices read is summed where the value is computed, for every algorithm that is
 * selected for parameters. */
static void gradients_of_activations_are_summed_at_home(void **state) {
  (void)state;
  static const char *const devices[] = {"sim:0", "sim:1", "sim:2"};
  tdm_context *context = linked_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = input(graph);
  tdm_place(graph, devices[0]);
  const tdm_value shared = tdm_linear(graph, "shared", x, WIDTH);
  tdm_value sum = shared;
  for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
    char names[2][16];
    (void)snprintf(names[0], sizeof names[0], "reader%zu", i);
    (void)snprintf(names[1], sizeof names[1], "sum%zu", i);
    tdm_place(graph, devices[i]);
    const tdm_value read = tdm_linear(graph, names[0], shared, WIDTH);
    tdm_place(graph, devices[0]);
    sum = tdm_add(graph, names[1], sum, read);
  }
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", sum, x), tdm_sgd(0.1),
                    WITH(tdm_session_options, o.collective = TDM_COLLECTIVE_RING));
  train(context, session, NULL);
  size_t at_home = 0;
  TDM_EACH_NODE(&session->newest->graph, node) {
    assert_int_not_equal(tdm_ir_collective(node), TDM_COLLECTIVE_RING);
    at_home += tdm_ir_collective(node) == TDM_COLLECTIVE_HOME;
  }
  assert_true(at_home > 0);
  assert_int_equal(session->newest->sums.sums, 0); /* number of sums that only updates use */
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Checks that a weight's gradient that a layer reads is summed immediately, and that a fetched one
 * may be late like the bias's. */
static void gradients_that_are_read_are_summed_at_home(void **state) {
  (void)state;
  tdm_context *context = linked_context();
  tdm_session *session = wrapped_session(context, TDM_COLLECTIVE_RING);
  train(context, session, NULL);
  assert_int_equal(session->newest->sums.sums, 2);
  train(context, session, "slope");
  assert_int_equal(session->newest->sums.sums, 2);
  train(context, session, "bent");
  assert_int_equal(session->newest->sums.sums, 1);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_update_of_two_sums_is_made_at_home),
      cmocka_unit_test(an_update_in_two_nodes_is_made_at_home),
      cmocka_unit_test(an_update_by_the_sum_of_another_home_is_made_at_its_own),
      cmocka_unit_test(an_update_that_goes_on_with_one_number_is_made_at_home),
      cmocka_unit_test(every_device_of_every_sum_updates),
      cmocka_unit_test(updates_that_share_a_state_are_made_at_home),
      cmocka_unit_test(a_ring_is_as_slow_as_its_slowest_hop),
      cmocka_unit_test(gradients_of_activations_are_summed_at_home),
      cmocka_unit_test(gradients_that_are_read_are_summed_at_home),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
