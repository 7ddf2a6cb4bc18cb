/* Outputs that stay on devices, and gradients as values, in jobs of several ranks: every rank
 * receives the results of one process, on its own device. */
#include <stdio.h>

#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, WIDTH = 5, OUT = 3, PARTS = 3 };

/* Placement of the model: "fc" on `placed`, or wrapped over `devices`; and the device of "y". */
typedef struct layout {
  const char *placed;
  const char *devices;
  const char *output_device;
  bool stays; /* output_device NULL: it stays on its device; otherwise it is copied to cpu:0 */
  float numbers[ROWS * OUT + ROWS * WIDTH + OUT * WIDTH]; /* y, d_x, d_weight in one process */
} layout;

static tdm_session *model(tdm_context *context, const layout *how) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  if (how->placed) tdm_place(graph, how->placed);
  const tdm_value y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", x, OUT));
  if (how->devices) {
    const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = how->devices);
    tdm_data_parallel(graph, "fc,tanh", &wrapped);
  }
  const tdm_value loss = tdm_sum(graph, "sum", tdm_mul(graph, "squares", y, y), NULL, 0, false);
  if (how->stays || how->output_device)
    tdm_output_on(graph, "y", y, how->output_device);
  else
    tdm_output(graph, "y", y);
  tdm_output(graph, "d_x", tdm_gradient_of(graph, "d_x", loss, x));
  const tdm_value weight = tdm_get_parameter(graph, "fc.weight");
  tdm_output(graph, "d_weight", tdm_gradient_of(graph, "d_weight", loss, weight));
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = loss, o.optimizer = &sgd, o.deterministic = true, o.seed = 6);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

/* Appends the outputs of a step or run to numbers; copies the device of "y" to device. */
static tdm_status take(tdm_session *session, bool trains, float *numbers, char *device) {
  tdm_context *context = tdm_session_context(session);
  tdm_tensor *x = tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 8);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetches[PARTS] = {{.name = "y"}, {.name = "d_x"}, {.name = "d_weight"}};
  const tdm_status status = trains ? tdm_train_step(session, &feed, 1, fetches, PARTS, NULL)
                                   : tdm_run(session, &feed, 1, fetches, PARTS);
  tdm_tensor_release(x);
  if (status != TDM_OK) return status;
  (void)snprintf(device, 24, "%s", tdm_tensor_device(fetches[0].tensor));
  for (int i = 0; i < PARTS; i++) {
    tdm_tensor *host = tdm_tensor_to(fetches[i].tensor, "cpu:0", TDM_FLOAT32);
    if (!host) return TDM_INTERNAL;
    memcpy(numbers, tdm_tensor_data(host), tdm_tensor_bytes(host));
    numbers += tdm_tensor_bytes(host) / sizeof *numbers;
    tdm_tensor_release(host);
    tdm_tensor_release(fetches[i].tensor);
  }
  return TDM_OK;
}

/* number becomes 1 if all results equal those of one process. */
static tdm_status run_model(job_rank *rank) {
  const layout *how = rank->user;
  static _Thread_local float numbers[TDM_COUNT_OF(how->numbers)];
  char device[24];
  tdm_session *session = model(rank->context, how);
  if (!session) return TDM_INTERNAL;
  rank->number = 1;
  tdm_status status = TDM_OK;
  for (int trains = 0; trains < 2 && status == TDM_OK; trains++) {
    status = take(session, trains, numbers, device);
    if (status == TDM_OK && memcmp(numbers, how->numbers, sizeof numbers) != 0) rank->number = 2;
    const char *wanted = how->stays || how->output_device ? "sim:0" : "cpu:0";
    if (status == TDM_OK && !strstr(device, wanted)) rank->number = 3;
  }
  tdm_session_release(session);
  return status;
}

static void every_rank_gets_what_one_process_computes(void **unused) {
  (void)unused;
  layout layouts[] = {
      {.placed = "host:0/sim:0", .stays = true},
      {.placed = "host:0/sim:0", .output_device = "sim:0"},
      {.placed = "host:1/sim:0", .output_device = "host:0/sim:0"},
      {.placed = "host:1/sim:0"},
      {.devices = "host:*/sim:0"},
      {.devices = "host:*/sim:0", .stays = true},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(layouts); i++) {
    layout alone = {.devices = layouts[i].devices ? "sim:0,sim:1" : NULL, .placed = "sim:0"};
    if (alone.devices) alone.placed = NULL;
    tdm_context *context = graph_context_of(1, 2);
    tdm_session *session = model(context, &alone);
    char device[24];
    assert_non_null(session);
    assert_ok(take(session, false, layouts[i].numbers, device));
    tdm_session_release(session);
    tdm_context_release(context);
    job_rank ranks[2];
    job_must(&(job_options){.rank_count = 2, .sim_devices = 1, .user = &layouts[i]}, run_model,
             ranks);
    for (int r = 0; r < 2; r++)
      if (ranks[r].number != 1) fail_msg("layout %zu, rank %d: %d", i, r, (int)ranks[r].number);
  }
}

/* ---- Inputs in parts ------------------------------------------------------------------------- */

/* x is cut on rank 1 along dimension *user, and a part is read on each rank. number becomes 1 if
 * both have the right part of the input. */
static tdm_status read_parts(job_rank *rank) {
  const int dimension = *(const int *)rank->user;
  const tdm_dim sizes[] = {2, WIDTH - 2};
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, WIDTH, WIDTH));
  tdm_value parts[2], doubled[2];
  tdm_place(graph, "host:1/cpu:0");
  tdm_split(graph, "parts", x, dimension, sizes, 2, parts);
  doubled[1] = tdm_add(graph, "there", parts[1], parts[1]);
  tdm_place(graph, "host:0/cpu:0");
  doubled[0] = tdm_add(graph, "here", parts[0], parts[0]);
  tdm_output(graph, "y", tdm_concat(graph, "y", doubled, 2, dimension));
  tdm_session *session = job_session(graph, (tdm_value){0}, NULL);
  if (!session) return tdm_last_status();
  tdm_tensor *fed =
      tdm_tensor_randn(rank->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, WIDTH, WIDTH), 8);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "y"};
  const tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
  const float *was = tdm_tensor_data(fed), *is = tdm_tensor_data(fetch.tensor);
  rank->number = status == TDM_OK;
  for (int i = 0; status == TDM_OK && i < WIDTH * WIDTH; i++)
    if (is[i] != 2 * was[i]) rank->number = 2;
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return status;
}

static void parts_of_what_is_fed_are_read_anywhere(void **unused) {
  (void)unused;
  for (int dimension = 0; dimension < 2; dimension++) {
    job_rank ranks[2];
    job_must(&(job_options){.rank_count = 2, .user = &dimension}, read_parts, ranks);
    for (int r = 0; r < 2; r++)
      assert_int_equal(ranks[r].number, 1);
  }
}

/* ---- Refused --------------------------------------------------------------------------------- */

static tdm_status be_refused(job_rank *rank) {
  const layout *how = rank->user;
  tdm_session *session = model(rank->context, how);
  rank->number = !session && strstr(tdm_last_message(), "device of rank 1") != NULL;
  if (!rank->number) print_error("%s\n", session ? "a session" : tdm_last_message());
  tdm_session_release(session);
  return TDM_OK;
}

static void another_rank_s_device_is_refused(void **unused) {
  (void)unused;
  const layout layouts[] = {{.placed = "sim:0", .output_device = "host:1/sim:0"},
                            {.placed = "host:1/sim:0", .stays = true}};
  for (size_t i = 0; i < TDM_COUNT_OF(layouts); i++) {
    job_rank ranks[2];
    job_must(&(job_options){.rank_count = 2, .sim_devices = 1, .user = &layouts[i]}, be_refused,
             ranks);
    for (int r = 0; r < 2; r++)
      assert_int_equal(ranks[r].number, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rank_gets_what_one_process_computes),
      cmocka_unit_test(parts_of_what_is_fed_are_read_anywhere),
      cmocka_unit_test(another_rank_s_device_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
