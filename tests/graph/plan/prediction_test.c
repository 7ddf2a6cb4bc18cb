/* Predicted times of transfers: by the devices' models, saying so, until the links are calibrated;
 * then by what this machine's copies took. */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "devices/links/links.h"
#include "devices/links/table.h"
#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"

static json_t *explained(tdm_session *session) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_ok(tdm_session_explain(session, TDM_PLAN_JSON, out));
  (void)fclose(out);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  free(text);
  return plan;
}

static double number_of(const json_t *object, const char *field) {
  const json_t *value = json_object_get(object, field);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

static const char *text_of(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  assert_non_null(text);
  return text;
}

/* Each transfer between cpu:0 and sim:0 is predicted by the link of its direction and memory. */
static void assert_predictions(tdm_context *context, tdm_session *session, const char *origin) {
  json_t *plan = explained(session);
  const tdm_device *cpu = tdm_context_find_device(context, "cpu:0");
  const tdm_device *sim = tdm_context_find_device(context, "sim:0");
  size_t transfers = 0;
  size_t index;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    if (!json_object_get(command, "cause")) continue;
    const bool up = strcmp(text_of(command, "device"), "sim:0") == 0;
    const bool pinned = strcmp(text_of(command, "memory"), "pinned") == 0;
    tdm_link_estimate link;
    tdm_context_link(context, up ? cpu : sim, up ? sim : cpu, pinned, &link);
    const double expected = tdm_link_predict_ns(&link, number_of(command, "bytes"));
    assert_true(expected > 0);
    const double predicted = number_of(command, "predicted_ns");
    if (!(predicted > 0.999 * expected && predicted < 1.001 * expected))
      fail_msg("%g ns are predicted, not %g", predicted, expected);
    assert_string_equal(text_of(command, "prediction"), origin);
    transfers++;
  }
  assert_true(transfers >= 3);
  json_decref(plan);
}

static void predictions_come_from_the_links(void **unused) {
  (void)unused;
  tdm_context *context =
      tdm_context_create(WITH(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1,
                              o.sim = "latency_us=40,gigabytes_per_second=1"));
  assert_non_null(context);
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_steps(session, 6, 3);
  assert_predictions(context, session, "modelled");
  assert_ok(tdm_links_calibrate(context, 4096));
  assert_predictions(context, session, "calibrated");
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A made-up estimate for both directions of copies between two cpu devices. */
static void set_far_bytes(tdm_context *context, double far_bytes) {
  const tdm_link_estimate estimate = {.link = {.latency_ns = 1000, .bytes_per_ns = 1},
                                      .origin = TDM_LINK_CALIBRATED,
                                      .far_bytes = far_bytes,
                                      .knot_count = 2,
                                      .knots = {{64, {1, 4, 8}}, {1 << 20, {1, 4, 8}}}};
  const tdm_device *ends[2] = {tdm_context_find_device(context, "cpu:0"),
                               tdm_context_find_device(context, "cpu:1")};
  for (size_t i = 0; i < 2; i++)
    *tdm_links_at(tdm_context_links(context), ends[i], ends[1 - i], false) = estimate;
}

enum { BATCH = 8, ROWS = 50000, WIDTH = 16, CLASSES = 4 };

/* ids -> embedding on cpu:0 -> linear on cpu:1, to which a fed value is added there. */
static tdm_session *session_on_two(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, (int64_t)BATCH));
  tdm_place(graph, "cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, ROWS, WIDTH);
  tdm_place(graph, "cpu:1");
  const tdm_shape whole = tdm_shape_of(2, (int64_t)BATCH, (int64_t)CLASSES);
  const tdm_value more = tdm_input(graph, "more", TDM_FLOAT32, whole);
  const tdm_value scores = tdm_linear(graph, "linear", words, CLASSES);
  tdm_output(graph, "scores", tdm_add(graph, "sum", scores, more));
  tdm_session *session = tdm_session_create(graph, NULL);
  tdm_graph_release(graph);
  assert_non_null(session);
  tdm_feed feeds[2] = {{.name = "ids"}, {.name = "more"}};
  feeds[0].tensor = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, (int64_t)BATCH));
  feeds[1].tensor = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, whole);
  const tdm_fetch fetch = {.name = "scores"};
  assert_ok(tdm_session_prepare(session, feeds, 2, &fetch, 1, false));
  tdm_tensor_release(feeds[0].tensor);
  tdm_tensor_release(feeds[1].tensor);
  return session;
}

/* Ids touch only some rows of a table; other parameters are touched whole. An input is as old as
 * the copied target, and a computed value is not. */
static void copies_between_cpu_devices_know_what_a_run_touches(void **unused) {
  (void)unused;
  tdm_context *context = tdm_context_create(WITH(tdm_context_options, o.cpu_devices = 2));
  assert_non_null(context);
  tdm_session *session = session_on_two(context);
  const tdm_plan *plan = session->newest;
  double expected_bytes = BATCH * sizeof(int64_t) + BATCH * WIDTH * sizeof(float) +
                          (WIDTH + 1) * CLASSES * sizeof(float) + BATCH * CLASSES * sizeof(float);
  for (uint32_t i = 0; i < plan->lowered.schedule.arena_count; i++)
    expected_bytes += (double)plan->lowered.schedule.arena_bytes[i];
  assert_true(plan->touched_bytes == expected_bytes);
  set_far_bytes(context, 2 * expected_bytes);
  json_t *told = explained(session);
  size_t stale_count = 0;
  size_t index;
  json_t *command;
  json_array_foreach(json_object_get(told, "commands"), index, command) {
    if (!json_object_get(command, "cause")) continue;
    const bool stale = strncmp(text_of(command, "cause"), "more", 4) == 0;
    stale_count += stale;
    /* Halfway from a quarter of these bytes, and four fifths of the way from a 32nd. */
    const double ratio = stale ? 1 + 7 * 0.5 : 1 + 3 * 0.8;
    const double expected = (1000 + number_of(command, "bytes")) * ratio;
    assert_true(fabs(number_of(command, "predicted_ns") / expected - 1) < 1e-3);
  }
  assert_int_equal(stale_count, 1);
  json_decref(told);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  (void)setenv("TANDEM_LINKS", "off", 1); /* no saved links */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_come_from_the_links),
      cmocka_unit_test(copies_between_cpu_devices_know_what_a_run_touches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
