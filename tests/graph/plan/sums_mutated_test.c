/* Verify refuses a real plan's sums over devices after each of these changes: removal of any wait
 * of any algorithm, and other positions of the pieces that a ring joins. */
#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { DEVICES = 4, WIDTH = 12, LAYERS = 2 };

static tdm_context *context; /* context of the test group */

static int begin_group(void **unused) {
  (void)unused;
  context = graph_context_of(1, DEVICES);
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* A session that has planned a training step over all simulated devices. */
static tdm_session *planned(tdm_collective collective, int depth) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear(graph, name, y, WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1,sim:2,sim:3");
  tdm_data_parallel(graph, "model", &wrap);
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", y, x), tdm_adam(0.01),
                    WITH(tdm_session_options, o.collective = collective, o.depth = depth));
  tdm_tensor *fed =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, DEVICES, WIDTH));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  tdm_tensor_release(fed);
  return session;
}

static const tdm_ir_node *node_at(const tdm_plan *plan, size_t step) {
  return tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node);
}

/* Removes each wait in turn. Returns how many of them were before additions of sums. */
static int assert_waits_needed(tdm_plan *plan) {
  tdm_schedule *schedule = &plan->lowered.schedule;
  int of_sums = 0;
  for (size_t s = 0; s < schedule->step_count; s++) {
    tdm_step *step = &schedule->steps[s];
    tdm_step_wait *waits = schedule->waits + step->first_wait;
    for (uint32_t i = 0; i < step->wait_count; i++) {
      const tdm_step_wait removed = waits[i];
      waits[i] = waits[--step->wait_count];
      if (tdm_pass_verify(schedule) != TDM_INTERNAL)
        fail_msg("step %zu (%s) does without its wait for %u", s, node_at(plan, s)->name,
                 removed.step);
      waits[step->wait_count++] = waits[i];
      waits[i] = removed;
      of_sums += tdm_ir_collective(node_at(plan, s)) != 0;
    }
  }
  assert_ok(tdm_pass_verify(schedule));
  return of_sums;
}

static void every_wait_of_a_sum_is_needed(void **unused) {
  (void)unused;
  for (int algorithm = TDM_COLLECTIVE_HOME; algorithm < TDM_COLLECTIVE_COUNT; algorithm++)
    for (int depth = 1; depth <= 2; depth++) {
      tdm_session *session = planned((tdm_collective)algorithm, depth);
      const int of_sums = assert_waits_needed(session->newest);
      if (of_sums < 2 * LAYERS) fail_msg("algorithm %d: %d waits of additions", algorithm, of_sums);
      tdm_session_release(session);
    }
}

/* ---- Buckets that are shared ------------------------------------------------------------------
 */

static bool is_in_bucket(const tdm_graph *graph, const tdm_ir_node *node) {
  const uint32_t root = tdm_ir_value_at(graph, node->first_output)->root;
  return !node->operation && root != node->first_output &&
         tdm_ir_value_at(graph, root)->producer == 0;
}

/* Returns the last node that reads the copy's bytes, directly or through views; NULL: none. */
static const tdm_ir_node *last_reader(const tdm_graph *graph, const tdm_ir_node *copy) {
  const tdm_ir_node *last = NULL;
  uint32_t value = copy->first_output;
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (node->inputs[k] != value) continue;
      const bool is_view = node->operation && node->operation->is_view;
      if (is_view) value = node->first_output;
      if (!is_view) last = node;
    }
  }
  return last;
}

static bool stands_before(const tdm_ir_node *a, const tdm_ir_node *b) {
  for (const tdm_ir_node *node = a->next; node; node = node->next)
    if (node == b) return true;
  return false;
}

/* Moves storage with one root, which is on one device, to another's bucket. */
static void change_root(const tdm_graph *graph, uint32_t from, uint32_t to, const tdm_ir_node *of) {
  uint32_t value = of->first_output;
  tdm_ir_value_at(graph, value)->root = to;
  TDM_EACH_NODE(graph, node) {
    if (node->input_count == 0 || node->inputs[0] != value || !node->operation ||
        !node->operation->is_view || tdm_ir_value_at(graph, node->first_output)->root != from)
      continue;
    value = node->first_output;
    tdm_ir_value_at(graph, value)->root = to;
  }
}

/* A copy into a bucket whose contents are still to be read is refused at any position. */
static void a_bucket_is_not_overwritten_before_it_is_read(void **unused) {
  (void)unused;
  int refused = 0, allowed = 0;
  tdm_session *session = planned(TDM_COLLECTIVE_RING, 1);
  const tdm_plan *plan = session->newest;
  const tdm_graph *graph = &plan->graph;
  assert_ok(tdm_plan_verify_buckets(plan));
  TDM_EACH_NODE(graph, a) {
    if (!is_in_bucket(graph, a)) continue;
    const uint32_t root = tdm_ir_value_at(graph, a->first_output)->root;
    const tdm_ir_node *reader = last_reader(graph, a);
    TDM_EACH_NODE_FROM(a->next, b) {
      if (!is_in_bucket(graph, b) || b->device != a->device) continue;
      const uint32_t own = tdm_ir_value_at(graph, b->first_output)->root;
      const bool overwrites = reader && stands_before(b, reader);
      if (own == root) assert_false(overwrites);
      if (own == root) continue;
      change_root(graph, own, root, b);
      const tdm_status status = tdm_plan_verify_buckets(plan);
      if (overwrites) assert_int_equal(status, TDM_INTERNAL);
      change_root(graph, root, own, b);
      refused += status == TDM_INTERNAL;
      allowed += status == TDM_OK;
    }
  }
  assert_ok(tdm_plan_verify_buckets(plan));
  if (refused < LAYERS || allowed == 0) fail_msg("%d refused, %d allowed", refused, allowed);
  tdm_session_release(session);
}

/* ---- Pieces that change places --------------------------------------------------------------- */

static bool is_part_of(const tdm_schedule *schedule, uint32_t storage, uint32_t whole) {
  return storage < schedule->storage_count && schedule->storages[storage].whole == whole + 1;
}

static void exchange_places(tdm_storage_plan *a, tdm_storage_plan *b) {
  const uint64_t within = a->within;
  const uint64_t offset = a->offset;
  a->within = b->within;
  a->offset = b->offset;
  b->within = within;
  b->offset = offset;
}

/* Returns true if a step writes the storage for a read by another device. */
static bool is_sent_on(const tdm_schedule *schedule, uint32_t storage) {
  uint32_t queue = UINT32_MAX;
  bool sent = false;
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    for (uint32_t i = 0; i < step->access_count; i++) {
      const tdm_access *access = &schedule->accesses[step->first_access + i];
      if (access->storage != storage) continue;
      if (access->writes) queue = step->queue;
      sent |= !access->writes && step->queue != queue;
    }
  }
  return sent;
}

/* Exchanges the two storages in all writes. */
static void exchange_writers(const tdm_schedule *schedule, uint32_t a, uint32_t b) {
  for (size_t i = 0; i < schedule->access_count; i++) {
    tdm_access *access = &schedule->accesses[i];
    if (!access->writes || (access->storage != a && access->storage != b)) continue;
    access->storage = access->storage == a ? b : a;
  }
}

static void pieces_that_change_places_are_refused(void **unused) {
  (void)unused;
  tdm_session *session = planned(TDM_COLLECTIVE_RING, 1);
  tdm_schedule *schedule = &session->newest->lowered.schedule;
  int places = 0;
  int writers = 0;
  for (uint32_t w = 0; w < schedule->storage_count; w++)
    for (uint32_t p = w + 1; is_part_of(schedule, p + 1, w); p++) {
      exchange_places(&schedule->storages[p], &schedule->storages[p + 1]);
      assert_int_equal(tdm_pass_verify(schedule), TDM_INTERNAL);
      exchange_places(&schedule->storages[p], &schedule->storages[p + 1]);
      places++;
      if (!is_sent_on(schedule, p) || !is_sent_on(schedule, p + 1)) continue;
      exchange_writers(schedule, p, p + 1);
      if (tdm_pass_verify(schedule) != TDM_INTERNAL) fail_msg("pieces %u and %u", p, p + 1);
      exchange_writers(schedule, p, p + 1);
      writers++;
    }
  assert_ok(tdm_pass_verify(schedule));
  /* Each parameter's sum on each device, and the results at home, consist of four pieces. */
  assert_int_equal(places, (2 * LAYERS * DEVICES + 1) * (DEVICES - 1));
  assert_true(writers >= 2 * LAYERS * DEVICES);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_wait_of_a_sum_is_needed),
      cmocka_unit_test(a_bucket_is_not_overwritten_before_it_is_read),
      cmocka_unit_test(pieces_that_change_places_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
