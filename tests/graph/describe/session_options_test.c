/* Options of sessions: every number at the ends of its range and beyond, and invalid combinations.
 * They are refused by name, and nothing else is. */
#include <math.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

static const tdm_optimizer_rule nameless = {.name = NULL};
static const tdm_optimizer_rule idle = {.name = "idle"};

/* x (batch, 3) -> "fc" -> "out"; the loss goes to *out_loss. */
static tdm_graph *build(tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  const tdm_value y = tdm_linear(graph, "fc", x, 3);
  tdm_output(graph, "out", y);
  *out_loss = tdm_mse(graph, "loss", y, x);
  return graph;
}

/* Creates a session and checks its message. wanted NULL: the options are valid. trains: with the
 * loss. */
static void expect(tdm_session_options options, bool trains, const char *wanted) {
  tdm_value loss;
  tdm_graph *graph = build(&loss);
  if (trains) options.loss = loss;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session && !wanted) fail_msg("%s", tdm_last_message());
  if (session && wanted) fail_msg("not refused: %s", wanted);
  if (wanted) assert_message(wanted);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void numbers_have_ranges(void **unused) {
  (void)unused;
  static const struct {
    const char *name;
    size_t offset;
    int least, most;
  } numbers[] = {
      {"depth", offsetof(tdm_session_options, depth), 1, TDM_MAX_DEPTH},
      {"queue_limit", offsetof(tdm_session_options, queue_limit), 0, TDM_MAX_QUEUE_LIMIT},
      {"plan_limit", offsetof(tdm_session_options, plan_limit), 1, TDM_MAX_PLAN_LIMIT},
      {"trace_runs", offsetof(tdm_session_options, trace_runs), 0, TDM_MAX_TRACE_RUNS},
      {"collective", offsetof(tdm_session_options, collective), 0, TDM_COLLECTIVE_COUNT - 1},
      {"micro_batches", offsetof(tdm_session_options, micro_batches), 1, TDM_MAX_PARTS},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(numbers); i++)
    for (int k = 0; k < 4; k++) {
      const int least = numbers[i].least, most = numbers[i].most;
      const int value = k == 0 ? least - 7 : k == 1 ? least : k == 2 ? most : most + 1;
      tdm_session_options options = tdm_session_options_default();
      memcpy((char *)&options + numbers[i].offset, &value, sizeof value);
      char wanted[80];
      (void)snprintf(wanted, sizeof wanted, "session options: %s is %d, expected %d to %d",
                     numbers[i].name, value, least, most);
      const tdm_optimizer sgd = tdm_sgd(0.1);
      options.optimizer = &sgd;
      expect(options, true, k == 0 || k == 3 ? wanted : NULL);
    }
  expect(OPTIONS(tdm_session_options, o.alike_ranks = -1), false,
         "alike_ranks is -1, expected 1 to ");
  expect(OPTIONS(tdm_session_options, o.alike_ranks = TDM_MAX_ALIKE_RANKS + 1), false,
         ", expected 1 to ");
}

static void an_order_is_kept_or_not_asked_for(void **unused) {
  (void)unused;
  static const char *const says[] = {[TDM_COLLECTIVE_RING] = "session options: a ring does not add",
                                     [TDM_COLLECTIVE_TREE] = "session options: a tree does not add",
                                     [TDM_COLLECTIVE_ALL_REDUCE] =
                                         "session options: an all-reduce does not add"};
  for (int way = 0; way < TDM_COLLECTIVE_COUNT; way++) {
    tdm_session_options options = OPTIONS(tdm_session_options, o.collective = (tdm_collective)way);
    expect(options, false, NULL);
    options.deterministic = true;
    expect(options, false, way < (int)TDM_COUNT_OF(says) ? says[way] : NULL);
  }
}

static void optimizers_are_checked(void **unused) {
  (void)unused;
  static const struct {
    double decay, clip_norm;
    const tdm_optimizer_rule *rule; /* NULL: sgd's */
    const char *says;
  } optimizers[] = {
      {TDM_AVERAGE_NONE, INFINITY, NULL, NULL},
      {0, INFINITY, NULL, NULL},
      {0.5, 3, NULL, NULL},
      {TDM_AVERAGE_MEAN, INFINITY, NULL, NULL},
      {1, INFINITY, NULL, "average_decay is 1, expected a number of at least 0"},
      {-0.5, INFINITY, NULL, "average_decay is -0.5, expected a number of at least 0"},
      {NAN, INFINITY, NULL, "average_decay is nan"},
      {0, -1, NULL, "clip_norm is -1, expected a positive number"},
      {0, 0, NULL, "clip_norm is 0, expected a positive number"},
      {0, NAN, NULL, "clip_norm is nan, expected a positive number"},
      {0, INFINITY, &nameless, "the optimizer's rule  has no name"},
      {0, INFINITY, &idle, "the optimizer's rule idle has no append"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(optimizers); i++)
    for (int of_group = 0; of_group < 2; of_group++) {
      const tdm_optimizer plain = tdm_sgd(0.1);
      tdm_optimizer odd = tdm_sgd(0.1);
      odd.average_decay = optimizers[i].decay;
      odd.clip_norm = optimizers[i].clip_norm;
      if (optimizers[i].rule) odd.rule = optimizers[i].rule;
      const tdm_parameter_group group = {"fc", &odd};
      if (of_group && !optimizers[i].says) continue; /* set for the whole step */
      expect(OPTIONS(tdm_session_options, o.optimizer = of_group ? &plain : &odd, o.groups = &group,
                     o.group_count = (size_t)of_group),
             true, optimizers[i].says);
    }
  const tdm_optimizer none = {0};
  expect(OPTIONS(tdm_session_options, o.optimizer = &none), true, "the optimizer has no rule");
  const tdm_optimizer steep = tdm_sgd(INFINITY);
  expect(OPTIONS(tdm_session_options, o.optimizer = &steep), true,
         "sgd: learning rate inf must be finite");
}

static void what_does_not_go_together_is_refused(void **unused) {
  (void)unused;
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_parameter_group groups[] = {{"fc.bias", NULL}}, bad[] = {{NULL, NULL}};
  expect(OPTIONS(tdm_session_options, o.groups = groups, o.group_count = 1), true,
         "without an optimizer");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.groups = groups, o.group_count = 1),
         true, NULL);
  tdm_parameter_group most[TDM_MAX_PARAMETER_GROUPS];
  for (size_t g = 0; g < TDM_COUNT_OF(most); g++)
    most[g] = (tdm_parameter_group){g == 0 ? "fc.bias" : "fc.weight,fc.bias", &sgd};
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.groups = most,
                 o.group_count = TDM_COUNT_OF(most)),
         true, NULL);
  most[TDM_COUNT_OF(most) - 1].parameters = "fc.weigth";
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.groups = most,
                 o.group_count = TDM_COUNT_OF(most)),
         true, "parameter group 14: no parameter is called \"fc.weigth\"");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.group_count = 1), true,
         "groups is NULL");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.groups = groups,
                 o.group_count = TDM_MAX_PARAMETER_GROUPS + 1),
         true, "parameter groups, of at most");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.groups = bad, o.group_count = 1), true,
         "parameter group 0 has no parameters");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd), false, "an optimizer without a loss");
  expect(OPTIONS(tdm_session_options, o.optimizer = &sgd, o.averages = true), true,
         "an optimizer and averages");
  expect(OPTIONS(tdm_session_options, o.averages = true), false,
         "the store has no average of fc.weight");
  tdm_session_options tuned =
      OPTIONS(tdm_session_options, o.optimizer = &sgd, o.micro_batches = TDM_MICRO_BATCHES_AUTO);
  expect(tuned, true, NULL);
  tuned.deterministic = true;
  expect(tuned, true, "chosen by time are not deterministic");
}

static void session_options_are_checked(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_output(graph, "out", tdm_linear(graph, "fc", x, 2));
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  assert_null(tdm_session_create(graph, UNMADE(tdm_session_options)));
  assert_message("tdm_session_options_default()");
  tdm_session_options options = OPTIONS(tdm_session_options, o.optimizer = &optimizer);
  assert_null(tdm_session_create(graph, &options));
  assert_message("without a loss");
  options.loss = x; /* not a scalar */
  assert_null(tdm_session_create(graph, &options));
  assert_message("not a floating scalar");
  tdm_context *other = graph_context();
  tdm_store *store = tdm_store_create(other);
  options = OPTIONS(tdm_session_options, o.store = store);
  assert_null(tdm_session_create(graph, &options));
  assert_message("another context");
  tdm_store_release(store);
  tdm_context_release(other);
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_have_ranges),
      cmocka_unit_test(an_order_is_kept_or_not_asked_for),
      cmocka_unit_test(optimizers_are_checked),
      cmocka_unit_test(what_does_not_go_together_is_refused),
      cmocka_unit_test(session_options_are_checked),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
