/* Views, and parts of concatenations, of real plans that are moved or grown beyond the memory that
 * contains them. verify refuses each such plan, for every value of several plans that a step
 * accesses. */
#include "graph/run/session.h"
#include "tests/graph/group.h"

/* ---- Plans with views ------------------------------------------------------------------------ */

/* Views of an input, of a parameter and of computed values, and views of views; joined
 * concatenations, one in the other; all of it in training. */
static tdm_graph *views_graph(const char *device, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 6, 4));
  const tdm_dim rows[] = {1, 2, 3};
  tdm_value fed[3], made[3], more[2];
  tdm_split(graph, "fed", x, 0, rows, 3, fed);
  tdm_place(graph, device);
  const tdm_value h = tdm_linear(graph, "fc", x, 4);
  tdm_split(graph, "made", h, 0, rows, 3, made);
  const tdm_dim halves[] = {6, 6};
  tdm_split(graph, "halves", tdm_reshape(graph, "flat", made[2], tdm_shape_of(1, 12)), 0, halves, 2,
            more);
  const tdm_initializer one = {TDM_INIT_CONSTANT, 1, 0, -1};
  const tdm_value weight = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(2, 3, 4), &one);
  tdm_value weights[3];
  const tdm_dim single[] = {1, 1, 1};
  tdm_split(graph, "weights", weight, 0, single, 3, weights);
  tdm_value parts[4];
  parts[0] = tdm_mul(graph, "first", fed[1], weights[0]);
  parts[1] = tdm_mul(graph, "second", made[1], weights[2]);
  parts[2] = tdm_concat(graph, "inner", parts, 2, 0);
  parts[3] = tdm_tanh(graph, "third", made[0]);
  const tdm_value all = tdm_concat(graph, "outer", parts + 2, 2, 0);
  const tdm_value pair[] = {tdm_tanh(graph, "left", more[0]), tdm_exp(graph, "right", more[1])};
  const tdm_value joined = tdm_concat(graph, "pair", pair, 2, 0);
  const tdm_value loss = tdm_add(graph, "loss", tdm_sum(graph, "sum", all, NULL, 0, false),
                                 tdm_sum(graph, "sum2", joined, NULL, 0, false));
  tdm_output(graph, "all", all);
  tdm_output(graph, "part", fed[2]);
  *out_loss = loss;
  return graph;
}

static const tdm_plan *plan_of(tdm_session *session, bool training) {
  static const float values[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const tdm_feed feed = {"x", tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 6, 4), values),
                         false};
  const tdm_fetch fetches[] = {{.name = "all"}, {.name = "part"}};
  assert_ok(tdm_session_prepare(session, &feed, 1, fetches, 2, training));
  tdm_tensor_release(feed.tensor);
  return session->newest;
}

/* ---- Mutations ------------------------------------------------------------------------------- */

/* Applies the last three passes to the present graph. */
static tdm_status arrange(const tdm_plan *plan) {
  tdm_lowered lowered;
  tdm_status status = tdm_lower_to_steps(&plan->graph, 0, plan->lowered.schedule.depth, &lowered);
  if (status == TDM_OK) status = tdm_pass_schedule(&lowered.schedule);
  if (status == TDM_OK) status = tdm_pass_memory(&lowered.schedule);
  if (status == TDM_OK) status = tdm_pass_verify(&lowered.schedule);
  tdm_lowered_deinit(&lowered);
  return status;
}

/* Returns true if a step reads or writes the value. */
static bool is_touched(const tdm_graph *graph, uint32_t value) {
  TDM_EACH_NODE(graph, node) {
    if (!tdm_ir_has_step(node)) continue;
    if (value >= node->first_output && value < node->first_output + node->output_count) return true;
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] == value) return true;
  }
  return false;
}

static void assert_refused(const tdm_plan *plan, tdm_ir_value *value, uint64_t offset,
                           uint64_t bytes) {
  const tdm_ir_value kept = *value;
  value->offset = offset;
  value->bytes = bytes;
  const tdm_status status = arrange(plan);
  const char *message = tdm_last_message();
  const bool told = strstr(message, "touches") || strstr(message, "the parts of storage");
  if (status != TDM_INTERNAL || !told)
    fail_msg("%llu bytes at %llu, of %llu: %s", (unsigned long long)bytes,
             (unsigned long long)offset,
             (unsigned long long)tdm_ir_value_at(&plan->graph, kept.root)->bytes,
             status == TDM_OK ? "accepted" : tdm_last_message());
  *value = kept;
}

/* Mutates every view of the plan in turn. Returns their number. */
static int mutate(const tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  assert_ok(arrange(plan));
  int views = 0;
  for (uint32_t v = 1; v < graph->values.count; v++) {
    tdm_ir_value *value = tdm_ir_value_at(graph, v);
    if (value->root == v || value->bytes == 0 || !is_touched(graph, v)) continue;
    const uint64_t whole = tdm_ir_value_at(graph, value->root)->bytes;
    const uint64_t last = whole - value->bytes;
    assert_refused(plan, value, last + 1, value->bytes);
    assert_refused(plan, value, last + 64, value->bytes);
    assert_refused(plan, value, whole, value->bytes);
    assert_refused(plan, value, UINT64_MAX - 3, value->bytes);
    assert_refused(plan, value, value->offset, whole - value->offset + 1);
    assert_refused(plan, value, value->offset, UINT64_MAX);
    views++;
  }
  return views;
}

static void views_beyond_their_memory_are_refused(void **unused) {
  (void)unused;
  const char *const devices[] = {"cpu:0", "cpu:1", "sim:0"};
  for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
    tdm_value loss;
    tdm_graph *graph = views_graph(devices[d], &loss);
    tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
    const int forward = mutate(plan_of(session, false));
    const int training = mutate(plan_of(session, true));
    print_message("%s: %d views forward, %d in training\n", devices[d], forward, training);
    assert_true(forward >= 8 && training >= 16);
    tdm_session_release(session);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(views_beyond_their_memory_are_refused)};
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
